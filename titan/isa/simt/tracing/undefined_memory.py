"""Memories that know which bytes hold something undefined: never written, or made from such bytes.

The value of such bytes is an `UndefinedValue`: opaque, with the instruction that read memory
before anything had written it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from titan.isa.simt.footprints import TENSOR_LANE_BYTES, Footprint
from titan.isa.simt.memory import UNWRITTEN, Bytes
from titan.isa.simt.values import Opaque, Scalar

CELL_BYTES = 4
TENSOR_LANES = 128
LANE_CELLS = TENSOR_LANE_BYTES // CELL_BYTES
_DEFINED, _NEVER_WRITTEN = -2, -1


@dataclass(frozen=True, slots=True)
class UndefinedValue(Opaque):
    """An opaque value that rests on memory which nothing has written.

    `origin`: the instruction that read it there. `parts`: of a register that several were packed
    into, the origin of each.
    """

    origin: int
    parts: tuple[int | None, ...] = ()


def origin_of(value: object) -> int | None:
    """The origin of an undefined value; None for any other."""
    return value.origin if isinstance(value, UndefinedValue) else None


class UndefinedBytes(Bytes):
    """Shared memory. `reader`: the instruction being executed; `adds`: whether it is an atomic
    operation, whose result rests on what was there."""

    def __init__(self, size: int, reader: Callable[[], int], adds: Callable[[], bool]) -> None:
        super().__init__(size)
        self._reader, self._adds = reader, adds
        self._flags = bytearray(size)  # 1: an undefined value was written here
        self._origins: dict[int, int] = {}

    def origin(self, at: int, count: int) -> int | None:
        """The origin of what is undefined in some bytes; the reader itself if nobody wrote them."""
        place = self._flags.find(1, at, at + count)
        if place >= 0:
            return self._origins[place]
        return self._reader() if self.state.find(UNWRITTEN, at, at + count) >= 0 else None

    def origin_in(self, footprint: Footprint) -> int | None:
        """The same of a footprint."""
        for low, high in footprint.ranges():
            found = self.origin(low, high - low)
            if found is not None:
                return found
        return None

    def read(self, at: int, count: int, site: int) -> Scalar:
        """The number at `at`, or the opaque value that is there, with its origin."""
        value = super().read(at, count, site)
        if isinstance(value, Opaque):
            origin = self.origin(at, count)
            return value if origin is None else UndefinedValue(value.site, origin)
        return value

    def write(self, at: int, count: int, value: Scalar) -> None:
        """Write a value; that of an atomic operation is as undefined as what was there."""
        origin = origin_of(value)
        if origin is None and self._adds():
            origin = self.origin(at, count)
        super().write(at, count, value)
        self.mark(at, count, origin)

    def fill(self, at: int, count: int, state: int) -> None:
        """As of any memory; what an engine has copied is defined."""
        super().fill(at, count, state)
        at, end = max(at, 0), min(at + count, self.size)
        if at < end:
            self.mark(at, end - at, None)

    def mark(self, at: int, count: int, origin: int | None) -> None:
        """The bytes are undefined for that origin, or not (None)."""
        self._flags[at : at + count] = bytes((origin is not None,)) * count
        if origin is not None:
            for place in range(at, at + count):
                self._origins[place] = origin


class TensorCells:
    """Tensor memory of one CTA, by lanes and 32-bit columns."""

    def __init__(self) -> None:
        self._cells = array("l", (_NEVER_WRITTEN,)) * (TENSOR_LANES * LANE_CELLS)

    def origin(self, lane: int, column: int, reader: int) -> int | None:
        """The origin of what is undefined in a cell; `reader` if nobody has written it."""
        if not (0 <= lane < TENSOR_LANES and 0 <= column < LANE_CELLS):
            return None  # a fault of its own
        found = self._cells[lane * LANE_CELLS + column]
        if found == _DEFINED:
            return None
        return reader if found == _NEVER_WRITTEN else found

    def write(self, lane: int, column: int, origin: int | None) -> None:
        """A cell holds something defined (None), or not."""
        if 0 <= lane < TENSOR_LANES and 0 <= column < LANE_CELLS:
            self._cells[lane * LANE_CELLS + column] = _DEFINED if origin is None else origin

    def origin_in(self, cells: list[tuple[int, int]], reader: int) -> int | None:
        """The origin of something undefined in some cells."""
        for lane, column in cells:
            found = self.origin(lane, column, reader)
            if found is not None:
                return found
        return None


def cells_of(footprint: Footprint) -> list[tuple[int, int]]:
    """The lanes and columns of a footprint in tensor memory."""
    return [
        divmod(cell, LANE_CELLS)
        for low, high in footprint.ranges()
        for cell in range(low // CELL_BYTES, -(-high // CELL_BYTES))
    ]
