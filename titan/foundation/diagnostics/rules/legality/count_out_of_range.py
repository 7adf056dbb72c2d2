"""a barrier or transaction count out of range

## What it means

A barrier is initialised with a count outside 1 to 1048575, one `mbarrier.arrive` brings a count
outside of it, or bytes beyond 1048575 are expected in one phase. In PTX, too: a named barrier
(`bar`) is to wait for a number of threads that is not a multiple of 32, or an arrival there has a
count of 0.

## Why it is a fault

The assembler accepts such numbers without a word; the object has 20 bits for each.

## Example

    barriers:
      full: {count: 0}

## What to do

Correct the count. Split a phase that expects more bytes than fit.

## Source

PTX ISA, mbarrier: valid ranges; ptxas does not check immediates.
"""

CODE = "TTN404"
NAME = "count-out-of-range"
