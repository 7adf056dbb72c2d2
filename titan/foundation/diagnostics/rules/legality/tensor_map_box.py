"""a box that one copy cannot move

## What it means

An extent of the box is not in 1 to 256, its rows are not a multiple of 16 bytes or do not fit under
the swizzle (32, 64 or 128 bytes), an element stride is not in 1 to 8, or the box is larger than the
stage.

## Why it is a fault

The driver refuses to encode it; a box larger than its stage overwrites what follows it.

## Example

    tensor_maps:
      load_a: {buffer: A, dtype: bf16, global_shape: [4096, 4096], box: [128, 64], swizzle: 128B}

## What to do

Split the box: under a 128-byte swizzle a row has at most 64 elements of 16 bits. Issue one copy for
each part.

## Source

CUDA driver API, cuTensorMapEncodeTiled: boxDim, elementStrides, swizzle.
"""

CODE = "TTN411"
NAME = "tensor-map-box"
