"""an index outside of what it selects from

## What it means

In some reachable state an operation names a stage of a buffer, an entry of a barrier array, or a
part of a tile that does not exist.

## Why it is a fault

The hardware computes an address from the index and accesses whatever lies there: another buffer, or
a barrier that belongs to others.

## Example

    - wait: full[t]                    # `full` has `depth` stages, t runs to tiles - 1
      phase: 0

## What to do

Reduce the index by `mod depth`, or correct the bound of the loop.

## Source

Shared-memory accesses are not checked against the bounds of what the program calls a buffer.
"""

CODE = "TTN214"
NAME = "index-out-of-range"
