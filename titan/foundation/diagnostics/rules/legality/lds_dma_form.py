"""a direct-to-LDS load that the target does not have

## What it means

A lane is to copy a number of bytes for which there is no instruction, or a piece of LDS does not
begin where M0 can point, or is not a whole number of what the lanes fill.

## Why it is a fault

The address in LDS is M0 plus the lane times the width; there is no per-lane address. The assembler
refuses other widths.

## Example

    target: gfx942
    buffers:
      A: {stages: 2, bytes: 8192, lane_bytes: 16}      # gfx950 has 16

## What to do

Use 4 bytes a lane, or a target with wider loads; do padding and swizzle on the global side.

## Source

CDNA3 ISA, section 10.3; CDNA4 ISA, section 9.1.9: LDS address from M0.
"""

CODE = "TTN422"
NAME = "lds-dma-form"
