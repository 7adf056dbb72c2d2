"""the bound that a certificate claims is not derived

## What it means

The lower bounds of the loop, derived again, differ from the claim, or the interval is not equal
to the bound that is to prove it.

## Why it is a fault

The schedule may hold, but its optimality is not shown.

## Example

    titan schedule loop.yaml --check schedule.json

## What to do

Write the certificate again from a new search.

## Source

The model of schedules in docs/explanation/scheduling.md.
"""

CODE = "TTN509"
NAME = "bound-not-derived"
