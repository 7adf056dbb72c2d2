"""a fence that orders nothing

## What it means

There is a proxy fence on which no later access depends, or another fence covers the same accesses.

## Why it is a fault

It costs time: some forms wait for all outstanding memory operations. It is not a fault of the
program, and the verdict does not change.

## Example

    - fence: async
    - fence: async

## What to do

Remove it. `titan fences` shows which fences of a program are needed.

## Source

PTX ISA, fence.proxy.async; the cost depends on the state space named.
"""

CODE = "TTN306"
NAME = "redundant-fence"
