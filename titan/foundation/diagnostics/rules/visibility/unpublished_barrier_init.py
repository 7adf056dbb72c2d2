"""a barrier used by others before its initialisation is visible

## What it means

The initialisation comes before the use in every run, but nothing makes it visible: no CTA barrier
for the CTA, no release at cluster scope for other CTAs.

## Why it is a fault

The other agent, or a remote arrival, may still see the memory as it was.

## Example

    - init: full[0]
    - arrive: cluster                  # no `fence: barrier_init` before it
      order: relaxed

## What to do

Within a CTA synchronise all threads after the initialisation. For a cluster use
`fence: barrier_init` (in PTX `fence.mbarrier_init.release.cluster`) and a cluster barrier.

## Source

PTX ISA, fence.mbarrier_init.
"""

CODE = "TTN303"
NAME = "unpublished-barrier-init"
