"""Which bytes an operation touches, written compactly: boxes of equal runs at regular distances.

A box is a run of `length` bytes at `start`, repeated along `steps` (count, distance in bytes), one
step a dimension. A footprint is a set of boxes of one memory. Footprints are interned by the
machine: operations with the same descriptor share one object, so what is derived from a footprint
can be kept by its identity.

Addresses. Shared memory: offset in the shared window of CTA `cta` (static symbols first, then the
dynamic ones, as `layout.py` places them). Global memory: the address. Tensor memory of CTA `cta`:
`lane * 2048 + column * 4`, that is 128 lanes of 512 columns of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

TENSOR_LANE_BYTES = 2048  # 512 columns of 32 bits
NO_CTA = -1


class MemorySpace(IntEnum):
    """A memory; the numbers are those of the native core."""

    GENERIC = 0
    SHARED = 1
    GLOBAL = 2
    LOCAL = 3
    CONSTANT = 4
    PARAMETER = 5
    TENSOR = 6


class PlacedBytes(NamedTuple):
    """Bytes of an access from an address on: so many at `offset`, of which the first has a multiple
    of `alignment`."""

    space: int
    offset: int
    size_bytes: int
    alignment: int


@dataclass(frozen=True, slots=True)
class Box:
    """`length` bytes at `start`, repeated `count` times every `distance` bytes for each step."""

    start: int
    length: int
    steps: tuple[tuple[int, int], ...] = ()

    def runs(self) -> Iterator[tuple[int, int]]:
        """The half-open byte ranges of the box, in no particular order; may touch each other."""
        starts: Iterable[int] = (self.start,)
        for count, distance in self.steps:
            starts = [at + index * distance for at in starts for index in range(count)]
        return ((at, at + self.length) for at in starts)

    @property
    def size_bytes(self) -> int:
        """`length` times every step's count; bytes that repetitions share count each time."""
        size = self.length
        for count, _ in self.steps:
            size *= count
        return size


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of one memory; `cta` is the owner (linear index in the grid) or NO_CTA.

    Footprints are looked up more often than made: `hashed` is their hash.
    """

    space: MemorySpace
    cta: int
    boxes: tuple[Box, ...]
    hashed: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hashed", hash((self.space, self.cta, self.boxes)))

    def __hash__(self) -> int:
        return self.hashed

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Sorted, disjoint, merged half-open byte ranges."""
        return merged(run for box in self.boxes for run in box.runs())

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest half-open range that holds the footprint; (0, 0) if it is empty."""
        lowest = highest = None
        for box in self.boxes:
            low, high = box.start, box.start + box.length
            for count, distance in box.steps:
                low += min(0, (count - 1) * distance)
                high += max(0, (count - 1) * distance)
            lowest = low if lowest is None else min(lowest, low)
            highest = high if highest is None else max(highest, high)
        return (0, 0) if lowest is None or highest is None else (lowest, highest)

    def may_meet(self, other: Footprint) -> bool:
        """Whether the bounds of both, in one memory, have common bytes."""
        (low, high), (start, end) = self.bounds, other.bounds
        return (self.space, self.cta) == (other.space, other.cta) and low < end and start < high


def merged(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Half-open ranges sorted and joined where they touch or overlap; empty ones are dropped."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if low >= high:
            continue
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def of_ranges(space: MemorySpace, cta: int, runs: Iterable[tuple[int, int]]) -> Footprint:
    """The footprint of plain byte ranges; equal runs at equal distances become one box."""
    ranges = merged(runs)
    boxes: list[Box] = []
    index = 0
    while index < len(ranges):
        low, high = ranges[index]
        length, count, distance = high - low, 1, 0
        while index + count < len(ranges):
            following = ranges[index + count]
            step = following[0] - ranges[index + count - 1][0]
            if following[1] - following[0] != length or (count > 1 and step != distance):
                break
            distance, count = step, count + 1
        if count == 2:  # two runs are no pattern
            count = 1
        boxes.append(Box(low, length, ((count, distance),) if count > 1 else ()))
        index += count
    return Footprint(space, cta, tuple(boxes))


def tensor_box(cta: int, lane: int, lanes: int, column: int, columns: int) -> Footprint:
    """A rectangle of tensor memory of CTA `cta`; columns are of 32 bits."""
    start = lane * TENSOR_LANE_BYTES + column * 4
    return Footprint(
        MemorySpace.TENSOR, cta, (Box(start, columns * 4, ((lanes, TENSOR_LANE_BYTES),)),)
    )
