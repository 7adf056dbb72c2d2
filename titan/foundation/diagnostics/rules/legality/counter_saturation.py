"""more operations in flight than a wait can count

## What it means

The threshold that a wait needs is larger than the field of the instruction can say, so it is
lowered to the largest one.

## Why it is a fault

The wait is still correct but waits for more than was meant: the pipeline is shallower than its
depth says.

## Example

    sizes: {depth: 40}                 # two copies a stage: vmcnt(78) does not exist

## What to do

Use a smaller depth, or fewer and wider copies a stage.

## Source

CDNA3 ISA, s_waitcnt: vmcnt has 6 bits, lgkmcnt 4; compilers use at most 62 because 63 means no
wait.
"""

CODE = "TTN403"
NAME = "counter-saturation"
