"""a carried value that takes no fitting value at the end of an iteration

## What it means

`next` names no operation of the body, or one whose value has another shape, type or place.

## Why it is a fault

The next iteration would begin with another kind of value than this one.

## Example

    carried:
      acc: {shape: [128, 128], initial: 0, next: row_total}

## What to do

Name the operation of the body whose value the next iteration takes over.

## Source

The section on carried values in docs/reference/tile_language.md.
"""

CODE = "TTN606"
NAME = "carried-mismatch"
