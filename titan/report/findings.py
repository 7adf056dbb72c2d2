"""Verdicts as text, lines and JSON: what was decided, for exactly which scope, by which engines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.render import concise
from titan.foundation.diagnostics.render import json as json_render
from titan.foundation.diagnostics.render import text as text_render
from titan.foundation.diagnostics.render.colour import paint
from titan.foundation.diagnostics.wording import clean, counted, one_line
from titan.foundation.records import dataclass
from titan.foundation.verdict import Verdict
from titan.verify.model import Coverage, EngineReport, Finding
from titan.verify.replay import replay

FORMAT_VERSION = 1
_WORD = {
    Verdict.VERIFIED: "VERIFIED",
    Verdict.REFUTED: "REFUTED",
    Verdict.UNDECIDED: "UNDECIDED",
    Verdict.REFUSED: "REFUSED",
    Verdict.DISAGREEMENT: "ENGINES DISAGREE",
}
_STYLE = {Verdict.VERIFIED: "info", Verdict.UNDECIDED: "warning"}


def diagnostics_of(finding: Finding, *, full_trace: bool = False) -> list[Diagnostic]:
    """All diagnostics of a finding, that of the counterexample first."""
    found = list(finding.diagnostics)
    if finding.trace is not None and finding.program is not None:
        from titan.report.fault import diagnose

        played = replay(finding.program, finding.trace)
        sizes, path = finding.coverage.sizes, finding.trace_path
        found.insert(0, diagnose(played, sizes, path, full_trace=full_trace))
    return found


@dataclass(frozen=True, slots=True)
class ReportStyle:
    """How findings are shown.

    Without `timings` the text depends on the input alone, not on the machine. `full_trace` shows
    all steps of counterexamples, not only those that matter. Faults that are in `shown` already,
    for other sizes of the same kernel, are named on one line; it is filled on the way.
    """

    colour: bool = False
    timings: bool = False
    full_trace: bool = False
    shown: set[object] = field(default_factory=set)


def render(findings: Sequence[Finding], format_name: str, style: ReportStyle | None = None) -> str:
    """The findings in a format of `text`, `concise` and `json`."""
    style = style or ReportStyle()
    if format_name == "json":
        return as_json(findings, style)
    if format_name == "concise":
        return "".join(_concise(item, style) for item in findings)
    return "".join(_text(item, style) for item in findings)


def _new(
    finding: Finding, found: list[Diagnostic], style: ReportStyle
) -> tuple[list[Diagnostic], list[str]]:
    """The diagnostics that this kernel has not shown yet, and a line for each of the others."""
    fresh: list[Diagnostic] = []
    known: list[str] = []
    for item in found:
        place = item.span
        key = (finding.path, finding.kernel, item.code, place)
        if place is not None and key in style.shown:
            known.append(f"the same {item.code} {item.name} at line {place.start_line} as above")
            continue
        style.shown.add(key)
        fresh.append(item)
    return fresh, known


def _text(finding: Finding, style: ReportStyle) -> str:
    colour, timings = style.colour, style.timings
    found, known = _new(finding, diagnostics_of(finding, full_trace=style.full_trace), style)
    body = text_render.render(found, colour=colour)
    word = paint(_WORD[finding.verdict], _STYLE.get(finding.verdict, "error"), colour)
    name = f"{one_line(finding.kernel)} " if finding.kernel else ""
    rows = [f"{word} {name}({one_line(finding.path)}){narrowing_text(finding)}"]
    rows += [f"  {'fault':<9} {clean(text)}" for text in known]
    rows += [f"  {'added':<9} {clean(text)}" for text in finding.added]
    if finding.narrowing is not None and finding.narrowing.edit:
        rows.append(f"  {'edit':<9} {clean(finding.narrowing.edit)}")
    rows += [f"  {label:<9} {text}" for label, text in scope_rows(finding, timings)]
    rows += [f"  {'note':<9} {clean(note)}" for note in finding.notes]
    return body + "\n".join(rows) + "\n\n"


def narrowing_text(finding: Finding) -> str:
    """What lowering has added, and what is missing for every number: the end of the first line."""
    added = f" with {counted(len(finding.added), 'fence')} that lowering adds"
    start = added if finding.added and finding.verdict is Verdict.VERIFIED else ""
    if finding.narrowing is None:
        return start
    covered = parameters_text(finding.coverage)
    names = " and ".join(finding.narrowing.names)
    asked = "requested" if finding.verdict is Verdict.VERIFIED else "required"
    because = clean(finding.narrowing.because)
    return f"{start}: for {covered}, where any number of {names} is {asked}: {because}"


def scope_rows(finding: Finding, timings: bool = False) -> list[tuple[str, str]]:
    """The scope of a verdict, row by row; with `timings`, the processor time too."""
    time = [("time", f"{finding.seconds:.2f} s")] if timings else []
    if finding.verdict is Verdict.REFUSED or not finding.kernel:
        return time
    coverage = finding.coverage
    rows = [("target", finding.target)]
    if finding.verdict is Verdict.VERIFIED:
        rows.append(("scope", f"all interleavings; {parameters_text(coverage)}"))
    if coverage.sizes:
        rows.append(("sizes", ", ".join(f"{name} = {value}" for name, value in coverage.sizes)))
    rows.append(("agents", agents_text(coverage)))
    policies = ", ".join(f"{name} {value}" for name, value in coverage.policies)
    rows.append(("policies", policies))
    rows += [("engine", engine_text(report, timings)) for report in finding.engines]
    deciding = [item for item in finding.engines if item.verdict is finding.verdict]
    if len(deciding) > 1:
        rows.append(("agreed", " and ".join(item.engine for item in deciding)))
    return rows + time


def parameters_text(coverage: Coverage) -> str:
    """`any number of tiles`, `tiles = 0..14 only`."""
    minimums = dict(coverage.minimums)
    turns = {name: (per, last) for name, per, last in coverage.turns}
    texts = []
    for name, values in coverage.parameters:
        if values is None:
            least = minimums.get(name, 0)
            texts.append(f"any {name}" + (f" from {least} upwards" if least else ", 0 included"))
        elif len(values) == 1:
            texts.append(f"{name} = {values[0]} only")
        else:
            texts.append(f"{name} = {values_text(values)} only")
        if values is not None and name in turns:
            texts[-1] += turns_text(values, *turns[name])
    texts += [coverage.combinations] if coverage.combinations else []
    texts += coverage.launches
    return "; ".join(texts) if texts else "no parameters"


def turns_text(values: tuple[int, ...], per: str, last: int) -> str:
    """Which sequences of values of a parameter with `per` are covered."""
    small = values_text(tuple(value for value in values if value <= last))
    return f", the same for every {per} (of {small} also two or three in turn)"


def values_text(values: tuple[int, ...]) -> str:
    """`0..14`, or the values one by one where some are left out."""
    if not values:
        return "none"
    whole = values == tuple(range(values[0], values[-1] + 1))
    if whole and len(values) > 2:
        return f"{values[0]}..{values[-1]}"
    return ", ".join(map(str, values))


def agents_text(coverage: Coverage) -> str:
    """`1 producer of 32 threads, 2 consumers of 128 threads`."""
    words = {1: "one thread", 32: "a warp", 64: "64 threads", 128: "a warpgroup"}
    parts = []
    for name, agents, threads in coverage.roles:
        size = words.get(threads, f"{threads} threads")
        parts.append(f"{agents} × {name} ({size})")
    text = ", ".join(parts)
    return f"{text}, in {coverage.ctas} CTAs" if coverage.ctas > 1 else text


def engine_text(report: EngineReport, timings: bool = False) -> str:
    """`explorer: verified, 1,234 states`, and with `timings` the processor time."""
    parts = [report.verdict.value]
    if report.sizes and any(values is not None for _, values in report.sizes):
        covered = "; ".join(
            f"{name} = {values_text(values)}" for name, values in report.sizes if values is not None
        )
        parts.append(f"for {covered}")
    if report.states:
        parts.append(f"{report.states:,} states")
    if timings:
        parts.append(f"{report.seconds:.2f} s")
    if report.remark:
        parts.append(report.remark)
    return f"{report.engine}: {', '.join(parts)}"


def _concise(finding: Finding, style: ReportStyle) -> str:
    body = concise.render(diagnostics_of(finding))
    scope = parameters_text(finding.coverage) if finding.verdict is Verdict.VERIFIED else ""
    sizes = ", ".join(f"{name} = {value}" for name, value in finding.coverage.sizes)
    more = "; ".join(text for text in (sizes, scope) if text)
    tail = f" [{more}]" if more else ""
    line = f"{one_line(finding.path)}: {finding.verdict.value} {one_line(finding.kernel)}".rstrip()
    spent = f" ({finding.seconds:.2f} s)" if style.timings else ""
    return f"{body}{line}{narrowing_text(finding)}{tail}{spent}\n"


def summary(findings: Sequence[Finding]) -> str:
    """`12 kernels: 10 verified, 2 refuted`."""
    counts = {
        verdict: sum(1 for item in findings if item.verdict is verdict) for verdict in Verdict
    }
    parts = [f"{number} {verdict.value}" for verdict, number in counts.items() if number]
    return f"{counted(len(findings), 'kernel')}: {', '.join(parts)}"


def as_json(findings: Sequence[Finding], style: ReportStyle | None = None) -> str:
    """All findings as one JSON object; versioned by `FORMAT_VERSION`."""
    found = [as_dict(item, style) for item in findings]
    content = {"version": FORMAT_VERSION, "findings": found}
    return json.dumps(content, indent=2) + "\n"


def as_dict(finding: Finding, style: ReportStyle | None = None) -> dict[str, Any]:
    """A finding as plain data; `seconds` of processor time with `timings` only."""
    style = style or ReportStyle()
    timings, found = style.timings, diagnostics_of(finding, full_trace=style.full_trace)
    coverage = finding.coverage
    return {
        "path": finding.path,
        "kernel": finding.kernel,
        "target": finding.target,
        "verdict": finding.verdict.value,
        "exit_code": finding.exit_code,
        **({"seconds": round(finding.seconds, 3)} if timings else {}),
        "scope": {
            "interleavings": "all" if finding.verdict is Verdict.VERIFIED else None,
            "sizes": dict(coverage.sizes),
            "parameters": {
                name: "any" if values is None else list(values)
                for name, values in coverage.parameters
            },
            **({"combinations": coverage.combinations} if coverage.combinations else {}),
            "minimums": dict(coverage.minimums),
            "roles": [
                {"name": name, "agents": agents, "threads": threads}
                for name, agents, threads in coverage.roles
            ],
            "ctas": coverage.ctas,
            "policies": dict(coverage.policies),
            "launches": list(coverage.launches),
        },
        "engines": [_engine(report, timings) for report in finding.engines],
        "diagnostics": [json_render.as_dict(item) for item in found],
        "notes": list(finding.notes),
        "added": list(finding.added),
        "narrowing": _narrowing(finding),
        "trace": finding.trace_path or None,
    }


def _narrowing(finding: Finding) -> dict[str, Any] | None:
    if finding.narrowing is None:
        return None
    return {
        "sizes": list(finding.narrowing.names),
        "reason": finding.narrowing.reason.value,
        "because": finding.narrowing.because,
        "edit": finding.narrowing.edit,
    }


def _engine(report: EngineReport, timings: bool) -> dict[str, Any]:
    return {
        "engine": report.engine,
        "verdict": report.verdict.value,
        **({"seconds": round(report.seconds, 3)} if timings else {}),
        "states": report.states,
        "parameters": {
            name: "any" if values is None else list(values) for name, values in report.sizes
        },
        "reason": report.reason.value if report.reason is not None else None,
        "remark": report.remark,
    }
