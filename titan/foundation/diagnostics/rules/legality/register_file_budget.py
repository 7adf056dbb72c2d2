"""more registers than a SIMD has for its waves

## What it means

On a target that cannot move registers between waves, every wave of the kernel has as many as the
largest role asks for; together they exceed the file of a SIMD.

## Why it is a fault

The waves of one work-group must be resident together; the launch fails.

## Example

    target: gfx942
    roles:
      consumer: {warps: 8, registers: 512}      # two waves a SIMD: 256 each

## What to do

Lower the budget of the largest role, or use fewer waves.

## Source

CDNA3 ISA: unified register file of 512 a lane, four SIMDs; LLVM: granule of 8.
"""

CODE = "TTN421"
NAME = "register-file-budget"
