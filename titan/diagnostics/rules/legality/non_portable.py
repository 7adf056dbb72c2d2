"""legal here, but not by every source or everywhere

## What it means

Two texts of the vendor disagree and the looser one is kept to, or the kernel needs an attribute
that not every device grants: a swizzled tensor that is aligned to 16 but not to 128 bytes, a
cluster of more than 8 CTAs.

## Why it is a fault

It may be slower, or fail on another device of the same target.

## Example

    ctas: 16

## What to do

Keep to the stricter text, or allow the rule with a reason.

## Source

CUDA programming guide against CUDA driver API (alignment of tensors); CUDA programming guide
(cluster size).
"""

CODE = "TTN423"
NAME = "non-portable"
