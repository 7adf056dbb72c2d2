"""The located YAML tree:

Immutable mappings, sequences and scalars, each with the span it was read from.

Scalars stay text. What a plain scalar means (integer, truth value, nothing) is decided by whoever
decodes it, with the functions of the YAML 1.2 core schema below, so that `on` stays a word and
`0123` stays what was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from titan.foundation.records import dataclass
from titan.foundation.source.span import Span

_INTEGER = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_DIGITS_LIMIT = 40


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf; `plain` is false for quoted and block scalars, which are always strings."""

    text: str
    span: Span
    plain: bool = True
    size: int = 1
    depth: int = 1

    @property
    def is_null(self) -> bool:
        """Whether YAML reads this as null: a plain scalar, empty, `~` or a spelling of null."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")

    def part(self, start: int, length: int) -> Span:
        """The span of `length` characters of the text from `start`, for faults inside expressions.

        Where columns do not follow the text (escapes, folded lines, an anchor before the value) it
        is the span of the whole scalar.
        """
        quote = 0 if self.plain else 1
        span = self.span
        one_line = span.start_line == span.end_line
        if not one_line or span.end_column - span.start_column != len(self.text) + 2 * quote:
            return span
        return span.within(start + quote, length)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of nodes; `size` counts the nodes below with aliases expanded, `depth` the levels."""

    items: tuple[Node, ...]
    span: Span
    size: int = 1
    depth: int = 1

    def __iter__(self) -> Iterator[Node]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return True  # an empty list is there; only None says that nothing is written


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """One key of a mapping and its value."""

    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Entries in the order of the file; keys are unique scalars.

    `nonstandard`, filled in for the root alone: the plain scalars of the whole file that stand in
    brackets or braces and hold brackets or commas of their own, which YAML reads otherwise or not
    at all.
    """

    entries: tuple[MappingEntry, ...]
    span: Span
    size: int = 1
    depth: int = 1
    nonstandard: tuple[Span, ...] = field(default=(), compare=False)

    def __iter__(self) -> Iterator[MappingEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        return True  # as an empty list is there

    def __contains__(self, name: object) -> bool:
        return any(entry.key.text == name for entry in self.entries)

    def get(self, name: str) -> Node | None:
        """The value under a key; None where no entry has it."""
        return next((entry.value for entry in self.entries if entry.key.text == name), None)

    def key_span(self, name: str) -> Span:
        """The span of the key `name`, or of the mapping when it has no such key."""
        return next((entry.key.span for entry in self.entries if entry.key.text == name), self.span)

    @property
    def names(self) -> tuple[str, ...]:
        """All keys as written, in the order of the file."""
        return tuple(entry.key.text for entry in self.entries)


Node = Scalar | Sequence | Mapping


def kind(node: Node) -> str:
    """What a node is, for messages."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if node.is_null:
        return "nothing"
    if as_integer(node) is not None:
        return "an integer"
    return "a truth value" if as_boolean(node) is not None else "a string"


def as_integer(node: Node) -> int | None:
    """The integer that a plain scalar denotes (decimal, 0x, 0o), else None.

    Over 40 digits it is not a number of any kernel.
    """
    return as_number_of_key(node) if isinstance(node, Scalar) and node.plain else None


def as_number_of_key(node: Node) -> int | None:
    """The same for the key of a mapping, which JSON always quotes."""
    if not isinstance(node, Scalar) or len(node.text) > _DIGITS_LIMIT:
        return None
    if _INTEGER.fullmatch(node.text) is None:
        return None
    base = {"0x": 16, "0o": 8}.get(node.text[:2], 10)
    return int(node.text, base)


def as_boolean(node: Node) -> bool | None:
    """The truth value that a plain scalar denotes, else None."""
    if not isinstance(node, Scalar) or not node.plain:
        return None
    if node.text in ("true", "True", "TRUE"):
        return True
    return False if node.text in ("false", "False", "FALSE") else None
