"""an access whose address or descriptor has no meaning

## What it means

An address is not aligned as the instruction requires, lies in a window that the instruction cannot
use, or a matrix or instruction descriptor encodes nothing. A box that a tensor copy stores begins
at a negative coordinate: only a box that is loaded may.

## Why it is a fault

The behaviour is undefined, and in practice a trap or wrong data.

## Example

    cp.async.bulk.tensor.2d ... [%r1], ...     // %r1 is not a multiple of 128

## What to do

Correct the address or the descriptor; the message names the alignment.

## Source

PTX ISA, alignment and descriptors of each instruction. CUDA programming guide, tensor copies: the
corner of a tile that is written has no negative indices.
"""

CODE = "TTN219"
NAME = "malformed-access"
