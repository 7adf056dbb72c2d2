"""The machine as the instructions see it: registers, marks of what decided something, ownership.

The functions that execute instructions (`handlers.py`) work on a `SimtMachine`; `execution.py`
makes one that runs, with the schedule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from titan.isa.simt import events as ev
from titan.isa.simt.arithmetic import Function, function_of
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.memory import Bytes
from titan.isa.simt.operations import PURE, DecodedCode, DecodedStep, Op
from titan.isa.simt.recorder import Recorder
from titan.isa.simt.state import (
    ATOMIC,
    FIRST_BARRIER,
    LAST_BARRIER,
    POLL,
    WARP_LANE,
    Fragment,
    InFlight,
    Warp,
)
from titan.isa.simt.undefined_results import open_test
from titan.isa.simt.values import (
    ALL,
    Opaque,
    Scalar,
    Value,
    apply,
    lane,
    lanes_of,
    merge,
    opaque_at,
    uniform,
)

Handler = Callable[["SimtMachine", Fragment, DecodedStep, int], bool]


class SimtMachine(Recorder, ABC):
    """One run, without the choice of what runs next.

    `computes`: with numbers, so that whether a trap is reached is not to be assumed.
    """

    computes = False

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options
    ) -> None:
        super().__init__(code, layout, launch, options)
        self.functions: list[Function | None] = [_function(step) for step in code.steps]
        self.open_tests = [open_test(step) for step in code.steps]
        self.touched = [_touched(step) for step in code.steps]

    @abstractmethod
    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction; True if the fragment must let others run."""

    # --------------------------------------------------------------------------- registers

    def guarded(self, warp: Warp, step: DecodedStep, mask: int) -> tuple[int, int]:
        """Lanes whose guard holds, and lanes whose guard is opaque."""
        value = warp.registers[step.guard]
        if isinstance(value, int):
            return (mask, 0) if bool(value & 1) != step.negated else (0, 0)
        if isinstance(value, Opaque):
            return 0, mask
        holds = maybe = 0
        for index in lanes_of(mask):
            item = value[index]
            if isinstance(item, Opaque):
                maybe |= 1 << index
            elif bool(item & 1) != step.negated:
                holds |= 1 << index
        return holds, maybe

    def decided(self, fragment: Fragment, step: DecodedStep) -> bool | None:
        """Whether the lanes of a warp jump at a branch on unknown data; None: nothing says it."""
        warp = fragment.warp
        given = self.launch.decisions.get((warp.cta.number, warp.index), ())
        if warp.decided == len(given):
            return None
        warp.decided += 1
        return given[warp.decided - 1]

    def compute(self, fragment: Fragment, step: DecodedStep, mask: int) -> None:
        """Arithmetic: results from registers."""
        warp, registers = fragment.warp, fragment.warp.registers
        function = self.functions[fragment.pc]
        marks = self.marks_of(warp, step) if warp.marks or warp.sticky else 0
        if function is None:
            result: Value = opaque_at(fragment.pc)
        else:
            values = [registers[number] for number in step.args]
            if any(isinstance(value, list) for value in values):
                lanes: list[Scalar] = [0] * 32
                for index in lanes_of(mask):
                    lanes[index] = self._applied(
                        fragment.pc, step, function, tuple(lane(value, index) for value in values)
                    )
                found = uniform(lanes, mask)
                result = lanes if found is None else found
            else:
                scalars: tuple[Scalar, ...] = tuple(values)  # type: ignore[arg-type]
                result = self._applied(fragment.pc, step, function, scalars)
        if step.op in (Op.SETP, Op.UNPACK, Op.CARRIED):
            self._write_parts(warp, step, result, mask, marks)
        else:
            for register in step.out:
                self.write(warp, register, result, mask, marks)

    def _applied(
        self, pc: int, step: DecodedStep, function: Function, values: tuple[Scalar, ...]
    ) -> Scalar:
        """What one lane computes; unknown where PTX leaves it open."""
        test = self.open_tests[pc]
        if test is not None and test(values):
            self.undefined.add(pc)
            return opaque_at(pc)
        return apply(step, function, values)

    def _write_parts(
        self, warp: Warp, step: DecodedStep, result: Value, mask: int, marks: int
    ) -> None:
        """Several results in the bits of one value: p and q, parts of a vector, a carry."""
        width = {Op.SETP: 1, Op.UNPACK: step.flags[0]}.get(step.op, step.bits)
        part = (1 << width) - 1
        for place, register in enumerate(step.out):
            if register < 0:
                continue
            shift = width * place
            value: Value
            if isinstance(result, list):
                value = [v if isinstance(v, Opaque) else v >> shift & part for v in result]
                found = uniform(value, mask)
                value = value if found is None else found
            elif isinstance(result, Opaque):
                value = result
            else:
                value = result >> shift & part
            self.write(warp, register, value, mask, marks)

    def own_memory(self, size_bytes: int) -> Bytes:
        """New memory of one thread."""
        return Bytes(size_bytes)

    def write(self, warp: Warp, register: int, value: Value, mask: int, marks: int = 0) -> None:
        """Write a register in the lanes of `mask`."""
        if register < 0 or not mask:
            return
        if mask & warp.live == warp.live:
            warp.registers[register] = value
            if marks:
                warp.marks[register] = marks
            elif warp.marks:
                warp.marks.pop(register, None)
        else:
            warp.registers[register] = merge(warp.registers[register], value, mask)
            if marks:
                warp.marks[register] = warp.marks.get(register, 0) | marks

    def one_of(self, value: Value, lanes: int, site: int) -> Scalar:
        """What is stored where lanes store different values to one place: which one is open."""
        return opaque_at(site)

    # --------------------------------------------------------------- marks and readiness

    def marks_of(self, warp: Warp, step: DecodedStep) -> int:
        """The marks of what a step reads, its guard included."""
        found = 0
        for register in step.args:
            found |= warp.marks.get(register, 0) | warp.sticky.get(register, 0)
        if step.guard >= 0:
            found |= warp.marks.get(step.guard, 0) | warp.sticky.get(step.guard, 0)
        return found

    def mark_of(self, warp: Warp, register: int) -> int:
        """The marks of one register, the sticky ones included; 0 for none."""
        return warp.marks.get(register, 0) | warp.sticky.get(register, 0)

    def steered(self, fragment: Fragment, marks: int, use: str, mask: int = ALL) -> None:
        """A marked value decided something: see conditions (c) and (d) of `outcome.py`."""
        if marks & POLL:
            self.polls.append(len(self.events))
            self.record(ev.PollSteered, fragment, mask & fragment.mask, use)
        if marks & ATOMIC:
            self.atomics.add(fragment.pc)

    def check_guard(self, fragment: Fragment, step: DecodedStep) -> None:
        """A marked guard may decide a branch that waits, a wait, or arithmetic (marked in turn)."""
        marks = self.mark_of(fragment.warp, step.guard)
        if step.op in PURE:
            return
        if step.op is Op.BRANCH:
            region = self.code.regions[fragment.pc]
            if region.waits:
                fragment.spared = self._spared(fragment, step, marks)
            if marks & POLL and region.waits:
                for register in region.written:
                    fragment.warp.sticky[register] = marks & ~ATOMIC
                marks &= ATOMIC
            if marks:
                self.steered(fragment, marks, "branch")
        elif marks and (step.op is not Op.BARRIER_WAIT or marks & ATOMIC):
            self.steered(fragment, marks, "guard")

    def _spared(self, fragment: Fragment, step: DecodedStep, marks: int) -> tuple[int, int] | None:
        """What a branch that decides a wait rests on, and the branch, where lanes do not pass."""
        join = self.code.joins[fragment.pc]
        holds, _ = self.guarded(fragment.warp, step, fragment.mask)
        passes = step.flags[0] if holds == fragment.mask else fragment.pc + 1
        divided = holds and holds != fragment.mask
        return (marks, fragment.pc) if marks & POLL and (divided or passes != join) else None

    def poll_mark(self, warp: Warp, barrier: ev.BarrierAddress) -> int:
        """The mark of what is made from a poll of a barrier."""
        if barrier not in warp.polled:
            place = min(FIRST_BARRIER + len(warp.polled), LAST_BARRIER)
            warp.polled[barrier] = POLL | 1 << place
        return warp.polled[barrier]

    def check_owned(self, fragment: Fragment, step: DecodedStep) -> None:
        """Registers that an asynchronous operation still writes or reads."""
        warp = fragment.warp
        owned = warp.owned
        if step.op is Op.WGMMA or step.op is Op.NOP:
            touched = {r for r in step.args if r >= 0}
        elif step.op is Op.MOV:
            source, target = step.args[0], step.out[0]
            if target < 0:
                return
            if source in owned and source in owned[source].registers:
                owned[target] = owned[source]
                operation = owned[source]
                operation.registers = (*operation.registers, target)
            elif target in owned:
                self._breach(fragment, target, True)
            return
        else:
            touched = set(self.touched[fragment.pc])
        for register in sorted(touched & owned.keys()):
            write = register in step.out
            operation = owned[register]
            if not write and register not in operation.registers:
                continue  # reading a source again is fine
            self._breach(fragment, register, write)

    def check_arm(self, fragment: Fragment, waited: Sequence[InFlight]) -> None:
        """Refuse a wait in the arm of a branch on data for what was started before the arm.

        In a run that does not take the arm nothing waits for it there.
        """
        if any(operation.number < self.arm_start for operation in waited):
            reason = "an arm of a branch on opaque data waits for what was started before it"
            self.refuse(fragment, reason)

    def _breach(self, fragment: Fragment, register: int, write: bool) -> None:
        """Recorded once for each operation and way of touching."""
        operation = fragment.warp.owned.pop(register)
        if operation.kind is ev.RecordedOperation.TENSOR_LOAD and not write:
            loads = fragment.warp.queue(ev.RecordedQueue.TENSOR_LOAD, WARP_LANE).open
            ended = max((load.number for load in loads if load.breached & 1), default=-1)
            self.check_arm(fragment, [load for load in loads if load.number > ended])
        if operation.breached & 1 << write:
            return
        operation.breached |= 1 << write
        name = self.code.names[register]
        self.record(ev.RegisterBreach, fragment, fragment.mask, name, operation.number, write)


def _function(step: DecodedStep) -> Function | None:
    if step.op not in PURE or step.op in (Op.NOP, Op.OPAQUE):
        return None
    if step.op is Op.UNPACK:
        return lambda a: a
    try:
        return function_of(step)
    except KeyError:
        return None


def _touched(step: DecodedStep) -> frozenset[int]:
    registers = {r for r in (*step.args, *step.out) if r >= 0}
    if step.guard >= 0:
        registers.add(step.guard)
    return frozenset(registers)
