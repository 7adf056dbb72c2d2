"""Runs the engines on a sync program and compares what they say.

`auto`: the explorer for every value of the parameters; beside it the happens-before engine for all
values up to the bound. Where the explorer does not get to the end, it tries the same values, and
happens-before may decide them alone. The reference search stands in where the native core is
missing.
"""

from __future__ import annotations

from dataclasses import replace

from titan.foundation.diagnostics.model import diagnostic
from titan.foundation.verdict import Reason, Verdict
from titan.language.kernel.model import Kernel
from titan.sync.fault import FaultKind
from titan.sync.program import SyncProgram
from titan.sync.relays import relays
from titan.verify import engines
from titan.verify.engines import Budget
from titan.verify.model import EngineReport, Finding, VerifyOptions
from titan.verify.narrowing import narrowing_of
from titan.verify.replay import ReplayError, replay
from titan.verify.sizes import free_parameters
from titan.verify.weak import may_be_weak

SECOND_OPINION_STEPS = 40_000  # of happens-before, where the verdict does not rest on it
ANY_SHARE = 4


def judge(
    finding: Finding, kernel: Kernel, program: SyncProgram, options: VerifyOptions
) -> Finding:
    """The finding with engines, verdict and trace filled in."""
    budget = Budget(options.states_max, options.steps_max, options.seconds_max)
    if options.engine == "reference":
        reports = [engines.run_reference(program, budget)]
    elif options.engine == "order":
        reports = [engines.run_order(program, budget)]
    elif options.engine == "explore":
        reports = _explorer(program, budget, options.require)
    else:
        reports = _all(program, budget, options.require)
    return conclude(replace(finding, program=program), kernel, program, reports, options)


def _explorer(program: SyncProgram, budget: Budget, require: str) -> list[EngineReport]:
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


def _all(program: SyncProgram, budget: Budget, require: str) -> list[EngineReport]:
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
    return [*explored, ordered]


def _settles(report: EngineReport, program: SyncProgram) -> bool:
    """Whether a verdict follows from the report, whatever happens-before finds."""
    if report.verdict is Verdict.VERIFIED:
        return decides(report, program)
    return report.verdict is not Verdict.UNDECIDED


def conclude(
    finding: Finding,
    kernel: Kernel,
    program: SyncProgram,
    reports: list[EngineReport],
    options: VerifyOptions,
) -> Finding:
    """One verdict of several reports."""
    finding = replace(finding, engines=tuple(reports))
    for report in reports:
        problem = _problem(program, report)
        if problem:
            return _disagree(finding, kernel, problem)
    refuting = [report for report in reports if report.verdict is Verdict.REFUTED]
    verifying = [report for report in reports if report.verdict is Verdict.VERIFIED]
    for refuted in refuting:
        for report in verifying:
            if _covers(report, refuted):
                text = f"{refuted.engine} refutes what {report.engine} verifies"
                return _disagree(finding, kernel, text)
    if refuting:
        traces = [report.trace for report in refuting if report.trace is not None]
        shortest = min(traces, key=lambda trace: len(trace.steps), default=None)
        return replace(finding, verdict=Verdict.REFUTED, trace=shortest)
    if not verifying:
        return replace(finding, verdict=Verdict.UNDECIDED)
    return _verified(finding, program, verifying, options)


def _verified(
    finding: Finding,
    program: SyncProgram,
    verifying: list[EngineReport],
    options: VerifyOptions,
) -> Finding:
    """VERIFIED for what the report with the widest scope covers.

    Where synchronisation may carry no visibility, only happens-before has decided everything; what
    completed copies do not carry, the explorer sees as well.
    """
    verifying = [item for item in verifying if decides(item, program)]
    if not verifying:
        note = "whether relaxed or narrow synchronisation carries visibility is not decided"
        return replace(finding, verdict=Verdict.UNDECIDED, notes=(*finding.notes, note))
    widest = next((report for report in verifying if _any(report)), verifying[0])
    known = dict(widest.sizes)
    parameters = tuple(
        (name, value if value is not None else known.get(name))
        for name, value in finding.coverage.parameters
    )
    finding = replace(finding, coverage=replace(finding.coverage, parameters=parameters))
    if _any(widest):
        return replace(finding, verdict=Verdict.VERIFIED)
    for item in program.parameters:
        if item.per is not None and item.value is None:
            note = f"{item.name}: one value for every {item.per}, and two or three in turn"
            finding = replace(finding, notes=(*finding.notes, note))
    narrowing = narrowing_of(program, finding.engines)
    verdict = Verdict.UNDECIDED if options.require == "any" else Verdict.VERIFIED
    return replace(finding, verdict=verdict, narrowing=narrowing)


def decides(report: EngineReport, program: SyncProgram) -> bool:
    """Whether the engine sees all that may go wrong with what synchronisation makes visible."""
    if report.engine == engines.ORDER:
        return True
    if may_be_weak(program):
        return False
    # The explorer follows what completed copies do not carry, unless sizes are chosen for it.
    return not relays(program) or (report.engine == engines.EXPLORER and _any(report))


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


def _disagree(finding: Finding, kernel: Kernel, text: str) -> Finding:
    item = diagnostic("TTN902", f"engines disagree: {text}", kernel.span)
    return replace(
        finding,
        verdict=Verdict.DISAGREEMENT,
        diagnostics=(*finding.diagnostics, item),
        trace=None,
    )
