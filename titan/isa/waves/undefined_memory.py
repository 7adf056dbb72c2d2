"""Undefined bytes of LDS and of private memory: what nothing has written, and what was stored there
that is undefined itself.

Of LDS each byte is followed. Where the place of an access is not known all of it counts as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.waves.decode import (
    DecodedInstruction,
    results_of,
    written_in_order,
)
from titan.isa.waves.events import OperationIssued, lds_uses
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.memory_steps import LDS_ADDRESS, lds_addresses, lds_offsets
from titan.isa.waves.private_steps import private_places, size_of
from titan.isa.waves.sources import vector_source
from titan.isa.waves.state import LANES, Wave
from titan.isa.waves.undefined_words import (
    DEFINED,
    NOWHERE,
    Origins,
    UndefinedWord,
    without_certain,
)

_NEVER_WRITTEN = -2
_LANES = np.arange(LANES)
_WORD = 4
_IN_ROWS = ("ds_read", "ds_write")
Places = NDArray[np.int64]


class LdsAccess(NamedTuple):
    """What an instruction of LDS loads by register, and what of its operands it makes use of."""

    loaded: list[UndefinedWord]
    used: list[UndefinedWord]


class UndefinedMemory:
    """The memory of one work-group. `begun`: the events before the instruction that is executed."""

    def __init__(self, group: WaveGroup) -> None:
        self._group = group
        self._lds: Origins = np.full(group.lds_bytes + LANES, _NEVER_WRITTEN, np.int32)
        self._private: dict[int, Origins] = {}
        self._rows: list[Places] | None = None
        self._own: Places | None = None
        self.begun = 0

    def begin(self, wave: Wave, code: DecodedInstruction) -> None:
        """An instruction of memory is about to be executed; it may overwrite its own address."""
        self.begun, self._rows, self._own = len(self._group.events), None, None
        base = code.item.base
        if code.opcode.kind is OpcodeKind.SCRATCH and wave.exec:
            self._own = private_places(code.item, code.number)(wave)
        elif base.startswith(_IN_ROWS) and "_tr" not in base and "addtid" not in base:
            self._rows = self._places(wave, code)

    # -------------------------------------------------------------------------------- LDS

    def through_lds(
        self, wave: Wave, code: DecodedInstruction, stored: Sequence[UndefinedWord]
    ) -> LdsAccess:
        """What an access of LDS leaves there and in registers."""
        item, registers = code.item, written_in_order(code)
        if item.base == "ds_nop" or not wave.exec:
            return LdsAccess([DEFINED] * len(registers), [])
        reads = item.base.startswith(("ds_read", "ds_load_tr"))
        writes = item.base.startswith("ds_write")
        rows = self._rows
        if rows is None:
            return self._as_one(wave, code, stored, reads, writes)
        each = max(1, size_of(item) // _WORD)
        if writes:
            for at, word in enumerate(stored):
                row, part = divmod(at, each)
                places = rows[min(row, len(rows) - 1)] + _WORD * part
                for byte, origins in _bytes_stored(code, word):
                    self._lds[(places + byte)[wave.active]] = origins[wave.active]
            return LdsAccess([], [])
        found = []
        for at in range(len(registers)):
            row, part = divmod(at, each)
            places = np.where(wave.active, rows[min(row, len(rows) - 1)], 0) + _WORD * part
            held = [self._named(self._lds[places + byte], code) for byte in range(_bytes(code))]
            found.append(_loaded(code, held))
        return LdsAccess(found, [])

    def _places(self, wave: Wave, code: DecodedInstruction) -> list[Places] | None:
        """The address of each lane at each offset; None if they are not known, or beyond LDS."""
        size = size_of(code.item)
        operand = code.item.operands[results_of(code.item, code.opcode)]
        addresses = lds_addresses(wave, vector_source(operand, code.number), code.item)
        if addresses is None:
            return None
        rows = [addresses + offset & LDS_ADDRESS for offset in lds_offsets(code.item, size)]
        inside = all((row[wave.active] + size <= self._group.lds_bytes).all() for row in rows)
        return rows if inside else None

    def _as_one(
        self, wave: Wave, code: DecodedInstruction, stored: Sequence[UndefinedWord],
        reads: bool, writes: bool,
    ) -> LdsAccess:  # fmt: skip
        """An access of LDS whose lanes are taken as one."""
        data = [word.where(wave.active).unsure() for word in stored]
        some = max((int(word.origins.max()) for word in data), default=NOWHERE)
        held = NOWHERE
        for footprint in self._footprints(write=not reads):
            held = max(held, self._held_in(code, footprint))
            if writes:
                self._fill(footprint, some)
        whole = DEFINED
        if held != NOWHERE:
            whole = UndefinedWord(
                np.full(LANES, 0xFFFF_FFFF, np.uint32), np.full(LANES, held, np.int32)
            )
        # An atomic: what was there stays undefined.
        used = [] if writes or reads else data
        return LdsAccess([whole] * len(written_in_order(code)), used)

    @staticmethod
    def _named(here: Origins, code: DecodedInstruction) -> Origins:
        """Bytes that nothing has written come from the instruction that reads them."""
        found: Origins = np.where(here == _NEVER_WRITTEN, np.int32(code.number), here)
        return found

    # --------------------------------------------------------------------- private memory

    def through_private(
        self, wave: Wave, code: DecodedInstruction, stored: Sequence[UndefinedWord]
    ) -> list[UndefinedWord]:
        """What an access of private memory leaves there, and by register what it loads."""
        item, registers = code.item, written_in_order(code)
        if not wave.exec:
            return [DEFINED] * len(registers)
        places = self._own
        memory = self._private_of(wave, places, size_of(item))
        if memory is None or places is None:
            return self._private_as_one(wave, code, memory, len(registers))
        places = np.where(wave.active, places, 0)
        for at, word in enumerate(stored):
            for byte, origins in _bytes_stored(code, word):
                row = places + _WORD * at + byte
                memory[row[wave.active], _LANES[wave.active]] = origins[wave.active]
        found = []
        for at in range(len(registers)):
            held = [
                self._named(memory[places + _WORD * at + byte, _LANES], code)
                for byte in range(_bytes(code))
            ]
            found.append(_loaded(code, held))
        return found

    def _private_of(self, wave: Wave, places: Places | None, size: int) -> Origins | None:
        """The bytes of every lane, as many as are touched; None where places are outside."""
        memory = self._private.get(wave.number)
        if places is None:
            return memory
        active = places[wave.active]
        limit = self._group.private_bytes
        end = int(active.max()) + size
        if active.min() < 0 or end > (1 << 20) or (limit is not None and end > limit):
            return None
        have = 0 if memory is None else len(memory)
        if memory is None or have < end:
            more = np.full((max(end, 2 * have) - have, LANES), _NEVER_WRITTEN, np.int32)
            memory = more if memory is None else np.concatenate([memory, more])
            self._private[wave.number] = memory
        return memory

    def _private_as_one(
        self, wave: Wave, code: DecodedInstruction, memory: Origins | None, count: int
    ) -> list[UndefinedWord]:
        """An access at a place that is not known: a store is taken to define all of it."""
        if "_store_" in code.item.base:
            self.define_private(wave)
        return [DEFINED] * count

    def define_private(self, wave: Wave) -> None:
        """All private memory of active lanes may have been written."""
        memory = self._private.get(wave.number)
        limit = self._group.private_bytes
        if memory is None and limit:
            memory = np.full((limit, LANES), _NEVER_WRITTEN, np.int32)
            self._private[wave.number] = memory
        if memory is not None:
            memory[:, wave.active] = NOWHERE

    # ----------------------------------------------------------------------------- copies

    def through_copies(self, code: DecodedInstruction) -> list[Origins]:
        """What copies write to LDS is defined; what they read of it is used."""
        found = [
            np.full(1, self._held_in(code, footprint), np.int32)
            for footprint in self._footprints(write=False)
        ]
        for footprint in self._footprints(write=True):
            self._fill(footprint, NOWHERE)
        return found

    # ------------------------------------------------------------------------------- arms

    def read_in_arms(self, begun: int) -> list[UndefinedWord]:
        """What arms that data choose may find in LDS. What they store there may not be stored, so
        that what was there stays."""
        found = []
        for event, use in lds_uses(self._group.events[begun:]):
            if not use.write or use.atomic:
                held = self._held_at(event.instruction, use.footprint)
                if held != NOWHERE:
                    every = np.full(LANES, 0xFFFF_FFFF, np.uint32)
                    found.append(UndefinedWord(every, np.full(LANES, held, np.int32)).unsure())
        return found

    def stored_in_arms(self, begun: int, origin: int) -> None:
        """What arms store is undefined."""
        for _, use in lds_uses(self._group.events[begun:]):
            if use.write:
                self._fill(use.footprint, origin)

    def _footprints(self, *, write: bool) -> list[Footprint]:
        """What the instruction has touched of LDS; an atomic operation writes."""
        return [
            use.footprint
            for event in self._group.events[self.begun :]
            if isinstance(event, OperationIssued)
            for use in event.uses
            if use.write == write and use.footprint.space is MemorySpace.SHARED
        ]

    def _held_in(self, code: DecodedInstruction, footprint: Footprint) -> int:
        return self._held_at(code.number, footprint)

    def _held_at(self, number: int, footprint: Footprint) -> int:
        """What an instruction reads that is undefined; bytes that nothing has written come from
        it."""
        found = NOWHERE
        for low, high in footprint.ranges():
            here = self._lds[low:high]
            found = max(found, int(np.where(here == _NEVER_WRITTEN, number, here).max()))
        return found

    def _fill(self, footprint: Footprint, origin: int) -> None:
        for low, high in footprint.ranges():
            self._lds[low:high] = origin


def _bytes(code: DecodedInstruction) -> int:
    """The bytes of memory that each register of an access has."""
    return min(size_of(code.item), _WORD)


def _bytes_stored(code: DecodedInstruction, word: UndefinedWord) -> list[tuple[int, Origins]]:
    """By its distance from the place: the origin of each byte of a register that is stored."""
    first = 2 if code.item.base.endswith("_d16_hi") else 0
    origins = without_certain(word.origins)
    return [
        (
            byte,
            np.where(word.bits >> np.uint32(8 * (first + byte)) & np.uint32(255), origins,
                     np.int32(NOWHERE)),
        )
        for byte in range(_bytes(code))
    ]  # fmt: skip


def _loaded(code: DecodedInstruction, held: Sequence[Origins]) -> UndefinedWord:
    """The word of a register from the origins of its bytes in memory; without what it keeps."""
    bits, origins = np.zeros(LANES, np.uint32), np.full(LANES, NOWHERE, np.int32)
    words = code.item.base.split("_")
    signed = any(word in ("i8", "i16", "sbyte", "sshort") for word in words)
    last = len(held) - 1
    for byte, one in enumerate(held):
        mask = np.uint32(0xFF << 8 * byte)
        if byte == last and signed:
            mask = np.uint32(0xFFFF_FFFF & ~((1 << 8 * byte) - 1))
        bits = bits | np.where(one != NOWHERE, mask, np.uint32(0))
        origins = np.maximum(origins, one)
    if "d16" in words:
        bits = bits & np.uint32(0xFFFF)
        bits = bits << np.uint32(16) if words[-1] == "hi" else bits
    return UndefinedWord(bits, origins)
