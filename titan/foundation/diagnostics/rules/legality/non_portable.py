"""legal here, but not by every source or everywhere

## What it means

Texts of the vendor disagree with each other or with what works, and the looser reading is kept to;
or the kernel needs an attribute that not every device grants. A swizzled tensor that is aligned to
16 but not to 128 bytes, strides of a tensor map that do not nest, a cluster of more than 8 CTAs.

## Why it is a fault

It may be slower, or fail on another device of the same target.

## Example

    ctas: 16

## What to do

Keep to the stricter text, or allow the rule with a reason.

## Source

CUDA programming guide against CUDA driver API (alignment of tensors); CUDA driver API, example of
globalStrides; CUDA programming guide (cluster size).
"""

CODE = "TTN423"
NAME = "non-portable"
