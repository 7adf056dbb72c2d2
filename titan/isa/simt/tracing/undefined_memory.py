"""Memories that know which bytes hold something undefined: never written, or made from such bytes.

The value of such bytes is an `UndefinedValue`: opaque, with the instruction that read memory
before anything had written it, or the register that nothing has written.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from titan.isa.simt.footprints import TENSOR_LANE_BYTES, Footprint
from titan.isa.simt.memory import UNWRITTEN, Bytes
from titan.isa.simt.tracing.undefined_bits import ALL_BITS
from titan.isa.simt.values import Opaque, Scalar

CELL_BYTES = 4
TENSOR_LANES = 128
LANE_CELLS = TENSOR_LANE_BYTES // CELL_BYTES
WAYS_MAX = 8
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


class Chosen(NamedTuple):
    """That data decide whether an instruction is executed: where all of `ways` hold."""

    instruction: int
    ways: frozenset[HeldGuard]


class PerhapsWritten(NamedTuple):
    """Bytes that are written where all of some ways hold, and not before. `instruction`: of the
    last write. Of many ways the last ones count."""

    instruction: int
    where: tuple[frozenset[HeldGuard], ...]

    def with_write(self, write: Chosen) -> PerhapsWritten | None:
        """The same behind another write; None if they are written whatever data decide."""
        if write.ways in self.where:
            return self
        where = (*self.where, write.ways)[-WAYS_MAX:]
        return None if _everywhere(where) else PerhapsWritten(write.instruction, where)


@lru_cache(maxsize=1024)
def _everywhere(where: tuple[frozenset[HeldGuard], ...]) -> bool:
    """Whether some ways hold for all values of their predicates."""
    if not all(where):
        return True
    one = next((guard for ways in where for guard in ways), None)
    if one is None:
        return False
    return all(
        _everywhere(tuple(ways - {guard} for ways in where if _opposite(guard) not in ways))
        for guard in (one, _opposite(one))
    )


def _opposite(guard: HeldGuard) -> HeldGuard:
    return guard._replace(wanted=not guard.wanted)


def of_register(register: int) -> int:
    """The origin of what is undefined as nothing has written a register, or that register again."""
    return -2 - register


def of_result(instruction: int, registers: int) -> int:
    """The origin of what an instruction leaves undefined, in code of so many registers."""
    return of_register(registers + instruction)


def origin_of(value: object) -> int | None:
    """The origin of an undefined value; None for any other."""
    return value.origin if isinstance(value, UndefinedValue) else None


NOWHERE = PerhapsWritten(-1, ())


class Executing(Protocol):
    """The instruction that accesses a memory, and what is known of it."""

    def reader(self) -> int:
        """The instruction; -1 for none."""

    def adds(self) -> bool:
        """Whether it is an atomic operation, whose result rests on what was there."""

    def still(self, value: Scalar, bits: int = ALL_BITS) -> UndefinedValue | None:
        """What is undefined of a value where it is executed."""

    def by_choice(self) -> Chosen | None:
        """What data decide that it is executed; None where they do not."""


class UndefinedBytes(Bytes):
    """Shared memory, or that of one thread.

    What data decide to write is not written where they decide otherwise, unless they decide that
    it is written elsewhere then. Who reads where data decide, too, is taken to read what was
    written.
    """

    def __init__(self, size: int, executing: Executing) -> None:
        super().__init__(size)
        self._executing = executing
        self._flags = bytearray(size)  # 1: an undefined value was written here
        self._origins: dict[int, int] = {}
        self._perhaps: dict[int, PerhapsWritten] = {}

    def origin(self, at: int, count: int) -> int | None:
        """The origin of what is undefined in some bytes; the reader itself if nobody wrote them."""
        place = self._flags.find(1, at, at + count)
        if place >= 0:
            return self._origins[place]
        if self._perhaps and self._executing.by_choice() is None:
            for place in range(at, at + count):
                if place in self._perhaps:
                    return self._perhaps[place].instruction
        return self._executing.reader() if self._is_unwritten(at, count) else None

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
                return UndefinedValue(
                    value.site, origin, self._bits(at, count), unless=self._unless(at, count)
                )
        return value

    def _unless(self, at: int, count: int) -> HeldGuard | None:
        """Where some bytes are written, if that is one predicate."""
        found = {self._perhaps.get(place, NOWHERE).where for place in range(at, at + count)}
        ways = [way for where in found for way in where] if len(found) == 1 else []
        return next(iter(ways[0])) if len(ways) == 1 and len(ways[0]) == 1 else None

    def _bits(self, at: int, count: int) -> int:
        """The undefined bits of a number in memory."""
        found = 0
        for place in range(count):
            if self.origin(at + place, 1) is not None:
                found |= 255 << 8 * place
        return found

    def _is_unwritten(self, at: int, count: int) -> bool:
        return self.state.find(UNWRITTEN, at, at + count) >= 0

    def write(self, at: int, count: int, value: Scalar) -> None:
        """Write a value; that of an atomic operation is as undefined as what was there."""
        kept = self.origin(at, count) if self._executing.adds() else None
        chosen = self._executing.by_choice() if kept is None else None
        if chosen is not None:
            self._write_perhaps(at, count, value, chosen)
            return
        super().write(at, count, value)
        undefined = self._executing.still(value)
        if undefined is None:
            self.mark(at, count, kept)
            return
        for place in range(count):
            wrong = undefined.bits >> 8 * place & 255
            self.mark(at + place, 1, undefined.origin if wrong else kept)

    def _write_perhaps(self, at: int, count: int, value: Scalar, chosen: Chosen) -> None:
        """Write a value if data so decide: bytes that held something are as they were, or so."""
        places = range(at, at + count)
        open_ = [p for p in places if p in self._perhaps or self._is_unwritten(p, 1)]
        perhaps = {place: self._perhaps.get(place, NOWHERE) for place in open_}
        super().write(at, count, value)
        undefined = self._executing.still(value)
        for place in places:
            wrong = undefined is not None and undefined.bits >> 8 * (place - at) & 255
            if undefined is not None and wrong:
                self.mark(place, 1, undefined.origin)
            elif place in perhaps:
                self.mark(place, 1, None)
                found = perhaps[place].with_write(chosen)
                if found is not None:
                    self._perhaps[place] = found

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
        for place in range(at, at + count) if self._perhaps else ():
            self._perhaps.pop(place, None)
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
