"""an alias inside the node that it represents

## What it means

An alias names an anchor on a mapping or list that encloses the alias, so the value contains itself.

## Why it is a fault

Such a value is infinite; no kernel is meant by it.

## Example

    program: &p
      producer: [*p]

## What to do

Write the inner part out, or put the anchor on the smaller part that is to be repeated.

## Source

YAML 1.2.2, section 3.2.1 allows cyclic graphs in general; the kernel language is a tree.
"""

CODE = "TTN005"
NAME = "cyclic-alias"
