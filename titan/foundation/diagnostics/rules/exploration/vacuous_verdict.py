"""a role or barrier that no run of the kernel uses

## What it means

In the runs that were tried, for several small numbers of tiles, a role executes nothing or a
barrier takes part in nothing.

## Why it is a fault

The verdict is true but says less than it seems to: what never runs cannot go wrong. Most often a
guard never holds, or a loop has no iterations.

## Example

    producer:
      - for: t in 0..tiles
        do:
          - acquire: operands[t]                   # never
            when: t < 0

## What to do

Look at the guards and bounds around what is named, or remove the role or barrier if it is meant to
be idle.

## Source

The idea of vacuity in model checking: a property that holds because its premise never does.
"""

CODE = "TTN215"
NAME = "vacuous-verdict"
