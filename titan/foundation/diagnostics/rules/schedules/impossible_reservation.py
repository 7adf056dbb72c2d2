"""a reservation table that no interval can satisfy

## What it means

A use takes no cycles, begins before the operation, or takes more of a unit or pool at once than
there is; or values and rings need memory or registers of which nothing is left.

## Why it is a fault

Such an operation cannot be placed even when it is alone on the machine.

## Example

    operations:
      product: {uses: {TC: {cycles: 512, amount: 2}}}

## What to do

Give each use at least one cycle and at most the capacity of its unit; split what is too large.

## Source

The model of loops in docs/reference/schedule.md.
"""

CODE = "TTN514"
NAME = "impossible-reservation"
