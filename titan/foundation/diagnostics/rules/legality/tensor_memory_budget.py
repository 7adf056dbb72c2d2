"""more tensor memory than there is, an amount that is not given, or none given back

## What it means

The stages in tensor memory need more than 512 columns, an allocation is not a power of two from 32
to 512, the target has no tensor memory, or what is allocated is never given back.

## Why it is a fault

The allocation blocks forever, or the assembler refuses it. PTX asks that all tensor memory is
deallocated before the kernel ends.

## Example

    buffers:
      S: {space: tensor, stages: 3, tile: [128, 256], dtype: f32}      # 768 columns

## What to do

Use fewer stages or smaller tiles, or let tensors share columns by `storage`. Give back with `give`
what `take` took, when all who use it are done.

## Source

PTX ISA, tcgen05: tensor memory; tcgen05.alloc.
"""

CODE = "TTN418"
NAME = "tensor-memory-budget"
