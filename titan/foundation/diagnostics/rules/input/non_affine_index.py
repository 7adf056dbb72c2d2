"""an index or guard that is not affine

## What it means

An index expression, a bound or a guard is not a sum of loop variables and sizes times integer
constants, with `//` and `%` by constants or by the depth.

## Why it is a fault

The proof for any number of tiles translates indices to linear arithmetic, which solvers decide.
Products of unknowns are not decidable in general.

## Example

    - wait: operands[t * t]

## What to do

Rewrite the index in affine form, or give the sizes concrete values so that the product has a
constant factor.

## Source

Presburger arithmetic is decidable, integer arithmetic with multiplication is not.
"""

CODE = "TTN012"
NAME = "non-affine-index"
