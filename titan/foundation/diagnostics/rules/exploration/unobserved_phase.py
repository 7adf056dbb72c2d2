"""an arrival for the next phase before any wait has passed for the last one

## What it means

A phase of an mbarrier is complete, an agent or an engine arrives for the next one, and in between
no wait has passed that saw the phase complete.

## Why it is a fault

PTX asks that in each phase at least one wait has returned true before anything arrives for the next
phase. A barrier that somebody only ever arrives at, or that is waited for every second time, breaks
this, whatever else the program knows by then.

Shipped kernels break it where nothing else goes wrong: consumers of a multicast that release the
stage in both CTAs may arrive at a barrier of the peer before its producer has passed the phase
before.

## Example

    - arrive: done                     # twice in a row, and nobody waits for the first
    - arrive: done

## What to do

Let the agent whose arrival it is, or one that allows it, wait for the phase before; or use a
barrier for each of the two. The policy `unobserved_phase: allow` leaves the rule out; lapped waits,
over-arrivals and stale reads are still looked for.

## Source

PTX ISA, mbarrier: phase of the mbarrier object.
"""

CODE = "TTN216"
NAME = "unobserved-phase"
