"""a read of another tile than the one meant

## What it means

Every access is ordered, but the memory holds the tile of another iteration, or nothing was ever
written there.

## Why it is a fault

The kernel computes with wrong operands and says nothing; only the numbers are off.

## Example

    - wait: full[(t + 1) % depth]
      phase: t // depth
    - load: A[t % depth] = t

## What to do

Make the index of the barrier and of the buffer follow the same stage and epoch; check the first and
last iterations and trip counts below the depth.

## Source

Each stage carries the index of the tile that was last written as ghost state, and each read states
the tile that it means.
"""

CODE = "TTN204"
NAME = "stale-read"
