"""a role that ends without finalising

## What it means

A role reaches its end while a ring that it produced into, or a group that it issued, is not
finalised on some path.

## Why it is a fault

Other warps or CTAs may still arrive on its barriers, and copies may still write its memory, after
it has left.

## Example

    - for: t in 0..tiles
      do:
        - wait: operands[t]
        - issue: mma(A[t])
          as: group
    # neither `drain: group` nor `finalize` at the end

## What to do

End with `finalize`: the producer waits once more for every stage, the consumer drains its groups.

## Source

PTX ISA, clusters: no CTA may exit while others can still access its shared memory.
"""

CODE = "TTN109"
NAME = "missing-finalize"
