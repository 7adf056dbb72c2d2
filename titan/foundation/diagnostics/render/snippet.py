"""Excerpts of a source with marks and labels under the lines, in the style of rustc.

Works on plain strings: every character of the source is made printable first, and columns are
counted in terminal cells, so that marks stand under what they mean for tabs and wide characters
too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import groupby

from titan.foundation.diagnostics.model import Annotation
from titan.foundation.diagnostics.wording import clean, printable
from titan.foundation.records import dataclass
from titan.foundation.source.span import Source

WIDTH_MAX = 140
_TAB = 4
_LEAD = 40

Paint = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class _Mark:
    """What an annotation marks on one displayed line: cells `start` up to `end`."""

    start: int
    end: int
    label: str
    primary: bool


def snippet(
    source: Source, annotations: Sequence[Annotation], gutter: int, paint: Paint
) -> list[str]:
    """The lines of the excerpt for annotations of one source, with a gutter `gutter` cells wide."""
    by_line: dict[int, list[Annotation]] = {}
    for annotation in annotations:
        by_line.setdefault(annotation.span.start_line, []).append(annotation)
    bar = paint("|", "frame")
    rows = [f"{'':{gutter}} {bar}"]
    previous = 0
    for number in sorted(by_line):
        if previous and number > previous + 1:
            rows.append(paint("...", "frame"))
        previous = number
        text, marks = _displayed(source.line(number), by_line[number])
        rows.append(f"{paint(f'{number:>{gutter}}', 'frame')} {bar} {text}".rstrip())
        rows += [f"{'':{gutter}} {bar} {row}" for row in _mark_rows(marks, paint)]
    return rows


def _displayed(line: str, annotations: Sequence[Annotation]) -> tuple[str, list[_Mark]]:
    """A line as shown, cut to `WIDTH_MAX` cells around its marks, and the marks in cells."""
    cells = [0]
    shown: list[str] = []
    for char in line:
        piece, width = _cell(char)
        shown.append(piece)
        cells.append(cells[-1] + width)
    marks = [_mark(annotation, cells, len(line)) for annotation in annotations]
    if cells[-1] <= WIDTH_MAX:
        return "".join(shown), marks
    first = max(0, min(mark.start for mark in marks) - _LEAD)
    begin = next(i for i, cell in enumerate(cells) if cell >= first)
    end = max(i for i, cell in enumerate(cells) if cell <= cells[begin] + WIDTH_MAX)
    shift = cells[begin] - (1 if begin else 0)
    limit = cells[end] - shift
    text = ("…" if begin else "") + "".join(shown[begin:end]) + ("…" if end < len(line) else "")
    cut = [
        _Mark(
            min(mark.start - shift, limit),
            max(min(mark.end - shift, limit), min(mark.start - shift, limit) + 1),
            mark.label,
            mark.primary,
        )
        for mark in marks
    ]
    return text, cut


def _cell(char: str) -> tuple[str, int]:
    """How a character is shown, and how many cells that takes."""
    if char == "\t":
        return " " * _TAB, _TAB
    if not char.isprintable():
        piece = printable(char)
        return piece, len(piece)
    if unicodedata.combining(char):
        return char, 0
    return char, 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _mark(annotation: Annotation, cells: Sequence[int], length: int) -> _Mark:
    span = annotation.span
    start = min(max(span.start_column - 1, 0), length)
    one_line = span.end_line == span.start_line
    end = min(max(span.end_column - 1, start), length) if one_line else length
    label = annotation.label
    if not one_line:
        label = f"{label} (to line {span.end_line})".strip()
    return _Mark(cells[start], max(cells[end], cells[start] + 1), label, annotation.primary)


def _mark_rows(marks: list[_Mark], paint: Paint) -> list[str]:
    """The row of carets and dashes with the last label, then one row for each further label."""
    ordered = sorted(marks, key=lambda mark: (mark.start, mark.primary))
    width = max(mark.end for mark in ordered)
    row = [" "] * width
    style = [""] * width
    for mark in sorted(ordered, key=lambda mark: mark.primary):
        for cell in range(mark.start, mark.end):
            row[cell] = "^" if mark.primary else "-"
            style[cell] = "error" if mark.primary else "secondary"
    painted = ""
    for kind, run in groupby(zip(style, row, strict=True), key=lambda pair: pair[0]):
        text = "".join(char for _, char in run)
        painted += paint(text, kind) if kind else text
    labelled = [mark for mark in ordered if mark.label]
    inline = labelled[-1] if labelled and labelled[-1].end >= width else None
    rows = [painted + (" " + _label(inline, paint) if inline else "")]
    hanging = [mark for mark in labelled if mark is not inline]
    while hanging:
        last = hanging.pop()
        stems = sorted({mark.start for mark in hanging if mark.start < last.start})
        rows.append(_stems(stems, last.start) + _label(last, paint))
    return rows


def _stems(columns: Sequence[int], until: int) -> str:
    return "".join("|" if cell in columns else " " for cell in range(until))


def _label(mark: _Mark, paint: Paint) -> str:
    return paint(clean(mark.label), "error" if mark.primary else "secondary")
