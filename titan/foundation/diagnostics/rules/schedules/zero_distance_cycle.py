"""operations depend on themselves within one iteration

## What it means

Dependences of distance 0 form a cycle: each of its operations waits for the next one of the same
iteration.

## Why it is a fault

No operation of the cycle can be first, so that no initiation interval exists, however large.

## Example

    dependences:
      - {from: product, to: softmax}
      - {from: softmax, to: product}

## What to do

Give the dependence that carries a value to the next iteration its distance, 1 or more.

## Source

The model of loops in docs/reference/schedule.md.
"""

CODE = "TTN512"
NAME = "zero-distance-cycle"
