"""an operation is on a warp group that cannot run it

## What it means

The group has fewer warps than the operation needs, does not exist, or the operation has variable
latency and is not on the group for that, or the other way round.

## Why it is a fault

The operation cannot be issued there, or its waiting holds up work of fixed latency.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Put the operation on a group that fits, or change the groups of the loop.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN505"
NAME = "warp-assignment"
