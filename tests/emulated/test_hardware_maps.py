"""Tensor maps in the layout of the hardware: what CuTe DSL 4.8 wrote of known tensors."""

from __future__ import annotations

import struct

import pytest

from titan.emulated.cute.hardware_maps import read_map
from titan.isa.simt.launch import LaunchTensorMap

BFLOAT16, FLOAT16, FLOAT32, FLOAT64, TFLOAT32, UINT8, UINT64 = 9, 6, 7, 8, 11, 0, 4
PACKED4 = 13  # CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B
# Words of the first 64 bytes (others are 0), and the map: type, extents, strides, box, swizzle.
TYPES = {  # 100 x 50 in boxes of 16 x 8, rows of 128 elements
    UINT8: (0x40012, 0x08), FLOAT16: (0x40312, 0x10), BFLOAT16: (0x40512, 0x10),
    FLOAT32: (0x40392, 0x20), TFLOAT32: (0x50392, 0x20), FLOAT64: (0x40492, 0x40),
    UINT64: (0x40212, 0x40),
}  # fmt: skip
MAPS = {
    "one dimension": (
        {0: 0x1000, 2: 0x40302, 8: 0x40, 13: 0x07000000},
        (FLOAT16, (65,), (), (8,), 0),
    ),
    "five dimensions": (
        {0: 0x1000, 2: 0x240342, 3: 0x247, 4: 0x2468A, 5: 0x2468ACE, 6: 0x2468ACF0,
         8: 0x40, 9: 0x21, 10: 0x12, 11: 0xB, 12: 0x6, 13: 0x07000000, 14: 0x04020103},
        (FLOAT16, (65, 34, 19, 12, 7), (0x2470, 0x2468A0, 0x2468ACE0, 0x2468ACF00),
         (8, 4, 2, 3, 5), 0),
    ),
    "32 bytes swizzled": (
        {0: 0x1000, 2: 0x42312, 3: 0x10, 8: 0x7F, 9: 0x31, 13: 0x0F000000, 14: 7},
        (FLOAT16, (128, 50), (256,), (16, 8), 1),
    ),
    "64 bytes swizzled": (
        {0: 0x1000, 2: 0x44312, 3: 0x10, 8: 0x7F, 9: 0x31, 13: 0x1F000000, 14: 7},
        (FLOAT16, (128, 50), (256,), (32, 8), 2),
    ),
    "128 bytes swizzled": (
        {0: 0x1000, 2: 0x46312, 3: 0x10, 8: 0x7F, 9: 0x31, 13: 0x3F000000, 14: 7},
        (FLOAT16, (128, 50), (256,), (64, 8), 3),
    ),
    "a stride of 2^39 bytes": (
        {0: 0x1000, 2: 0x240322, 3: 8, 7: 0x80, 8: 0x3F, 9: 0x3F, 10: 2, 13: 0x07000000, 14: 3},
        (FLOAT16, (64, 64, 3), (128, 1 << 39), (8, 4, 1), 0),
    ),
    "four bits": (
        {0: 0x1000, 2: 0x465A2, 3: 8, 4: 0x800, 8: 0xFF, 9: 0xFF, 13: 0xFF000000, 14: 0x7F},
        (PACKED4, (256, 256, 1), (128, 0x8000), (256, 128, 1), 3),
    ),
    "large extents": (
        {0: 0x1000, 2: 0x240312, 3: 0x0FFFFFFE, 8: 0x7FFFFFEF, 9: 0x12345677, 13: 0x07000000,
         14: 3},
        (FLOAT16, (0x7FFFFFF0, 0x12345678), (0xFFFFFFE0,), (8, 4), 0),
    ),
    "the largest box, a long address": (
        {0: 0x9ABCDEF0, 1: 0x345678, 2: 0x40312, 3: 8, 8: 0x3F, 9: 0x3F, 13: 0xFF000000, 14: 0xFF},
        (FLOAT16, (64, 64), (128,), (256, 256), 0),
    ),
    **{
        f"type {kind}": (
            {0: 0x1000, 2: flags, 3: stride, 8: 0x63, 9: 0x31, 13: 0x0F000000, 14: 7},
            (kind, (100, 50), (16 * stride,), (16, 8), 0),
        )
        for kind, (flags, stride) in TYPES.items()
    },
}  # fmt: skip


def bytes_of(words: dict[int, int]) -> bytes:
    """What lies behind the fields is what was there before."""
    return struct.pack("<16I", *(words.get(at, 0) for at in range(16))) + b"\x90\xed\x20\x87" * 16


@pytest.mark.parametrize("name", MAPS)
def test_descriptors_of_known_tensors_are_read(name):
    words, (kind, extents, strides, box, swizzle) = MAPS[name]
    base = words[0] | words.get(1, 0) << 32
    steps = (1,) * len(extents)
    wanted = LaunchTensorMap(kind, base, extents, strides, box, steps, 0, swizzle, 0)
    assert read_map(bytes_of(words)) == wanted


def test_what_says_more_than_is_known_is_no_map():
    words, _ = MAPS["five dimensions"]
    for bit in {*range(32)} - {4, 5, 6, 7, 8, 9, 10, 13, 14, 16, 18, 21}:
        assert read_map(bytes_of({**words, 2: words[2] ^ 1 << bit})) is None, bit
    for kind in (3, 5, 8, 12, 13, 14, 15):
        assert read_map(bytes_of({**words, 2: 0x240042 | kind << 7})) is None, kind
    for changed in ({2: 0}, {2: words[2] & ~0x40000}, {13: 0x07000001}, {1: 1 << 31}, {15: 1}):
        assert read_map(bytes_of({**words, **changed})) is None, changed
    assert read_map(bytes_of(words)[:64]) is None
    assert read_map(bytes(128)) is None
