"""Bytes of a memory with what is known of them.

The state of a byte: UNWRITTEN, OPAQUE, KNOWN, or BARRIER (part of a live
mbarrier). Sparse memory is made of pages.
"""

from __future__ import annotations

from titan.isa.simt.values import Opaque, Scalar, opaque_at

UNWRITTEN, OPAQUE, KNOWN, BARRIER = range(4)
PAGE_BITS = 12
PAGE = 1 << PAGE_BITS


class Bytes:
    """A memory of `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.data = bytearray(size)
        self.state = bytearray(size)

    def read(self, at: int, count: int, site: int) -> Scalar:
        """The little-endian number at `at`, opaque unless all its bytes are known."""
        if self.state.count(KNOWN, at, at + count) == count:
            return int.from_bytes(self.data[at : at + count], "little")
        return opaque_at(site)

    def write(self, at: int, count: int, value: Scalar) -> None:
        """Write a little-endian value of `count` bytes; an opaque one changes the states only."""
        if isinstance(value, Opaque):
            self.state[at : at + count] = bytes((OPAQUE,)) * count
        else:
            mask = (1 << 8 * count) - 1
            self.data[at : at + count] = (value & mask).to_bytes(count, "little")
            self.state[at : at + count] = bytes((KNOWN,)) * count

    def fill(self, at: int, count: int, state: int) -> None:
        """Set the state of `count` bytes, data untouched; the part outside is ignored."""
        at, end = max(at, 0), min(at + count, self.size)
        if at < end:
            self.state[at:end] = bytes((state,)) * (end - at)

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy bytes, and what is known of them, within the memory."""
        self.data[target : target + count] = self.data[source : source + count]
        self.state[target : target + count] = self.state[source : source + count]

    def has(self, at: int, count: int, state: int) -> bool:
        """Whether any of the bytes is in a state."""
        return self.state.find(state, at, at + count) >= 0


class Sparse:
    """Global memory: pages by their number; what no page holds is opaque."""

    def __init__(self) -> None:
        self.pages: dict[int, Bytes] = {}

    def _page(self, number: int) -> Bytes:
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = Bytes(PAGE)
        return page

    def read(self, at: int, count: int, site: int) -> Scalar:
        place = at & (PAGE - 1)
        if place + count <= PAGE:
            page = self.pages.get(at >> PAGE_BITS)
            return opaque_at(site) if page is None else page.read(place, count, site)
        result = 0
        for index in range(count):
            byte = self.read(at + index, 1, site)
            if isinstance(byte, Opaque):
                return byte
            result |= byte << 8 * index
        return result

    def write(self, at: int, count: int, value: Scalar) -> None:
        """Write `count` bytes, across pages too; opaque bytes make no new page."""
        place = at & (PAGE - 1)
        if place + count <= PAGE:
            if isinstance(value, Opaque) and at >> PAGE_BITS not in self.pages:
                return
            self._page(at >> PAGE_BITS).write(place, count, value)
            return
        for index in range(count):
            byte = value if isinstance(value, Opaque) else value >> 8 * index & 255
            self.write(at + index, 1, byte)

    def store(self, at: int, data: bytes) -> None:
        """Write known bytes of any length, page by page."""
        done = 0
        while done < len(data):
            page = self._page((at + done) >> PAGE_BITS)
            place = (at + done) & (PAGE - 1)
            piece = data[done : done + PAGE - place]
            page.data[place : place + len(piece)] = piece
            page.state[place : place + len(piece)] = bytes((KNOWN,)) * len(piece)
            done += len(piece)

    def has(self, at: int, count: int, state: int) -> bool:
        """Whether some byte of a range is in this state; of what no page holds, none is."""
        while count > 0:
            place = at & (PAGE - 1)
            size = min(count, PAGE - place)
            page = self.pages.get(at >> PAGE_BITS)
            if page is not None and page.has(place, size, state):
                return True
            at, count = at + size, count - size
        return False

    def fill_opaque(self, at: int, count: int) -> None:
        """Make a range opaque; only pages that exist hold anything."""
        first, last = at >> PAGE_BITS, (at + count - 1) >> PAGE_BITS
        if last - first > len(self.pages):
            numbers = [n for n in self.pages if first <= n <= last]
        else:
            numbers = [n for n in range(first, last + 1) if n in self.pages]
        for number in numbers:
            low = max(at - (number << PAGE_BITS), 0)
            high = min(at + count - (number << PAGE_BITS), PAGE)
            self.pages[number].fill(low, high - low, OPAQUE)

    def make_opaque(self) -> None:
        """Everything that can be written is opaque from now on."""
        for page in self.pages.values():
            page.fill(0, PAGE, OPAQUE)

    def bytes_at(self, at: int, count: int) -> bytes | None:
        """The bytes, or None unless all are known."""
        value = self.read(at, count, -1)
        return None if isinstance(value, Opaque) else value.to_bytes(count, "little")
