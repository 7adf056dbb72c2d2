"""a collective instruction that not all of its lanes or warps execute alike

## What it means

An instruction of the whole warp (`.sync.aligned`: mma, ldmatrix, stmatrix, wgmma, tcgen05.ld,
setmaxnreg and others) is executed by some of its lanes, or after some of them have ended; a lane
executes `shfl.sync`, `vote.sync`, `match.sync`, `redux.sync` or `elect.sync` with a mask of members
that lacks it, or a predicate leaves members out; or the four warps of a warpgroup do not execute
the same wgmma with the same descriptors, or the same setmaxnreg.

## Why it is a fault

The behaviour is undefined: values of lanes that are not there, or a wait for lanes that never come.

## Example

    if (threadIdx.x % 32 < 16)
        x += __shfl_xor_sync(0xff, x, 1);    // lanes 8 to 15 are not members

## What to do

Bring the lanes together before the instruction (its condition has to be the same for the whole
warp, or warpgroup), or name in the mask all lanes that execute it.

## Source

PTX ISA, shfl.sync and the other instructions with a membermask; `.aligned` of each instruction;
wgmma.mma_async; setmaxnreg.
"""

CODE = "TTN220"
NAME = "partial-collective"
