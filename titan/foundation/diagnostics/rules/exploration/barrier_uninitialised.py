"""a barrier used before it is initialised

## What it means

An operation on a barrier is possible before its initialisation has happened.

## Why it is a fault

The memory holds anything; the operation is undefined.

## Example

    producer:
      - init: full[0]
    consumer:
      - wait: full[0]                  # can run before the `init` of the other role
        parity: 0

## What to do

Initialise at the beginning, then synchronise the CTA (or the cluster) before any other use.

## Source

PTX ISA, mbarrier.init: any operation but init on memory that holds no mbarrier is undefined.
"""

CODE = "TTN208"
NAME = "barrier-uninitialised"
