"""Which of what nothing has written decides something, or is left in global memory.

Looks on while a run is made, and follows *undefined* bits, lane by lane: of registers that nothing
has written, what an instruction finds in LDS or private memory before anything has written it, and
all that is made of it, through arithmetic, exchanges of lanes and memory. Of a scalar register the
bits are followed, which are the lanes where it is a mask. Undefined bits are *used* where they
decide control, an address or which lanes take part, or are stored to global memory.

Taken as defined: private memory behind a store to it whose place is not known, or at a flat
address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from titan.isa.gcn.module import AssemblyFile, AssemblyKernel, GcnOperand
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import VCC
from titan.isa.simt.outcome import RegisterUse, Run
from titan.isa.waves.decode import (
    SCALAR_BASE,
    DecodedInstruction,
    register_name,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.private_steps import size_of
from titan.isa.waves.skipped_lanes import SkippedArms
from titan.isa.waves.state import LANES, Wave, lanes_of
from titan.isa.waves.undefined_memory import UndefinedMemory
from titan.isa.waves.undefined_scalars import UndefinedScalars
from titan.isa.waves.undefined_vectors import UndefinedVectors
from titan.isa.waves.undefined_words import (
    CERTAIN,
    DEFINED,
    NOWHERE,
    OF_REGISTERS,
    Origins,
    UndefinedWord,
    merged,
    of_register,
)
from titan.isa.waves.unwritten_registers import unwritten_at_start

_VCC = (SCALAR_BASE + VCC, SCALAR_BASE + VCC + 1)
_VECTORS = (OpcodeKind.VECTOR, OpcodeKind.MATRIX, OpcodeKind.CROSS_LANE)
_STORING = (OpcodeKind.GLOBAL, OpcodeKind.BUFFER, OpcodeKind.FLAT, OpcodeKind.SCRATCH)
_RESOURCE_WORDS = 4


class UnwrittenUses(NamedTuple):
    """What is used: reads of memory, by their instructions, and registers."""

    reads: frozenset[int]
    registers: tuple[RegisterUse, ...] = ()


def undefined_uses(
    assembly: AssemblyFile, kernel: AssemblyKernel, run: Run
) -> UnwrittenUses | None:
    """What a run uses that nothing has written. None if the run made again ends in another way."""
    left = None
    while True:
        cta = run.events[0].cta
        machine = WaveMachine(assembly, kernel, run.launch, cta, run.instructions + 1)
        if left is not None:
            machine.group.initial = left
        machine.follower = follower = UndefinedFollower(machine)
        again = machine.run()
        if again.outcome == run.outcome:
            return follower.uses()
        before, left = left, machine.group.unwritten()
        if left is None or before is not None:
            return None


class UndefinedFollower:
    """`used`: the reads of memory whose values are used."""

    def __init__(self, machine: WaveMachine) -> None:
        self.used: set[int] = set()
        self._used_registers: dict[int, tuple[int, bool]] = {}
        self._later = machine.later is not None
        self._group: WaveGroup = machine.group
        self._memory = UndefinedMemory(machine.group)
        self._scalars = UndefinedScalars(machine.waves)
        self._vectors = UndefinedVectors(self._scalars, machine.code.target)
        for wave in machine.waves:
            for register, lanes in unwritten_at_start(wave).items():
                if register >= SCALAR_BASE:
                    self._scalars.begin(wave, register)
                else:
                    self._vectors.begin(wave, register, of_register(register), lanes_of(lanes))
        self._stored: list[UndefinedWord] = []
        self._number = -1

    def uses(self) -> UnwrittenUses:
        """What is used."""
        registers = [
            RegisterUse(register_name(register, self._later), *use)
            for register, use in self._used_registers.items()
        ]
        return UnwrittenUses(frozenset(self.used), tuple(registers))

    # -------------------------------------------------------------------------- execution

    def before(self, wave: Wave, code: DecodedInstruction) -> None:
        """Note what an instruction uses; it may overwrite its own operands."""
        self._number = code.number
        base, kind = code.item.base, code.opcode.kind
        if kind is OpcodeKind.CONTROL:
            if "scc" in base:
                self._use([self._scalars.condition(wave)], False)
            if "vcc" in base:
                registers = _VCC[:1] if self._later else _VCC  # of waves of 32 lanes one word
                self._use((self._scalars.of(wave, one) for one in registers), False)
            for register in code.writes:
                self._scalars.define(wave, register)
        elif kind is OpcodeKind.SCALAR:
            self._scalars.compute(wave, code)
        elif kind in _VECTORS:
            self._vectors.compute(wave, code)
        else:
            self._memory.begin(wave, code)
            self._group.places = None
            data = self._data(code)
            self._stored = [self._vectors.of(wave, register) for register in data]
            self._use_places(wave, code, code.reads.difference(data))

    def after(self, wave: Wave, code: DecodedInstruction) -> None:
        """Note what it leaves undefined."""
        kind = code.opcode.kind
        if kind is OpcodeKind.SCALAR:
            self._use(self._scalars.leave(wave, code), True)
        elif kind in _VECTORS:
            self._use(self._vectors.leave(wave, code), False)
        elif kind is OpcodeKind.LDS:
            found = self._memory.through_lds(wave, code, self._stored)
            self._use([one.origins for one in found.used], False)
            self._load(wave, code, found.loaded)
        elif kind is OpcodeKind.SCRATCH:
            self._load(wave, code, self._memory.through_private(wave, code, self._stored))
        else:
            self._through_memory(wave, code)

    def skipped(self, wave: Wave, arms: SkippedArms, begun: int) -> None:
        """Arms whose lanes data choose have been skipped; from `begun` on events are theirs."""
        self._number = arms.number
        self._use(self._scalars.made_now(), False)
        self._use(self._vectors.made_now(wave), False)
        read = [
            self._vectors.of(wave, register).where(lanes_of(lanes)).unsure()
            for register, lanes in arms.reads.items()
            if register < SCALAR_BASE
        ]
        read += [
            self._scalars.word(wave, register).unsure()
            for register in arms.reads
            if register >= SCALAR_BASE
        ]
        read += self._memory.read_in_arms(begun)
        taken = merged(read)
        if taken.any:
            self._memory.stored_in_arms(begun, int(taken.origins.max()))
        if arms.reads_condition:
            self._use([self._scalars.condition(wave)], False)
        if arms.queues.accesses or arms.branches:
            self._use([taken.origins], False)  # it may decide an address or a branch, or be stored
        for register in arms.vectors:
            left = ~lanes_of(arms.surely.get(register, 0) & wave.lanes_all)
            kept = self._vectors.of(wave, register).where(left).unsure()
            new = kept
            if taken.any:
                new = merged([of_all(taken), kept])
                arms.left.written.pop(register, None)
            self._vectors.put(wave, register, new, np.ones(LANES, np.bool_))
        for register in arms.scalars:
            number = SCALAR_BASE + register
            if arms.surely.get(number):
                self._scalars.define(wave, number)
            self._scalars.leave_arms(wave, number, taken)

    # ------------------------------------------------------------------------------- uses

    def _use(self, found: Iterable[Origins], may_be_certain: bool) -> None:
        for origins in found:
            for one in np.unique(origins):
                if one != NOWHERE:
                    self._note(int(one), may_be_certain)

    def _note(self, origin: int, may_be_certain: bool) -> None:
        certain = bool(origin & CERTAIN) and may_be_certain
        origin &= ~CERTAIN
        if origin < OF_REGISTERS:
            self.used.add(origin)
            return
        register = origin - OF_REGISTERS
        known = self._used_registers.get(register)
        if known is None or (certain and not known[1]):
            self._used_registers[register] = self._number, certain

    def _use_places(self, wave: Wave, code: DecodedInstruction, registers: Iterable[int]) -> None:
        """What says where memory is accessed."""
        resource = {
            at
            for operand in code.item.operands
            if len(register_numbers(operand)) >= _RESOURCE_WORDS
            for at in register_numbers(operand)
        }
        lanes = wave.active
        for register in registers:
            certain = register not in resource and code.opcode.kind is not OpcodeKind.TENSOR
            if register >= SCALAR_BASE:
                self._use([self._scalars.of(wave, register)], certain)
            else:
                self._use([self._vectors.of(wave, register).where(lanes).origins], certain)

    # ----------------------------------------------------------------------------- memory

    @staticmethod
    def _data(code: DecodedInstruction) -> list[int]:
        """The registers that an instruction writes to memory."""
        kind, item = code.opcode.kind, code.item
        given: Sequence[GcnOperand] = ()
        if kind is OpcodeKind.LDS:
            given = item.operands[results_of(item, code.opcode) + 1 :]
        elif "_store_" in item.base and kind in _STORING and "_async_" not in item.base:
            at = 0 if kind is OpcodeKind.BUFFER else 1
            given = item.operands[at : at + 1]
        return [register for operand in given for register in register_numbers(operand)]

    def _load(self, wave: Wave, code: DecodedInstruction, loaded: Sequence[UndefinedWord]) -> None:
        """What is loaded from LDS or private memory goes to registers."""
        for register, word in zip(written_in_order(code), loaded, strict=True):
            self._vectors.put(wave, register, word, wave.active)

    def _through_memory(self, wave: Wave, code: DecodedInstruction) -> None:
        """Global memory, and copies between it and LDS."""
        self._use(self._memory.through_copies(code), False)
        if code.opcode.kind is OpcodeKind.FLAT:
            self._memory.define_private(wave)
        if self._stored and self._group.events[self._memory.begun :]:
            self._use_stored(wave, code)
        for register in written_in_order(code):
            if register >= SCALAR_BASE:
                self._scalars.define(wave, register)
                continue
            self._vectors.put(wave, register, DEFINED, wave.active)

    def _use_stored(self, wave: Wave, code: DecodedInstruction) -> None:
        """What goes to global memory, of the lanes that store. Some words of several may fill a
        vector store up alone, so that nobody uses them later."""
        lanes = wave.active
        if self._group.places is not None:
            lanes = lanes & (self._group.places >= 0)
        stored = [word.within(stored_bits(code)).where(lanes) for word in self._stored]
        whole = np.all([word.bits != 0 for word in stored], axis=0)
        for word in stored:
            self._use([word.where(whole).origins], True)
            self._use([word.where(~whole).origins], False)


def of_all(taken: UndefinedWord) -> UndefinedWord:
    """All bits of all lanes rest on it."""
    bits = np.full(LANES, 0xFFFF_FFFF, np.uint32)
    return UndefinedWord(bits, np.full(LANES, taken.origins.max(), np.int32))


def stored_bits(code: DecodedInstruction) -> int:
    """The bits of each register that a store takes."""
    size = size_of(code.item)
    if size >= 4:
        return 0xFFFF_FFFF
    return (1 << 8 * size) - 1 << (16 if code.item.base.endswith("_d16_hi") else 0)
