"""a tile that the target's fragments or matrix unit do not have

## What it means

The rows of a value in registers are shared by the groups, which compute whole fragments; the
matrix unit takes products over multiples of 32 bytes and a limited number of columns.

## Why it is a fault

No instruction of the target computes such a tile.

## Example

    sizes: {rows: 96}     # two groups of 64 rows each take multiples of 128

## What to do

Choose extents that are multiples of what the message names.

## Source

`fragment` and `matrix` in rates.yaml of the target, with their sources.
"""

CODE = "TTN608"
NAME = "unfit-tile"
