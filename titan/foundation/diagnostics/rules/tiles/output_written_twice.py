"""an output with two stores

## What it means

Two store operations of the program write one tensor.

## Why it is a fault

Stores are asynchronous and their order is not defined; nor is it known that they write different
elements.

## Example

    after:
      - c: {store: x, to: "C[m * rows, 0]"}
      - d: {store: y, to: "C[m * rows, 64]"}

## What to do

Give each store an output of its own.

## Source

docs/reference/tile_language.md.
"""

CODE = "TTN610"
NAME = "output-written-twice"
