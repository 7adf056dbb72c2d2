"""a tile read before it was waited for

## What it means

A consumer reads a stage, or issues tensor-core work on it, on a path on which it has not waited for
that stage in this epoch.

## Why it is a fault

The copy is asynchronous. Without the wait the read sees the previous tile, part of the new one, or
nothing.

## Example

    - issue: mma(A[t], B[t])
      as: group
    - wait: operands[t]

## What to do

Put the wait before the first read, in every branch that reads.

## Source

PTX ISA, mbarrier.test_wait: a true acquire wait orders the completed copy before later reads.
"""

CODE = "TTN103"
NAME = "read-before-wait"
