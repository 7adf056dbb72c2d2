"""a stage released while asynchronous work still reads it

## What it means

A release gives a stage back although a tensor-core group or another asynchronous operation of the
same role that reads it has not been waited for.

## Why it is a fault

The producer may start the next copy at once. The hardware promises nothing about when the operands
are read other than at the wait of the group, so the operation may read the next tile.

## Example

    - issue: mma(A[t], B[t])
      as: group
    - release: operands[t]             # the group may still be reading the stage
    - drain: group

## What to do

Drain the group before the release; or keep one group in flight (`leaving: 1`) and release the stage
of the iteration before.

## Source

PTX ISA, wgmma.wait_group: accesses before the covering wait are undefined; no earlier event shows
that operands are read.
"""

CODE = "TTN104"
NAME = "release-before-drain"
