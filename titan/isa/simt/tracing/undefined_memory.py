"""Memories that know which bytes hold something undefined: never written, or made from such bytes.

The value of such bytes is an `UndefinedValue`: opaque, with the instruction that read memory
before anything had written it, or the register that nothing has written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from titan.isa.simt.footprints import TENSOR_LANE_BYTES, Footprint
from titan.isa.simt.memory import UNWRITTEN, Bytes
from titan.isa.simt.tracing.undefined_bits import ALL_BITS
from titan.isa.simt.values import Opaque, Scalar

CELL_BYTES = 4
TENSOR_LANES = 128
LANE_CELLS = TENSOR_LANE_BYTES // CELL_BYTES
_DEFINED, _NEVER_WRITTEN = -2, -1


class HeldGuard(NamedTuple):
    """That a predicate of a warp holds (`wanted`), or does not: `version` counts its writes."""

    register: int
    version: int
    wanted: bool


@dataclass(frozen=True, slots=True)
class UndefinedValue(Opaque):
    """An opaque value that rests on something that nothing has written.

    `origin`: the instruction that read it from memory, or a register (`of_register`), or what has
    left it undefined (`of_result`). `bits`: those
    that are undefined. `certain`: it changes with what was there, whatever data are. `unless`: it
    is defined where that predicate held.
    """

    origin: int
    bits: int = ALL_BITS
    certain: bool = False
    unless: HeldGuard | None = None


def of_register(register: int) -> int:
    """The origin of what is undefined as nothing has written a register, or that register again."""
    return -2 - register


def of_result(instruction: int, registers: int) -> int:
    """The origin of what an instruction leaves undefined, in code of so many registers."""
    return of_register(registers + instruction)


def origin_of(value: object) -> int | None:
    """The origin of an undefined value; None for any other."""
    return value.origin if isinstance(value, UndefinedValue) else None


class UndefinedBytes(Bytes):
    """Shared memory, or that of one thread. `reader`: the instruction being executed; `adds`:
    whether it is an atomic operation, whose result rests on what was there; `open_in`: what is
    undefined of a value where that instruction is executed."""

    def __init__(
        self,
        size: int,
        reader: Callable[[], int],
        adds: Callable[[], bool],
        open_in: Callable[[Scalar], UndefinedValue | None],
    ) -> None:
        super().__init__(size)
        self._reader, self._adds, self._open_in = reader, adds, open_in
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
            if origin is not None:
                return UndefinedValue(value.site, origin, self._bits(at, count))
        return value

    def _bits(self, at: int, count: int) -> int:
        """The undefined bits of a number in memory."""
        found = 0
        for place in range(count):
            if self._flags[at + place] or self.state[at + place] == UNWRITTEN:
                found |= 255 << 8 * place
        return found

    def write(self, at: int, count: int, value: Scalar) -> None:
        """Write a value; that of an atomic operation is as undefined as what was there."""
        kept = self.origin(at, count) if self._adds() else None
        super().write(at, count, value)
        undefined = self._open_in(value)
        if undefined is None:
            self.mark(at, count, kept)
            return
        for place in range(count):
            wrong = undefined.bits >> 8 * place & 255
            self.mark(at + place, 1, undefined.origin if wrong else kept)

    def copy(self, source: int, target: int, count: int) -> None:
        """As of any memory, with what is undefined in the bytes."""
        super().copy(source, target, count)
        for place in range(count):
            origin = self._origins.get(source + place) if self._flags[source + place] else None
            self.mark(target + place, 1, origin)

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
