"""two things in the same bytes

## What it means

By the places in the file, two stages of a buffer, two buffers that are not declared as one storage,
or a buffer and an mbarrier share bytes of shared memory.

## Why it is a fault

Writing one destroys the other, and the verdict on the program, which takes them as apart, says
nothing about it.

## Example

    buffers:
      A: {stages: 2, bytes: 16384, base: 0}
      B: {stages: 2, bytes: 16384, base: 16384}     # the second stage of A

## What to do

Move one of them, or say by `storage` that they share memory, so that their uses are checked.

## Source

PTX ISA, shared state space; the declared places.
"""

CODE = "TTN413"
NAME = "overlapping-memory"
