"""a definition that depends on itself

## What it means

A size, or another defined value, is computed from values that are computed from it.

## Why it is a fault

It has no value.

## Example

    sizes: {depth: 2 * stages, stages: depth}

## What to do

Break the cycle by giving one of the values a number.

## Source

Definitions are evaluated in dependency order.
"""

CODE = "TTN014"
NAME = "cyclic-definition"
