"""a matrix instruction that the target does not have

## What it means

The target has no such family of matrix instructions, or the family does not take these types, this
accumulator, or this shape.

## Why it is a fault

The assembler refuses wgmma; for tcgen05 the shape is in a descriptor that no assembler reads,
and the result is undefined.

## Example

    matrix_instructions:
      scores: {kind: wgmma, shape: [64, 100, 16], a: bf16, accumulator: f32}

## What to do

Choose N and K from the list that the message gives.

## Source

PTX ISA, wgmma.mma_async: shapes and types; tcgen05.mma: shapes by kind and CTA group.
"""

CODE = "TTN417"
NAME = "unsupported-matrix-instruction"
