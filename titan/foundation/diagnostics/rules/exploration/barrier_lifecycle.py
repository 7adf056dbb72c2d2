"""a live barrier initialised again or destroyed in use

## What it means

A barrier is initialised while it is live, or invalidated while an agent may still wait, arrive or
deliver bytes on it, or its memory is used for data.

## Why it is a fault

Arrivals and waiting threads are lost, or see a phase that belongs to nobody.

## Example

    - bulk_load: A[0] = 0
      completes: full[0]
    - invalidate: full[0]              # the copy has still to complete on it

## What to do

Wait until every phase is complete and every agent has passed, synchronise, and invalidate before
reuse.

## Source

PTX ISA, mbarrier.inval and mbarrier.init.
"""

CODE = "TTN209"
NAME = "barrier-lifecycle"
