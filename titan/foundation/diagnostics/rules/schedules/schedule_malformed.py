"""a schedule does not fit its loop

## What it means

The interval is not a positive integer, an operation starts before cycle 0 or ends after the
length that is claimed, or the schedule was made for another loop.

## Why it is a fault

Nothing that it claims can be about this loop.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Make the schedule for this loop, and state the length that it has.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN508"
NAME = "schedule-malformed"
