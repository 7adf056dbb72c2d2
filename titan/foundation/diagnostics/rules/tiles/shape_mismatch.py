"""operands whose shapes do not fit together

## What it means

The inner extents of a product differ, or the rows or columns of two operands.

## Why it is a fault

The result would have no meaning.

## Example

    - s: {mma: [q, k]}     # q is 128 x 64, k is 128 x 64

## What to do

Transpose the right operand (`k.T`), or give the tiles extents that fit.

## Source

The table of operations in docs/reference/tile_language.md.
"""

CODE = "TTN603"
NAME = "shape-mismatch"
