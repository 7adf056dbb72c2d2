"""Cutting bytes into regions, compared with a plain computation byte by byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from titan.frontends.ptx.regions import partition
from titan.isa.simt.footprints import Footprint, MemorySpace, of_ranges

RUNS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=4)


def footprint(runs: list[tuple[int, int]], cta: int = 0) -> Footprint:
    return of_ranges(MemorySpace.SHARED, cta, [(low, low + length) for low, length in runs])


def bytes_of(item: Footprint) -> frozenset[int]:
    return frozenset(at for low, high in item.ranges() for at in range(low, high))


@settings(deadline=None)
@given(st.lists(RUNS, min_size=1, max_size=6))
def test_pieces_are_the_sets_of_bytes_that_no_footprint_tells_apart(lists):
    footprints = [footprint(runs) for runs in lists]
    held = [bytes_of(item) for item in footprints]
    expected: dict[frozenset[int], set[int]] = {}
    for at in frozenset().union(*held):
        signature = frozenset(number for number, them in enumerate(held) if at in them)
        expected.setdefault(signature, set()).add(at)
    result = partition(footprints)
    assert len(result.regions) == len(expected)
    for index, item in enumerate(footprints):
        sizes = sorted(result.regions[number].size_bytes for number in result.of[item])
        wanted = sorted(len(them) for sign, them in expected.items() if index in sign)
        assert sizes == wanted
    for signature, them in expected.items():
        common = set.intersection(*(set(result.of[footprints[n]]) for n in signature))
        others = [set(result.of[item]) for n, item in enumerate(footprints) if n not in signature]
        region = next(n for n in common if not any(n in other for other in others))
        assert result.regions[region].low == min(them)
        assert result.regions[region].whole == (max(them) - min(them) + 1 == len(them))


def test_memories_are_kept_apart():
    here, there = footprint([(0, 8)], 0), footprint([(0, 8)], 1)
    result = partition([here, there, here])
    assert len(result.regions) == 2
    assert set(result.of[here]).isdisjoint(result.of[there])
