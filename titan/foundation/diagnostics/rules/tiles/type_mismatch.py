"""operands or tensors of types that do not fit

## What it means

Arithmetic is in f32, both factors of a product have one type (the two fp8 types may mix), and a
value is stored to a tensor of its own type.

## Why it is a fault

A conversion that is not written would round without being seen.

## Example

    - c: {store: acc, to: "C[m * rows, n * columns]"}     # C is bf16

## What to do

Write the conversion: `narrow: {convert: acc, to: bf16}`.

## Source

The table of operations in docs/reference/tile_language.md.
"""

CODE = "TTN604"
NAME = "type-mismatch"
