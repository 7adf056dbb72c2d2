"""a stage at an address that its copy cannot use

## What it means

The address or the size of a stage does not have the alignment that the copy, the swizzle or the
descriptor needs.

## Why it is a fault

The copy faults, or the swizzle pattern and the descriptor disagree about where an element is.

## Example

    buffers:
      A: {space: shared, stages: 4, tile: [100, 33], dtype: bf16, swizzle: 128B}

## What to do

Choose tile sizes whose stages are multiples of the alignment: 16 bytes for bulk copies, 128 for
tensor copies, 1024 for the 128-byte swizzle.

## Source

PTX ISA, cp.async.bulk and tensor swizzling modes; CUDA driver API, cuTensorMapEncodeTiled.
"""

CODE = "TTN408"
NAME = "misaligned-stage"
