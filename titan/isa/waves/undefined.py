"""Which reads of LDS that nothing has written decide something, or are left in global memory.

Looks on while a run is made, and follows *undefined* bits: what an instruction finds in LDS before
anything has written it, and all that is made of it. Of a vector register the lanes are followed, of
a scalar register the bits, which are the lanes where it is a mask. They are *used* where they
decide control, an address or which lanes take part, or are stored to global or private memory.

What goes across lanes, and products of matrices, are undefined in all lanes if something is in one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyFile, AssemblyKernel
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC, VCC
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run
from titan.isa.waves.decode import (
    SCALAR_BASE,
    DecodedInstruction,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.events import OperationIssued
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.memory_steps import LDS_ADDRESS, lds_addresses, lds_offsets
from titan.isa.waves.moved_lanes import dpp_goes
from titan.isa.waves.numbering import keeps_part, of_all_lanes
from titan.isa.waves.private_steps import size_of
from titan.isa.waves.sources import vector_source
from titan.isa.waves.state import LANES, OpaqueWord, Wave

Origins = NDArray[np.int32]  # the instruction that read something; `_DEFINED`
_DEFINED, _NEVER_WRITTEN = -1, -2
_BITS = 32
_CONDITION = -1  # beside the registers
_MASKED = ("v_cndmask_b32", "v_addc_", "v_subb_", "v_subbrev_", "v_add_co_ci_", "v_sub_co_ci_")
_BITWISE = ("s_mov_b", "s_and_b", "s_or_b", "s_xor_b", "s_andn2_b", "s_orn2_b", "s_not_b")
_BY_CONDITION = ("s_cselect", "s_addc", "s_subb", "s_cmov")
_THROUGH_REGISTERS = frozenset(
    (OpcodeKind.VECTOR, OpcodeKind.MATRIX, OpcodeKind.CROSS_LANE, OpcodeKind.SCALAR)
)


def undefined_uses(
    assembly: AssemblyFile, kernel: AssemblyKernel, run: Run
) -> frozenset[int] | None:
    """The instructions that read something in LDS which nothing has written, and which is used.

    None if the run made again ends in another way.
    """
    machine = WaveMachine(assembly, kernel, run.launch, run.events[0].cta, run.instructions + 1)
    machine.follower = follower = UndefinedFollower(machine.group)
    again = machine.run()
    return frozenset(follower.used) if again.outcome == run.outcome else None


class UndefinedFollower:
    """`used`: the reads whose values are used."""

    def __init__(self, group: WaveGroup) -> None:
        self.used: set[int] = set()
        self._group = group
        self._registers: dict[tuple[int, int], Origins] = {}
        self._lds: Origins = np.full(group.lds_bytes + LANES, _NEVER_WRITTEN, np.int32)
        self._begun = 0
        self._stored: dict[int, Origins] = {}
        self._made: Origins = np.full(LANES, _DEFINED, np.int32)

    # -------------------------------------------------------------------------- execution

    def before(self, wave: Wave, code: DecodedInstruction) -> None:
        """Note what an instruction uses; it may overwrite its own operands."""
        self._begun = len(self._group.events)
        base, kind = code.item.base, code.opcode.kind
        if kind is OpcodeKind.CONTROL:
            for part, registers in (
                ("scc", (_CONDITION,)),
                ("vcc", (SCALAR_BASE + VCC, SCALAR_BASE + VCC + 1)),
            ):
                if part in base:
                    self._use(self._registers.get((wave.number, one)) for one in registers)
            return
        if kind in _THROUGH_REGISTERS:
            self._made = self._computed(wave, code)
            return
        data = self._data_registers(code)
        others = code.reads.difference(data) if kind is OpcodeKind.LDS else code.reads
        self._use(self._active(wave, register) for register in others)
        self._stored = {register: self._lanes(wave, register) for register in data}

    def after(self, wave: Wave, code: DecodedInstruction) -> None:
        """Note what it leaves undefined."""
        if code.opcode.kind in _THROUGH_REGISTERS:
            self._write(wave, code, self._made)
        elif code.opcode.kind is OpcodeKind.LDS:
            self._through_lds(wave, code)
        else:
            self._through_memory(wave, code)

    def _use(self, found: Iterable[Origins | None]) -> None:
        for origins in found:
            if origins is not None:
                self.used.update(int(one) for one in np.unique(origins) if one != _DEFINED)

    # -------------------------------------------------------------------------- registers

    def _lanes(self, wave: Wave, register: int) -> Origins:
        """By lane what is undefined of a vector register, by lane all of a scalar one."""
        found = self._registers.get((wave.number, register))
        if found is None:
            return np.full(LANES, _DEFINED, np.int32)
        return found if register < SCALAR_BASE else np.full(LANES, found.max(), np.int32)

    def _active(self, wave: Wave, register: int) -> Origins:
        return np.where(wave.active, self._lanes(wave, register), _DEFINED)

    def _mask(self, wave: Wave, registers: Iterable[int]) -> Origins:
        """By lane the bits of a mask, in one or two scalar registers."""
        found = np.full(LANES, _DEFINED, np.int32)
        for at, register in enumerate(registers):
            bits = self._registers.get((wave.number, register))
            if bits is not None:
                found[_BITS * at : _BITS * at + _BITS] = bits
        return found

    def _computed(self, wave: Wave, code: DecodedInstruction) -> Origins:
        """By lane what a result rests on."""
        if not self._registers:
            return np.full(LANES, _DEFINED, np.int32)
        item, base = code.item, code.item.base
        if code.opcode.kind is OpcodeKind.SCALAR:
            return self._computed_scalar(wave, code)
        registers = set(code.reads)
        if keeps_part(item):
            registers |= code.writes
        found = np.full(LANES, _DEFINED, np.int32)
        if base.startswith(_MASKED):
            mask = self._mask_operand(code)
            registers -= set(mask)
            found = self._mask(wave, mask)
            chosen = self._chosen(wave, code, mask)
            if chosen is not None:
                return np.maximum(found, chosen)
        for register in registers:
            found = np.maximum(found, self._lanes(wave, register))
        if of_all_lanes(code) or item.opcode.endswith("_dpp"):
            return np.full(LANES, found.max(), np.int32)
        return found

    @staticmethod
    def _mask_operand(code: DecodedInstruction) -> tuple[int, ...]:
        results = results_of(code.item, code.opcode)
        given = code.item.operands[results:]
        if len(given) > 2:
            return tuple(register_numbers(given[2]))
        return SCALAR_BASE + VCC, SCALAR_BASE + VCC + 1

    def _chosen(
        self, wave: Wave, code: DecodedInstruction, mask: tuple[int, ...]
    ) -> Origins | None:
        """The operand that v_cndmask takes in each lane, where its mask is known."""
        if code.item.base != "v_cndmask_b32" or code.item.opcode.endswith(("_dpp", "_sdwa")):
            return None
        bits = 0
        for at, register in enumerate(mask):
            word = wave.scalar(register - SCALAR_BASE)
            if isinstance(word, OpaqueWord):
                return None
            bits |= word << _BITS * at
        taken = np.array([bits >> index & 1 for index in range(LANES)], np.bool_)
        given = code.item.operands[results_of(code.item, code.opcode) :]
        one, other = (
            next((self._lanes(wave, at) for at in register_numbers(operand)),
                 np.full(LANES, _DEFINED, np.int32))
            for operand in given[:2]
        )  # fmt: skip
        return np.where(taken, other, one)

    def _computed_scalar(self, wave: Wave, code: DecodedInstruction) -> Origins:
        """By bit of two words what scalar results rest on; the bits of masks stay apart."""
        base = code.item.base
        found = np.full(2 * _BITS, _DEFINED, np.int32)
        given = code.item.operands[results_of(code.item, code.opcode) :]
        if base.startswith(_BITWISE):
            for operand in given:
                found = np.maximum(found, self._mask(wave, register_numbers(operand)))
        else:
            for register in code.reads:
                bits = self._registers.get((wave.number, register))
                if bits is not None:
                    found = np.maximum(found, bits.max())
        condition = self._registers.get((wave.number, _CONDITION))
        if condition is not None and base.startswith(_BY_CONDITION):
            found = np.maximum(found, condition.max())
        if "saveexec" in base:
            self._use([found])
        self._set((wave.number, _CONDITION), np.full(1, found.max(), np.int32))
        return found

    def _write(self, wave: Wave, code: DecodedInstruction, made: Origins) -> None:
        for at, register in enumerate(written_in_order(code)):
            self._write_one(wave, code, register, at, made)
        if code.item.base.startswith("v_cmpx"):
            self._use([np.where(wave.active, made, _DEFINED)])

    def _write_one(
        self, wave: Wave, code: DecodedInstruction, register: int, at: int, made: Origins
    ) -> None:
        key = wave.number, register
        if register >= SCALAR_BASE:
            if code.opcode.kind is OpcodeKind.SCALAR:
                bits = made[:_BITS] if at % 2 == 0 else made[_BITS:]
            elif code.item.base.startswith(("v_readlane", "v_readfirstlane")):
                bits = np.full(_BITS, made.max(), np.int32)
            else:  # a mask, of which lanes that take no part have zeros
                first = _BITS * (register - self._first_scalar(code))
                bits = np.where(wave.active, made, _DEFINED)[first : first + _BITS]
            if register - SCALAR_BASE in (EXEC, EXEC + 1):
                self._use([bits])
            self._set(key, bits.copy())
            return
        old = self._registers.get(key, np.full(LANES, _DEFINED, np.int32))
        written = wave.active
        if code.item.opcode.endswith("_dpp"):
            moved = dpp_goes(code.item, wave.active)
            made = np.maximum(made, old) if moved is None else made
            written = written if moved is None else written & moved
        self._set(key, np.where(written, made, old))

    @staticmethod
    def _first_scalar(code: DecodedInstruction) -> int:
        return min(one for one in written_in_order(code) if one >= SCALAR_BASE)

    def _set(self, key: tuple[int, int], origins: Origins) -> None:
        if (origins != _DEFINED).any():
            self._registers[key] = origins
        else:
            self._registers.pop(key, None)

    # ----------------------------------------------------------------------------- memory

    @staticmethod
    def _data_registers(code: DecodedInstruction) -> list[int]:
        """What an instruction of LDS writes to it."""
        if code.opcode.kind is not OpcodeKind.LDS:
            return []
        given = code.item.operands[results_of(code.item, code.opcode) + 1 :]
        return [register for operand in given for register in register_numbers(operand)]

    def _through_lds(self, wave: Wave, code: DecodedInstruction) -> None:
        item = code.item
        if item.base == "ds_nop" or not wave.exec:
            return
        reads = item.base.startswith(("ds_read", "ds_load_tr"))
        writes = item.base.startswith("ds_write")
        rows = None
        if (reads or writes) and "_tr" not in item.base and "addtid" not in item.base:
            rows = self._places(wave, code)
        if rows is None:
            self._as_one(wave, code, reads, writes)
        elif reads:
            self._loaded(wave, code, rows)
        else:
            self._written(wave, code, rows)

    def _places(self, wave: Wave, code: DecodedInstruction) -> list[NDArray[np.int64]] | None:
        """The address of each lane at each offset; None if they are not known, or beyond LDS."""
        size = size_of(code.item)
        operand = code.item.operands[results_of(code.item, code.opcode)]
        addresses = lds_addresses(wave, vector_source(operand, code.number), code.item)
        if addresses is None:
            return None
        rows = [addresses + offset & LDS_ADDRESS for offset in lds_offsets(code.item, size)]
        inside = all((row[wave.active] + size <= self._group.lds_bytes).all() for row in rows)
        return rows if inside else None

    def _held(self, code: DecodedInstruction, places: NDArray[np.int64], count: int) -> Origins:
        """The origin of what is undefined in `count` bytes at each place."""
        found = np.full(places.shape, _DEFINED, np.int32)
        for byte in range(count):
            here = self._lds[places + byte]
            found = np.maximum(found, np.where(here == _NEVER_WRITTEN, code.number, here))
        return found

    def _loaded(self, wave: Wave, code: DecodedInstruction, rows: list[NDArray[np.int64]]) -> None:
        size, registers = size_of(code.item), written_in_order(code)
        each = max(1, size // 4)
        for at, register in enumerate(registers):
            row, part = divmod(at, each)
            places = np.where(wave.active, rows[min(row, len(rows) - 1)], 0) + 4 * part
            made = self._held(code, places, min(size, 4))
            old = self._registers.get((wave.number, register), np.full(LANES, _DEFINED, np.int32))
            if size < 4 and "d16" in code.item.base:
                made = np.maximum(made, old)
            self._set((wave.number, register), np.where(wave.active, made, old))

    def _written(self, wave: Wave, code: DecodedInstruction, rows: list[NDArray[np.int64]]) -> None:
        size, data = size_of(code.item), self._data_registers(code)
        each = max(1, size // 4)
        for at, register in enumerate(data):
            row, part = divmod(at, each)
            places = rows[min(row, len(rows) - 1)][wave.active] + 4 * part
            for byte in range(min(size, 4)):
                self._lds[places + byte] = self._stored[register][wave.active]

    def _as_one(self, wave: Wave, code: DecodedInstruction, reads: bool, writes: bool) -> None:
        """An access of LDS whose lanes are taken as one."""
        data = [np.where(wave.active, one, _DEFINED) for one in self._stored.values()]
        some = max((int(one.max()) for one in data), default=_DEFINED)
        held = _DEFINED
        for footprint in self._footprints(write=not reads):
            held = max(held, self._held_in(code, footprint))
            if writes:
                self._fill(footprint, some)
        if not writes and not reads:  # atomic: what was there stays undefined
            self._use(data)
        made = np.full(LANES, held, np.int32)
        for register in written_in_order(code):
            old = self._registers.get((wave.number, register), np.full(LANES, _DEFINED, np.int32))
            self._set((wave.number, register), np.where(wave.active, made, old))

    def _through_memory(self, wave: Wave, code: DecodedInstruction) -> None:
        """Global and private memory, and copies between it and LDS."""
        for footprint in self._footprints(write=False):
            held = self._held_in(code, footprint)
            self._use([np.full(1, held, np.int32)])
        for footprint in self._footprints(write=True):
            self._fill(footprint, _DEFINED)
        for register in written_in_order(code):
            old = self._registers.get((wave.number, register))
            if old is None:
                continue
            kept = np.where(wave.active, _DEFINED, old) if register < SCALAR_BASE else old[:0]
            self._set((wave.number, register), kept)

    def _footprints(self, *, write: bool) -> list[Footprint]:
        """What the instruction has touched of LDS; an atomic operation writes."""
        return [
            use.footprint
            for event in self._group.events[self._begun :]
            if isinstance(event, OperationIssued)
            for use in event.uses
            if use.write == write and use.footprint.space is MemorySpace.SHARED
        ]

    def _held_in(self, code: DecodedInstruction, footprint: Footprint) -> int:
        found = _DEFINED
        for low, high in footprint.ranges():
            here = self._lds[low:high]
            found = max(found, int(np.where(here == _NEVER_WRITTEN, code.number, here).max()))
        return found

    def _fill(self, footprint: Footprint, origin: int) -> None:
        for low, high in footprint.ranges():
            self._lds[low:high] = origin
