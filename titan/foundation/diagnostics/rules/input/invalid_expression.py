"""an expression that cannot be parsed

## What it means

The text of an index, bound, guard or range is not an expression of the language.

## Why it is a fault

What is not understood cannot be checked.

## Example

    - for: t in 0..

## What to do

See the place of the arrow; expressions have integers, names, `+ - * // %`, `min` and `max`,
comparisons, `and or not` and brackets; a range is written `low..high`, with `high` exclusive.

## Source

The grammar is in the reference of the kernel language.
"""

CODE = "TTN015"
NAME = "invalid-expression"
