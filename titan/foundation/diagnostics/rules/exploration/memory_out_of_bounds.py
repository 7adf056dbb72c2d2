"""an access outside of the memory that the kernel has

## What it means

An instruction reaches shared memory beyond what the launch gives, tensor memory that is not
allocated, or global memory outside of what was declared as allocated.

## Why it is a fault

Such an access traps at best; at worst it is another thread's data.

## Example

    dynamic_shared: 65536            # and a stage of the ring lies at byte 65536

## What to do

Give the launch the memory that the code uses, or correct the address.

## Source

PTX ISA, state spaces; tcgen05.alloc.
"""

CODE = "TTN218"
NAME = "memory-out-of-bounds"
