"""more threads than a CTA can have

## What it means

The roles of one CTA have more than 1024 threads together.

## Why it is a fault

The launch fails.

## Example

    roles:
      worker: {warpgroups: 9}

## What to do

Use fewer warps a role.

## Source

CUDA programming guide, technical specifications; AMDGPU usage of LLVM: work-group size.
"""

CODE = "TTN420"
NAME = "thread-budget"
