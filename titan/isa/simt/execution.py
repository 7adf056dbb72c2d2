"""The Python machine: the definition of what a launch does and records.

**Scheduling.** Clusters start in order, the next one when those before are finished or wait. In a
round every fragment of every warp runs up to a quantum of instructions; asynchronous operations
complete a few rounds after their issue, at the latest when nothing else can continue. Everything is
a function of the seed.

**Divergence.** A fragment is a set of lanes with one instruction pointer. A divergent branch splits
it; the parts wait for each other where the arms meet, as long as anything else can continue: if
not, those that wait there continue alone. No lane's progress depends on reconvergence.

**Waiting.** A false result of try_wait or test_wait is seen by the program. If the same fragment
polls the same barrier at the same instruction again, with no event in between, it sleeps until the
phase changes; a hang is when nothing can change any more.
"""

from __future__ import annotations

from typing import Self

from titan.isa.simt.control import skip_branch
from titan.isa.simt.handlers import HANDLERS
from titan.isa.simt.joins import arrive_at_join, check_members, meet
from titan.isa.simt.launch import EVENTS_SPENT, Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.machine import Handler, SimtMachine
from titan.isa.simt.operations import (
    ALIGNED,
    COLLECTIVE,
    MEMBERS,
    PURE,
    UNCERTAIN,
    DecodedCode,
    DecodedStep,
    Op,
)
from titan.isa.simt.outcome import (
    Confluence,
    Ending,
    Outcome,
    Policy,
    PreparedLaunch,
    Run,
    Waiter,
)
from titan.isa.simt.parts_at_barriers import parts_together
from titan.isa.simt.recorder import EndedRun
from titan.isa.simt.state import Fragment, Warp
from titan.isa.simt.values import opaque_at

QUANTUM = 64
STALL = 100_000  # steps without progress after which the next cluster starts


class SimtExecution(SimtMachine):
    """One run. Make it, call `run`."""

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options
    ) -> None:
        super().__init__(code, layout, launch, options)
        self.handlers: list[Handler | None] = [HANDLERS.get(step.op) for step in code.steps]

    @classmethod
    def again(cls, made: PreparedLaunch, options: Options | None = None) -> Self:
        """The machine for a run that is made again; `options`, if they are to be others."""
        machine = cls(made.code, made.layout, made.launch, options or made.options)
        machine.load_parameters(list(made.parameters))
        return machine

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
        return Run(
            self.launch, parts_together(self.events, self.code, self.launch.threads), outcome,
            confluence, self.count,
            same_step=frozenset(self.same_step), undefined=tuple(sorted(self.undefined)),
        )  # fmt: skip

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
            return Outcome(Ending.HUNG, "no warp can proceed", waiters=tuple(waiters))
        return Outcome(Ending.FINISHED)

    # ------------------------------------------------------------------------- execution

    def run_fragment(self, fragment: Fragment, quantum: int) -> None:
        """Run until it waits, ends, or the quantum is used."""
        for _ in range(quantum):
            join = fragment.join
            if join is not None and fragment.pc == join.pc and len(fragment.stack) == join.depth:
                arrive_at_join(fragment)
            if fragment.dead or fragment.blocked is not None:
                return
            spent = self._spent()
            if spent:
                cta, warp = fragment.warp.cta.number, fragment.warp.index
                raise EndedRun(Outcome(Ending.BUDGET, spent, fragment.pc, cta, warp))
            self.count += 1
            if self.step(fragment):
                return

    def _spent(self) -> str:
        """Which budget is used; nothing while there is something left of each."""
        if self.count >= self.options.steps_max:
            return f"the budget of {self.options.steps_max} steps is used"
        # What computes is read by no checker, and bounded by its steps.
        if not self.computes and len(self.events) >= self.options.events_max:
            return EVENTS_SPENT
        return ""

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction; True if the fragment must let others run."""
        pc = fragment.pc
        step = self.steps[pc]
        warp = fragment.warp
        if (step.op in ALIGNED or step.op in MEMBERS) and not meet(self, fragment, step):
            return True
        mask, maybe = fragment.mask, 0
        if warp.owned:
            self.check_owned(fragment, step)
        if step.guard >= 0:
            if warp.marks or warp.sticky or fragment.spared:
                self.check_guard(fragment, step)
            mask, maybe = self.guarded(warp, step, mask)
            if maybe:
                return self._uncertain(fragment, step, mask, maybe)
            if mask == 0:
                fragment.pc = pc + 1
                return False
        if step.op in COLLECTIVE:
            check_members(self, fragment, step, mask)
        handler = self.handlers[pc]
        if handler is None:
            self.compute(fragment, step, mask)
            fragment.pc = pc + 1
            return False
        if handler(self, fragment, step, mask):
            return fragment.pc == pc or fragment.dead or fragment.blocked is not None
        fragment.pc = pc + 1
        return False

    def _uncertain(self, fragment: Fragment, step: DecodedStep, mask: int, maybe: int) -> bool:
        """An instruction that some lanes may execute or not."""
        pc, op = fragment.pc, step.op
        if op in (Op.BRANCH, Op.BRANCH_INDEXED):
            skip_branch(self, fragment, step)
            return False
        if op in UNCERTAIN:
            self.assume(fragment, maybe, Policy.OPAQUE_GUARD)
            before, self.maybe = self.maybe, self.maybe or op not in PURE
            self.uncertain = True
            handler = self.handlers[pc]
            if handler is None:
                self.compute(fragment, step, mask | maybe)
            else:
                handler(self, fragment, step, mask | maybe)
            self.maybe, self.uncertain = before, False
            for register in step.out:
                self.write(fragment.warp, register, opaque_at(pc), maybe)
            fragment.pc = pc + 1
            return False
        self.refuse(
            fragment, "an instruction that synchronises is guarded by " +
            self.describe(fragment.warp.registers[step.guard], maybe),
        )  # fmt: skip
