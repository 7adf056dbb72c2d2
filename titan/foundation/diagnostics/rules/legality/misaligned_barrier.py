"""an mbarrier at an address that is not a multiple of 8

## What it means

The byte offset of an mbarrier is not a multiple of 8.

## Why it is a fault

The object has 64 bits; operations on a misaligned one are undefined.

## Example

    barriers:
      full: {stages: 4, count: 1, base: 65540}

## What to do

Place it at a multiple of 8 bytes.

## Source

PTX ISA, mbarrier: size and alignment of the mbarrier object.
"""

CODE = "TTN414"
NAME = "misaligned-barrier"
