"""generic writes read by the async proxy without a fence

## What it means

Memory is written by ordinary stores and then read, or overwritten, through the async proxy (bulk
copies, tensor-core operands) without a proxy fence on the way.

## Why it is a fault

The proxies reach memory by different paths. A barrier orders the operations but not the paths; the
engine may read what was there before.

## Example

    - store: C[0] = 0
    - sync: ids[1]
    - bulk_store: C[0] = 0             # no `fence: async` between
      queue: stores

## What to do

Every thread that wrote executes `fence: async` (in PTX `fence.proxy.async`), then synchronises with
the thread that issues.
The policy `path` accepts a fence anywhere on the path, in the right CTA.

## Source

PTX ISA, async proxy and membar/fence.proxy; the mixed-proxy memory model (NVIDIA, ISCA 2022).
"""

CODE = "TTN301"
NAME = "missing-proxy-fence"
