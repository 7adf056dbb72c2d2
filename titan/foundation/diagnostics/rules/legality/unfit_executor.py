"""an operation by threads that do not execute it so

## What it means

`by:` says that one thread, one warp or all threads of an agent execute an operation, and the
instruction is not executed so: a bulk copy by all threads, a wgmma by one.

## Why it is a fault

A bulk copy, an `expect` and a product of tcgen05 happen once for each thread that executes them: by
128 threads, 128 copies complete 128 times the bytes. Groups of bulk copies are of the thread that
has issued them, so that a wait by the others waits for nothing. A wgmma needs its whole warpgroup.
Wait counters of AMD are of a wave: what one wave waits for, the others have not.

## Example

    roles: {loader: {warpgroups: 1}}
    program:
      loader:
        - arrive: full
          bytes: 1024
        - {bulk_load: A = 0, completes: full, by: all}

## What to do

Leave `by:` out, or say what the instruction does. For one warp of several, make an agent of each:
`{warpgroups: 1, agents: 4}` with `when: self == 0`.

## Source

PTX ISA, cp.async.bulk, cp.async.bulk.commit_group and wait_group, mbarrier.expect_tx, tcgen05.mma:
of the executing thread; wgmma.mma_async: of all threads of the warpgroup. CDNA and RDNA instruction
set architectures, s_waitcnt: counters of a wave.
"""

CODE = "TTN433"
NAME = "unfit-executor"
