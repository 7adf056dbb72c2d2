"""a number of threads that cannot meet at a named barrier

## What it means

The threads of a named barrier are not a multiple of the warp size, or more than the roles of the
CTA have.

## Why it is a fault

Warps arrive as a whole: the barrier counts 32 for each, so it never sees the number, or never
reaches it.

## Example

    - sync: ids[1]
      threads: 100

## What to do

Count 32 for every warp that takes part.

## Source

PTX ISA, bar and barrier: the thread count is a multiple of the warp size; ptxas checks immediates.
"""

CODE = "TTN415"
NAME = "named-barrier-threads"
