"""waits whose tokens go backwards

## What it means

A wait names an operation that was issued before one already waited for in the same class.

## Why it is a fault

On counter targets a wait retires the oldest operations first; a wait for an older one is already
fulfilled, so the program's order of waits contradicts what it means to say. Almost always an index
is off by one.

## Example

    - {drain: group, leaving: 1}
    - {drain: group, leaving: 3}       # what this waits for is long done

## What to do

Wait in the order of issue, and check the index of the later wait.

## Source

CDNA3 ISA, section 4.4: vmcnt decrements in the order of issue.
"""

CODE = "TTN402"
NAME = "non-monotone-wait"
