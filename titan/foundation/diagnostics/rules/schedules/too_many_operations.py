"""more operations than a loop file may have

## What it means

A loop file describes tile-level operations; it has a few dozen, and at most 10,000.

## Why it is a fault

Files are refused above a stated size, so that no input makes a command hang.

## Example

    titan schedule million.yaml

## What to do

Describe tiles instead of instructions. Larger graphs come as GraphML or through Python.

## Source

The model of loops in docs/reference/schedule.md.
"""

CODE = "TTN516"
NAME = "too-many-operations"
