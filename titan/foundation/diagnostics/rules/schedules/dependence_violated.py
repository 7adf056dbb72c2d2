"""an operation is issued before what it depends on

## What it means

An operation starts fewer cycles after one that it depends on than the delay of the dependence,
with the iterations in between counted: start of the sink + distance * ii - start of the source.

## Why it is a fault

It reads a value that is not there yet, or writes a slot that is still read.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Start the sink later, the source earlier, or raise the interval.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN501"
NAME = "dependence-violated"
