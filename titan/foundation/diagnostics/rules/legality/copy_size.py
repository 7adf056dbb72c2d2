"""a copy of other bytes than what it fills

## What it means

The bytes that a copy completes are not those of the stage, of the part, or of the boxes of the
tensor map that it writes, or the copy has no other size where several destinations are filled at
once.

## Why it is a fault

A copy that is larger than its destination overwrites what follows it: the next stage, or the
mbarrier itself. One that is smaller leaves a part of the stage as it was, yet the stage would
count as holding its tile. And a barrier that expects other bytes than the copy delivers never
completes its phase.

## Example

    buffers: {payload: {bytes: 7168}}
    program:
      warp:
        - {arrive: full, bytes: 7392}
        - {bulk_load: payload = t, completes: full, bytes: 7392}

## What to do

Leave `bytes` away: it is then computed from the declaration. Declare `parts` where several copies
fill a stage, each its own, or the bytes that the copy has.

## Source

PTX ISA, cp.async.bulk: size and complete_tx; CUDA driver API, cuTensorMapEncodeTiled: boxDim.
"""

CODE = "TTN429"
NAME = "copy-size"
