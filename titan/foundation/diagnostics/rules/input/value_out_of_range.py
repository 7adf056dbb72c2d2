"""a number, length or count outside its range

## What it means

A value has the right kind but lies outside the bounds that the language or the target sets.

## Why it is a fault

Beyond the bounds the construct has no meaning (a depth of 0) or no hardware (more than 1024 threads
in a CTA).

## Example

    sizes: {tiles: any, depth: 0}

## What to do

Choose a value within the bounds of the message.

## Source

The bounds of the language are in `titan schema`; those of the hardware in the machine description
of the target.
"""

CODE = "TTN009"
NAME = "value-out-of-range"
