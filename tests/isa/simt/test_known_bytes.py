"""Known bytes of two writes, against a table of every byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from titan.isa.simt.footprints import Footprint, MemorySpace, of_ranges
from titan.isa.simt.known_bytes import leave_the_same

PLACES = st.dictionaries(st.integers(0, 24), st.integers(0, 1), min_size=1, max_size=16)


def write(table: dict[int, int]) -> tuple[bytes, Footprint]:
    places = sorted(table)
    footprint = of_ranges(MemorySpace.GLOBAL, 0, [(place, place + 1) for place in places])
    return bytes(table[place] for place in places), footprint


@given(PLACES, PLACES)
def test_two_writes_leave_the_same_where_their_common_bytes_are_equal(
    one: dict[int, int], other: dict[int, int]
) -> None:
    same = all(one[place] == other[place] for place in one.keys() & other.keys())
    assert leave_the_same(*write(one), *write(other)) is same


def test_nothing_is_the_same_as_what_is_not_known() -> None:
    data, footprint = write({0: 1, 1: 2})
    assert leave_the_same(data, footprint, data, footprint)
    assert not leave_the_same(None, footprint, None, footprint)
    assert not leave_the_same(data, footprint, None, footprint)
    assert not leave_the_same(data[:1], footprint, data, write({1: 2})[1])
