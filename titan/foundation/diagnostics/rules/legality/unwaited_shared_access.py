"""an access to LDS that no counter is waited for

## What it means

On AMD a wave stores to LDS or loads from it as if that were done at once (`store`, `load`), and
meets other waves at a barrier; or it waits for a part of a counter in which operations finish out
of order.

## Why it is a fault

`s_barrier` waits for no counter. Without `s_waitcnt lgkmcnt(0)` before it the store may still be
on its way, and what another wave reads is old. Of scalar loads any may be the one that is left
unfinished. It is a warning, since compilers insert waits where they see the access.

## Example

    target: gfx942
    program:
      wave:
        - store: L[t % 2, self] = t
        - sync: workgroup
        - load: L[t % 2] = t

## What to do

Say the access with its counter, `async: {writes: ..., queue: lgkm, proxy: generic}`, and drain
the queue before the barrier; or allow the rule with the reason why the wait is there.

## Source

CDNA3 instruction set architecture, S_BARRIER and section 4.4; LLVM, AMDGPU usage, memory model.
"""

CODE = "TTN431"
NAME = "unwaited-shared-access"
