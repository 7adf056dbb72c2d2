"""Layouts judged by their addresses alone: every byte is placed, swizzled and looked at.

Nothing is shared with the rules. A copy is legal when, enumerated,

- each box of each stage starts on a line of 128 bytes, and the swizzle, which acts on absolute
  address bits, moves the bytes of a stage as it moves those of a stage at address 0 (this is what
  the readers' descriptors, which have no base offset, rely on) (TTN408);
- the rows of a box start and end on atoms of 16 bytes and no row leaves the span of its swizzle,
  no extent is beyond 256, and no byte falls behind its stage (TTN411);
- all rows of the tensor in global memory start at multiples of 16 bytes (TTN410);
- no byte belongs to two stages (TTN413), and none lies beyond the memory of a CTA (TTN407).

The address map is phys = a ^ (((a >> 7) & mask) << 4) with masks 1, 3, 7: 16-byte atoms permuted by
the number of the 128-byte line (PTX ISA, swizzling modes).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

MASK = {"none": 0, "32B": 1, "64B": 3, "128B": 7}
SPAN = {"none": 1 << 30, "32B": 32, "64B": 64, "128B": 128}
LINE, ATOM, EXTENT_MAX, MEMORY = 128, 16, 256, 232_448


@dataclass(frozen=True)
class Copy:
    """A buffer of `stages`, each filled by boxes of one tensor map, in bytes and elements."""

    base: int
    stages: int
    stride: int
    size: int
    swizzle: str
    element_bytes: int
    box: tuple[int, ...]
    steps: tuple[int, ...]
    tensor: tuple[int, ...]
    tensor_base: int
    tensor_strides: tuple[int, ...]

    def rows(self) -> list[int]:
        """The offset of each row of one box in shared memory: rows follow each other densely."""
        row = self.box[0] * self.element_bytes
        taken = [
            range(0, extent, step)
            for extent, step in zip(self.box[1:], self.steps[1:], strict=True)
        ]
        return [number * row for number, _ in enumerate(product(*taken))]


def swizzled(address: np.ndarray, mode: str) -> np.ndarray:
    return address ^ (((address >> 7) & MASK[mode]) << 4)


def wrong(copy: Copy) -> set[str]:
    """The codes of what is wrong with a layout."""
    found = set()
    row, rows = copy.box[0] * copy.element_bytes, copy.rows()
    box = len(rows) * row
    if _stages_are_misplaced(copy, box):
        found.add("TTN408")
    ends = [offset for start in rows for offset in (start, start + row)]
    if any(offset % ATOM for offset in ends) or row > SPAN[copy.swizzle]:
        found.add("TTN411")
    if any(not 1 <= extent <= EXTENT_MAX for extent in copy.box) or box > copy.size:
        found.add("TTN411")
    if _rows_in_global_memory_are_misplaced(copy):
        found.add("TTN410")
    owners = np.zeros(copy.base + copy.stages * max(copy.stride, copy.size) + copy.size, np.int8)
    for stage in range(copy.stages):
        start = copy.base + stage * copy.stride
        owners[start : start + copy.size] += 1
    if owners.max() > 1:
        found.add("TTN413")
    if np.flatnonzero(owners)[-1] >= MEMORY:
        found.add("TTN407")
    return found


def _stages_are_misplaced(copy: Copy, box: int) -> bool:
    offsets = np.arange(copy.size)
    boxes = range(0, copy.size, box) if box and copy.size % box == 0 else (0,)
    for stage in range(copy.stages):
        start = copy.base + stage * copy.stride
        if any((start + offset) % LINE for offset in boxes):
            return True
        moved = swizzled(start + offsets, copy.swizzle) - start
        if not np.array_equal(moved, swizzled(offsets, copy.swizzle)):
            return True
    return False


def _rows_in_global_memory_are_misplaced(copy: Copy) -> bool:
    """The first two rows in each direction show every stride."""
    numbers = [range(min(extent, 2)) for extent in copy.tensor[1:]]
    for position in product(*numbers):
        steps = zip(position, copy.tensor_strides, strict=True)
        if (copy.tensor_base + sum(number * stride for number, stride in steps)) % ATOM:
            return True
    return False


def bytes_written(copy: Copy, stage: int) -> np.ndarray:
    """The physical addresses of all bytes of a stage."""
    start = copy.base + stage * copy.stride
    return swizzled(start + np.arange(copy.size), copy.swizzle)
