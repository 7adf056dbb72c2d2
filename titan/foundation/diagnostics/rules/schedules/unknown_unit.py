"""an operation uses a unit that the machine lacks

## What it means

`uses` names a functional unit that neither the target machine nor the key `units` of the loop
declares.

## Why it is a fault

The time on a unit that does not exist cannot be reserved.

## Example

    target: sm_90a
    operations:
      product: {uses: {TX: 512}}

## What to do

Use a unit of the machine (`backends/TARGET/machine.yaml`), or declare it under `units`.

## Source

The model of loops in docs/reference/schedule.md.
"""

CODE = "TTN513"
NAME = "unknown-unit"
