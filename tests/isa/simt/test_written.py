"""What is looked up for each access: the same as comparing all, without going through all."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from titan.isa.simt.footprints import MemorySpace, of_ranges
from titan.isa.simt.tracing.real_values import PRIME, RealValues
from titan.isa.simt.tracing.traced_memory import ValueNumbers
from titan.isa.simt.written import WrittenRanges

RANGES = 2000


class CountedEnd(int):
    """The end of a range, which counts how often it is compared."""

    compared = 0

    def __gt__(self, other):
        CountedEnd.compared += 1
        return int(self) > other


@dataclass(frozen=True)
class CountedRange:
    """A write of some bytes."""

    low: int
    high: int

    def ranges(self):
        """One range."""
        return [(self.low, CountedEnd(self.high))]


def shared(low, high):
    """Some bytes of shared memory."""
    return of_ranges(MemorySpace.SHARED, 0, ((low, high),))


@pytest.mark.parametrize("seed", range(40))
def test_the_same_as_comparing_all(seed):
    draw = random.Random(seed)
    longest = draw.choice([3, 20, 200])
    ranges = []
    for _ in range(draw.randint(0, 40)):
        low = draw.randrange(200)
        ranges.append((low, low + draw.randint(1, longest)))
    written = WrittenRanges((shared(*item), number) for number, item in enumerate(ranges))
    for _ in range(40):
        low = draw.randrange(220)
        high = low + draw.randint(1, 30)
        expected = [n for n, (start, end) in enumerate(ranges) if start < high and end > low]
        assert sorted(written.meeting(shared(low, high))) == expected


def test_rows_under_a_whole_tile_are_not_walked_for_each_access():
    """A tile that is stored whole, over rows that are stored one by one."""
    rows = [(CountedRange(row * 16, row * 16 + 8), row) for row in range(RANGES)]
    written = WrittenRanges([(CountedRange(0, RANGES * 16), -1), *rows])
    CountedEnd.compared = 0
    for row in range(RANGES):
        access = shared(row * 16 + 8, row * 16 + 16)
        assert list(written.meeting(access)) == [-1]
    assert CountedEnd.compared <= 8 * RANGES


class CountedNumbers(dict):
    """The numbers of values, which count how many entries are looked through."""

    seen = 0

    def items(self):
        """The entries."""
        return CountedEntries(self)


class CountedEntries:
    """The entries of such numbers, in either order."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __iter__(self):
        return self._counted(iter(dict.items(self.numbers)))

    def __reversed__(self):
        return self._counted(reversed(dict.items(self.numbers)))

    def _counted(self, entries):
        for entry in entries:
            self.numbers.seen += 1
            yield entry


def test_a_value_that_is_derived_looks_at_new_numbers_alone():
    numbers = ValueNumbers()
    numbers.numbered = CountedNumbers()
    values = RealValues(numbers)
    add = numbers.of(("form", ("add.f32", ("register", "register"))))
    leaf = numbers.fresh()
    total = leaf
    for _ in range(RANGES):
        total = numbers.of(((add, 0), (total, leaf)))
        values.of(total)
    assert values.of(total) == (RANGES + 1) * values.of(leaf) % PRIME
    assert numbers.numbered.seen == RANGES + 1
