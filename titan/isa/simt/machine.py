"""The Python machine: the definition of what a launch does and records.

**Scheduling.** Clusters start in order, the next one when those before are finished or wait. In a
round every fragment of every warp runs up to a quantum of instructions; asynchronous operations
complete a few rounds after their issue, at the latest when nothing else can go on. Everything is a
function of the seed.

**Divergence.** A fragment is a set of lanes with one instruction pointer. A divergent branch splits
it; the parts wait for each other where the arms meet, as long as anything else can go on: if not,
those that wait there go on alone. No lane's progress depends on reconvergence.

**Waiting.** A false result of try_wait or test_wait is seen by the program. If the same fragment
polls the same barrier at the same instruction again, with no event in between, it sleeps until the
phase changes; a hang is when nothing can change any more.
"""

from __future__ import annotations

from collections.abc import Callable

from titan.isa.simt import events as ev
from titan.isa.simt.arithmetic import Function, function_of
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.operations import (
    ALIGNED,
    MEMBERS,
    PURE,
    DecodedCode,
    DecodedStep,
    Op,
)
from titan.isa.simt.outcome import (
    Confluence,
    Ending,
    Outcome,
    Policy,
    Run,
    Waiter,
)
from titan.isa.simt.recorder import EndedRun, Recorder
from titan.isa.simt.state import (
    POLL,
    Fragment,
    Warp,
)
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

QUANTUM = 64
DELAY = 2  # rounds from the issue of an asynchronous operation to its completion
STALL = 100_000  # steps without progress after which the next cluster starts

Handler = Callable[["SimtMachine", Fragment, DecodedStep, int], bool]


