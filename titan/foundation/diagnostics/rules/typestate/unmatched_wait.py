"""a wait that nothing ever answers

## What it means

For some number of tiles a role waits for an iteration that no other role produces, or acquires one
that no role releases: their guards or ranges disagree.

## Why it is a fault

The waiting role hangs. Found from the guards alone, before anything runs; trip counts 0, 1 and
below the depth are where real kernels break.

## Example

    producer:
      - for: t in 0..tiles
        do:
          - acquire: operands[t]
            when: t + 1 < tiles
          - produce: operands[t]
            when: t + 1 < tiles
    consumer:
      - for: t in 0..tiles
        do:
          - wait: operands[t]          # hangs at t = tiles - 1

## What to do

Give both roles the same guard, or let the producer arrive without data (a 0-byte arrive) where it
has nothing to copy.

## Source

Obligation: for every waited `(ring, t)` there is a produced `(ring, t)`, decided over all N by an
SMT solver.
"""

CODE = "TTN107"
NAME = "unmatched-wait"
