"""Which loads of global memory a work-group makes use of.

A load is used once what it brought, or anything made of it, decides control, an address or the
scalar unit, or goes to memory: to LDS, to private memory, by an atomic, or by a store of which some
lane stores. Compilers have all waves load what one of them stores, the others with their stores out
of bounds; what these have loaded may be overwritten at any time. Only a load that is surely unused
is found: a value of some lanes counts as that of its whole register.
"""

from __future__ import annotations

from dataclasses import replace

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import VCC
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Ending, Run
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction, register_numbers
from titan.isa.waves.events import LoadUnused, OperationIssued
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.numbering import writes_all
from titan.isa.waves.state import Wave

Loads = frozenset[int]  # by their events
_NONE: Loads = frozenset()
_FLOWS = (OpcodeKind.VECTOR, OpcodeKind.MATRIX, OpcodeKind.CROSS_LANE)
_MEMORY = (OpcodeKind.GLOBAL, OpcodeKind.BUFFER)
_VCC = range(SCALAR_BASE + VCC, SCALAR_BASE + VCC + 2)


def _is_plain(code: DecodedInstruction) -> bool:
    """Whether an instruction loads registers or stores them, and does nothing else."""
    base = code.item.base
    other = any(word in base for word in ("_atomic_", "lds", "_async_", "prefetch"))
    loads_or_stores = ("_load_" in base and bool(code.writes)) or "_store_" in base
    return loads_or_stores and not other and "lds" not in code.item.options


class UsedLoads:
    """Looks on while a run is made. `loads` are the events of loads, `used` those that matter."""

    def __init__(self, group: WaveGroup) -> None:
        self.group = group
        self.loads: set[int] = set()
        self.used: set[int] = set()
        self._of: dict[tuple[int, int], Loads] = {}
        self._start = 0

    @property
    def unused(self) -> set[int]:
        """The events of loads of which nothing was used."""
        return self.loads - self.used

    def before(self, wave: Wave, code: DecodedInstruction) -> None:
        """A wave is about to execute an instruction."""
        self._start = len(self.group.events)
        if code.opcode.kind is OpcodeKind.CONTROL:
            self._use(wave, [*code.reads, *(_VCC if "vcc" in code.item.base else ())])

    def after(self, wave: Wave, code: DecodedInstruction) -> None:
        """It has executed it."""
        kind, base = code.opcode.kind, code.item.base
        if kind in _FLOWS and not base.startswith("v_cmpx"):
            reads = [*code.reads, *(_VCC if base.startswith("v_div_fmas") else ())]
            self._give(wave, code, self._taken(wave, reads))
        elif kind in _MEMORY and _is_plain(code):
            self._memory(wave, code)
        else:
            self._use(wave, code.reads)
            self._give(wave, code, _NONE)

    def _memory(self, wave: Wave, code: DecodedInstruction) -> None:
        """A load, whose value begins here, or a store, whose data are used if a lane stores."""
        issued = [
            number
            for number, event in enumerate(self.group.events[self._start :], self._start)
            if isinstance(event, OperationIssued)
        ]
        if "_store_" in code.item.base:
            operands = code.item.operands
            at = 0 if code.opcode.kind is OpcodeKind.BUFFER else 1
            stored = set(register_numbers(operands[at]))
            addresses = {
                register
                for number, operand in enumerate(operands)
                if number != at
                for register in register_numbers(operand)
            }
            self._use(wave, (code.reads - stored) | addresses)
            events = (self.group.events[number] for number in issued)
            if any(isinstance(event, OperationIssued) and event.uses for event in events):
                self._use(wave, stored)
            return
        self._use(wave, code.reads)
        self.loads.update(issued)
        self._give(wave, code, frozenset(issued))

    def _taken(self, wave: Wave, registers: list[int]) -> Loads:
        found: Loads = _NONE
        for register in registers:
            found |= self._of.get((wave.number, register), _NONE)
        return found

    def _give(self, wave: Wave, code: DecodedInstruction, loads: Loads) -> None:
        """What is written is made of these loads; where lanes or bits may stay, of older ones."""
        whole = wave.exec == wave.lanes_all and writes_all(code.item)
        for register in code.writes:
            at = wave.number, register
            scalar = register >= SCALAR_BASE
            found = loads if whole or scalar else loads | self._of.get(at, _NONE)
            self._of[at] = found

    def _use(self, wave: Wave, registers: frozenset[int] | set[int] | list[int]) -> None:
        self.used |= self._taken(wave, list(registers))


def without_unused(run: Run, loads: UsedLoads) -> Run:
    """The run, in which loads that are not used read nothing; an event remarks each of them."""
    unused = loads.unused
    if not unused or run.outcome.ending is not Ending.FINISHED:
        return run
    events: list[ev.Event] = []
    remarks: list[ev.Event] = []
    for number, event in enumerate(run.events):
        if number in unused and isinstance(event, OperationIssued):
            uses = tuple(
                use for use in event.uses
                if use.write or use.footprint.space is not MemorySpace.GLOBAL
            )  # fmt: skip
            remarks.append(
                LoadUnused(len(run.events) + len(remarks), event.cta, event.warp, event.lanes,
                           event.instruction)
            )  # fmt: skip
            events.append(replace(event, uses=uses))
        else:
            events.append(event)
    return replace(run, events=[*events, *remarks])
