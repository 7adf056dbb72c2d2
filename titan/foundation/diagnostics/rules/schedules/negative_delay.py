"""the delay, distance or hold of a dependence is negative

## What it means

A dependence asks that its sink is issued `delay` cycles after its source of `distance` iterations
before, or later. One of these numbers is below 0.

## Why it is a fault

An iteration cannot depend on a later one, and a negative delay would let a value be read before it
is computed. Schedulers and bounds assume that neither occurs.

## Example

    dependences:
      - {from: load, to: product, delay: -1}

## What to do

Give the cycles until the sink may be issued; leave `delay` out for the latency of the source.

## Source

The model of loops in docs/reference/schedule.md.
"""

CODE = "TTN511"
NAME = "negative-delay"
