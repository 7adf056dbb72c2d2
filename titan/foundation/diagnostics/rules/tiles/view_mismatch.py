"""a view that does not fit its tensor

## What it means

A view has one offset for each dimension of its tensor. Loads read inputs, stores write outputs.

## Why it is a fault

The place of the tile in memory is not defined, or results would be read while they are written.

## Example

    - a: {load: "A[m * rows]", tile: [rows, k_tile]}     # A has two dimensions

## What to do

Give one offset a dimension; mark what is written with `output: true`.

## Source

The section on views in docs/reference/tile_language.md.
"""

CODE = "TTN607"
NAME = "view-mismatch"
