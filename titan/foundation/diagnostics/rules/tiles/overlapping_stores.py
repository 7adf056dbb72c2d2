"""stores of different work items that may meet

## What it means

It is not seen that different work items (or iterations) write different elements: a work
coordinate is in no offset of the store, or moves the tile by less than it spans.

## Why it is a fault

Work items run in any order and at the same time; the result would be chance.

## Example

    - c: {store: x, to: "C[m * rows, 0]"}     # work: {m: ..., n: ...}

## What to do

Let each work coordinate move the stored tile by at least its extent.

## Source

The section on stores in docs/reference/tile_language.md.
"""

CODE = "TTN612"
NAME = "overlapping-stores"
