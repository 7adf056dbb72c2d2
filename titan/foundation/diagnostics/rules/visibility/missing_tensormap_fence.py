"""a tensor map changed and used without its fence

## What it means

A tensor map in memory is modified, and a copy uses it without the tensormap proxy fence pair in
between.

## Why it is a fault

The tensormap proxy caches the map; the copy may use the old one, with old addresses and bounds.

## Example

    - store: map = 1                   # tensormap.replace
    - bulk_load: A[0] = 1              # no tensormap fences between
      descriptor: map
      completes: full[0]

## What to do

Release by `fence: tensormap_release` where it is written (in PTX
`fence.proxy.tensormap::generic.release` or `tensormap.cp_fenceproxy`), acquire by
`fence: tensormap_acquire` before the copy (in PTX the 128-byte form).

## Source

PTX ISA, tensormap.replace, tensormap.cp_fenceproxy, and fence.proxy.tensormap.
"""

CODE = "TTN304"
NAME = "missing-tensormap-fence"
