"""a stage that some reader never releases

## What it means

On some path a consumer that waited for a stage does not release it in that epoch.

## Why it is a fault

The producer's next acquire of that stage waits for the missing arrival forever.

## Example

    - wait: operands[t]
    - release: operands[t]
      when: t >= 1                   # tile 0 is never released

## What to do

Release on every path; after a pipelined loop release what the loop left over.

## Source

All shares of `ReadPerm(s, e)` must come back before `Free(s, e + 1)` exists.
"""

CODE = "TTN105"
NAME = "missing-release"
