"""Which bytes a matrix descriptor means: operands of wgmma and tcgen05.mma in shared memory.

Source: PTX, "Matrix Descriptor Format", "Canonical Layouts", "Swizzling Modes". The layouts, with
16-byte units, S = width of the swizzle (32, 64, 128 bytes) and R rows along M or N:

- K-major, swizzled: row r at (r mod 8) * S + (r div 8) * SBO, 32 bytes along K;
- K-major, none: rows of 16 bytes in cores of 8; cores SBO apart along M/N, LBO apart along K;
- MN-major, swizzled: S bytes along M/N, then LBO; k at (k mod 8) * S + (k div 8) * SBO;
- MN-major, none: 16 bytes along M/N, then SBO; k at (k mod 8) * 16 + (k div 8) * LBO.

The swizzle exchanges 16-byte units by the address: bits 4.. are xored with bits 7.. .
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from titan.isa.simt.footprints import Box

ROWS = 8
LINE = 128


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """Addresses and distances in bytes; `width` of the swizzle, 16 for none."""

    start: int
    leading: int
    stride: int
    width: int
    base_offset: int


_WGMMA_WIDTH = (16, 128, 64, 32)
_TENSOR_WIDTH = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}


def decode(value: int, *, tensor: bool) -> MatrixDescriptor | None:
    """A descriptor of wgmma, or of tcgen05 (`tensor`); None if its swizzle has no meaning."""
    start = (value & 0x3FFF) << 4
    leading = (value >> 16 & 0x3FFF) << 4
    stride = (value >> 32 & 0x3FFF) << 4
    base = value >> 49 & 7
    if tensor:
        width = _TENSOR_WIDTH.get(value >> 61 & 7)
        if width is None:
            return None
    else:
        width = _WGMMA_WIDTH[value >> 62 & 3]
    return MatrixDescriptor(start, leading, stride, width, base)


def swizzled(address: int, width: int) -> int:
    """The place of a 16-byte unit."""
    mask = width // 16 - 1
    return address ^ ((address >> 7 & mask) << 4)


@lru_cache(maxsize=4096)
def operand(
    descriptor: MatrixDescriptor, extent: int, k_bytes: int, mn_major: bool, element_bits: int
) -> tuple[Box, ...]:
    """The bytes of an operand of `extent` rows (M or N) and `k_bytes` along K.

    `mn_major`: transposed, M or N is contiguous. Boxes are in the shared window of the CTA.
    """
    if mn_major:
        units = _mn_major(descriptor, extent, k_bytes, element_bits)
    else:
        units = _k_major(descriptor, extent, k_bytes)
    return _boxes(_runs(sorted({swizzled(at, descriptor.width) for at in units})))


def _runs(units: list[int]) -> list[tuple[int, int]]:
    """Units of 16 bytes joined within lines of 128 bytes, so that the pattern of the swizzle stays
    visible.
    """
    found: list[tuple[int, int]] = []
    for at in units:
        if found and at == found[-1][1] and at % LINE:
            found[-1] = (found[-1][0], at + 16)
        else:
            found.append((at, at + 16))
    return found


def _k_major(d: MatrixDescriptor, extent: int, k_bytes: int) -> list[int]:
    return [at for row in range(extent) for at in _k_major_row(d, row, k_bytes)]


def _k_major_row(d: MatrixDescriptor, row: int, k_bytes: int) -> list[int]:
    units = range(k_bytes // 16)
    if d.width == 16:
        at = d.start + row % ROWS * 16 + row // ROWS * d.stride
        return [at + unit * d.leading for unit in units]
    at = d.start + row % ROWS * d.width + row // ROWS * d.stride
    return [at + unit * 16 for unit in units]


def _mn_major(d: MatrixDescriptor, extent: int, k_bytes: int, element_bits: int) -> list[int]:
    chunks = range(-(-extent * element_bits // 128))
    return [at for chunk in chunks for at in _mn_major_chunk(d, chunk, k_bytes, element_bits)]


def _mn_major_chunk(
    d: MatrixDescriptor, chunk: int, k_bytes: int, element_bits: int
) -> Iterator[int]:
    """The units with the rows of one 16-byte chunk along M or N."""
    per = d.width // 16
    for k in range(k_bytes * 8 // element_bits):
        if d.width == 16:
            yield d.start + chunk * d.stride + k % ROWS * 16 + k // ROWS * d.leading
        else:
            at = d.start + chunk % per * 16 + chunk // per * d.leading
            yield at + k % ROWS * d.width + k // ROWS * d.stride


@lru_cache(maxsize=1 << 16)
def units_of_row(
    descriptor: MatrixDescriptor, row: int, k_bytes: int, mn_major: bool, element_bits: int
) -> tuple[int, ...]:
    """The 16-byte units that hold one row (M or N) of an operand; see `operand`."""
    if mn_major:
        chunk = row * element_bits // 128
        units = list(_mn_major_chunk(descriptor, chunk, k_bytes, element_bits))
    else:
        units = _k_major_row(descriptor, row, k_bytes)
    return tuple(swizzled(at, descriptor.width) for at in units)


def _boxes(runs: list[tuple[int, int]]) -> tuple[Box, ...]:
    """Runs as few boxes: equal patterns that repeat at one distance are folded."""
    for period in (1, 2, 4, 8):
        if len(runs) % period or len(runs) // period < 3:
            continue
        distance = runs[period][0] - runs[0][0]
        if all(
            runs[i][0] - runs[i - period][0] == distance
            and runs[i][1] - runs[i][0] == runs[i - period][1] - runs[i - period][0]
            for i in range(period, len(runs))
        ):
            count = len(runs) // period
            return tuple(Box(low, high - low, ((count, distance),)) for low, high in runs[:period])
    return tuple(Box(low, high - low) for low, high in runs)
