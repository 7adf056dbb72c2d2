"""a use of a name that nothing declares

## What it means

A statement refers to a buffer, ring, barrier, role, group, size or anchor that is not declared.

## Why it is a fault

The reference has no object; treating it as a new one would turn a misspelling into a second
barrier.

## Example

    - wait: operand[t]                 # the ring is called `operands`

## What to do

Correct the name or declare it.

## Source

Names are declared under `sizes`, `buffers`, `rings`, `roles`, and the sections of the sync level.
"""

CODE = "TTN011"
NAME = "undeclared-name"
