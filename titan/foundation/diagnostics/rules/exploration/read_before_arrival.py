"""a read before the data has arrived

## What it means

An agent reads memory into which an asynchronous write is still in flight.

## Why it is a fault

The read sees the old tile, the new one, or part of each.

## Example

    - bulk_load: A[0] = 0
      completes: full[0]
    - load: A[0] = 0                   # no wait on full[0]

## What to do

Wait on the barrier, group or counter on which this transfer completes. A wait on another barrier,
or on a count that leaves this transfer in flight, does not help.

## Source

PTX ISA, cp.async.bulk: only the completion mechanism makes the written data available.
"""

CODE = "TTN203"
NAME = "read-before-arrival"
