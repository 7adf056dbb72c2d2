"""Fragments of matrices in the registers of a warp, and operands of wgmma in shared memory.

Sources: PTX, "Matrix Fragments for mma.m16n8k*" and "Register Fragments and Shared Memory Matrix
Layouts" of wgmma. An opaque element has no bits; results that depend on one are opaque.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from titan.isa.numbers.formats import (
    F16,
    F32,
    FORMATS,
    INTEGERS,
    S32,
    TF32,
    FloatFormat,
    IntegerFormat,
)
from titan.isa.numbers.sums import multiply, rule_of
from titan.isa.ptx.module import Immediate, Instruction
from titan.isa.simt.descriptors import MatrixDescriptor
from titan.isa.simt.memory import KNOWN, Bytes
from titan.isa.simt.values import Opaque, Scalar, Value, lane, opaque_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bits = NDArray[np.int64]

UNKNOWN_BITS = -1  # of an element in an array of bits
LANES = 32


Format = FloatFormat | IntegerFormat


def format_of(word: str) -> Format | None:
    """The format of an operand type word."""
    return TF32 if word == "tf32" else FORMATS.get(word) or INTEGERS.get(word)


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """What a matrix instruction multiplies; extents in elements. `saturates`: sums of integers
    that leave the range of the result are its limit, else they wrap.
    """

    rows: int
    columns: int
    depth: int
    a: Format
    b: Format
    result: Format
    negate_a: bool = False
    negate_b: bool = False
    saturates: bool = False


_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "f32", *INTEGERS)


def product_of(instruction: Instruction) -> MatrixProduct | None:
    """Shape and types of mma.sync and wgmma.mma_async; None where they are not computed."""
    words = instruction.modifiers
    shape = re.search(r"m(\d+)n(\d+)k(\d+)", instruction.name)
    if (
        shape is None
        or "sp" in words
        or any(w.startswith(("sp:", "block_scale", "kind")) for w in words)
    ):
        return None
    after = words[words.index(next(w for w in words if shape.group(0) in w)) + 1 :]
    types = [word for word in after if word in _TYPES]
    rows, columns, depth = (int(text) for text in shape.groups())
    if instruction.opcode == "wgmma":
        if len(types) != 3:
            return None
        scales = [item.value for item in instruction.operands[4:] if isinstance(item, Immediate)]
        signs = [*scales, 1, 1][:2]
    else:
        if len(types) != 4 or (rows, columns) != (16, 8):
            return None
        types = [types[0], types[1], types[2]]
        signs = [1, 1]
    result, a, b = (format_of(word) for word in types[:3])
    whole = [isinstance(item, IntegerFormat) for item in (result, a, b)]
    if result not in (F16, F32, S32) or a is None or b is None or len(set(whole)) > 1:
        return None
    return MatrixProduct(
        rows, columns, depth, a, b, result, signs[0] < 0, signs[1] < 0, "satfinite" in words
    )


def compute(product: MatrixProduct, a: Bits, b: Bits, c: Bits) -> Bits:
    """Bits of the result; UNKNOWN_BITS where an element that it depends on is unknown.

    `a` is of shape (rows, depth), `b` of (columns, depth), `c` of (rows, columns).
    """
    import numpy as np

    a_known, b_known = (a != UNKNOWN_BITS).all(axis=1), (b != UNKNOWN_BITS).all(axis=1)
    known = a_known[:, None] & b_known[None, :] & (c != UNKNOWN_BITS)
    if isinstance(product.a, IntegerFormat) and isinstance(product.b, IntegerFormat):
        return np.where(known, _integer_sums(product, a, b, c), UNKNOWN_BITS)
    assert isinstance(product.a, FloatFormat) and isinstance(product.b, FloatFormat)
    assert isinstance(product.result, FloatFormat)
    left, right = (_operand(np.where(x == UNKNOWN_BITS, 0, x), form)
                   for x, form in ((a, product.a), (b, product.b)))  # fmt: skip
    if product.negate_a:
        left = left ^ 1 << (product.a.bits - 1)
    if product.negate_b:
        right = right ^ 1 << (product.b.bits - 1)
    found = multiply(
        left, right, np.where(c == UNKNOWN_BITS, 0, c), product.a, product.b, product.result,
        rule_of(product.a),
    )  # fmt: skip
    return np.where(known, found, UNKNOWN_BITS)


def _integer_sums(product: MatrixProduct, a: Bits, b: Bits, c: Bits) -> Bits:
    """Exact sums of integers, cut to 32 bits or to the nearest number of 32 bits."""
    left, right, before = (
        _signed(bits, form) for bits, form in ((a, product.a), (b, product.b), (c, product.result))
    )
    total: Bits = left @ right.T + before
    if product.saturates:
        total = total.clip(-(1 << 31), (1 << 31) - 1)
    return total & 0xFFFFFFFF


def _signed(bits: Bits, form: Format) -> Bits:
    half = 1 << (form.bits - 1)
    is_signed = isinstance(form, IntegerFormat) and form.signed
    return (bits + half) % (2 * half) - half if is_signed else bits


def _operand(bits: Bits, form: FloatFormat) -> Bits:
    """tf32 stands in 32 bits, of which the low 13 are dropped."""
    return bits >> 13 if form is TF32 else bits


def stored_bits(form: Format) -> int:
    """Bits of an element in a register or in shared memory."""
    return 32 if form is TF32 else form.bits


# ------------------------------------------------------------------------------- registers


def zeros(shape: tuple[int, int]) -> Bits:
    """A matrix of zeros, as bits."""
    import numpy as np

    return np.zeros(shape, dtype=np.int64)


def gather(values: list[Value], place: Callable[[int, int, int], tuple[int, int]],
           shape: tuple[int, int], bits: int) -> Bits:  # fmt: skip
    """A matrix out of registers: `place(lane, register, element)` is (row, column)."""
    import numpy as np

    found = np.full(shape, UNKNOWN_BITS, dtype=np.int64)
    mask = (1 << bits) - 1
    for number, value in enumerate(values):
        for index in range(LANES):
            item = lane(value, index)
            if isinstance(item, Opaque):
                continue
            for element in range(32 // bits):
                found[place(index, number, element)] = item >> bits * element & mask
    return found


def scatter(matrix: Bits, place: Callable[[int, int, int], tuple[int, int]], registers: int,
            bits: int, site: int) -> list[Value]:  # fmt: skip
    """The registers of a warp that hold a matrix."""
    found: list[Value] = []
    for number in range(registers):
        lanes: list[Scalar] = []
        for index in range(LANES):
            parts = [int(matrix[place(index, number, e)]) for e in range(32 // bits)]
            if any(part == UNKNOWN_BITS for part in parts):
                lanes.append(opaque_at(site))
            else:
                lanes.append(sum(part << bits * e for e, part in enumerate(parts)))
        found.append(lanes)
    return found


def a_place(bits: int) -> Callable[[int, int, int], tuple[int, int]]:
    """A of 16 rows: registers by rows of 8, then by halves of K."""
    per = 32 // bits

    def place(index: int, register: int, element: int) -> tuple[int, int]:
        row = index // 4 + 8 * (register & 1)
        return row, index % 4 * per + element + 4 * per * (register >> 1)

    return place


def b_place(bits: int) -> Callable[[int, int, int], tuple[int, int]]:
    """B of 8 columns as (column, k)."""
    per = 32 // bits

    def place(index: int, register: int, element: int) -> tuple[int, int]:
        return index // 4, index % 4 * per + element + 4 * per * register

    return place


def d_place(bits: int) -> Callable[[int, int, int], tuple[int, int]]:
    """C and D of 16 rows and any number of columns: pairs of columns, then rows of 8."""

    def place(index: int, register: int, element: int) -> tuple[int, int]:
        number = register if bits == 32 else 2 * register + element
        row = index // 4 + 8 * (number >> 1 & 1)
        return row, number >> 2 << 3 | index % 4 << 1 | number & 1

    return place


def matrix_place(index: int, _: int, element: int) -> tuple[int, int]:
    """An 8 x 8 matrix of 16-bit elements as ldmatrix gives it."""
    return index // 4, index % 4 * 2 + element


# --------------------------------------------------------------------------- shared memory


def operand(
    shared: Bytes, descriptor: MatrixDescriptor, extent: int, depth: int, form: Format, *,
    mn_major: bool, first: int = 0,
) -> Bits:  # fmt: skip
    """An operand of wgmma as (extent, depth), rows from `first` on."""
    import numpy as np

    size = stored_bits(form) // 8
    at = _addresses(descriptor, first, extent, depth, size, mn_major)
    if at.min() < 0 or at.max() > shared.size - size:
        return np.full((extent, depth), UNKNOWN_BITS, dtype=np.int64)
    data = np.frombuffer(shared.data, dtype=np.uint8)
    state = np.frombuffer(shared.state, dtype=np.uint8)
    found = np.zeros((extent, depth), dtype=np.int64)
    known = np.ones((extent, depth), dtype=bool)
    for byte in range(size):
        found |= data[at + byte].astype(np.int64) << 8 * byte
        known &= state[at + byte] == KNOWN
    return np.where(known, found, UNKNOWN_BITS)


@lru_cache(maxsize=1024)
def _addresses(
    d: MatrixDescriptor, first: int, extent: int, depth: int, size: int, mn_major: bool
) -> Bits:
    """Where element (row, k) lies; the arrangement is that of `titan.isa.simt.descriptors`."""
    import numpy as np

    row, k = np.meshgrid(np.arange(first, first + extent), np.arange(depth), indexing="ij")
    along = (row if mn_major else k) * size
    unit, byte = along // 16, along % 16
    if not mn_major:
        if d.width == 16:
            at = d.start + row % 8 * 16 + row // 8 * d.stride + unit * d.leading
        else:
            at = d.start + row % 8 * d.width + row // 8 * d.stride + unit * 16
    elif d.width == 16:
        at = d.start + unit * d.stride + k % 8 * 16 + k // 8 * d.leading
    else:
        per = d.width // 16
        at = d.start + unit % per * 16 + unit // per * d.leading
        at += k % 8 * d.width + k // 8 * d.stride
    mask = d.width // 16 - 1
    return (at ^ ((at >> 7 & mask) << 4)) + byte
