"""more CTAs in a cluster than the target takes

## What it means

The cluster has more CTAs than the target can start together, or the target has no clusters.

## Why it is a fault

The launch fails.

## Example

    target: sm_80
    ctas: 2

## What to do

Use a smaller cluster, or a target of compute capability 9.0.

## Source

CUDA programming guide: 8 CTAs a cluster are portable, 16 with an attribute.
"""

CODE = "TTN419"
NAME = "cluster-size"
