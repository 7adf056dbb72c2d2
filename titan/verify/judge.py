"""Runs the engines on a sync program and compares what they say.

`auto`: the explorer for every value of the parameters; next to it the happens-before engine for all
values up to the bound. Where the explorer does not finish, it tries the same values, and
happens-before may decide them alone. The reference search stands in where the native core is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from titan.foundation.diagnostics.model import diagnostic
from titan.foundation.verdict import Reason, Verdict
from titan.language.kernel.model import Kernel
from titan.sync.exits import ends_on_meeting
from titan.sync.fault import FaultKind
from titan.sync.program import SyncProgram
from titan.sync.relays import relays
from titan.sync.weak import asks_for_tensor_fences, may_be_weak
from titan.verify import engines
from titan.verify.engines import VerifyBudget
from titan.verify.far_sizes import far_size_sets
from titan.verify.model import Decision, EngineReport, VerifyOptions
from titan.verify.narrowing import narrowing_of
from titan.verify.pools import MEMORY_FAULTS, pool_diagnostic, pools_order, without_pools
from titan.verify.replay import ReplayError, replay
from titan.verify.sizes import free_parameters

SECOND_OPINION_STEPS = 40_000  # of happens-before, where the verdict does not rest on it
ANY_SHARE = 4
FAR_STEPS, FAR_STEPS_OF_ONE = 400_000, 200_000  # of all runs beyond the bound, of one


def judge(kernel: Kernel, program: SyncProgram, options: VerifyOptions) -> Decision:
    """What the engines that `options` names decide about the program of a kernel.

    Raises ZeroDivisionError, LocalLoopError.
    """
    budget = VerifyBudget(options.states_max, options.steps_max, options.seconds_max)
    reports = _reports(program, budget, options)
    decision = conclude(kernel, program, reports, options)
    if decision.verdict is not Verdict.VERIFIED or not pools_order(program):
        return decision
    return _without_order_of_pools(decision, kernel, budget, options)


def _reports(
    program: SyncProgram, budget: VerifyBudget, options: VerifyOptions
) -> list[EngineReport]:
    """What the engines that `options` names say."""
    if options.engine == "reference":
        return [engines.run_reference(program, budget)]
    if options.engine == "order":
        return [engines.run_order(program, budget)]
    if options.engine == "explore":
        return _explorer(program, budget, options.require)
    return _all(program, budget, options.require)


def _without_order_of_pools(
    decision: Decision, kernel: Kernel, budget: VerifyBudget, options: VerifyOptions
) -> Decision:
    """The decision, if no access rests on the order that a pool makes.

    `take` and `give` order execution, not memory. What verifies without them too rests on other
    order; where happens-before has verified, it has found such order for all sizes it ran.
    """
    kinds = kernel.placement.kinds
    columns = frozenset(name for name, kind in kinds if kind == "tensor")
    ordered = all(item.engine == engines.ORDER for item in decision.engines)
    if ordered and not columns:
        return decision
    free = without_pools(decision.program, columns)
    if ordered:
        reports = [engines.run_order(free, budget)]
    else:
        reports = _reports(free, budget, options)
    other = conclude(kernel, free, reports, options)
    if other.verdict is Verdict.VERIFIED:
        return replace(decision, sizes=other.sizes, narrowing=other.narrowing)
    note = "whether what pools order is visible in memory is not decided"
    if other.trace is None or other.trace.fault.kind not in MEMORY_FAULTS:
        return replace(decision, verdict=Verdict.UNDECIDED, notes=(*decision.notes, note))
    item = pool_diagnostic(kernel, decision.program, other.trace.fault)
    found = (*decision.diagnostics, item)
    return replace(decision, verdict=Verdict.REFUTED, diagnostics=found)


def _explorer(program: SyncProgram, budget: VerifyBudget, require: str) -> list[EngineReport]:
    """The explorer for every value, and where that does not work for those up to the bound.

    Where a bounded verdict is enough, the attempt at every value gets a part of the states only.
    """
    from titan.engines.explore.search import CoreMissingError

    try:
        free = free_parameters(program)
        share = ANY_SHARE if free and require != "any" else 1
        part = replace(budget, states=max(1, budget.states // share))
        first = engines.run_explorer(program, part)
        if first.verdict is not Verdict.UNDECIDED or not free:
            return [first]
        left = replace(budget, seconds=max(budget.seconds - first.seconds, budget.seconds / 4))
        return [first, engines.run_explorer_bounded(program, left)]
    except CoreMissingError as error:
        missing = EngineReport(
            engines.EXPLORER,
            Verdict.UNDECIDED,
            0.0,
            remark=str(error),
            reason=Reason.MISSING_CORE,
        )
        return [missing, engines.run_reference(program, budget)]


def _all(program: SyncProgram, budget: VerifyBudget, require: str) -> list[EngineReport]:
    """Both engines; happens-before first, since it finds most faults at once.

    It is a second opinion with a small budget, and has the whole one where the verdict rests on it.
    """
    order = engines.order_run(program)
    ordered = order.advance(replace(budget, steps=min(budget.steps, SECOND_OPINION_STEPS)))
    if ordered.verdict is Verdict.REFUTED and ordered.steps > SECOND_OPINION_STEPS:
        return [ordered]
    explored = _explorer(program, budget, require)
    if ordered.reason is Reason.STEPS and not any(_settles(item, program) for item in explored):
        ordered = order.advance(budget)
    reports = [*explored, ordered]
    return [*reports, *_far(program, budget, reports)]


def _far(
    program: SyncProgram, budget: VerifyBudget, reports: list[EngineReport]
) -> list[EngineReport]:
    """A refutation at numbers beyond the bound that the text names, where no verdict covers all."""
    verdicts = {item.verdict for item in reports}
    if Verdict.REFUTED in verdicts or Verdict.DISAGREEMENT in verdicts:
        return []
    if any(item.verdict is Verdict.VERIFIED and _any(item) for item in reports):
        return []
    left = min(budget.steps, FAR_STEPS)
    for sizes in far_size_sets(program):
        run = engines.order_run(program, [sizes])
        found = run.advance(replace(budget, steps=min(left, FAR_STEPS_OF_ONE)))
        if found.verdict is Verdict.REFUTED:
            return [found]
        left -= found.steps or min(left, FAR_STEPS_OF_ONE)
        if left <= 0:
            break
    return []


def _settles(report: EngineReport, program: SyncProgram) -> bool:
    """Whether a verdict follows from the report, whatever happens-before finds."""
    if report.verdict is Verdict.VERIFIED:
        return decides(report, program)
    return report.verdict is not Verdict.UNDECIDED


def conclude(
    kernel: Kernel, program: SyncProgram, reports: Sequence[EngineReport], options: VerifyOptions
) -> Decision:
    """One decision of several reports: the widest VERIFIED, the shortest counterexample.

    Reports that contradict each other, or a counterexample that does not replay, are DISAGREEMENT.
    """
    found = tuple(reports)
    for report in reports:
        problem = _problem(program, report)
        if problem:
            return _disagree(kernel, program, found, problem)
    refuting = [report for report in reports if report.verdict is Verdict.REFUTED]
    verifying = [report for report in reports if report.verdict is Verdict.VERIFIED]
    for refuted in refuting:
        for report in verifying:
            if _covers(report, refuted):
                text = f"{refuted.engine} refutes what {report.engine} verifies"
                return _disagree(kernel, program, found, text)
    if refuting:
        traces = [report.trace for report in refuting if report.trace is not None]
        shortest = min(traces, key=lambda trace: len(trace.steps), default=None)
        return Decision(Verdict.REFUTED, program, found, trace=shortest)
    if not verifying:
        return Decision(Verdict.UNDECIDED, program, found)
    return _verified(program, found, verifying, options)


def _verified(
    program: SyncProgram,
    reports: tuple[EngineReport, ...],
    verifying: list[EngineReport],
    options: VerifyOptions,
) -> Decision:
    """VERIFIED for what the report with the widest scope covers.

    Where synchronisation may carry no visibility, happens-before has decided everything, and so has
    the explorer where it has found that nothing rests on that.
    """
    verifying = [item for item in verifying if decides(item, program)]
    if not verifying:
        note = "whether relaxed or narrow synchronisation carries visibility is not decided"
        return Decision(Verdict.UNDECIDED, program, reports, notes=(note,))
    widest = next((report for report in verifying if _any(report)), verifying[0])
    if _any(widest):
        return Decision(Verdict.VERIFIED, program, reports, widest.sizes)
    verdict = Verdict.UNDECIDED if options.require == "any" else Verdict.VERIFIED
    narrowing = narrowing_of(program, reports)
    return Decision(verdict, program, reports, widest.sizes, narrowing=narrowing)


def decides(report: EngineReport, program: SyncProgram) -> bool:
    """Whether the engine sees all that may go wrong with what synchronisation makes visible."""
    if report.engine == engines.ORDER:
        return True
    if asks_for_tensor_fences(program):
        return False
    if not (may_be_weak(program) or relays(program)):
        return True
    # The explorer follows what is not carried, unless sizes are chosen for it, but not to the end.
    return report.engine == engines.EXPLORER and _any(report) and ends_on_meeting(program)


def _problem(program: SyncProgram, report: EngineReport) -> str:
    """What is wrong with a report itself: a refutation without a trace that replays."""
    if report.verdict is Verdict.DISAGREEMENT:
        return f"{report.engine}: {report.remark}"
    if report.verdict is not Verdict.REFUTED:
        return ""
    if report.trace is None:
        return f"{report.engine} refutes without a trace"
    try:
        replay(program, report.trace)
    except ReplayError as error:
        return f"the trace of {report.engine} does not replay: {error}"
    return ""


def _any(report: EngineReport) -> bool:
    """Whether the report covers every value of the parameters."""
    return all(values is None for _, values in report.sizes)


def _covers(report: EngineReport, refuting: EngineReport) -> bool:
    """Whether the sizes of a counterexample are among those that `report` has verified.

    Weak synchronisation is decided by happens-before alone: the others do not see it.
    """
    if refuting.trace is None or refuting.trace.fault.kind is FaultKind.WEAK_SYNCHRONISATION:
        return False
    sizes = dict(report.sizes)
    for name, value in refuting.trace.parameters:
        if name not in sizes or sizes[name] is None:
            continue
        # With `per`, the values were not all combined: only a single value is surely covered.
        wanted = value if isinstance(value, tuple) else (value,)
        if len(set(wanted)) > 1 or not set(wanted) <= set(sizes[name] or ()):
            return False
    return True


def _disagree(
    kernel: Kernel, program: SyncProgram, reports: tuple[EngineReport, ...], text: str
) -> Decision:
    item = diagnostic("TTN902", f"engines disagree: {text}", kernel.span)
    return Decision(Verdict.DISAGREEMENT, program, reports, diagnostics=(item,))
