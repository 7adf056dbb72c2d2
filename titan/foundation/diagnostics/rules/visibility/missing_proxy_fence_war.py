"""generic reads overwritten by the async proxy without a fence

## What it means

Memory is read by ordinary loads, and then written through the async proxy without a proxy fence,
although synchronised.

## Why it is a fault

The order of a generic read before an async write goes across proxies too. Whether hardware can
reorder them is not promised; the stricter reading of the model demands the fence.

## Example

    consumer:
      - load: A[s] = t
      - arrive: empty[s]               # no `fence: async` between
    producer:
      - wait: empty[s]
        phase: t // depth
      - bulk_load: A[s] = t + depth
        completes: full[s]

## What to do

Fence before the arrive, or choose the policy that trusts the barrier for write-after-read; the
verdict then says so.

## Source

PTX ISA 9.4, fence.proxy with the read-only qualifier; shipped kernels rely on the barrier alone, so
the policy is an option.
"""

CODE = "TTN302"
NAME = "missing-proxy-fence-war"
