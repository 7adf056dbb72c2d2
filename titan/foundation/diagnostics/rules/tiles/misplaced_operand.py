"""an operand that lives where the operation cannot take it from

## What it means

Values live in shared memory, in fragments, or as one number a row or column. The operation takes
its operand from another place, or an operand enters transposed where that is not possible.

## Why it is a fault

No instruction of the target does it; a copy that was not asked for would cost registers or time.

## Example

    - p: {exp2: a}     # a was loaded to shared memory

## What to do

Read a tile of shared memory to registers first, with `read`.

## Source

The table of operations in docs/reference/tile_language.md.
"""

CODE = "TTN602"
NAME = "misplaced-operand"
