"""The bytes that writes with known values leave: of a part of what one writes, and where two meet.

The value of a write is its bytes in the order of their addresses, each address once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from titan.isa.simt.footprints import Footprint

Range = tuple[int, int]


def part_of(data: bytes, ranges: Sequence[Range], part: Iterable[Range]) -> bytes:
    """The bytes of a part, of data that lie in ranges one after the other."""
    found, at = {}, 0
    for low, high in ranges:
        found[low] = at, high
        at += high - low
    starts = sorted(found)
    cut = []
    for low, high in part:
        start = starts[bisect_right(starts, low) - 1]
        at = found[start][0] + low - start
        cut.append(data[at : at + high - low])
    return b"".join(cut)


def leave_the_same(one: bytes | None, at: Footprint, other: bytes | None, place: Footprint) -> bool:
    """Whether two writes are known to leave the same in all bytes that both write."""
    if one is None or other is None:
        return False
    if at == place:
        return one == other
    ranges, others = at.ranges(), place.ranges()
    if len(one) != _bytes_in(ranges) or len(other) != _bytes_in(others):
        return False
    common = list(_common(ranges, others))
    return part_of(one, ranges, common) == part_of(other, others, common)


def _bytes_in(ranges: Iterable[Range]) -> int:
    return sum(high - low for low, high in ranges)


def _common(ranges: Sequence[Range], others: Sequence[Range]) -> Iterable[Range]:
    """The bytes of both, sorted and disjoint as they are."""
    here, there = 0, 0
    while here < len(ranges) and there < len(others):
        (low, high), (start, end) = ranges[here], others[there]
        if max(low, start) < min(high, end):
            yield max(low, start), min(high, end)
        if high < end:
            here += 1
        else:
            there += 1
