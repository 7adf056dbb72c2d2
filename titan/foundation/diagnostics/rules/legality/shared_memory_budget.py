"""more shared memory than a CTA can have

## What it means

The stages of all buffers, with barriers and padding, need more shared memory than the target gives
one CTA.

## Why it is a fault

The launch fails.

## Example

    buffers:
      A: {space: shared, stages: 8, tile: [128, 64], dtype: f32}   # 256 KiB

## What to do

Use fewer stages, smaller tiles or a narrower type, or let buffers share memory whose uses cannot
overlap.

## Source

CUDA C++ Programming Guide, technical specifications: 227 KiB a CTA on 9.0 and 10.0; CDNA3 ISA: 64
KiB LDS a work-group.
"""

CODE = "TTN407"
NAME = "shared-memory-budget"
