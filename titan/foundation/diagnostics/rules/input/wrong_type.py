"""a value of another type than the language expects

## What it means

A mapping, list, string, integer or truth value is given where another kind of value belongs.

## Why it is a fault

A silent conversion would hide mistakes: `'4'` is a string, `yes` is a word in YAML 1.2, and neither
is a depth or a truth value.

## Example

    roles:
      producer: {warps: "one"}

## What to do

Write a value of the kind that the message names; remove quotes around numbers.

## Source

YAML 1.2.2, section 10.3 (core schema) decides what a plain scalar denotes.
"""

CODE = "TTN008"
NAME = "wrong-type"
