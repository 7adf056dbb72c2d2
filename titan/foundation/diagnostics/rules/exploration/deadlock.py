"""a state in which no agent can proceed

## What it means

Some agent is not at its end, and no step of any agent or engine is possible.

## Why it is a fault

The kernel hangs.

## Example

    - wait: empty[0]                   # a fresh barrier passes parity 1 only
      parity: 0

## What to do

Follow the trace to its end: it names what each agent waits for. Usual causes are a wrong initial
parity, a count that nobody reaches, bytes that no copy delivers, and a role that left early.

## Source

Blocking operations of the PTX and CDNA3 ISAs: mbarrier.try_wait loops, bar.sync, s_barrier.
"""

CODE = "TTN205"
NAME = "deadlock"
