"""an operation of no kind, or of two

## What it means

An operation names exactly one kind of the table of operations, with what it takes.

## Why it is a fault

What is not in the table has no meaning, no cost and no spelling.

## Example

    - p: {exponential: s}

## What to do

Use a kind of the table; one operation does one thing.

## Source

The table of operations in docs/reference/tile_language.md.
"""

CODE = "TTN601"
NAME = "unknown-operation"
