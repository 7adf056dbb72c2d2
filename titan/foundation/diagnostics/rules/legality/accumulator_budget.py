"""accumulators that need all registers of their role

## What it means

One matrix instruction accumulates in as many registers a thread as its role has, or more.

## Why it is a fault

The accumulators of wgmma are registers; addresses and counters need some as well. The assembler
spills or fails.

## Example

    roles:
      consumer: {warpgroups: 2, registers: 96}
    matrix_instructions:
      scores: {kind: wgmma, shape: [64, 256, 16], a: bf16, accumulator: f32, role: consumer}   # 128

## What to do

Use a narrower instruction, or give the role more registers.

## Source

PTX ISA, wgmma.mma_async: accumulator fragments, M N / 128 registers of 32 bits a thread.
"""

CODE = "TTN424"
NAME = "accumulator-budget"
