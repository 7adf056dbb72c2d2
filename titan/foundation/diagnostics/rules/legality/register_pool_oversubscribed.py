"""more registers asked for than the CTA has

## What it means

The registers of all warpgroups together exceed what the CTA is launched with.

## Why it is a fault

The last increase waits for registers that no warpgroup will release.

## Example

    roles:
      producer: {warpgroups: 1, registers: 40}
      consumer: {warpgroups: 2, registers: 240}    # 40 + 2 * 240 = 520 > 3 * 168

## What to do

Lower the numbers (in steps of 8) until the sum is within warpgroups times the registers at entry.

## Source

PTX ISA, setmaxnreg; 65536 registers a CTA, at entry divided evenly and rounded down to 8.
"""

CODE = "TTN406"
NAME = "register-pool-oversubscribed"
