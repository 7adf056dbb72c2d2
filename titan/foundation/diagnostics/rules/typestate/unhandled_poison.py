"""a poisoned stage used as if it held data

## What it means

The producer may mark a stage as holding no data (a predicated copy), and a consumer reads it
without asking.

## Why it is a fault

The wait passes, the stage still holds an old tile (the other engines call it TTN204), and the
result is wrong without any hang.

## Example

    producer:
      - produce: operands[t]
        poison: t + 1 == tiles
    consumer:
      - wait: operands[t]
      - issue: mma(A[t], B[t])                   # not within `when poisoned`
        as: group

## What to do

Put the read into the `else` of `when poisoned: operands[t]`, or guard it by the same condition; or
fill the stage with zeros instead of poison.

## Source

`ReadyPoison(s, e)` gives no `ReadPerm`; it can only be released.
"""

CODE = "TTN111"
NAME = "unhandled-poison"
