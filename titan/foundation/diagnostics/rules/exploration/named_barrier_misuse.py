"""a named barrier used against its rules

## What it means

The participants of a named barrier disagree on the number of threads, a warp arrives again before
the barrier completes, or another number of threads comes than announced.

## Why it is a fault

The barrier completes with the wrong threads or never; the hardware reports nothing.

## Example

    producer:
      - {arrive: ids[1], threads: 256}
    consumer:
      - {sync: ids[1], threads: 384}

## What to do

Give every participant the same count, a multiple of the warp size, and use another identifier for
each rendezvous that can overlap.

## Source

PTX ISA, bar and barrier: same thread count for all participants; an arrive may not be followed by
another use before completion.
"""

CODE = "TTN210"
NAME = "named-barrier-misuse"
