"""memory reached by a cached path that nothing keeps coherent with the others

## What it means

Two accesses of the same memory conflict, one of them goes through the constant, texture, or surface
proxy, the other one by another path (another proxy, or a cache of another CTA), and the fences of
these proxies are not on the way from one to the other.

## Why it is a fault

Each of these proxies reads through a cache of its CTA that other writes do not update. The read may
give the old value, however the two are synchronised. It needs a fence of each proxy that is not
generic, in the CTA of the access through it; between two accesses of one proxy in one CTA it needs
none.

## Example

    - store: table = 1
    - sync: cta_barrier
    - load: table = 1
      proxy: texture                # ld.global.nc, __ldg, tex

## What to do

Load through the generic proxy (`ld.global`), or read in a later kernel. PTX has no instruction for
these fences (TTN426); only its formal model does.

## Source

PTX ISA, memory consistency model, proxies and proxy-preserved base causality order; Lustig and
others, Mixed-Proxy Extensions for the NVIDIA PTX Memory Consistency Model (ISCA 2022).
"""

CODE = "TTN307"
NAME = "missing-cached-proxy-fence"
