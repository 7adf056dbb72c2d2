"""a value or tensor that nothing uses

## What it means

No operation takes the value, or no operation reads or writes the tensor.

## Why it is a fault

A name is mistyped, or the program moves and computes what it does not need.

## Example

    body:
      - a: {load: "A[m * rows, k * k_tile]", tile: [rows, k_tile]}

## What to do

Use the value or take it out.

## Source

docs/reference/tile_language.md.
"""

CODE = "TTN609"
NAME = "unused-value"
