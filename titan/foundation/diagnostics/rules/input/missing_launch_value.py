"""a launch that leaves open what the code depends on

## What it means

Code was given to verify, and its control or its addresses depend on something that the launch does
not say: the block, a parameter, a tensor map.

## Why it is a fault

A verdict on code holds for launches. What such a value is cannot be guessed: another number of
tiles or another box gives other synchronisation.

## Example

    titan verify kernel.ptx        # and the loop runs to parameter 5

## What to do

Give the value in the launch file, by the position or the name of the parameter; the message says
what is known of it.

## Source

docs/reference/real_code.md, "Launches".
"""

CODE = "TTN018"
NAME = "missing-launch-value"
