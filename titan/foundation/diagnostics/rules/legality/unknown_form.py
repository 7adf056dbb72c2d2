"""an operation, or an option of it, that no instruction of the target has

## What it means

The words of the operation are known, and the target has no instruction for what they say together:
an mbarrier that counts bytes on sm_80, a relaxed `bar.sync`, a bulk copy on gfx942, the two halves
of a barrier of the CTA on a target that has the whole alone, registers of another role.

## Why it is a fault

The kernel cannot be written as it is modelled. What stands in its place in the code behaves
otherwise: `bar.sync` in the place of a wait apart is an arrival, too; a register that another role
has written is one of the reader's own, which nobody has written.

## Example

    target: sm_80
    barriers: {full: 1}
    program:
      producer:
        - arrive: full
          bytes: 1024          # expect_tx is from sm_90 on

## What to do

Model what the code executes, or name the target that it is for. What roles exchange goes through
shared or global memory.

## Source

PTX ISA, mbarrier.arrive, mbarrier.expect_tx, mbarrier.test_wait (target notes), barrier and
barrier.cluster, state spaces; CDNA3 instruction set architecture, S_BARRIER and LDS; LLVM, AMDGPU
usage.
"""

CODE = "TTN435"
NAME = "unknown-form"
