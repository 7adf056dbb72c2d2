"""Diagnostics for people: headline, place, excerpt with labels, notes, helps, trace."""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.diagnostics.model import Annotation, Diagnostic, TraceReference
from titan.foundation.diagnostics.render.colour import paint
from titan.foundation.diagnostics.render.snippet import snippet
from titan.foundation.diagnostics.wording import clean


def render(diagnostics: Sequence[Diagnostic], *, colour: bool = False) -> str:
    """All diagnostics, a blank line after each."""
    return "".join("\n".join(_lines(item, colour)) + "\n\n" for item in diagnostics)


def _lines(item: Diagnostic, colour: bool) -> list[str]:
    def painted(text: str, style: str) -> str:
        return paint(text, style, colour)

    severity = item.severity.value
    head = painted(f"{severity}[{item.code}]", severity)
    rows = [f"{head} {item.name}: {painted(clean(item.headline), 'strong')}"]
    spans = [note.span for note in item.annotations]
    gutter = len(str(max((span.start_line for span in spans), default=1)))
    for index, (path, notes) in enumerate(_by_path(item).items()):
        first = next((note for note in notes if note.primary), notes[0])
        arrow = painted("-->" if index == 0 else ":::", "frame")
        place = f"{clean(path)}:{first.span.start_line}:{first.span.start_column}"
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
    count = len(trace.steps)
    rows = [f"{'':{gutter}} {sign} {shown_kind}: {count} step{'' if count == 1 else 's'}"]
    width = max((len(step.agent) for step in trace.steps), default=0)
    digits = len(str(count))
    for number, step in enumerate(trace.steps, start=1):
        place = ""
        if step.span is not None:
            place = f"  (line {step.span.start_line})"
        row = f"     {number:>{digits}}  {step.agent:<{width}}  {clean(step.text)}{place}"
        rows.append(" " * gutter + row.rstrip())
    return rows


def _footer(item: Diagnostic) -> str:
    explain = f"  explain: titan explain {item.code}"
    if item.trace is not None and item.trace.path:
        return f"{explain}      replay: titan replay {item.trace.path}"
    return explain
