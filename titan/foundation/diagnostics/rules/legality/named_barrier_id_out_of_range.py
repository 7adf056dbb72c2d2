"""a named barrier that the hardware does not have

## What it means

The identifier of a named barrier is not in 0 to 15, or the target has no named barriers.

## Why it is a fault

A CTA has 16 of them. Identifier 0 is also the one of the barrier for all threads.

## Example

    - sync: ids[16]                    # 0 to 15 exist
      threads: 256

## What to do

Reuse identifiers whose rendezvous cannot overlap, or use an mbarrier.

## Source

PTX ISA, bar and barrier: sixteen barriers for each CTA; gfx942 has one barrier for each work-group.
"""

CODE = "TTN405"
NAME = "named-barrier-id-out-of-range"
