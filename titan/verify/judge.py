"""Runs the engines on a sync program and compares what they say."""

from __future__ import annotations

from dataclasses import replace

from titan.diagnostics.model import diagnostic
from titan.kernel.model import Kernel
from titan.sync.program import SyncProgram
from titan.verify.engines import Budget, run_reference
from titan.verify.model import EngineReport, Finding, Options, Verdict
from titan.verify.replay import ReplayError, replay


def judge(finding: Finding, kernel: Kernel, program: SyncProgram, options: Options) -> Finding:
    """The finding with engines, verdict and trace filled in."""
    reports = [run_reference(program, Budget(options.states_max, options.seconds_max))]
    return conclude(replace(finding, program=program), kernel, program, reports, options)


def conclude(
    finding: Finding,
    kernel: Kernel,
    program: SyncProgram,
    reports: list[EngineReport],
    options: Options,
) -> Finding:
    """One verdict of several reports."""
    finding = replace(finding, engines=tuple(reports))
    for report in reports:
        if report.verdict is Verdict.REFUTED and report.trace is not None:
            try:
                replay(program, report.trace)
            except ReplayError as error:
                return _disagree(finding, kernel, f"the trace of {report.engine}: {error}")
    refuting = [report for report in reports if report.verdict is Verdict.REFUTED]
    verifying = [report for report in reports if report.verdict is Verdict.VERIFIED]
    if refuting:
        for report in verifying:
            if _covers(report, refuting[0]):
                text = f"{refuting[0].engine} refutes what {report.engine} verifies"
                return _disagree(finding, kernel, text)
        traces = [report.trace for report in refuting if report.trace is not None]
        shortest = min(traces, key=lambda trace: len(trace.steps), default=None)
        return replace(finding, verdict=Verdict.REFUTED, trace=shortest)
    if not verifying:
        return replace(finding, verdict=Verdict.UNDECIDED)
    widest = next((report for report in verifying if _any(report)), verifying[0])
    coverage = replace(
        finding.coverage,
        parameters=tuple(
            (name, value if value is not None else dict(widest.sizes).get(name))
            for name, value in finding.coverage.parameters
        ),
    )
    finding = replace(finding, coverage=coverage)
    if options.require == "any" and not _any(widest):
        note = "every value of the parameters is required, but only some are covered"
        return replace(finding, verdict=Verdict.UNDECIDED, notes=(*finding.notes, note))
    return replace(finding, verdict=Verdict.VERIFIED)


def _any(report: EngineReport) -> bool:
    """Whether the report covers every value of the parameters."""
    return all(values is None for _, values in report.sizes)


def _covers(report: EngineReport, refuting: EngineReport) -> bool:
    """Whether the sizes of a counterexample are among those that `report` has verified."""
    if refuting.trace is None:
        return False
    sizes = dict(report.sizes)
    for name, value in refuting.trace.parameters:
        if name not in sizes or sizes[name] is None:
            continue
        wanted = value if isinstance(value, tuple) else (value,)
        known = sizes[name] or ()
        if not set(wanted) <= set(known):
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
