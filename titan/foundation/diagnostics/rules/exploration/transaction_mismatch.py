"""bytes announced and bytes delivered that differ

## What it means

The transaction count of a phase and the bytes that its copies deliver are not the same.

## Why it is a fault

With fewer bytes than announced the phase never completes. With more, it completes early or the rest
spoils the next phase.

## Example

    - arrive: full[0]
      bytes: 16384
    - bulk_load: A[0] = t, B[0] = t    # B brings 32768 more that are not announced
      completes: full[0]

## What to do

Announce the sum of all copies that complete on the barrier in that phase, before its last arrival.

## Source

PTX ISA, mbarrier expect-tx and complete-tx operations.
"""

CODE = "TTN207"
NAME = "transaction-mismatch"
