"""What gfx1250 adds to a wave: its wait instructions, its barrier in two halves, registers in use.

xcnt: an access may be replayed until its addresses are translated, so the registers that it reads
(and exec) keep their values so long. Translations of vector memory are in order, those of scalar
memory in none, and a wave never has both: the first of one kind waits for all of the other. What
has returned has been translated; branches, barriers and messages wait for all of them. Copies past
the registers are left out, as LLVM waits for none of theirs, and AMD exempts tensor copies.

Expert scheduling (HW_REG_WAVE_SCHED_MODE 2): the hardware no longer waits where a memory
instruction uses the result of a vector instruction (va_vdst), nor where a register is overwritten
that a memory instruction still reads (vm_vsrc). Units are in order each, and in no order with each
other; vector instructions wait for results of other units, and what has returned has read its
registers. A load may also overwrite what a vector instruction reads that va_vdst still counts.

Barriers: `s_barrier_signal` arrives, `s_barrier_wait` waits for the generation of the wave's own
arrival; each wave arrives once in a generation. The end of a wave drops it.

Sources: LLVM, SIInsertWaitcnts (X_CNT, VA_VDST, VM_VSRC), AMDGPU usage, and AMDGPU execution
synchronization; its changes 198823 (what drains xcnt) and 201619 (loads that follow vector
instructions); a public checker of wait counters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from titan.isa.gcn.module import Literal, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC, NULL
from titan.isa.gcn.reading_gfx1250 import field_text, is_second_half, signed_16
from titan.isa.simt.events import Event
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction, register_name
from titan.isa.waves.events import (
    CounterWait,
    EndsSignalled,
    PendingRegister,
    WaveQueue,
    WaveSignal,
    WaveSignalWait,
)
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.hazard_rules import TRANSCENDENTAL_GFX1250
from titan.isa.waves.state import Refused, Wave

QUEUES = {
    "loadcnt": (WaveQueue.LOADS, WaveQueue.FLAT_LOADS),
    "storecnt": (WaveQueue.STORES, WaveQueue.FLAT_STORES, WaveQueue.SCRATCH_STORES),
    "dscnt": (WaveQueue.DS, WaveQueue.FLAT_DS),
    "kmcnt": (WaveQueue.KM,),
    "asynccnt": (WaveQueue.ASYNC_LOADS, WaveQueue.ASYNC_STORES),
    "tensorcnt": (WaveQueue.TENSOR,),
}
BARRIER = -1
_EXEC_WORD = SCALAR_BASE + EXEC
_NULL_WORD = SCALAR_BASE + NULL
_BY_CACHE = (
    OpcodeKind.GLOBAL, OpcodeKind.FLAT, OpcodeKind.SCRATCH, OpcodeKind.BUFFER, OpcodeKind.TENSOR,
)  # fmt: skip
_LDS = (OpcodeKind.LDS, OpcodeKind.CROSS_LANE)
_VECTOR = (OpcodeKind.VECTOR, OpcodeKind.MATRIX)
_DRAINS = ("s_cbranch_", "s_branch", "s_barrier_signal", "s_barrier_wait", "s_sendmsg")
_SETS_EXEC = ("_saveexec_b32", "_saveexec_b64", "_wrexec_b32", "_wrexec_b64")
_FIELDS = re.compile(r"depctr_(\w+)\((0[xX][0-9a-fA-F]+|\d+)\)")
_REGISTER = re.compile(r"hwreg\(\s*(\w+)\s*(?:,\s*(\w+)\s*,\s*(\w+)\s*)?\)")
_DOUBLE = re.compile(r"_f64|v_cvt_\w*f64")


@dataclass(slots=True)
class _Unit:
    """Instructions of one unit in their order, of which the registers are in use."""

    issued: int = 0
    done: int = 0
    uses: dict[int, tuple[int, int]] = field(default_factory=dict)  # register: number, instruction
    reads: dict[int, tuple[int, int]] = field(default_factory=dict)  # of sources that are kept


@dataclass(slots=True)
class _WaveState:
    """What is known of one wave. `vector`, `scalar`: registers that accesses may read again."""

    vector: dict[int, tuple[int, int]] = field(default_factory=dict)
    issued: int = 0
    scalar: dict[int, int] = field(default_factory=dict)
    expert: bool = False
    results: dict[str, _Unit] = field(default_factory=dict)
    sources: dict[str, _Unit] = field(default_factory=dict)
    prefetches: set[int] = field(default_factory=set)


class LaterTarget:
    """The parts of gfx1250 in one run of a work-group."""

    def __init__(self, group: WaveGroup, waves: list[Wave]) -> None:
        self.group, self.waves = group, waves
        self.states = {wave.number: _WaveState() for wave in waves}

    # ------------------------------------------------------------------------- registers

    def before(self, wave: Wave, code: DecodedInstruction) -> None:
        """Whether a register is written that an access still needs, or used before it is there."""
        state, kind = self.states[wave.number], code.opcode.kind
        written = _written(code)
        if kind in _BY_CACHE:
            state.scalar.clear()
        else:
            self._check(wave, code, written, state.vector, wave.translated, "xcnt")
        if kind is OpcodeKind.SCALAR_MEMORY and code.writes:
            wave.translated = state.issued - 1
        if state.scalar:
            found = {register: (0, at) for register, at in state.scalar.items()}
            self._check(wave, code, written, found, -1, "xcnt")
        if state.expert:
            for unit in state.sources.values():
                self._check(wave, code, written, unit.uses, unit.done - 1, "vm_vsrc")
            if kind in _VECTOR:
                _wait_for_other_units(state, code)
            else:
                for unit in state.results.values():
                    self._check(wave, code, code.touches, unit.uses, unit.done - 1, "va_vdst")
                    self._check(wave, code, written, unit.reads, unit.done - 1, "va_vdst read")

    def _check(
        self, wave: Wave, code: DecodedInstruction, registers: frozenset[int],
        uses: dict[int, tuple[int, int]], done: int, counter: str,
    ) -> None:  # fmt: skip
        if uses.keys().isdisjoint(registers):
            return
        for register in sorted(registers & uses.keys()):
            number, at = uses[register]
            if number <= done:
                continue
            uses.pop(register)
            read = register not in _written(code)
            header = self.group.header(wave, code.number)
            name = register_name(register, True)
            self.group.events.append(PendingRegister(*header, name, not read, at, counter))

    def after(self, wave: Wave, code: DecodedInstruction) -> None:
        """The registers that an instruction keeps in use."""
        state, kind = self.states[wave.number], code.opcode.kind
        if kind in _BY_CACHE and replayed(code):
            number = state.issued
            state.issued = number + 1
            last = wave.last
            if last is not None and last.instruction == code.number:
                last.translation = number
            for register in (*_operands(code), _EXEC_WORD):
                state.vector[register] = number, code.number
        elif kind is OpcodeKind.SCALAR_MEMORY:
            for register in code.reads:
                state.scalar[register] = code.number
        self._alike(wave, code)
        if state.expert:
            self._in_units(state, code)

    def _alike(self, wave: Wave, code: DecodedInstruction) -> None:
        """Registers that get one value in all active lanes, whether or not it is known."""
        for register in code.writes:
            wave.alike.pop(register, None)
        item = code.item
        plain = item.base == "v_mov_b32" and not item.options and len(item.operands) == 2
        if not plain or item.opcode.endswith("_dpp"):
            return
        source = item.operands[1]
        if isinstance(source, Literal) or (isinstance(source, Registers) and source.bank == "s"):
            for register in code.writes:
                wave.alike[register] = wave.exec

    def _in_units(self, state: _WaveState, code: DecodedInstruction) -> None:
        kind = code.opcode.kind
        if kind in _VECTOR:
            units, name = state.results, _unit_of(code)
            registers = frozenset(one for one in code.writes if one < SCALAR_BASE)
        elif kind in _BY_CACHE or kind in _LDS:
            units = state.sources
            flat = kind in (OpcodeKind.GLOBAL, OpcodeKind.FLAT, OpcodeKind.SCRATCH)
            name = "lds" if kind in _LDS else "flat" if flat else "other"
            registers = frozenset(one for one in _operands(code) if one < SCALAR_BASE)
            if code.item.base == "global_prefetch_b8":
                state.prefetches.add(code.number)
        else:
            return
        unit = units.setdefault(name, _Unit())
        unit.issued += not is_second_half(code.item)
        for register in registers:
            unit.uses[register] = unit.issued - 1, code.number
        for register in code.reads if kind in _VECTOR else ():
            if register < SCALAR_BASE:
                unit.reads[register] = unit.issued - 1, code.number

    # --------------------------------------------------------------------------- control

    def control(self, wave: Wave, code: DecodedInstruction) -> bool:
        """Whether the instruction is one of gfx1250 alone; it is executed then."""
        name = code.item.base
        if name.startswith(_DRAINS):
            self.states[wave.number].scalar.clear()
            wave.translated = self.states[wave.number].issued - 1
        if name.startswith(("s_cbranch_", "s_branch")):
            return False
        if name.startswith("s_wait_"):
            self._wait(wave, code, name.removeprefix("s_wait_"))
        elif name == "s_barrier_signal":
            self._signal(wave, code)
        elif name == "s_barrier_wait":
            self._barrier(wave, code)
        elif name.startswith("s_barrier_") or name == "s_get_barrier_state":
            raise Refused(
                f"{name}: only the barrier -1 of a work-group is followed, and not how it stands"
            )
        elif name in _REFUSED or name.startswith(("cluster_load_", "ds_atomic_")):
            raise Refused(f"{name} is not followed")
        elif name.startswith("s_setreg"):
            self._set(wave, code)
        elif name == "s_getreg_b32":
            return self._get(wave, code)
        elif name == "s_endpgm":
            if wave.signals > wave.barriers:
                self._note(wave, code, EndsSignalled)
            return False
        else:
            return name in _NOTHING
        return True

    def _note(
        self, wave: Wave, code: DecodedInstruction, kind: Callable[..., Event], *rest: object
    ) -> None:
        self.group.events.append(kind(*self.group.header(wave, code.number), *rest))

    def _wait(self, wave: Wave, code: DecodedInstruction, name: str) -> None:
        operand = code.item.operands[0] if code.item.operands else None
        if name == "alu":
            self._wait_for_units(wave, code)
            return
        if name == "idle":
            for counter in QUEUES:
                self._counted(wave, code, counter, 0)
            return
        limit = operand.value if isinstance(operand, Literal) else -1
        if not 0 <= limit <= 0xFFFF:
            raise Refused("a wait of an unknown form")
        if name == "xcnt":
            state = self.states[wave.number]
            wave.translated = max(wave.translated, state.issued - 1 - limit)
            if limit == 0:
                state.scalar.clear()
            return
        first, _, second = name.partition("_")
        if second:  # loadcnt_dscnt: bits 8 to 13, and 0 to 5
            self._counted(wave, code, first, limit >> 8 & 63)
            self._counted(wave, code, second, limit & 63)
        else:
            self._counted(wave, code, first, limit)

    def _counted(self, wave: Wave, code: DecodedInstruction, counter: str, limit: int) -> None:
        ended = False
        for queue in QUEUES[counter]:
            entries = wave.in_flight[queue]
            if queue in _FLAT and (limit or not entries):
                continue
            if queue is WaveQueue.KM and limit:
                continue  # returned in any order
            header = self.group.header(wave, code.number)
            self.group.events.append(CounterWait(*header, queue, limit))
            while len(entries) > limit:
                wave.landed(entries.popleft())
                ended = True
        state = self.states[wave.number]
        if counter == "kmcnt" and limit == 0:
            state.scalar.clear()
        if ended and state.expert and counter != "kmcnt":
            self._read_by_ended(wave, state)

    def _read_by_ended(self, wave: Wave, state: _WaveState) -> None:
        """What has returned has read its registers; of a prefetch that is not known."""
        busy = {entry.instruction for queue in wave.in_flight.values() for entry in queue}
        busy |= state.prefetches
        for unit in state.sources.values():
            unit.uses = {one: use for one, use in unit.uses.items() if use[1] in busy}

    def _wait_for_units(self, wave: Wave, code: DecodedInstruction) -> None:
        text = field_text(code.item.operands[0]) if code.item.operands else ""
        if re.fullmatch(r"\s*(0[xX][0-9a-fA-F]+|\d+)\s*", text):
            value = int(text, 0)
            fields = {"va_vdst": value >> 12 & 15, "vm_vsrc": value >> 2 & 7}
        else:
            fields = {name: int(value, 0) for name, value in _FIELDS.findall(text)}
        if not fields:
            raise Refused("a wait of an unknown form")
        state = self.states[wave.number]
        for name, most, units in (("va_vdst", 15, state.results), ("vm_vsrc", 7, state.sources)):
            limit = fields.get(name, most)
            for unit in units.values() if limit < most else ():
                unit.done = max(unit.done, unit.issued - limit)

    # -------------------------------------------------------------------------- barriers

    def _signal(self, wave: Wave, code: DecodedInstruction) -> None:
        _of_work_group(code)
        again = wave.signals > wave.barriers
        self._note(wave, code, WaveSignal, wave.signals, again)
        wave.signals += 1

    def _barrier(self, wave: Wave, code: DecodedInstruction) -> None:
        _of_work_group(code)
        if self.complete(wave.barriers):
            self._note(wave, code, WaveSignalWait, wave.barriers)
            wave.barriers += 1
            return
        wave.place = code.number
        wave.at_barrier = True

    def complete(self, generation: int) -> bool:
        """Whether all waves that have not ended have arrived so often."""
        return all(wave.ended or wave.signals > generation for wave in self.waves)

    def hung(self, decoded: Callable[[int], DecodedInstruction]) -> Iterator[Wave]:
        """The waves that wait for a generation which nobody completes any more."""
        for wave in self.waves:
            if not wave.ended:
                self._note(wave, decoded(wave.place), WaveSignalWait, wave.barriers, True)
                yield wave

    # ------------------------------------------------------------------ hardware registers

    def _set(self, wave: Wave, code: DecodedInstruction) -> None:
        """Rounding, exceptions and the like do not matter; scheduling and priority are followed."""
        name, first, bits = _hardware_register(code)
        value = code.item.operands[1] if len(code.item.operands) > 1 else None
        if name == "HW_REG_WAVE_SCHED_MODE":
            if (
                not isinstance(value, Literal)
                or (first, bits) != (0, 2)
                or value.value not in (0, 2)
            ):
                raise Refused("a scheduling mode that is not known")
            state = self.states[wave.number]
            if value.value == 0:
                state.results.clear()
                state.sources.clear()
            state.expert = value.value == 2
        elif name == "HW_REG_WAVE_MODE":
            plain = isinstance(value, Literal) and not value.value >> 12 & 0xFF
            if not plain or (first < 20 and first + bits > 12):
                raise Refused("the bits of registers beyond v255 in the mode of a wave")
        else:
            raise Refused(f"{name} is not followed")

    def _get(self, wave: Wave, code: DecodedInstruction) -> bool:
        """Whether it says that the work-group is in no cluster, as launches here are."""
        if _hardware_register(code) != ("HW_REG_IB_STS2", 6, 4):
            return False
        for register in code.writes:
            wave.set_scalar(register - SCALAR_BASE, 0)
        return True


_FLAT = (WaveQueue.FLAT_DS, WaveQueue.FLAT_LOADS, WaveQueue.FLAT_STORES)
_REFUSED = frozenset(("s_alloc_vgpr", "s_wakeup_barrier", "s_rfe_b64"))
_NOTHING = frozenset(
    (
        "s_delay_alu", "s_clause", "s_setprio_inc_wg", "s_set_vgpr_msb", "s_nop", "s_setprio",
        "s_sleep", "s_icache_inv", "s_sendmsg", "s_sleep_var", "s_monitor_sleep", "s_version",
    )
)  # fmt: skip


def _hardware_register(code: DecodedInstruction) -> tuple[str, int, int]:
    written = code.item.base.startswith("s_getreg")
    operands = code.item.operands[int(written) :]
    found = _REGISTER.fullmatch(field_text(operands[0])) if operands else None
    if found is None:
        return "a hardware register", 0, 32
    return found[1], int(found[2] or "0", 0), int(found[3] or "32", 0)


def _of_work_group(code: DecodedInstruction) -> None:
    operand = code.item.operands[0] if code.item.operands else None
    number = None if operand is None else signed_16(operand)
    if number == BARRIER:
        return
    what = {
        -3: "the barrier of a cluster", -4: "the barrier of a cluster", None: "m0",
    }.get(number, f"the barrier {number}")  # fmt: skip
    raise Refused(f"{code.item.base} of {what} is not followed, only of the barrier -1, which")


def replayed(code: DecodedInstruction) -> bool:
    """Whether an access of vector memory begins again where a translation was missing."""
    name = code.item.base
    return code.opcode.kind is not OpcodeKind.TENSOR and not (
        "_async_" in name or name == "global_prefetch_b8"
    )


def _written(code: DecodedInstruction) -> frozenset[int]:
    written = code.writes
    if code.item.opcode.endswith(_SETS_EXEC):
        written |= {_EXEC_WORD}
    return written - {_NULL_WORD}


def _operands(code: DecodedInstruction) -> frozenset[int]:
    """What an access reads: a load that replaces its own address is no matter."""
    return code.reads - {_NULL_WORD}


def _wait_for_other_units(state: _WaveState, code: DecodedInstruction) -> None:
    """The hardware waits where a vector instruction uses what another unit writes."""
    own = _unit_of(code)
    for name, unit in state.results.items():
        if name != own and not unit.uses.keys().isdisjoint(code.touches):
            newest = max(unit.uses[one][0] for one in unit.uses.keys() & code.touches)
            unit.done = max(unit.done, newest + 1)


def _unit_of(code: DecodedInstruction) -> str:
    name = code.item.base
    if code.opcode.kind is OpcodeKind.MATRIX:
        return "matrix"
    if TRANSCENDENTAL_GFX1250.match(name):
        return "transcendental"
    return "double" if _DOUBLE.search(name) else "core"
