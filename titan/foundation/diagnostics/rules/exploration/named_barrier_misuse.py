"""a named barrier used against its rules

## What it means

The participants of a named barrier disagree on the number of threads, a warp arrives again before
the barrier completes, or another number of threads comes than announced. Or an agent waits at a
split barrier (`barrier.cluster.wait`, `s_barrier_wait`) without an arrival of its own since its
last wait, or for a token that it has never taken.

## Why it is a fault

The barrier completes with the wrong threads or never; the hardware reports nothing. A wait counts
the waiter's own arrival, so that without one it waits for a phase that cannot come, or for any.

## Example

    producer:
      - arrive: ids[1]
        threads: 256
    consumer:
      - sync: ids[1]
        threads: 384

## What to do

Give every participant the same count, a multiple of the warp size, and use another identifier for
each rendezvous that can overlap.

## Source

PTX ISA, bar and barrier: same thread count for all participants; an arrive may not be followed by
another use before completion.
"""

CODE = "TTN210"
NAME = "named-barrier-misuse"
