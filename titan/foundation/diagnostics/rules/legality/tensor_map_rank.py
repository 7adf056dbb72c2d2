"""a tensor map with a number of dimensions that is not taken

## What it means

A tensor map has fewer than 1 or more than 5 dimensions, fewer than 3 with interleave or im2col, or
lists of different lengths; or the target has no tensor maps.

## Why it is a fault

The driver refuses to encode it, and the copy instruction has no form for it.

## Example

    tensor_maps:
      load_a: {buffer: A, global_shape: [8, 8, 8, 8, 8, 8], box: [8, 8, 8, 8, 8, 8]}

## What to do

Merge dimensions that are dense with each other, or give every list one number for each dimension
(the strides one less).

## Source

CUDA driver API, cuTensorMapEncodeTiled: tensorRank; PTX ISA, cp.async.bulk.tensor: im2col mode.
"""

CODE = "TTN409"
NAME = "tensor-map-rank"
