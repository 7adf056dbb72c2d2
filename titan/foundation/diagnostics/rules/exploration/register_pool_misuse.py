"""register reallocation against its rules

## What it means

A warpgroup asks for registers in a way that the instruction does not allow: not all four warps
execute it, the direction contradicts the current number, or the request can never be met by the
pool.

## Why it is a fault

`setmaxnreg.inc` blocks until the pool has the registers; nobody may ever give them back. Divergent
use is undefined.

## Example

    - take: registers                  # nobody has given any back before
      amount: 72

## What to do

Decrease in the producer before the others increase; keep the sum within what the CTA was launched
with.

## Source

PTX ISA, setmaxnreg.
"""

CODE = "TTN213"
NAME = "register-pool-misuse"
