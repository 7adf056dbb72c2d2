"""more arrivals on a barrier than its phase expects

## What it means

A phase of a barrier gets an arrival when none is pending, or a count larger than what is pending.

## Why it is a fault

The pending count of an mbarrier is a bounded field; what happens beyond it is undefined, and
arrivals meant for one phase complete another.

## Example

    barriers:
      done: {count: 4}
    roles:
      consumer: {warps: 8}             # and each of them arrives on `done`

## What to do

Make the count of the initialisation equal to the number of arrivals in a phase: warps, threads or
one elected thread, whichever executes the arrive.

## Source

PTX ISA, mbarrier: contents and valid ranges of the object.
"""

CODE = "TTN206"
NAME = "barrier-over-arrival"
