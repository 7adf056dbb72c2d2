"""a unit or a pool is taken more often than it can be

## What it means

In some cycle of the steady state the operations of all overlapping iterations take a functional
unit more often than its capacity, or a pool more often in its window than its amount.

## Why it is a fault

The hardware delays one of them, and the interval that is claimed is not reached.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Move one of the operations to a cycle in which the unit is free, modulo the interval.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN502"
NAME = "unit-oversubscribed"
