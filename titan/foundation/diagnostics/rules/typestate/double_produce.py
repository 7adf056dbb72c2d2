"""a stage filled twice in one epoch

## What it means

Two `produce` statements fill the same stage in the same epoch on one path.

## Why it is a fault

The slot is used up by the first. The second adds bytes and arrivals that the phase does not expect,
and its data races with the first copy or with the readers.

## Example

    - acquire: operands[t]
    - produce: operands[t]
    - produce: operands[t]

## What to do

Produce once an epoch; several buffers of one stage belong to one `produce` with the sum of their
bytes.

## Source

The slot is an affine resource: used at most once.
"""

CODE = "TTN102"
NAME = "double-produce"
