"""a stage released twice in one epoch

## What it means

A consumer gives the same share of a stage back twice on one path.

## Why it is a fault

The second arrival counts for another consumer, or for the next phase, and the producer overwrites a
tile that is still read.

## Example

    - release: operands[t]
    - drain: group
    - release: operands[t]

## What to do

Release once, after the last read.

## Source

A share of `ReadPerm(s, e)` is an affine resource.
"""

CODE = "TTN113"
NAME = "double-release"
