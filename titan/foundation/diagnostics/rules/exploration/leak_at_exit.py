"""an exit with work in flight

## What it means

An agent leaves, or the kernel ends, while an engine still reads or writes the memory of the CTA, or
may still complete or arrive on its barriers. In compiled code also: a CTA ends and keeps columns of
tensor memory.

## Why it is a fault

The memory can belong to another CTA by then. In a cluster, the arrival of a peer hits an exited
CTA. Tensor memory that is not given back is missing to the next CTA, which waits for it.

## Example

    - bulk_store: C[0] = 0
      queue: stores
    - commit: stores
    # the end, without `drain: stores`

## What to do

Wait for all groups before the exit; let producers wait for every stage once more, and synchronise a
cluster at its end.

## Source

PTX ISA, cp.async.bulk.wait_group; clusters: shared memory of an exited CTA must not be accessed.
"""

CODE = "TTN211"
NAME = "leak-at-exit"
