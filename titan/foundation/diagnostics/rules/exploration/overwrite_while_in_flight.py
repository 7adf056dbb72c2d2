"""memory overwritten while an asynchronous operation uses it

## What it means

A write, or a new asynchronous copy, reaches memory that an operation in flight still reads or still
writes.

## Why it is a fault

An asynchronous operation holds its footprint from issue to completion. Overwriting its source
changes what it reads; overwriting its destination leaves whichever of the two comes last.

## Example

    - mma: A[t % depth] = t
      queue: group
    - commit: group
    - arrive: empty[t % depth]         # released before the group is drained

## What to do

Wait for the operation first: `drain` its group or queue (in PTX `wait_group`; `until: read` is
enough for the source of a bulk store), or `wait` for the barrier that a load completes.

## Source

PTX ISA, wgmma.wait_group and cp.async.bulk.wait_group; CDNA3 ISA, section 4.4 (s_waitcnt).
"""

CODE = "TTN202"
NAME = "overwrite-while-in-flight"
