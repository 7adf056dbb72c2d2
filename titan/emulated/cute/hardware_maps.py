"""Tensor maps in the layout of Hopper and Blackwell, which host code of CuTe DSL writes by itself.

The vendor does not document the layout. What is read here was found by compiling descriptors of
known tensors (CuTe DSL 4.8): 64 bytes of fields, the rest says nothing. A descriptor with a bit
set whose meaning was not found is no map here, so that none is misread.
"""

from __future__ import annotations

import struct

from titan.isa.simt.launch import MAP_BYTES, LaunchTensorMap

ADDRESS_BITS = 57
# In the word of flags: the version, always set, the rank less 1, the type, the swizzle, rounding to
# tf32, whether the tensor has 128 KiB or more.
VERSION, ALWAYS = 0x2, 0x40000
RANK_SHIFT, TYPE_SHIFT, SWIZZLE_SHIFT, TF32_SHIFT = 4, 7, 13, 16
KNOWN_FLAGS = 0x2F | 0x70 | 0x780 | 0x6000 | 1 << TF32_SHIFT | ALWAYS | 0x20_0000
STRIDE_UNIT = 16
RANK_MAX = 5
FLOAT32, TFLOAT32 = 7, 11
# The driver's numbers of the types that were seen.
DRIVER_TYPES = {0: 0, 1: 1, 2: 2, 4: 4, 6: 6, 7: FLOAT32, 9: 8, 10: 9, 11: 13}


def read_map(data: bytes) -> LaunchTensorMap | None:
    """The tiled tensor map in 128 bytes; None where they are none, or say more than is known."""
    if len(data) != MAP_BYTES:
        return None
    words = struct.unpack_from("<16I", data)
    flags, rank = words[2], (words[2] >> RANK_SHIFT & 7) + 1
    if flags & 0xF != VERSION or not flags & ALWAYS or flags & ~KNOWN_FLAGS or rank > RANK_MAX:
        return None
    if words[1] >> (ADDRESS_BITS - 32) or words[13] & 0xFF_FFFF or words[15]:
        return None  # no address; elements are stepped over; more
    kind = DRIVER_TYPES.get(flags >> TYPE_SHIFT & 0xF)
    if flags >> TF32_SHIFT & 1:
        kind = TFLOAT32 if kind == FLOAT32 else None
    if kind is None:
        return None
    strides = tuple(
        STRIDE_UNIT * (words[3 + at] | (words[7] >> 4 * at & 0xF) << 32) for at in range(rank - 1)
    )
    box = (data[55] + 1, *(size + 1 for size in data[56 : 55 + rank]))
    return LaunchTensorMap(
        kind, words[0] | words[1] << 32, tuple(words[8 + at] + 1 for at in range(rank)), strides,
        box, (1,) * rank, 0, flags >> SWIZZLE_SHIFT & 3, 0,
    )  # fmt: skip
