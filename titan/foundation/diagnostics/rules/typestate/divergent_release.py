"""a collective release reached by part of the warps

## What it means

A release that is declared collective is under a guard that can differ between the warps of the
role.

## Why it is a fault

The barrier expects one arrival for all of them, after all have read. When only some take part, the
collective hangs or arrives before the others have finished reading.

## Example

    - release: operands[t]             # collective: every agent must come here
      when: self == 0

## What to do

Move the release out of the guard, or declare it per warp so that each warp owes its own arrival.

## Source

PTX ISA: `.aligned` barriers and elected arrivals after a warp-level synchronisation need all their
threads.
"""

CODE = "TTN110"
NAME = "divergent-release"
