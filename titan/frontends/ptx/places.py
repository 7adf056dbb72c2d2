"""Instructions of a module as places in its text and in the sources it was compiled from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from titan.foundation.source.location import SourceLocation
from titan.foundation.source.span import Source, Span


class PlacedInstruction(Protocol):
    """What places need of an instruction, PTX or assembly."""

    @property
    def opcode(self) -> str:
        """The first word."""

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The words that belong to the name."""

    @property
    def line(self) -> int:
        """From 1."""

    @property
    def column(self) -> int:
        """From 1."""

    @property
    def location(self) -> SourceLocation | None:
        """Where it was compiled from."""


class PlacedCode(Protocol):
    """A text whose instructions are numbered."""

    @property
    def instructions(self) -> Sequence[PlacedInstruction]:
        """All instructions, by number."""


class CodePlaces:
    """Spans of instructions; `source_of` goes back from a span to the source lines."""

    def __init__(self, module: PlacedCode, source: Source) -> None:
        self.module = module
        self.source = source
        self._spans: dict[int, Span] = {}
        self._at: dict[tuple[int, int], int] = {}

    def span(self, instruction: int) -> Span:
        """From the opcode (or guard) to the end of the line."""
        known = self._spans.get(instruction)
        if known is None:
            item = self.module.instructions[instruction]
            text = self.source.line(item.line)
            end = max(item.column + 1, len(text.rstrip()) + 1)
            known = Span(self.source.path, item.line, item.column, item.line, end, self.source)
            self._spans[instruction] = known
            self._at[(item.line, item.column)] = instruction
        return known

    def word(self, instruction: int) -> str:
        """The instruction's name without its finer modifiers."""
        item = self.module.instructions[instruction]
        return ".".join((item.opcode, *item.modifiers[:2]))

    def source_of(self, span: Span) -> str:
        """`attention.py:49, inlined at attention.py:35`; nothing where the text has no `.loc`."""
        return location_text(self.location(span))

    def location(self, span: Span) -> SourceLocation | None:
        """The `.loc` of a span that `span` gave; None where the text has none."""
        instruction = self._at.get((span.start_line, span.start_column))
        if instruction is None or span.path != self.source.path:
            return None
        return self.module.instructions[instruction].location


def location_text(location: SourceLocation | None) -> str:
    """The chain of a `.loc`, from the line itself outwards."""
    if location is None:
        return ""
    first, *outer = location.chain()
    text = str(first)
    for place in outer:
        text += f", inlined at {place}"
    return text
