"""one thread acts for others that it has not synchronised with

## What it means

All threads of a warpgroup write a buffer, one of them copies it out, and no barrier is in between;
or that one waits for its copy, and the others overwrite the buffer without having synchronised with
it.

## Why it is a fault

A bulk copy is issued, committed and waited for by one thread. The others may not have written yet
when it copies, and know nothing of its wait: the copy moves half-written memory.

## Example

    roles: {epilogue: {warpgroups: 1}}
    program:
      epilogue:
        - store: C = t
        - fence: async
        - {bulk_store: C = t, queue: out}
        - commit: out
        - drain: out

## What to do

Let the threads meet before the copy and after the wait: `sync` at a named barrier of the warpgroup.
Where only one warp is meant, say so: `{warpgroups: 1, agents: 4}` with `when: self == 0`.

## Source

PTX ISA, cp.async.bulk: groups are of the executing thread; elect.sync; bar.
"""

CODE = "TTN432"
NAME = "unmet-election"
