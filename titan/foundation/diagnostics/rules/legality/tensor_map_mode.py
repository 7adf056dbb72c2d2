"""modes of a tensor map that do not go together

## What it means

Interleave without its swizzle, NaN fill for a type without NaN, a packed type with another box than
128 elements, im2col numbers out of range, or a swizzle that differs from the one by which the
buffer is read.

## Why it is a fault

The driver refuses to encode it, or writer and reader of the buffer disagree about where an element
is.

## Example

    tensor_maps:
      load_a: {buffer: A, global_shape: [64, 64, 64], box: [16, 8, 8], interleave: 32B}

## What to do

Use the swizzle that the interleave asks for, the zero fill, and numbers within the fields.

## Source

CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; PTX ISA, swizzling modes.
"""

CODE = "TTN412"
NAME = "tensor-map-mode"
