"""a wait that the counters of the target cannot express

## What it means

The program waits for one operation of a counter class while the class retires out of order, or
mixes kinds in such a way that no threshold means exactly that operation.

## Why it is a fault

A counter shows only how many operations are outstanding. Where the order of completion is not the
order of issue, a threshold above zero says nothing about a certain operation.

## Example

    queues:
      reads: {kind: lgkmcnt, ordered: false}
    program:
      wave:
        - access: {reads: [table], queue: reads}
        - drain: {reads, leaving: 1}   # only a wait for all is meaningful here

## What to do

Wait for all of the class, group the operations of one stage, use a smaller depth, or do without
specialisation; `--rewrite` tries these in this order.

## Source

CDNA3 ISA, section 4.4: scalar loads return out of order, different kinds in lgkmcnt are mutually
unordered.
"""

CODE = "TTN401"
NAME = "unrepresentable-token"
