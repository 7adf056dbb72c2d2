"""a release of a stage that was not waited for

## What it means

A consumer releases a stage for an iteration that it has not waited for on that path.

## Why it is a fault

The arrival counts for whatever phase the barrier is in. It frees a stage that others still read, or
makes the phase complete early.

## Example

    - wait: operands[t]
    - release: operands[t + 1]

## What to do

Release exactly what was waited for.

## Source

`release` consumes `ConsumedTok(s, e)`, which exists only after `wait`.
"""

CODE = "TTN112"
NAME = "release-without-wait"
