"""Diagnostics for people: headline, place, excerpt with labels, notes, helps, trace."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from titan.foundation.diagnostics.model import Annotation, Diagnostic, TraceReference, TraceStep
from titan.foundation.diagnostics.render.colour import paint
from titan.foundation.diagnostics.render.snippet import snippet
from titan.foundation.diagnostics.wording import clean, counted, one_line

COLUMNS = 100  # of a trace


def render(diagnostics: Sequence[Diagnostic], *, colour: bool = False) -> str:
    """All diagnostics, a blank line after each."""
    return "".join("\n".join(_lines(item, colour)) + "\n\n" for item in diagnostics)


def _lines(item: Diagnostic, colour: bool) -> list[str]:
    def painted(text: str, style: str) -> str:
        return paint(text, style, colour)

    severity = item.severity.value
    head = painted(f"{severity}[{item.code}]", severity)
    rows = [f"{head} {item.name}: {painted(one_line(item.headline), 'strong')}"]
    spans = [note.span for note in item.annotations]
    gutter = len(str(max((span.start_line for span in spans), default=1)))
    for index, (path, notes) in enumerate(_by_path(item).items()):
        first = next((note for note in notes if note.primary), notes[0])
        arrow = painted("-->" if index == 0 else ":::", "frame")
        place = f"{one_line(path)}:{first.span.start_line}:{first.span.start_column}"
        rows.append(f"{'':{gutter}}{arrow} {place}")
        source = next((note.span.source for note in notes if note.span.source), None)
        if source is not None:
            rows += snippet(source, notes, gutter, painted)
        else:
            rows += [
                f"{'':{gutter}} {painted('=', 'frame')} {clean(n.label)}" for n in notes if n.label
            ]
    remarks = [("note", note) for note in item.notes] + [("help", text) for text in item.helps]
    if (remarks or item.trace) and item.annotations:
        rows.append(f"{'':{gutter}} {painted('|', 'frame')}")
    for kind, text in remarks:
        rows += _remark(kind, text, gutter, painted("=", "frame"), painted(kind, "strong"))
    if item.trace is not None:
        rows += _trace(item.trace, gutter, painted("=", "frame"), painted("trace", "strong"))
    rows.append(_footer(item))
    return rows


def _by_path(item: Diagnostic) -> dict[str, list[Annotation]]:
    """Annotations by file, the file of the primary one first."""
    groups: dict[str, list[Annotation]] = {}
    primary = item.primary
    if primary is not None:
        groups[primary.span.path] = []
    for annotation in item.annotations:
        groups.setdefault(annotation.span.path, []).append(annotation)
    return groups


def _remark(kind: str, text: str, gutter: int, sign: str, shown_kind: str) -> list[str]:
    first, *more = clean(text).split("\n")
    indent = " " * (gutter + len(kind) + 5)
    return [f"{'':{gutter}} {sign} {shown_kind}: {first}", *(indent + line for line in more)]


def _trace(trace: TraceReference, gutter: int, sign: str, shown_kind: str) -> list[str]:
    """The steps in columns, what follows beside a step or, where that is too wide, below it."""
    count = trace.count or len(trace.steps)
    left_out = count - sum(1 for step in trace.steps if step.number or not trace.count)
    rest = f", {left_out} of them left out" if left_out else ""
    rows = [f"{'':{gutter}} {sign} {shown_kind}: {counted(count, 'step')}{rest}"]
    agents = max((len(step.agent) for step in trace.steps), default=0)
    digits = len(str(count))
    texts = [clean(step.text) + _line_of(step) for step in trace.steps]
    head = gutter + 5 + digits + 2 + agents + 2
    width = min(max((len(text) for text in texts), default=0), COLUMNS - head - 24)
    for place, (step, text) in enumerate(zip(trace.steps, texts, strict=True), start=1):
        number = step.number or (place if not trace.count else "-")
        start = f"{'':{gutter}}     {number:>{digits}}  {step.agent:<{agents}}  "
        follows = clean(step.follows)
        if len(text) <= width and head + width + 2 + len(follows) <= COLUMNS:
            rows.append(f"{start}{text:<{width}}  {follows}".rstrip())
            continue
        rows += _wrapped(start, text, head)
        rows += _wrapped(f"{'':{head}}=> ", follows, head + 3) if follows else []
    return rows


def _wrapped(start: str, text: str, indent: int) -> list[str]:
    lines = textwrap.wrap(text, max(COLUMNS - indent, 40), break_long_words=False)
    return [(start if not n else " " * indent) + line for n, line in enumerate(lines or [""])]


def _line_of(step: TraceStep) -> str:
    return f" (line {step.span.start_line})" if step.span is not None else ""


def _footer(item: Diagnostic) -> str:
    explain = f"  explain: titan explain {item.code}"
    if item.trace is not None and item.trace.path:
        return f"{explain}      replay: titan replay {item.trace.path}"
    return explain
