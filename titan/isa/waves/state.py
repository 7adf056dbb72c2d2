"""The state of one wave: registers of which each lane is known or not, and what is in flight.

Vector registers are rows of 64 words; `known` has a mask of the lanes whose value is known, and
`origins` says why the others are not. Accumulation registers follow the 256 vector registers.
Scalar registers are integers, or `OpaqueWord`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from titan.foundation.errors import TitanError
from titan.isa.gcn.operands import EXEC, VCC
from titan.isa.waves.events import WaveQueue

LANES = 64
FULL = (1 << LANES) - 1
WORD = 0xFFFF_FFFF
BANK = 256
SCALARS = 128
STATES_MAX = 20  # no instruction needs more wait states behind another one
Words = NDArray[np.uint32]
LANE_NUMBERS: Words = np.arange(LANES, dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class OpaqueWord:
    """A value that is not known: data of memory, or an argument that the launch does not give.

    `instruction` made it; `offset` is its place in the kernarg segment, or -1.
    """

    why: str
    instruction: int
    offset: int = -1


Scalar = int | OpaqueWord
NOT_WRITTEN = OpaqueWord("a register that was not written", -1)


class Refused(TitanError):
    """The machine would have to guess."""

    def __init__(self, what: str, origin: OpaqueWord | None = None) -> None:
        because = f" depends on {origin.why}" if origin is not None else ""
        super().__init__(what + because)
        self.origin = origin


@dataclass(slots=True, eq=False)
class PendingOperation:
    """An operation that has not been waited for, and the registers that it will write.

    `counters`: how many of those that count it have to be waited for. `translation`: its number
    among the operations of vector memory, where xcnt counts them. `number`: among those of its
    queue. `scope`: the branches by data over it. `unsure`: waits on several ways, of which one may
    be taken for all data, have ended it. `ways`: how many such there were in arms behind which it
    was in flight. `order`: of one in arms, among all of its wave. `over`: older ones of arms that
    may be in flight to the same registers.
    """

    instruction: int
    queue: WaveQueue
    registers: tuple[int, ...]
    loads: bool
    counters: int = 1
    translation: int = -1
    number: int = -1
    scope: frozenset[int] = frozenset()
    unsure: bool = False
    ways: int = 0
    order: int = -1
    over: tuple[PendingOperation, ...] = ()

    def writers(self, register: int) -> list[PendingOperation]:
        """This and the older ones that are in flight to a register of this one."""
        older = (one for one in self.over if register in one.registers and one.counters > 0)
        return [self, *older]


UNKNOWN_MASK = "the execution mask"
UNKNOWN_BRANCH = "a branch"


class Wave:
    """One wave. Registers are numbered: vector 0, accumulation 256, scalar 512 and upwards.

    `width`: its lanes; one of 32 has the lower half of the words and masks here.
    """

    def __init__(self, number: int, lanes: int, width: int = LANES) -> None:
        self.number = number
        self.width = width
        self.lanes_all = (1 << width) - 1
        self.vectors: Words = np.zeros((2 * BANK, LANES), np.uint32)
        self.known = [0] * (2 * BANK)
        self.origins: list[OpaqueWord] = [NOT_WRITTEN] * (2 * BANK)
        self.scalars: list[Scalar] = [NOT_WRITTEN] * SCALARS
        self.condition: Scalar = NOT_WRITTEN
        # vccz is of an older value: a write of one half leaves it (LLVM, SIInsertWaitcnts).
        self.vcc_in_part = False
        self.exec = 0
        self.active: NDArray[np.bool_] = np.zeros(LANES, np.bool_)
        self.set_exec(lanes)
        self.place = 0
        self.ended = False
        self.skips = False  # vector instructions (VSKIP)
        self.at_barrier = False
        self.barriers = 0
        self.signals = 0  # of a barrier in two halves
        self.alike: dict[int, int] = {}  # registers with one value in these lanes (gfx1250)
        self.last: PendingOperation | None = None  # issued last
        self.translated = -1  # addresses of memory operations that are known to be translated
        self.in_flight: dict[WaveQueue, deque[PendingOperation]] = {
            queue: deque() for queue in WaveQueue
        }
        self.issued = dict.fromkeys(WaveQueue, 0)
        self.pending: dict[int, PendingOperation] = {}
        self.by_data: set[WaveQueue] = set()  # queues of which data decide what is issued
        self.branches_by_data = 0
        self.private: dict[int, tuple[Words, int, OpaqueWord]] = {}
        self.arms: object = None  # what arms that were skipped have left (`skipped_lanes.py`)
        self.unwritten: dict[int, int] = {}  # registers by their lanes that nothing has written
        # Instructions executed last with their wait states, where some may be too few.
        self.recent: deque[tuple[int, int]] = deque(maxlen=STATES_MAX)

    def landed(self, operation: PendingOperation) -> None:
        """An operation is done for a counter; for the last, its registers hold what it loaded."""
        operation.counters -= 1
        if operation.counters:
            return
        self.translated = max(self.translated, operation.translation)
        for register in operation.registers:
            if self.pending.get(register) is operation:
                del self.pending[register]
                for older in operation.writers(register)[1:2]:
                    older.over = tuple(one for one in operation.over if one is not older)
                    self.pending[register] = older

    # -------------------------------------------------------------------------- scalars

    def set_exec(self, mask: int) -> None:
        """The lanes that take part from here on."""
        self.exec = mask = mask & self.lanes_all
        data = np.frombuffer(mask.to_bytes(8, "little"), np.uint8)
        self.active = np.unpackbits(data, bitorder="little").astype(np.bool_)

    def scalar(self, number: int, count: int = 1) -> Scalar:
        """One or two scalar registers as one number."""
        if number == EXEC and count == 2:
            return self.exec
        low = self._word(number)
        if count == 1 or isinstance(low, OpaqueWord):
            return low
        high = self._word(number + 1)
        return high if isinstance(high, OpaqueWord) else low | high << 32

    def _word(self, number: int) -> Scalar:
        if number == EXEC:
            return self.exec & WORD
        if number == EXEC + 1:
            return self.exec >> 32
        return self.scalars[number] if number < SCALARS else NOT_WRITTEN

    def set_scalar(self, number: int, value: Scalar, count: int = 1) -> None:
        """Write one register or several; the execution mask must be known. Raises Refused."""
        if number in (EXEC, EXEC + 1):
            if isinstance(value, OpaqueWord):
                raise Refused(UNKNOWN_MASK, value)
            if count == 2:
                self.set_exec(value)
            elif number == EXEC:
                self.set_exec(self.exec & ~WORD | value)
            else:
                self.set_exec(self.exec & WORD | value << 32)
            return
        if number | 1 == VCC + 1 and self.width == LANES:
            self.vcc_in_part = count == 1
        for at in range(count):
            part = value if isinstance(value, OpaqueWord) else value >> 32 * at & WORD
            if number + at < SCALARS:
                self.scalars[number + at] = part

    # -------------------------------------------------------------------------- vectors

    def set_vector(self, number: int, values: Words, known: int, origin: OpaqueWord) -> None:
        """The active lanes of a register; those not in `known` become opaque."""
        lanes = self.exec
        if lanes == FULL:
            self.vectors[number] = values
            self.known[number] = known
        else:
            np.copyto(self.vectors[number], values, where=self.active)
            self.known[number] = self.known[number] & ~lanes | known & lanes
        if known & lanes != lanes:
            self.origins[number] = origin

    def forget(self, number: int, count: int, origin: OpaqueWord, whole: bool = False) -> None:
        """The active lanes of registers become opaque, or all (`whole`)."""
        keep = 0 if whole else ~self.exec
        for at in range(number, number + count):
            self.known[at] &= keep
            self.origins[at] = origin


def mask_of(lanes: NDArray[np.bool_]) -> int:
    """The mask of the lanes that are true."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def lanes_of(mask: int) -> NDArray[np.bool_]:
    """The lanes of a mask."""
    data = np.frombuffer(mask.to_bytes(8, "little"), np.uint8)
    return np.unpackbits(data, bitorder="little").astype(np.bool_)
