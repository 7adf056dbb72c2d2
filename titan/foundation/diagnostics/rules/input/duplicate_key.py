"""a key given twice in one mapping

## What it means

Two entries of the same mapping have the same key.

## Why it is a fault

YAML demands unique keys. Readers that accept both keep one silently, so the kernel judged would
depend on the reader.

## Example

    rings:
      operands: {buffers: [A], depth: 4}
      operands: {buffers: [B], depth: 4}

## What to do

Remove one entry or rename it; to repeat a statement, make a list.

## Source

YAML 1.2.2, section 3.2.1.1 (mapping keys are unique).
"""

CODE = "TTN004"
NAME = "duplicate-key"
