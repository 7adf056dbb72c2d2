"""a producer that runs more than the depth ahead

## What it means

The indices allow `produced(t) - consumed(t)` to exceed the depth: a stage is filled for a later
epoch while the tile of an earlier one is unread.

## Why it is a fault

The tile is lost, and a parity wait cannot see it: the barrier has gone round.

## Example

    - acquire: operands[t]
    - produce: operands[t + 1]       # acquired t, fills the stage after it

## What to do

Acquire exactly the index that is produced; do not acquire by another ring's barrier.

## Source

The no-lapping invariant `produced(t) - consumed(t) <= depth`.
"""

CODE = "TTN106"
NAME = "lapping"
