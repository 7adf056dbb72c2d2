"""a tensor that bulk copies cannot address

## What it means

The address, an extent, or a stride of the tensor in global memory breaks a rule of tensor maps: 16
bytes for the address and the strides (32 with 32-byte interleave or padded packed types), extents
up to 2^32, strides below 2^40.

## Why it is a fault

The driver refuses to encode it.

## Example

    tensor_maps:
      load_a: {buffer: A, dtype: bf16, global_shape: [100, 64], box: [64, 64]}   # 200-byte rows

## What to do

Pad the rows of the tensor to a multiple of 16 bytes, or copy by threads.

## Source

CUDA driver API, cuTensorMapEncodeTiled: globalAddress, globalDim, globalStrides.
"""

CODE = "TTN410"
NAME = "tensor-map-global"
