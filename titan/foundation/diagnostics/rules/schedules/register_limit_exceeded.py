"""a warp group holds more register words than it has

## What it means

Values live from the issue of their producer to their last use, over as many intervals as that is;
together they pass the registers of the group in some cycle of the steady state.

## Why it is a fault

The compiler spills to local memory, inside the loop.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Consume values earlier, move an operation to another group, or raise the registers of the group.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN503"
NAME = "register-limit-exceeded"