class SimtMachine(Recorder):
    """One run. Make it, call `run`."""

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options
    ) -> None:
        from titan.isa.simt.handlers import HANDLERS

        super().__init__(code, layout, launch, options)
        self.steps = code.steps
        self.handlers: list[Handler | None] = [HANDLERS.get(step.op) for step in code.steps]
        self.functions: list[Function | None] = [_function(step) for step in code.steps]
        self.touched = [_touched(step) for step in code.steps]

    # ------------------------------------------------------------------------ scheduling

    def run(self) -> Run:
        """Run to an end."""
        self.waiting = self.chosen()
        try:
            while self._round():
                pass
            outcome = self._ending()
        except EndedRun as ended:
            outcome = ended.outcome
        confluence = Confluence(
            tuple(self.steering), tuple(self.polls), tuple(sorted(self.atomics))
        )
        return Run(self.launch, self.events, outcome, confluence, self.count)

    def _round(self) -> bool:
        """One round; False if nothing is left to do."""
        before, quantum = self.count, QUANTUM
        ran = False
        warps = [warp for cluster in self.clusters for cta in cluster.ctas for warp in cta.warps]
        if self.options.seed and warps:
            start = self.draw() % len(warps)
            warps = warps[start:] + warps[:start]
            quantum = 1 + self.draw() % QUANTUM
        for warp in warps:
            for fragment in tuple(warp.fragments):
                if fragment.dead:
                    continue
                if fragment.blocked is not None:
                    if not fragment.blocked.ready():
                        continue
                    blocked, fragment.blocked = fragment.blocked, None
                    blocked.resume()
                ran = True
                self.run_fragment(fragment, quantum)
        self.clusters = [c for c in self.clusters if any(w.live for t in c.ctas for w in t.warps)]
        self.tick += 1
        due = [operation for operation in self.flight if operation.due <= self.tick]
        for operation in due:
            self.finish(operation)
        ran = ran or bool(due)
        if ran and self.count != before:
            if self.count - self.progress > STALL and self.waiting:
                self.progress = self.count
                self.start_cluster(self.waiting.pop(0))
            return True
        return ran or self._unstick()

    def _unstick(self) -> bool:
        """Nothing can run: complete an operation, break a join, or start a cluster."""
        if self.flight:
            self.finish(self.flight[0])
            return True
        for cluster in self.clusters:
            for cta in cluster.ctas:
                for warp in cta.warps:
                    if self._break_join(warp):
                        return True
        if self.waiting:
            self.start_cluster(self.waiting.pop(0))
            return True
        return False

    def _break_join(self, warp: Warp) -> bool:
        for join in warp.joins:
            if join.arrived:
                mask, join.arrived = join.arrived, 0
                join.expected &= ~mask
                fragment = Fragment(warp, mask, join.pc, join.parent, self._stack(warp, join.depth))
                warp.fragments.append(fragment)
                if not join.expected:
                    warp.joins.remove(join)
                return True
        return False

    @staticmethod
    def _stack(warp: Warp, depth: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The call stack of lanes that wait at a join: that of the lanes they belong to."""
        for fragment in warp.fragments:
            if len(fragment.stack) >= depth:
                return fragment.stack[:depth]
        return ()

    def _ending(self) -> Outcome:
        waiters: list[Waiter] = []
        for cluster in self.clusters:
            for cta in cluster.ctas:
                for warp in cta.warps:
                    for fragment in warp.fragments:
                        if fragment.blocked is not None:
                            waiters.append(fragment.blocked.waiter())
        if waiters:
            return Outcome(Ending.HUNG, "nothing can go on", waiters=tuple(waiters))
        return Outcome(Ending.FINISHED)

    # ------------------------------------------------------------------------- execution

    def run_fragment(self, fragment: Fragment, quantum: int) -> None:
        """Run until it waits, ends, or the quantum is used."""
        from titan.isa.simt.control import arrive_at_join

        for _ in range(quantum):
            join = fragment.join
            if join is not None and fragment.pc == join.pc and len(fragment.stack) == join.depth:
                arrive_at_join(self, fragment)
            if fragment.dead or fragment.blocked is not None:
                return
            if self.count >= self.options.steps_max:
                raise EndedRun(
                    Outcome(
                        Ending.BUDGET,
                        f"the budget of {self.options.steps_max} steps is used",
                        fragment.pc,
                        fragment.warp.cta.number,
                        fragment.warp.index,
                    )
                )
            self.count += 1
            if self.step(fragment):
                return

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction; True if the fragment's turn is over."""
        pc = fragment.pc
        step = self.steps[pc]
        warp = fragment.warp
        if step.op in ALIGNED or step.op in MEMBERS:
            from titan.isa.simt.control import meet

            if not meet(self, fragment, step):
                return True
        mask, maybe = fragment.mask, 0
        if warp.owned:
            self.check_owned(fragment, step)
        if step.guard >= 0:
            if warp.marks or warp.sticky:
                self.check_guard(fragment, step)
            mask, maybe = self.guarded(warp, step, mask)
            if maybe:
                return self._uncertain(fragment, step, mask, maybe)
            if mask == 0:
                fragment.pc = pc + 1
                return False
        handler = self.handlers[pc]
        if handler is None:
            self.compute(fragment, step, mask)
            fragment.pc = pc + 1
            return False
        if handler(self, fragment, step, mask):
            return fragment.pc == pc or fragment.dead or fragment.blocked is not None
        fragment.pc = pc + 1
        return False

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

    def _uncertain(self, fragment: Fragment, step: DecodedStep, mask: int, maybe: int) -> bool:
        """An instruction that some lanes may execute or not."""
        from titan.isa.simt.control import skip_branch

        pc, op = fragment.pc, step.op
        if op in (Op.BRANCH, Op.BRANCH_INDEXED):
            skip_branch(self, fragment, step)
            return False
        if op in PURE or op in (Op.LOAD, Op.STORE, Op.PREFETCH):
            self.assume(fragment, maybe, Policy.OPAQUE_GUARD)
            before, self.maybe = self.maybe, self.maybe or op is Op.STORE
            handler = self.handlers[pc]
            if handler is None:
                self.compute(fragment, step, mask | maybe)
            else:
                handler(self, fragment, step, mask | maybe)
            self.maybe = before
            for register in step.out:
                self.write(fragment.warp, register, opaque_at(pc), maybe)
            fragment.pc = pc + 1
            return False
        self.refuse(
            fragment, "an instruction that synchronises is guarded by " +
            self.describe(fragment.warp.registers[step.guard], maybe),
        )  # fmt: skip

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
                    lanes[index] = apply(
                        step, function, tuple(lane(value, index) for value in values)
                    )
                found = uniform(lanes, mask)
                result = lanes if found is None else found
            else:
                result = apply(step, function, tuple(values))  # type: ignore[arg-type]
        if step.op in (Op.SETP, Op.UNPACK):
            self._write_parts(warp, step, result, mask, marks)
        else:
            for register in step.out:
                self.write(warp, register, result, mask, marks)

    def _write_parts(
        self, warp: Warp, step: DecodedStep, result: Value, mask: int, marks: int
    ) -> None:
        """Several results in the bits of one value: p and q, the parts of a vector."""
        width = 1 if step.op is Op.SETP else step.flags[0]
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
        if marks & ~POLL:
            self.atomics.add(fragment.pc)

    def check_guard(self, fragment: Fragment, step: DecodedStep) -> None:
        """A marked guard may decide a branch that waits, a wait, or arithmetic (marked in turn)."""
        marks = self.mark_of(fragment.warp, step.guard)
        if not marks or step.op in PURE:
            return
        if step.op is Op.BRANCH:
            region = self.code.regions[fragment.pc]
            if marks & POLL and region.waits:
                marks &= ~POLL
                for register in region.written:
                    fragment.warp.sticky[register] = POLL
            if marks:
                self.steered(fragment, marks, "branch")
        elif step.op is not Op.BARRIER_WAIT or marks & ~POLL:
            self.steered(fragment, marks, "guard")

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

    def _breach(self, fragment: Fragment, register: int, write: bool) -> None:
        """Told once for each operation and way of touching."""
        operation = fragment.warp.owned.pop(register)
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
