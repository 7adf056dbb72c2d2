"""a word outside a closed vocabulary

## What it means

The language has a fixed list of words for this place (targets, memory spaces, data types,
operations, proxies) and the word is not on it.

## Why it is a fault

An unknown operation has no semantics, so nothing can be decided about a program that executes it.

## Example

    target: sm_90b

## What to do

Take a word of the list; the help names the nearest one.

## Source

The JSON Schema printed by `titan schema` (`enum`).
"""

CODE = "TTN010"
NAME = "unknown-name"
