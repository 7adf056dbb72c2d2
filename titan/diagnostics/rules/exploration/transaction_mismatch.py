"""bytes announced and bytes delivered that differ

## What it means

The transaction count of a phase and the bytes that its copies deliver are not the same.

## Why it is a fault

With fewer bytes than announced the phase never completes. With more, it completes early or the rest
spoils the next phase.

## Example

    arrive.expect_tx: {barrier: full, bytes: 16384}
    bulk.load: {into: A, bytes: 16384, on: full}
    bulk.load: {into: B, bytes: 32768, on: full}   # not announced

## What to do

Announce the sum of all copies that complete on the barrier in that phase, before its last arrival.

## Source

PTX ISA, mbarrier expect-tx and complete-tx operations.
"""

CODE = "TTN207"
NAME = "transaction-mismatch"
