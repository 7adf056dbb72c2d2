"""more tensor memory than there is, or an amount that is not given

## What it means

The stages in tensor memory need more than 512 columns, an allocation is no power of two from 32 to
512, or the target has no tensor memory.

## Why it is a fault

The allocation blocks for ever, or the assembler refuses it.

## Example

    buffers:
      S: {space: tensor, stages: 3, tile: [128, 256], dtype: f32}      # 768 columns

## What to do

Use fewer stages or smaller tiles, or let tensors share columns by `storage`.

## Source

PTX ISA, tcgen05: tensor memory; tcgen05.alloc.
"""

CODE = "TTN418"
NAME = "tensor-memory-budget"
