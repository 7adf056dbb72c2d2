"""a required key that is not there

## What it means

A construct lacks a key without which it means nothing.

## Why it is a fault

There is no safe default: a ring without buffers or a role without warps cannot be executed.

## Example

    rings:
      operands: {depth: 4}             # which buffers?

## What to do

Add the key; `titan schema` shows its type.

## Source

The JSON Schema printed by `titan schema` (`required`).
"""

CODE = "TTN007"
NAME = "missing-key"
