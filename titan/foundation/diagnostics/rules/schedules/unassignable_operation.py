"""no warp group can run an operation

## What it means

Each group has fewer warps than the operation needs, or only the group for variable latency is wide
enough while the operation has none, or the other way round.

## Why it is a fault

The operation cannot be assigned to any warp, so that no schedule exists.

## Example

    warps: {consumer: {warps: 4}}
    operations:
      product: {uses: {TC: 512}, warps: 8}

## What to do

Widen a group under `warps`, or say `variable_latency` where it belongs.

## Source

The model of loops in docs/reference/schedule.md.
"""

CODE = "TTN517"
NAME = "unassignable-operation"
