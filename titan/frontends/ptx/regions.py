"""The bytes of a run, divided into regions that no footprint distinguishes.

Two bytes are of one region if every footprint of the run holds both or neither. A region need not
be contiguous: what a warp stores with one instruction, spread over a swizzled tile, is one region
as long as nothing else touches a part of it. Operations that conflict in some byte conflict in a
region and the other way round, so races and fences decided on regions are decided on bytes.

Sets of footprints are compared by 128-bit random marks. Should two sets get the same mark, their
bytes are taken for one region; that can only add conflicts, never hide one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from titan.isa.simt.footprints import Footprint, MemorySpace

MARK_BITS = 128
MemoryOf = tuple[MemorySpace, int]  # the space and the CTA that owns it


@dataclass(frozen=True, slots=True)
class ByteRegion:
    """A set of bytes of one memory: `low` is its first byte, `size_bytes` counts them all; `runs`
    are their half-open ranges, in order."""

    memory: MemoryOf
    number: int
    low: int
    size_bytes: int
    whole: bool  # contiguous
    runs: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """`shared+1024..2047`; a region with gaps by its first byte and its size."""
        space, _ = self.memory
        text = space.name.lower()
        if self.whole:
            return f"{text}+{self.low:#x}..{self.low + self.size_bytes - 1:#x}"
        return f"{text}+{self.low:#x} and more, {self.size_bytes} bytes"


@dataclass(slots=True)
class RegionMap:
    """The regions of all memories of a run, and those of each footprint."""

    regions: list[ByteRegion] = field(default_factory=list)
    of: dict[Footprint, tuple[int, ...]] = field(default_factory=dict)


def partition(footprints: Iterable[Footprint]) -> RegionMap:
    """The coarsest regions for these footprints."""
    result = RegionMap()
    by_memory: dict[MemoryOf, list[Footprint]] = {}
    for footprint in dict.fromkeys(footprints):
        by_memory.setdefault((footprint.space, footprint.cta), []).append(footprint)
    random = Random(2)
    for memory, members in sorted(by_memory.items()):
        _cut_memory(result, memory, members, random)
    return result


def _cut_memory(
    result: RegionMap, memory: MemoryOf, footprints: list[Footprint], random: Random
) -> None:
    ranges = [footprint.ranges() for footprint in footprints]
    marks: dict[int, int] = {}
    for runs in ranges:
        mark = random.getrandbits(MARK_BITS) | 1
        for low, high in runs:
            marks[low] = marks.get(low, 0) ^ mark
            marks[high] = marks.get(high, 0) ^ mark
    points = sorted(marks)
    numbers: dict[int, int] = {}
    places: list[int] = []  # for each interval its region; -1 outside of all
    sizes: list[list[int]] = []  # first byte, bytes, end of the last interval, contiguous
    held_by: list[list[tuple[int, int]]] = []  # the intervals of a region
    current = 0
    for index, point in enumerate(points):
        current ^= marks[point]
        if current == 0 or index + 1 == len(points):
            places.append(-1)
            continue
        high = points[index + 1]
        number = numbers.setdefault(current, len(numbers))
        places.append(number)
        if number == len(sizes):
            sizes.append([point, high - point, high, 1])
            held_by.append([(point, high)])
        else:
            entry = sizes[number]
            entry[3] &= int(entry[2] == point)
            entry[1] += high - point
            entry[2] = high
            held_by[number].append((point, high))
    first = len(result.regions)
    result.regions += [
        ByteRegion(memory, first + number, low, size, bool(whole), tuple(runs))
        for number, ((low, size, _, whole), runs) in enumerate(zip(sizes, held_by, strict=True))
    ]
    at = {point: index for index, point in enumerate(points)}
    for footprint, runs in zip(footprints, ranges, strict=True):
        held: dict[int, None] = {}
        for low, high in runs:
            if at[high] == at[low] + 1:
                held[places[at[low]]] = None
            else:
                held.update(dict.fromkeys(places[at[low] : at[high]]))
        result.of[footprint] = tuple(first + number for number in held)
