"""an mbarrier of another CTA used as only its own may

## What it means

An agent waits on, initialises, invalidates, or takes a token of an mbarrier in the shared memory of
another CTA, or a bulk copy completes on an mbarrier that is not with its destination. Or an agent
uses memory or an mbarrier of a CTA that runs no role, and so ends at once.

## Why it is a fault

Of remote mbarriers only arrivals and transaction bytes are defined; the assembler refuses the rest
where it sees it.

## Example

    - wait: full[0]@peer
      phase: 0

## What to do

Let the other CTA arrive at a barrier here, and wait for that.

## Source

PTX ISA, mbarrier: support with shared memory; cp.async.bulk: mbarrier operand.
"""

CODE = "TTN425"
NAME = "barrier-out-of-reach"
