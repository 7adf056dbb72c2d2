"""an input over the limits on size, depth or expansion

## What it means

The file is larger than a mebibyte, nests too deep (64 levels of YAML, 20 of statements), or has
more than a hundred thousand nodes once its aliases are expanded.

## Why it is a fault

Real kernels take a few kilobytes. Without limits a small file of aliases to aliases would expand to
more nodes than memory holds.

## Example

    a: &a [x, x, x, x]
    b: &b [*a, *a, *a, *a]             # every further line of this kind multiplies the size by four

## What to do

Write loops as loops instead of unrolled, and split a file that holds several kernels.

## Source

YAML 1.2.2, section 3.1.2 leaves limits to the processor; these are TITAN's own.
"""

CODE = "TTN003"
NAME = "input-too-large"
