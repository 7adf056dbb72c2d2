"""an operation waits while another of its group is being issued

## What it means

An operation with a blocking dependence or a transfer starts while its warps issue another one.

## Why it is a fault

A warp issues one thing at a time: the wait holds up the other operation.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Start one of the two later, or put them on different groups.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN506"
NAME = "blocking-overlap"
