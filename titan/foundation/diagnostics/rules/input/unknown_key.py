"""a key that the language does not know at this place

## What it means

A mapping has a key that is not among the keys of that construct.

## Why it is a fault

A misspelt key that was skipped would leave out what it says, for instance a guard or a depth, and
the verdict would be about another kernel.

## Example

    sizes: {tiles: any, dept: 4}       # `depth` is meant

## What to do

Take the nearest name that the help proposes, or see `titan schema` for the keys of every construct.

## Source

The JSON Schema printed by `titan schema`; it has `additionalProperties: false` everywhere.
"""

CODE = "TTN006"
NAME = "unknown-key"
