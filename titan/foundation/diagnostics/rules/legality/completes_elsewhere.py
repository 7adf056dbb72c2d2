"""an operation that completes elsewhere

## What it means

An operation is in a queue, or completes on a barrier, by which the hardware does not observe
it; or a queue is waited for, arrives, orders or pipelines as its counter or group cannot.

## Why it is a fault

A wait for the wrong counter or group passes before the operation is done: a direct-to-LDS load
counts in vmcnt and never in lgkmcnt, a bulk store in a bulk group and never in a wgmma group, a
bulk load on an mbarrier only. What a group cannot do (arrive at an mbarrier, be waited for by
count) has no instruction.

## Example

    queues: {lgkm: lgkmcnt}
    program:
      wave:
        - lds_dma: L = 1
          queue: lgkm
        - drain: lgkm
        - load: L = 1

## What to do

Give the operation the queue or the barrier that it completes by: the rows of the target are in
`backends/<target>/completion.yaml`. On Blackwell let `commit` arrive at an mbarrier and wait for
that.

## Source

PTX ISA, the completion mechanism of each asynchronous instruction; the instruction sets of CDNA
and RDNA, S_WAITCNT; LLVM, AMDGPU usage. Each row names its own, and assemblers are asked.
"""

CODE = "TTN428"
NAME = "completes-elsewhere"
