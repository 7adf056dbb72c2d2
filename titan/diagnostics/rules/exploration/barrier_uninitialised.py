"""a barrier used before it is initialised

## What it means

An operation on a barrier is possible before its initialisation has happened.

## Why it is a fault

The memory holds anything; the operation is undefined.

## Example

    consumer: {wait: full, parity: 0}  # can run before `init: full` of the other warp

## What to do

Initialise at the beginning, then synchronise the CTA (or the cluster) before any other use.

## Source

PTX ISA, mbarrier.init: any operation but init on memory that holds no mbarrier is undefined.
"""

CODE = "TTN208"
NAME = "barrier-uninitialised"
