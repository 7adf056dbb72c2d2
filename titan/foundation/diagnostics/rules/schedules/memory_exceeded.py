"""a memory or a ring holds more than it can

## What it means

What is alive in some cycle of the steady state and the rings of streaming operations together
pass the capacity of a memory, or a ring has more values alive than slots.

## Why it is a fault

A value is overwritten while it is needed, or the kernel cannot be launched.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Use fewer slots, smaller tiles or shorter lifetimes.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN504"
NAME = "memory-exceeded"
