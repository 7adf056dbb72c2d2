"""Moves diagnostics on PTX to the source lines that the PTX was compiled from.

A mark moves to the line of its `.loc`, where that file can be read: of a chain of inlined calls to
the innermost place that is the user's, not a library's. The line of the PTX stays as a label.

LLVM counts the lines of a block of inline assembly as if they were the source's: all of a block
gets the place of its first instruction.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace

from titan.foundation.diagnostics.model import Annotation, Diagnostic, TraceStep
from titan.foundation.source.location import SourceLocation
from titan.foundation.source.span import Source, Span
from titan.frontends.ptx.places import CodePlaces

# A path, or a folder and a name.
_FILE = re.compile(r'(?m)^\s*\.file\s+\d+\s+"([^"\n]+)"(?: "([^"\n]+)")?')
_ASSEMBLY = re.compile(r"(?m)^\s*// (begin|end) inline asm")
_LIBRARIES = ("site-packages", "dist-packages")
SOURCE_BYTES_MAX = 4 << 20


@dataclass(slots=True)
class SourceLines:
    """The source files of one text of PTX or assembly (`kind`); each is read once."""

    places: CodePlaces
    kind: str = "PTX"
    files: dict[str, str] = field(default_factory=dict)
    read: dict[str, Source | None] = field(default_factory=dict)
    blocks: list[tuple[int, int]] = field(default_factory=list)  # of inline assembly, lines

    def __post_init__(self) -> None:
        source, begin = self.places.source, 0
        for found in _ASSEMBLY.finditer(source.text):
            line, _ = source.position(found.start(1))
            if found.group(1) == "begin":
                begin = line
            else:
                self.blocks.append((begin, line))
        for first, second in _FILE.findall(self.places.source.text):
            path = os.path.join(first, second) if second else first
            self.files.setdefault(path.rpartition("/")[2], path)

    def at_source(self, item: Diagnostic) -> Diagnostic:
        """The diagnostic, with every mark that has a source line moved to it."""
        annotations = tuple(self._annotation(note) for note in item.annotations)
        trace = item.trace
        if trace is not None:
            steps = tuple(self._step(step) for step in trace.steps)
            trace = replace(trace, steps=steps)
        return replace(item, annotations=annotations, trace=trace)

    def _annotation(self, note: Annotation) -> Annotation:
        moved = self._moved(note.span)
        if moved is None:
            return note
        label = note.label
        known = self.places.source_of(note.span)
        if known:
            label = label.replace(f"[{known}]", "").rstrip()
        text = f"line {note.span.start_line} of the {self.kind}: {self._word(note.span)}"
        return Annotation(moved, f"{label} ({text})" if label else text, note.primary)

    def _step(self, step: TraceStep) -> TraceStep:
        moved = None if step.span is None else self._moved(step.span)
        return step if moved is None else replace(step, span=moved)

    def _word(self, span: Span) -> str:
        return span.excerpt().strip().rstrip(";").split(" ")[0]

    def _moved(self, span: Span) -> Span | None:
        """The line of the user's source; None if there is none, or it cannot be read."""
        location = self._location(span)
        if location is None:
            return None
        chain = location.chain()
        own = [place for place in chain if self._is_own(place.file)]
        for place in own or chain:
            source = self._source(place.file)
            if source is None or not 1 <= place.line <= source.line_count:
                continue
            text = source.line(place.line)
            begin = place.column if 1 <= place.column <= len(text) else 1
            end = max(begin + 1, len(text.rstrip()) + 1)
            return Span(source.path, place.line, begin, place.line, end, source)
        return None

    def _location(self, span: Span) -> SourceLocation | None:
        """The `.loc` of an instruction; of inline assembly that of the block."""
        place = bisect_right(self.blocks, (span.start_line, 0)) - 1
        if place < 0 or span.start_line > self.blocks[place][1]:
            return self.places.location(span)
        begin = self.blocks[place][0]
        instructions = self.places.module.instructions
        first = bisect_right(instructions, begin, key=lambda item: item.line)
        return instructions[first].location

    def _is_own(self, name: str) -> bool:
        path = self.files.get(name, "")
        return bool(path) and not any(part in path.split("/") for part in _LIBRARIES)

    def _source(self, name: str) -> Source | None:
        if name not in self.read:
            self.read[name] = _loaded(self.files.get(name, ""))
        return self.read[name]


def _loaded(path: str) -> Source | None:
    """A file that PTX names, shown relative to the working folder where it is below it."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > SOURCE_BYTES_MAX:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    shown = os.path.relpath(path)
    return Source(path if shown.startswith("..") else shown, text)
