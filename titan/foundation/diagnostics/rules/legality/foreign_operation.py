"""an operation that the target has no instruction for

## What it means

The kernel uses a queue, a copy or a barrier that another target has: a queue of kind `wgmma` on
sm_100a, bulk copies on sm_80, direct-to-LDS loads on gfx1250, waits at a barrier of the CTA apart
from its arrivals on NVIDIA.

## Why it is a fault

The verdict is about a program that this target cannot run as written. It is a warning, because a
model may borrow a word whose behaviour fits: an mbarrier for a flag in memory, for instance.

## Example

    target: sm_80
    program:
      copier:
        - bulk_load: A[0] = 0
          completes: full[0]

## What to do

Name the target that is meant, say it with what the target has, or allow the rule with a reason.

## Source

PTX ISA, target notes of each instruction; LLVM, AMDGPU usage; what the assemblers accept.
"""

CODE = "TTN427"
NAME = "foreign-operation"
