"""Verdicts as one self-contained HTML page.

A refuted kernel has its counterexample as a timeline: a column for each agent and for its
asynchronous operations, arrows from what completes a phase to the waits that it releases, phases
and contents in a strip, the source next to it. A verified kernel has what is covered, the engines
with their states, the fences with their reasons, and one of its interleavings as an illustration,
which proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic, Severity
from titan.foundation.diagnostics.wording import counted
from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Span
from titan.foundation.verdict import Verdict
from titan.report.findings import diagnostics_of, narrowing_text, scope_rows, summary
from titan.report.story import relevant, story_of
from titan.report.timeline import Timeline, Track, engine_of, sample_run, timeline_of
from titan.report.verdict_script import SCRIPT, STYLE
from titan.verify.model import EngineReport, Finding
from titan.verify.replay import replay

ROWS_MAX = 600  # steps that a page shows; of longer runs those that matter, and of them the last
SAMPLE_TRIPS = 4
SAMPLE_STEPS = 240
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
KEYS = "\u2190 \u2192 or j k: a step; Page keys: ten; Home, End; m: only steps that matter"


def page(findings: Sequence[Finding]) -> str:
    """The page of all findings."""
    title = summary(findings) if len(findings) != 1 else _title(findings[0])
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *(_finding(item) for item in findings),
        f"<script>{SCRIPT}</script></body></html>\n",
    ]
    return "\n".join(parts)


def fragment(finding: Finding) -> str:
    """A finding for a notebook: without script, the counterexample as a table."""
    shown = "".join(_diagnostic(item) for item in diagnostics_of(finding))
    rows = "".join(_row(label, text) for label, text in scope_rows(finding))
    return (
        f"<div><p><b>{_word(finding)}</b> {escape(finding.kernel)} ({escape(finding.path)})"
        f"{escape(narrowing_text(finding))}</p>{shown}<table>{rows}</table></div>"
    )


def _title(finding: Finding) -> str:
    return f"{_word(finding)} {finding.kernel or finding.path}"


def _word(finding: Finding) -> str:
    return finding.verdict.value.upper()


def _row(label: str, text: str) -> str:
    return f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>"


def _finding(finding: Finding) -> str:
    verdict = finding.verdict
    found = diagnostics_of(finding)
    parts = [
        f"<section><h2><span class='verdict {verdict.value}'>{_word(finding)}</span> "
        f"{escape(finding.kernel)} <span class='quiet'>{escape(finding.path)}"
        f"{escape(narrowing_text(finding))}</span></h2>",
        *(_diagnostic(item) for item in found),
    ]
    if finding.trace is not None and finding.program is not None:
        parts.append(_counterexample(finding, found))
    rows = [row for row in scope_rows(finding) if row[0] not in ("engine", "policies")]
    edit = "" if finding.narrowing is None else finding.narrowing.edit
    rows += [("edit", edit)] if edit else []
    rows += [("added", text) for text in finding.added]
    rows += [("note", text) for text in finding.notes]
    if rows:
        covered = "What is covered" if verdict is Verdict.VERIFIED else "What was requested"
        body = "".join(_row(label, text) for label, text in rows)
        parts.append(f"<h3>{covered}</h3><table class='facts'>{body}</table>")
    parts += [_engines(finding.engines), _policies(finding)]
    if verdict is Verdict.VERIFIED:
        parts += [_fences(finding), _sample(finding)]
    return "\n".join([*parts, "</section>"])


def _diagnostic(item: Diagnostic) -> str:
    """A diagnostic; its interleaving is the timeline below."""
    warning = "" if item.severity is Severity.ERROR else " warning"
    marks = [
        f"<li><code>{escape(str(mark.span))}</code> {escape(mark.label)}</li>"
        for mark in item.annotations
    ]
    more = [f"<li class='quiet'>{escape(text)}</li>" for text in item.notes]
    more += [f"<li>help: {escape(text)}</li>" for text in item.helps]
    return (
        f"<div class='fault{warning}'><b>{escape(item.code)} {escape(item.name)}</b>: "
        f"{escape(item.headline)}<ul>{''.join(marks + more)}</ul></div>"
    )


# -------------------------------------------------------------------------------------- tables


def _engines(engines: Iterable[EngineReport]) -> str:
    rows = []
    for report in engines:
        covered = "; ".join(
            f"{name} = {values[0]}..{values[-1]}" for name, values in report.sizes if values
        )
        cells = (
            report.engine,
            report.verdict.value,
            f"{report.states:,}" if report.states else "",
            covered or "every value",
            report.remark,
        )
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("engine", "says", "states", "for", "remark"))
    table = f"<table class='facts'><tr>{head}</tr>{''.join(rows)}</table>"
    return f"<h3>Engines</h3>{table}"


def _policies(finding: Finding) -> str:
    rows = "".join(_row(name, value) for name, value in finding.coverage.policies)
    table = f"<table class='facts'>{rows}</table>"
    return f"<details><summary>Policies</summary>{table}</details>" if rows else ""


def _fences(finding: Finding) -> str:
    """Each fence, its purpose, and whether the kernel is wrong without it."""
    from titan.verify import fences as flow
    from titan.verify.fence_review import review
    from titan.verify.fence_runs import has_fences
    from titan.verify.model import VerifyOptions

    source, _ = load_file(finding.path)
    if source is None or not has_fences(finding.target):
        return ""
    sizes = tuple((name, (value,)) for name, value in finding.coverage.sizes)
    options = VerifyOptions(sizes, finding.coverage.policies, save_traces=None)
    try:
        found = review(flow.load(source.text, finding.path, options))
    except flow.BadInput:
        return ""
    rows = []
    for item in found.fences:
        where = f"line {item.line}" + (", added by lowering" if item.added else "")
        spaces = ", ".join(space.value for space in item.enough)
        enough = f"{item.state}: {spaces} would do" if spaces else item.state
        why = "".join(f"<div>{escape(purpose)}</div>" for purpose in item.purposes)
        cells = f"<td>{where}</td><td><code>{escape(item.text)}</code></td><td>{enough}</td>"
        rows.append(f"<tr>{cells}<td>{why}</td></tr>")
    shown = "<p>There are none, and none is needed.</p>"
    if rows:
        head = "<tr><th>where</th><th>fence</th><th></th><th>why</th></tr>"
        shown = f"<table class='facts'>{head}{''.join(rows)}</table>"
    doubt = f"<p class='quiet'>{escape(found.reason)}</p>" if found.reason else ""
    command = f"<code>titan mutants {escape(finding.path)}</code>"
    needed = f"<p class='quiet'>Which operations are needed at all: {command}</p>"
    return f"<h3>Proxy fences</h3>{shown}{doubt}{needed}"


# ------------------------------------------------------------------------------------ timelines


def _counterexample(finding: Finding, found: list[Diagnostic]) -> str:
    assert finding.trace is not None and finding.program is not None
    played = replay(finding.program, finding.trace)
    timeline = timeline_of(played.machine, played.steps, played.last)
    kept = relevant(played, story_of(played))
    first = found[0] if found else None
    marked = [mark.span for mark in first.annotations] if first is not None else []
    values = ", ".join(f"{name} = {value}" for name, value in finding.trace.parameters)
    head = f"Counterexample{f', with {values}' if values else ''}"
    shown = first.headline if first is not None else played.fault.message
    return f"<h3>{escape(head)}</h3>{_run(timeline, kept, marked, shown, finding.path)}"


def _sample(finding: Finding) -> str:
    if finding.program is None:
        return ""
    run = sample_run(finding.program, SAMPLE_TRIPS, SAMPLE_STEPS)
    if run is None or not run.played or run.last is None:
        return ""
    timeline = timeline_of(run.machine, run.played, run.last)
    sizes = ", ".join(f"{name} = {value}" for name, value in run.machine.sizes.items())
    head = f"One of the interleavings{f', with {sizes}' if sizes else ''}, to look at"
    return f"<h3>{escape(head)}</h3>{_run(timeline, None, [], '', finding.path)}"


def _run(
    timeline: Timeline, kept: frozenset[int] | None, marked: list[Span], shown: str, path: str
) -> str:
    """The steps as a table with the arrows over it, and next to it the source."""
    numbers = [step.number for step in timeline.steps]
    if len(numbers) > ROWS_MAX:
        numbers = [number for number in numbers if kept is None or number in kept][-ROWS_MAX:]
    last = len(timeline.steps)
    rows = [_step(timeline, number, kept, shown if number == last else "") for number in numbers]
    arrows = [(item.first, item.last, item.kind, item.label) for item in timeline.arrows]
    data = json.dumps(arrows).replace("<", "\\u003c")
    boxes = "".join(f"<th>{escape(name)}</th>" for name in timeline.lane_names)
    boxes += "".join(
        f"<th class='track' title='{item.kind}'><span>{escape(item.name)}</span></th>"
        for item in timeline.tracks
    )
    only = "<label><input type='checkbox' checked> only steps that matter</label>"
    return (
        f"<div class='run' data-steps='{last}'><div class='bar'>"
        "<button class='first'>first</button><button class='back'>back</button>"
        "<span class='position'></span><button class='on'>on</button>"
        f"<button class='last'>last</button>{only if kept is not None else ''}"
        f"<span class='quiet'>{KEYS}</span></div>"
        "<div class='panes'><div class='scroll'><svg class='arrows'></svg>"
        f"<table class='steps'><thead><tr><th></th>{boxes}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"<aside><div class='shown'></div>{_source(timeline, marked, path)}</aside></div>"
        f"<script type='application/json' class='arrows'>{data}</script></div>"
    )


def _step(timeline: Timeline, number: int, kept: frozenset[int] | None, end: str) -> str:
    step, lane = timeline.steps[number - 1], timeline.lanes[number - 1]
    words = ["matters"] if kept is None or number in kept else []
    words += ["fault-step"] if end else []
    line = step.span.start_line if step.span is not None else 0
    data = {"step": number, "line": line, "who": step.agent, "text": step.text,
            "follows": step.follows, "end": end}  # fmt: skip
    attributes = " ".join(f"data-{name}='{escape(str(value))}'" for name, value in data.items())
    cells = [f"<td class='quiet'>{number}</td>"]
    for name in timeline.lane_names:
        engine = " engine" if name == engine_of(name.removeprefix("engine of ")) else ""
        shown = escape(_short(step.text))
        inner = f"<span title='{escape(step.text)}'>{shown}</span>" if name == lane else ""
        cells.append(f"<td class='lane{engine}'>{inner}</td>")
    cells += [_cell(track, number) for track in timeline.tracks]
    return f"<tr class='{' '.join(words)}' {attributes}>{''.join(cells)}</tr>"


def _short(text: str) -> str:
    """The statement of a step, with what an operation that it starts touches."""
    statement, _, meaning = text.partition(": ")
    started = meaning.removeprefix("starts operation ")
    return f"{statement}, {started}" if meaning != started else statement


def _cell(track: Track, number: int) -> str:
    """The state of a track after a step, numbered where it begins."""
    now = next(item for item in track.segments if item.first <= number <= item.last)
    colour = "none" if now.mark is None else f"k{now.mark % 6}"
    busy = " busy" if now.busy else ""
    begins = number in (now.first, 1) and now.mark is not None
    title = f"{track.name}: {now.text}{f', {now.busy}' if now.busy else ''}"
    text = now.mark if begins else ""
    return f"<td class='track {colour}{busy}' title='{escape(title)}'>{text}</td>"


def _source(timeline: Timeline, marked: list[Span], path: str) -> str:
    """The source file of most steps."""
    spans = [step.span for step in timeline.steps if step.span is not None]
    source = next((span.source for span in spans if span.source is not None), None)
    if source is None and Path(path).is_file():
        source, _ = load_file(path)
    if source is None:
        return ""
    at = {span.start_line for span in marked if span.path == source.path}
    lines = "".join(
        f"<span data-line='{number}'{' class=at' if number in at else ''}>"
        f"{number:4} {escape(source.line(number))}</span>"
        for number in range(1, source.line_count + 1)
    )
    shown = escape(f"{source.path}, {counted(source.line_count, 'line')}")
    return f"<div class='quiet'>{shown}</div><pre class='source'>{lines}</pre>"
