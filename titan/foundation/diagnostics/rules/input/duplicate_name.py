"""a second declaration of one name

## What it means

Two things of the same kind, or two things that share a name space, are declared under one name.

## Why it is a fault

Every later use would be ambiguous.

## Example

    buffers: {x: {space: shared}}
    rings: {x: {buffers: [x], depth: 2}}

## What to do

Rename one of them.

## Source

Buffers, rings, barriers and roles share one name space, because statements name them without saying
the kind.
"""

CODE = "TTN013"
NAME = "duplicate-name"
