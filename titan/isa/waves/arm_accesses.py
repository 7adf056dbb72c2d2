"""What arms that data choose load and store: made with all lanes that may be in them.

A register holds what it should in the lanes that have written it last, whatever data choose; what
other lanes read of it is taken as unknown. Addresses that are made of such registers are unknown.
Accesses take place by all lanes that may be in an arm. Behind the arms all that they have written
is unknown, but for what is right in all lanes; registers are put back here as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC
from titan.isa.simt.events import Assumption
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction, Step
from titan.isa.waves.events import CounterWait, OperationIssued, UnknownAddress
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.masks import Mask, combined, joined
from titan.isa.waves.numbering import keeps_part
from titan.isa.waves.skipped_lanes import ArmStep, KeptRegister, SkippedArms, takes_all_lanes
from titan.isa.waves.state import OpaqueWord, Refused, Wave

_EXPECTED = (OperationIssued, UnknownAddress, Assumption)
_MASK = {SCALAR_BASE + EXEC, SCALAR_BASE + EXEC + 1}


class _Registers:
    """The registers of a wave, which are put back behind the arms."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self._vectors = wave.vectors.copy()
        self._others = list(wave.known), list(wave.origins), list(wave.scalars)
        self._condition, self._in_part, self._exec = wave.condition, wave.vcc_in_part, wave.exec

    def put_back(self) -> None:
        wave = self.wave
        wave.vectors[:] = self._vectors
        wave.known, wave.origins, wave.scalars = self._others
        wave.condition, wave.vcc_in_part = self._condition, self._in_part
        wave.set_exec(self._exec)


class _ArmRun:
    def __init__(
        self,
        wave: Wave,
        origin: OpaqueWord,
        step_of: Callable[[DecodedInstruction], Step],
    ) -> None:
        self.wave, self.origin, self.step_of = wave, origin, step_of
        self._right: dict[int, Mask] = {}  # the lanes in which what an arm has written is right

    def make(self, step: ArmStep) -> None:
        """An instruction, in all lanes that may execute it."""
        wave, code = self.wave, step.code
        self._forget_scalars(step.forgotten)
        for register in step.changed:
            self._forget(register)
            wave.condition = self.origin
        if code.opcode.kind is OpcodeKind.CONTROL:
            return
        scalars = [at - SCALAR_BASE for at in code.writes - _MASK if at >= SCALAR_BASE]
        if step.on_masks or code.reads & _MASK or takes_all_lanes(code):
            if code.opcode.kind is OpcodeKind.CROSS_LANE:
                self._execute(code, step.execution)
            self._forget_scalars(scalars)
            wave.condition = self.origin
            for register in (at for at in code.writes if at < SCALAR_BASE):
                self._forget(register)
            return
        for register in code.reads | code.writes if keeps_part(code.item) else code.reads:
            missed = combined(_without, step.execution, self._right.get(register, (-1,)))
            if register < SCALAR_BASE and any(missed):
                self._forget(register)
        self._execute(code, step.execution)
        for register in (at for at in code.writes if at < SCALAR_BASE):
            self._right[register] = step.execution
        if code.opcode.kind is OpcodeKind.VECTOR:
            self._forget_scalars(scalars)  # bits of lanes, which may be in the arm or not

    def kept(self) -> dict[int, KeptRegister]:
        """The registers that are right in all lanes."""
        wave = self.wave
        return {
            at: KeptRegister(wave.vectors[at].copy(), wave.known[at], wave.origins[at])
            for at, lanes in self._right.items()
            if joined(int.__and__, lanes) & wave.lanes_all == wave.lanes_all
        }

    def _execute(self, code: DecodedInstruction, execution: Mask) -> None:
        self.wave.set_exec(joined(int.__or__, execution))
        if code.step is None:
            code.step = self.step_of(code)
        code.step(self.wave)

    def _forget(self, register: int) -> None:
        self.wave.forget(register, 1, self.origin, whole=True)
        self._right.pop(register, None)

    def _forget_scalars(self, registers: Iterable[int]) -> None:
        for register in registers:
            self.wave.set_scalar(register, self.origin)
            self.wave.condition = self.origin


def access_memory(
    group: WaveGroup,
    wave: Wave,
    arms: SkippedArms,
    step_of: Callable[[DecodedInstruction], Step],
    origin: OpaqueWord,
) -> bool:
    """The accesses and waits of arms; whether they are followed. If not, nothing has changed."""
    if not arms.queues.accesses and not arms.queues.waits:
        return True
    begun, stalls = len(group.events), group.stalls
    initially, places = len(group.initially_read), group.places
    queues = {queue: list(entries) for queue, entries in wave.in_flight.items()}
    pending, issued, last = dict(wave.pending), dict(wave.issued), wave.last
    registers, run = _Registers(wave), _ArmRun(wave, origin, step_of)
    words_known = group.words_known.copy()
    # What is done for want of room depends on what data choose, and so does what LDS holds.
    group.stalls, group.by_data = False, True
    followed = True
    try:
        for step in arms.steps:
            run.make(step)
            for wait in arms.queues.waits:
                if wait.place == step.code.number:
                    header = group.header(wave, wait.place)
                    group.events.append(CounterWait(*header, wait.queue, wait.pending))
    except Refused:
        followed = False
    arms.kept = run.kept()
    group.stalls, group.by_data = stalls, False
    registers.put_back()
    wave.issued, wave.pending, wave.last = issued, pending, last
    for queue, entries in queues.items():
        wave.in_flight[queue].clear()
        wave.in_flight[queue].extend(entries)
    followed = (
        followed
        and arms.queues.decided
        and all(isinstance(event, (*_EXPECTED, CounterWait)) for event in group.events[begun:])
    )
    if not followed:
        del group.events[begun:], group.initially_read[initially:]
        group.places, group.words_known = places, words_known
        return False
    arms.queues.leave(wave)
    return True


def _without(lanes: int, others: int) -> int:
    return lanes & ~others
