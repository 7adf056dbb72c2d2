"""Operands in shared memory: bytes of matrix descriptors, against the swizzle of each element."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.isa.simt.descriptors import MatrixDescriptor, decode, operand

SWIZZLES = [16, 32, 64, 128]


def bytes_of(boxes) -> set[int]:
    return {b for box in boxes for low, high in box.runs() for b in range(low, high)}


def element(d: MatrixDescriptor, row: int, k: int, size: int, mn_major: bool) -> int:
    """The address of one element by PTX's canonical layouts, in another way: cores of 8 x 16 bytes
    are counted first, then their places.
    """
    if not mn_major:
        core_row, core_k = row // 8, k * size // 16
        inside = row % 8 * max(d.width, 16) + k * size % 16
        if d.width == 16:
            address = d.start + core_row * d.stride + core_k * d.leading + inside
        else:
            address = d.start + core_row * d.stride + core_k * 16 + inside
    else:
        unit, rest = divmod(row * size, 16)
        core_k = k // 8
        if d.width == 16:
            address = d.start + unit * d.stride + core_k * d.leading + k % 8 * 16 + rest
        else:
            block, unit = divmod(unit, d.width // 16)
            address = d.start + block * d.leading + unit * 16 + core_k * d.stride
            address += k % 8 * d.width + rest
    if d.width > 16:
        bits = {32: 1, 64: 3, 128: 7}[d.width]
        address ^= (address // 128 & bits) * 16
    return address


@given(
    st.sampled_from(SWIZZLES), st.sampled_from([8, 16, 64, 128]), st.booleans(),
    st.sampled_from([1, 2, 4]), st.integers(0, 3),
    st.sampled_from([8192, 8192 + 128, 8192 + 640]),  # a base of 128 bytes only, too
)  # fmt: skip
def test_operands_hold_the_bytes_of_their_elements(width, rows, mn_major, size, step, base):
    if mn_major and rows * size % width:
        rows = width // size * max(1, rows * size // width)
    stride, leading = 8 * width, 4096
    if width == 16:
        stride, leading = 256, 128
    d = MatrixDescriptor(base + (0 if mn_major else step * 32 % max(width, 32)), leading, stride,
                         width, 0)  # fmt: skip
    expected = {
        element(d, row, k, size, mn_major) + byte
        for row in range(rows)
        for k in range(32 // size)
        for byte in range(size)
    }
    assert bytes_of(operand(d, rows, 32, mn_major, 8 * size)) == expected


def test_the_common_operand_is_eight_boxes():
    """K-major, 128-byte swizzle: the pattern of eight rows repeats."""
    d = decode(0x4000404000010000 | 1024 >> 4, tensor=False)
    assert d == MatrixDescriptor(1024, 16, 1024, 128, 0)
    boxes = operand(d, 128, 32, False, 16)
    assert len(boxes) == 8
    assert all(box.steps == ((16, 1024),) for box in boxes)


@pytest.mark.parametrize(
    ("field", "width"), [(0, 16), (1, 128), (2, 128), (4, 64), (6, 32), (3, None), (5, None)]
)
def test_swizzles_of_tensor_descriptors(field, width):
    d = decode(field << 61, tensor=True)
    assert (None if d is None else d.width) == width


@pytest.mark.parametrize(("field", "width"), [(0, 16), (1, 128), (2, 64), (3, 32)])
def test_swizzles_of_wgmma_descriptors(field, width):
    d = decode(field << 62, tensor=False)
    assert d is not None
    assert d.width == width
