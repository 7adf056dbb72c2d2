"""synchronisation too weak to carry visibility

## What it means

Two accesses are connected by an arrive and a wait, or by atomics, that are relaxed or whose scope
does not contain both threads; or by nothing but what an engine completes, a bulk copy on its
barrier or the arrival of `commit ... arrives`, which publishes what the engine did and nothing that
its issuer did or knew before.

## Why it is a fault

Counting still works, so the wait passes at the right time, but the data need not be visible there.

## Example

    - store: x = 1
    - arrive: full[0]@peer             # and the peer waits, then loads `x`
      order: relaxed
      scope: cluster

## What to do

Use release and acquire at a scope that contains both (`cluster` between CTAs), or put fences around
the relaxed pair. Arrive at the barrier after the stores, not before them.

## Source

PTX ISA, memory consistency model: morally strong operations and causality order; asynchronous
operations in program order.
"""

CODE = "TTN305"
NAME = "weak-synchronisation"
