"""a value crosses warp groups in less time than the transfer takes

## What it means

Source and sink of a data dependence are on different groups, and between them there is room for
the delay but not for the transfer on top.

## Why it is a fault

The value goes through memory and is not there yet when it is read.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Start the sink later, or put both operations on one group.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN507"
NAME = "transfer-too-short"
