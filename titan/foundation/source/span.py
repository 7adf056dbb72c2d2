"""Sources and spans: which characters of which file a value was read from.

Lines and columns are counted from 1, in characters of the decoded text; the end column is
exclusive, so an empty span has equal ends. A span keeps its source for excerpts, but two spans are
equal when they name the same place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import field

from titan.foundation.records import dataclass

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Source:
    """The decoded text of one input and its line table."""

    path: str
    text: str = field(repr=False)
    line_starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]
        object.__setattr__(self, "line_starts", tuple(starts))

    @property
    def line_count(self) -> int:
        """The number of entries of the line table: one for each line start."""
        return len(self.line_starts)

    def line(self, number: int) -> str:
        """The text of line `number` (from 1) without its line break.

        Empty when there is no such line.
        """
        if not 1 <= number <= self.line_count:
            return ""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < self.line_count else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a character offset.

        Offsets outside the text are clamped.
        """
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The span of the half-open range of character offsets."""
        start_line, start_column = self.position(start)
        end_line, end_column = self.position(max(start, end))
        return Span(self.path, start_line, start_column, end_line, end_column, self)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of a source; lines and columns from 1, `end_column` exclusive."""

    path: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int
    source: Source | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.start_line}:{self.start_column}"

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(
            self.path,
            self.start_line,
            self.start_column,
            other.end_line,
            other.end_column,
            self.source,
        )

    def within(self, start: int, length: int) -> Span:
        """A part of a one-line span: `length` columns from `start` columns after its beginning.

        Clamped to the span; for a span over several lines the span itself, since offsets into a
        folded value do not map to columns.
        """
        if self.start_line != self.end_line:
            return self
        begin = min(self.start_column + max(0, start), self.end_column)
        end = min(begin + max(0, length), self.end_column)
        return Span(self.path, self.start_line, begin, self.start_line, end, self.source)

    def excerpt(self) -> str:
        """The first line that the span touches, or nothing when the source is not at hand."""
        return self.source.line(self.start_line) if self.source is not None else ""

    def as_dict(self) -> dict[str, object]:
        """The place as plain data, for reports."""
        return {
            "path": self.path,
            "start": {"line": self.start_line, "column": self.start_column},
            "end": {"line": self.end_line, "column": self.end_column},
        }


def whole_file(path: str) -> Span:
    """The span for a finding that concerns a file as such (it cannot be read, it is empty)."""
    return Span(path, 1, 1, 1, 1)
