"""a fence that lowering would add

## What it means

The file says that it models existing code (it names its `source`, or `--as-written`), and lowering
would add a proxy fence that the program does not have.

## Why it is a fault

The verdict would be about the program with the fence. The kernel that is modelled does not have
it, so a race between proxies would not be seen.

## Example

    source: kernel.cu
    program:
      reader:
        - wait: r[t]
        - read: r[t]
        - release: r[t]

## What to do

Write `fence: async` where the kernel has it. Where it has none, the kernel is what is at fault.
Leave `source` away for a kernel that is yet to be written, or verify it with `--as-designed`.

## Source

PTX ISA, async proxy: accesses through different proxies need a proxy fence.
"""

CODE = "TTN430"
NAME = "fence-added"
