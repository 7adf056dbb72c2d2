"""a proxy or a proxy fence that the target does not have

## What it means

The kernel has a proxy fence, or an access through a proxy, for which the target has no instruction.

## Why it is a fault

The fences of the constant, texture, and surface proxies exist in the formal memory model and in no
instruction set: PTX fences virtual aliases, the async proxy, and the tensormap proxy. The fences of
the last two begin with sm_90. A kernel whose proof needs such a fence cannot be written.

## Example

    - store: table = 1
    - fence: texture
    - load: table = 1
      proxy: texture

## What to do

Read through the generic proxy, or in a later kernel; the launch in between makes all proxies
coherent.

## Source

PTX ISA, membar and fence: proxy kinds; LLVM AMDGPU usage, memory model.
"""

CODE = "TTN426"
NAME = "unavailable-fence"
