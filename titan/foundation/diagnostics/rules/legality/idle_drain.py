"""a wait for a group or counter that the role puts nothing into

## What it means

`drain` (or `wait`) names a queue, and nothing that the role executes goes to a queue of that kind.

## Why it is a fault

Groups and counters belong to the thread, warp or wave that issues: `cp.async.bulk.wait_group`,
`wgmma.wait_group` and `s_waitcnt` wait for nothing that others have issued. The wait passes at
once, and what was to be waited for is still under way. It is a warning, since what follows may not
rely on it; where it does, the engines refute the kernel.

## Example

    queues: {out: bulk}
    program:
      writer:
        - bulk_store: C = t
          queue: out
        - commit: out
      other:
        - drain: out           # waits for nothing: `writer` has issued
        - store: C = t + 1

## What to do

Let who issues wait, and signal the others through a barrier; or leave the wait out.

## Source

PTX, cp.async.bulk.wait_group and wgmma.wait_group: groups of the executing thread; CDNA3
instruction set architecture, section 4.4: counters of the wave.
"""

CODE = "TTN434"
NAME = "idle-drain"
