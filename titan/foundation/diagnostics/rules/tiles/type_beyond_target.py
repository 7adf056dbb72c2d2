"""a type that the target's matrix unit does not take

## What it means

The matrix unit of the target has no instruction for the type, or none for an operand of this type
that is not K-major.

## Why it is a fault

The program cannot be built for this target.

## Example

    tile: gemm_fp8
    target: gfx942     # its fp8 is another format than e4m3

## What to do

Choose another type or target; bring fp8 operands with their K dimension last.

## Source

PTX, wgmma.mma_async: transposition for 16-bit types only; CDNA3 ISA, fp8 formats.
"""

CODE = "TTN611"
NAME = "type-beyond-target"
