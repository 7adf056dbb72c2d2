"""a stage filled that was not acquired

## What it means

A producer writes a stage, or starts a copy into it, without having acquired that stage for this
iteration on every path that leads there.

## Why it is a fault

`acquire` waits until all consumers of the previous epoch have released the stage. Without it the
copy overwrites a tile that is still being read.

## Example

    - for: t in 0..tiles
      do:
        - produce: operands[t]         # no `acquire: operands[t]` before it

## What to do

Acquire the same index before producing it. If the first `depth` iterations are meant to skip the
wait, keep the acquire: on a fresh barrier it passes at once.

## Source

The resource rule: `produce` consumes `Slot(s, e)`, which only `acquire` makes. Cf. PTX ISA,
mbarrier phases.
"""

CODE = "TTN101"
NAME = "produce-without-acquire"
