"""a unit, pool or memory without capacity

## What it means

The capacity of a functional unit, the amount of a pool or the size of a memory is 0 or less.

## Why it is a fault

Nothing can run on a unit without capacity, and a division by it bounds nothing.

## Example

    units: {TC: 0}

## What to do

Leave a unit out that does not exist, or give what it has.

## Source

The model of loops in docs/reference/schedule.md.
"""

CODE = "TTN515"
NAME = "zero-capacity"
