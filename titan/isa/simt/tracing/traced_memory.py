"""Memories that know, of each byte whose number is unknown, which value it belongs to.

A byte of an unknown value has a *mark*: the number of the value and the place of the byte in it.
Two bytes with one mark are equal in every run in which all else that the trace shows is the same;
different marks say nothing. Bytes that nobody has written belong to a value of their own each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from titan.isa.simt.memory import BARRIER, KNOWN, OPAQUE, PAGE, PAGE_BITS, Bytes, Sparse
from titan.isa.simt.values import Opaque, Scalar, Value, opaque_at

PLACE_BITS = 5  # of a byte in its value
WIDEST = 1 << PLACE_BITS
PAGES_MAX = 1 << 12  # filled at once; more make the whole of the memory unknown


@dataclass(frozen=True, slots=True)
class Traced(Opaque):
    """An opaque value with its identity: `number` is the same for values shown to be equal.

    `node`: the execution of an instruction from which it comes.
    """

    number: int
    node: int


def nodes_of(values: Iterable[Value]) -> set[int]:
    """The executions that values come from."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, Traced):
            found.add(value.node)
        elif isinstance(value, list):
            found.update(item.node for item in value if isinstance(item, Traced))
    return found


class ValueNumbers:
    """Numbers of values by what they are made of (`numbered`); `node` is the instruction being
    executed."""

    def __init__(self) -> None:
        self._next = count(1)
        self.numbered: dict[object, int] = {}
        self.node = 0

    def fresh(self, numbers: int = 1) -> int:
        """The number of a value that is shown equal to no other; the first of several."""
        first = next(self._next)
        if numbers > 1:
            self._next = count(first + numbers)
        return first

    def of(self, key: object, numbers: int = 1) -> int:
        """The number of the value that is made so, the same each time; the first of several."""
        found = self.numbered.get(key)
        if found is None:
            found = self.numbered[key] = self.fresh(numbers)
        return found

    def loaded(self, site: int, content: tuple[int, ...]) -> Traced:
        """The value that bytes are, as the instruction being executed loads it."""
        return Traced(site, self.of(("bytes", content)), self.node)


class TracedBytes(Bytes):
    """A memory whose opaque bytes have marks."""

    def __init__(self, size: int, numbers: ValueNumbers) -> None:
        super().__init__(size)
        self.numbers = numbers
        self.marks = array("q", bytes(8 * size))
        self._mark(0, size)
        self.first_mark = self.marks[0] if size else 0  # of the first byte, at the start

    def _mark(self, at: int, size: int) -> None:
        first = self.numbers.fresh((size >> PLACE_BITS) + 1) << PLACE_BITS
        self.marks[at : at + size] = array("q", range(first, first + size))

    def read(self, at: int, count: int, site: int) -> Scalar:
        """The number at `at`, or the value that these bytes are."""
        value = super().read(at, count, site)
        if isinstance(value, Opaque):
            node = self.numbers.node
            return Traced(site, self.numbers.of(("bytes", self.content(at, count))), node)
        return value

    def write(self, at: int, count: int, value: Scalar) -> None:
        """Write a value; an opaque one that is not traced equals no other."""
        super().write(at, count, value)
        if isinstance(value, Traced) and count <= WIDEST:
            first = value.number << PLACE_BITS
            self.marks[at : at + count] = array("q", range(first, first + count))
        elif isinstance(value, Opaque):
            self._mark(at, count)

    def write_unknown(self, at: int, count: int, value: Traced) -> None:
        """Write a value where bytes are not known; those that are known stay."""
        places = [place for place in range(at, at + count) if self.state[place] == KNOWN]
        known = [(place, self.data[place]) for place in places]
        self.write(at, count, value)
        for place, byte in known:
            self.write(place, 1, byte)

    def fill(self, at: int, count: int, state: int) -> None:
        """As of any memory; the bytes belong to a new value."""
        super().fill(at, count, state)
        at, end = max(at, 0), min(at + count, self.size)
        if at < end:
            self._mark(at, end - at)

    def copy(self, source: int, target: int, count: int) -> None:
        """As of any memory; with their marks."""
        super().copy(source, target, count)
        self.marks[target : target + count] = self.marks[source : source + count]

    def renew(self, at: int, count: int) -> bool:
        """New marks, whatever was written; whether some of the bytes are known."""
        self._mark(at, count)
        return self.has(at, count, KNOWN)

    def content(self, at: int, count: int) -> tuple[int, ...]:
        """What the bytes are: marks, and known bytes as negative numbers."""
        states = self.state[at : at + count]
        if KNOWN not in states and BARRIER not in states:
            return tuple(self.marks[at : at + count])
        found = []
        for place, state in enumerate(states, at):
            if state == KNOWN:
                found.append(-1 - self.data[place])
            elif state == BARRIER:  # changes without being written
                found.append(self.numbers.fresh() << PLACE_BITS)
            else:
                found.append(self.marks[place])
        return tuple(found)


class TracedSparse(Sparse):
    """Global memory with marks; pages are made as soon as they are touched."""

    def __init__(self, numbers: ValueNumbers) -> None:
        super().__init__()
        self.numbers = numbers
        self.traced: dict[int, TracedBytes] = {}

    def _page(self, number: int) -> TracedBytes:
        page = self.traced.get(number)
        if page is None:
            page = self.traced[number] = self.pages[number] = TracedBytes(PAGE, self.numbers)
        return page

    def read(self, at: int, count: int, site: int) -> Scalar:
        """The number at `at`, or the value that these bytes are."""
        place = at & (PAGE - 1)
        if place + count <= PAGE:
            return self._page(at >> PAGE_BITS).read(place, count, site)
        value = super().read(at, count, site)
        if isinstance(value, Opaque):
            return Traced(
                site, self.numbers.of(("bytes", self.content(at, count))), self.numbers.node
            )
        return value

    def write(self, at: int, count: int, value: Scalar) -> None:
        """Write a value, across pages too."""
        place = at & (PAGE - 1)
        if place + count <= PAGE:
            self._page(at >> PAGE_BITS).write(place, count, value)
            return
        for index in range(count):
            byte = opaque_at(-1) if isinstance(value, Opaque) else value >> 8 * index & 255
            self._page(at + index >> PAGE_BITS).write(at + index & (PAGE - 1), 1, byte)

    def fill_opaque(self, at: int, count: int) -> None:
        """The bytes belong to new values from now on."""
        if count >> PAGE_BITS > PAGES_MAX:
            self.make_opaque()  # pages that are made later have new marks
            return
        for page, place, size in self._parts(at, count):
            page.fill(place, size, OPAQUE)

    def renew(self, at: int, count: int) -> bool:
        """See `TracedBytes.renew`."""
        return any(page.renew(place, size) for page, place, size in list(self._parts(at, count)))

    def _parts(self, at: int, count: int) -> Iterator[tuple[TracedBytes, int, int]]:
        """The pages of a range, with the place in each and the bytes."""
        while count > 0:
            place = at & (PAGE - 1)
            size = min(count, PAGE - place)
            yield self._page(at >> PAGE_BITS), place, size
            at, count = at + size, count - size

    def content(self, at: int, count: int) -> tuple[int, ...]:
        """What the bytes are; see `TracedBytes.content`."""
        found: list[int] = []
        for page, place, size in self._parts(at, count):
            found += page.content(place, size)
        return tuple(found)
