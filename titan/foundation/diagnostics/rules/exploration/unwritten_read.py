"""shared or tensor memory that is read and that nothing has written

## What it means

In a run with many tiles, an operation reads a stage of shared or tensor memory before any operation
has written it. The verdict is undecided.

## Why it is a fault

What such a read gives is what an earlier kernel has left there. Most often a copy or a store is
missing, or fills another stage. A kernel may read such memory and leave out what it read; what is
computed from it is not in the program, so the verdict stays open.

## Example

    consumer:
      - for: t in 0..tiles
        do:
          - load: A[t % depth]                     # no role copies or stores anything into A

## What to do

Fill the memory before it is read. Where something that the file leaves out fills it, say so at the
buffer: `initial: 0`.

## Source

CUDA programming guide: shared memory is not initialised; PTX says the same of tensor memory behind
`tcgen05.alloc`.
"""

CODE = "TTN222"
NAME = "unwritten-read"
