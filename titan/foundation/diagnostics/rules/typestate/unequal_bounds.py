"""roles whose outer loops have different bounds

## What it means

Roles that exchange tiles through a ring run their common loop over different ranges.

## Why it is a fault

One of them is left waiting, or leaves stages filled or unreleased that the next use of the ring
finds in the wrong phase.

## Example

    producer:
      - for: t in 0..tiles
        do: [acquire: "operands[t]", produce: "operands[t]"]
    consumer:
      - for: t in 0..tiles - 1
        do: [wait: "operands[t]", release: "operands[t]"]

## What to do

Derive both bounds from the same size, by the same expression.

## Source

Both ends of a ring must count the same epochs; cf. persistent kernels, where a scheduler hands the
same work to all roles.
"""

CODE = "TTN108"
NAME = "unequal-bounds"
