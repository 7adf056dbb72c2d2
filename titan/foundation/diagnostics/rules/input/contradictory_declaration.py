"""declarations that contradict each other

## What it means

Two declarations cannot hold together: a role of 6 warps is declared as two warpgroups, a buffer has
another number of stages than its ring.

## Why it is a fault

Each reading gives another program, and only one of them is what runs.

## Example

    roles:
      consumer: {warps: 6, warpgroups: 2}

## What to do

Keep the declaration that is right and remove or correct the other.

## Source

A warpgroup is four consecutive warps (PTX ISA, asynchronous warpgroup level matrix instructions).
"""

CODE = "TTN017"
NAME = "contradictory-declaration"
