"""Decide a sync program from one run of it, or say why one run does not decide.

The program runs once to its end. If every wait blocks until one condition that cannot pass and
come back, and every operation on a barrier falls into the same phase in every interleaving (both
checked, `phases`), the order relation of that run is that of all runs: any interleaving is one of
its linearisations. Races, accesses to memory in use by operations in flight, stale content, missing
fences, leaks and deadlock are then read off the relation (`memory`, `lifetime`). Time grows with
the number of operations times the width of a clock (agents + queues + barriers), not with
interleavings.

REFUTED carries an interleaving that was run to the fault on the engine's own machine; only weak
synchronisation, which a machine that interleaves cannot show, carries the way to the second access
instead. VERIFIED holds for the sizes given. UNDECIDED names the condition that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from titan.engines.happens_before.execution import OrderedRun
from titan.engines.happens_before.findings import FirstSuspicion, Suspicion, Weight
from titan.engines.happens_before.peeks import Peek, PeekingRun
from titan.engines.happens_before.precedences import Precedence, unordered
from titan.engines.happens_before.readings import STRICT, Readings
from titan.engines.happens_before.scopes import at_cluster_scope
from titan.engines.happens_before.steering import (
    Shown,
    earliest,
    follow,
    prefer,
    run_to_end,
    way_to,
)
from titan.engines.happens_before.tables import RunLayout
from titan.engines.happens_before.tracker import Tracker
from titan.engines.happens_before.unfolding import Unfolder, UnfoldingRefused
from titan.engines.result import Budget, EngineResult
from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason, Verdict
from titan.sync.control import Sizes
from titan.sync.fault import Fault, Trace
from titan.sync.program import SyncProgram

FINDINGS_FOLLOWED_MAX = 24
STEPS_FOLLOWED_MAX = 1_500_000  # of all runs together that look for an interleaving to show


@dataclass(frozen=True, slots=True)
class OrderResult(EngineResult):
    """`operations` is the length of the run; `states` is always 0.

    `shown`: the trace ends in the fault itself on a machine that interleaves. Otherwise `trace`, if
    any, leads to the instant at which the order alone decides (weak synchronisation), and `fault`
    may be known without a trace. `narrow`: VERIFIED rests on releases of CTA scope at barriers of
    other CTAs for what threads have read. `unordered`: the precedences that VERIFIED does not
    cover, as some interleaving breaks them.
    """

    operations: int = 0
    fault: Fault | None = None
    shown: bool = False
    narrow: bool = False
    unordered: tuple[Precedence, ...] = ()


class Questions(NamedTuple):
    """What is asked about a program beside its operations."""

    peeks: Sequence[Peek] = ()
    precedences: Sequence[Precedence] = ()

    def run(self, layout: RunLayout, tracker: Tracker) -> OrderedRun:
        """A run that answers."""
        if not self.peeks and not self.precedences:
            return OrderedRun(layout, tracker)
        marks = {mark for item in self.precedences for mark in (item.first, *item.others)}
        return PeekingRun(layout, tracker, peeks=self.peeks, marks=marks)


NOTHING = Questions()


def analyse(
    program: SyncProgram,
    sizes: Sizes | None = None,
    budget: Budget | None = None,
    *,
    show: bool = True,
    readings: Readings = STRICT,
    peeks: Sequence[Peek] = (),
    precedences: Sequence[Precedence] = (),
) -> OrderResult:
    """Decide the program for the given sizes. Raises ValueError when a parameter has no size.

    Without `show` a fault is not sought where the order leaves one open: what is not verified is
    UNDECIDED, with the first thing that is suspected. `peeks`: tests of barriers that the program
    does not have; where one may see another phase than its own, the result is UNDECIDED.
    `precedences` are asked of a program that is verified.
    """
    asked = Questions(peeks, precedences)
    if readings.narrow_reads:
        result = _decided(program, sizes, budget, show, readings, asked)
        if not result.narrow or _ordered_at_cluster_scope(program, sizes, budget, readings):
            return result
    return _decided(program, sizes, budget, show, replace(readings, narrow_reads=False), asked)


def _ordered_at_cluster_scope(
    program: SyncProgram, sizes: Sizes | None, budget: Budget | None, readings: Readings
) -> bool:
    wide = at_cluster_scope(program)
    result = _decided(wide, sizes, budget, False, replace(readings, narrow_reads=False))
    return result.verdict is Verdict.VERIFIED


def _decided(
    program: SyncProgram,
    sizes: Sizes | None,
    budget: Budget | None,
    show: bool,
    readings: Readings,
    asked: Questions = NOTHING,
) -> OrderResult:
    operations_max = (budget or Budget()).operations_max
    unfolder = Unfolder(program, sizes, operations_max)
    try:
        layout = RunLayout(unfolder, readings.counted_arrivals)
    except UnfoldingRefused as refused:
        return _undecided(refused.reason, str(refused), refused.operations)
    return _Analysis(layout, show, readings, asked).result()


def _undecided(
    reason: Reason, remark: str, operations: int, fault: Fault | None = None
) -> OrderResult:
    return OrderResult(
        Verdict.UNDECIDED, reason=reason, remark=remark, operations=operations, fault=fault
    )


class _Analysis:
    def __init__(self, layout: RunLayout, show: bool, readings: Readings, asked: Questions) -> None:
        self._layout, self._show, self._readings = layout, show, readings
        self._asked = asked
        self._operations = sum(len(agent.instances) for agent in layout.agents)
        self._runs_left = max(8, STEPS_FOLLOWED_MAX // max(1, self._operations))

    def result(self) -> OrderResult:
        try:
            return self._decided()
        except FirstSuspicion as found:
            return self._open(found.fault)

    def _decided(self) -> OrderResult:
        tracker = Tracker(self._layout, not self._show, self._readings)
        execution = self._asked.run(self._layout, tracker)
        tracker.execution = execution
        order = range(len(self._layout.agents))
        fault = run_to_end(execution, order)
        if fault is not None:
            shown = fault, tuple(execution.steps)
            return self._refuted(shown) if self._show else self._open(fault)
        if isinstance(execution, PeekingRun):
            execution.ended()
        tracker.ended()
        result = self._judge(tracker)
        if not isinstance(execution, PeekingRun) or result.verdict is not Verdict.VERIFIED:
            return result
        broken = unordered(self._asked.precedences, execution.instants, tracker.clocks)
        return replace(result, unordered=broken)

    def _judge(self, tracker: Tracker) -> OrderResult:
        findings = tracker.findings
        suspected = findings.of(Weight.FAULT) + findings.of(Weight.DEVIATION)
        for finding in suspected[:FINDINGS_FOLLOWED_MAX]:
            for plan in finding.plans:
                self._runs_left -= 1
                shown = follow(self._layout, plan) if self._runs_left > 0 else None
                if shown is not None:
                    return self._refuted(shown)
        doubts = findings.of(Weight.DEVIATION) + findings.of(Weight.INEXACT)
        if doubts or suspected:
            shown = self._other_runs()
            if shown is not None:
                return self._refuted(shown)
        if doubts:
            remark = doubts[0].fault.message
            return _undecided(Reason.NOT_APPLICABLE, remark, self._operations)
        if suspected:
            return self._not_shown(suspected[0])
        weak = findings.of(Weight.WEAK)
        if weak:
            return self._weak(weak[0])
        narrow = bool(findings.of(Weight.READ))
        return OrderResult(Verdict.VERIFIED, operations=self._operations, narrow=narrow)

    def _other_runs(self) -> Shown | None:
        """Some more interleavings: each agent ahead of all, each behind all, eager engines."""
        agents = range(len(self._layout.agents))
        runs: list[Callable[[OrderedRun], Fault | None]] = [
            partial(run_to_end, order=order, eager_engines=eager)
            for eager in (True, False)
            for order in (list(agents), list(reversed(agents)))
        ]
        runs += [partial(prefer, favoured=agent, stalled=None) for agent in agents]
        runs += [partial(prefer, favoured=None, stalled=agent) for agent in agents]
        for run in runs[: max(0, self._runs_left)]:
            execution = OrderedRun(self._layout)
            fault = run(execution)
            if fault is not None:
                return fault, tuple(execution.steps)
        return None

    def _trace(self, shown: Shown) -> Trace:
        fault, steps = shown
        return Trace(tuple(self._layout.sizes.items()), steps, fault)

    def _refuted(self, shown: Shown) -> OrderResult:
        shown = earliest(self._layout, shown)
        return OrderResult(
            Verdict.REFUTED,
            trace=self._trace(shown),
            operations=self._operations,
            fault=shown[0],
            shown=True,
        )

    def _open(self, fault: Fault) -> OrderResult:
        return _undecided(Reason.NOT_APPLICABLE, fault.message, self._operations, fault)

    def _not_shown(self, finding: Suspicion) -> OrderResult:
        """The order leaves the fault open, and no run built from it showed the fault."""
        remark = f"no interleaving was found for: {finding.fault.message}"
        return _undecided(Reason.NOT_APPLICABLE, remark, self._operations, finding.fault)

    def _weak(self, finding: Suspicion) -> OrderResult:
        steps = way_to(self._layout, finding.plans[0])
        trace = None if steps is None else self._trace((finding.fault, steps))
        return OrderResult(
            Verdict.REFUTED, trace=trace, operations=self._operations, fault=finding.fault
        )
