"""Tile programs whose sizes are lists: one program for each combination, as a text of its own.

A size may be a list of numbers, of which `titan build` takes one
(`titan/codegen/pipeline/size_choice.py`). In the text of an alternative the number stands in the
place of the list, so that a package says what it computes. Combinations that the language or the
target refuse are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import TileProgram
from titan.foundation.source.reader import Reader
from titan.foundation.source.span import Source, Span
from titan.foundation.source.tree import Mapping, as_integer
from titan.foundation.source.tree import Sequence as NodeSequence
from titan.foundation.source.yaml import parse
from titan.target.load import TargetRefused


@dataclass(frozen=True, slots=True)
class SizeAlternative:
    """A tile program with one number for each of its sizes; `sizes` those that were lists."""

    tile: TileProgram
    text: str
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def words(self) -> str:
        """The sizes that were lists, for reports."""
        return ", ".join(f"{name} {number}" for name, number in self.sizes)


def alternatives(tile: TileProgram, text: str) -> list[SizeAlternative]:
    """The alternatives of a program that was read from the text, in the order of the lists: the
    first size varies slowest. The program as it is where no size is a list."""
    listed = list(_lists(text))
    if not listed:
        return [SizeAlternative(tile, text)]
    found = []
    for numbers in product(*(numbers for _, _, numbers in listed)):
        spans = [span for _, span, _ in listed]
        other = _replaced(text, spans, numbers)
        names = (name for name, _, _ in listed)
        try:
            read = parse_tile(other, tile.span.path if tile.span else "<tile>", tile.target)
        except TargetRefused:
            continue
        found.append(SizeAlternative(read, other, tuple(zip(names, numbers, strict=True))))
    return found


def _lists(text: str) -> Iterator[tuple[str, Span, tuple[int, ...]]]:
    """The sizes that are lists, with their places."""
    root, errors = parse(Source("<tile>", text))
    sizes = root.get("sizes") if isinstance(root, Mapping) and Reader(errors).ok else None
    for entry in sizes if isinstance(sizes, Mapping) else ():
        if isinstance(entry.value, NodeSequence):
            numbers = tuple(as_integer(item) for item in entry.value)
            if all(number is not None for number in numbers):
                yield entry.key.text, entry.value.span, tuple(int(str(one)) for one in numbers)


def _replaced(text: str, spans: Sequence[Span], numbers: Sequence[int]) -> str:
    """The text with a number in each of the places."""
    lines = text.split("\n")
    for span, number in sorted(
        zip(spans, numbers, strict=True), key=lambda one: one[0], reverse=True
    ):
        first, last = span.start_line - 1, span.end_line - 1
        before, after = lines[first][: span.start_column - 1], lines[last][span.end_column - 1 :]
        lines[first : last + 1] = [f"{before}{number}{after}"]
    return "\n".join(lines)
