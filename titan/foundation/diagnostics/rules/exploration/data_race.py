"""conflicting accesses that nothing orders

## What it means

Two agents access the same part of memory, at least one writes, and no chain of synchronisation puts
one before the other.

## Why it is a fault

Which access comes first differs from run to run; the reader may see either value, or a mixture.

## Example

    producer:
      - store: x = 0
    consumer:
      - load: x = 0                    # no barrier between them

## What to do

Put a barrier, or an arrive and a wait on one, between the accesses. A fence alone orders nothing
between threads.

## Source

PTX ISA, memory consistency model: conflicting accesses that are not ordered by causality are a data
race.
"""

CODE = "TTN201"
NAME = "data-race"
