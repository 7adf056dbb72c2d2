"""wgmma by something that is not a warpgroup

## What it means

A role issues wgmma, but its threads are not a multiple of 128.

## Why it is a fault

All four warps of a warpgroup must execute the instruction, the first of them with a rank that is a
multiple of 4; otherwise the behaviour is undefined.

## Example

    roles:
      consumer: {warps: 2}
    program:
      consumer:
        - {mma: A, queue: group}           # group: wgmma

## What to do

Give the role whole warpgroups (`warpgroups: 1`, or `warps: 4` that act together).

## Source

PTX ISA, wgmma: warpgroup.
"""

CODE = "TTN416"
NAME = "misaligned-warpgroup"
