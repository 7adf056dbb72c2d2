"""Decoding of the located tree by hand, with all faults collected.

Every method takes a node and gives the decoded value or None; None means that a diagnostic is in
`errors`. A decoder therefore reads on after a fault and reports everything that is wrong at once.
Values keep their place through `node.span`.

    reader = Reader()
    top = reader.mapping(root, required=("kernel",), optional=("sizes",), what="the kernel")
    name = reader.identifier(top["kernel"], "the kernel's name") if top.has("kernel") else None
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import counted, listed, quoted, suggestion
from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.foundation.source.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    as_boolean,
    as_integer,
    kind,
)

ERRORS_MAX = 100
STRING_LENGTH_MAX = 1000
IDENTIFIER_LENGTH_MAX = 64
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

LEVELS = {  # by the key that names a file: what it is, and who takes it
    "tile": ("a tile program", "build"),
    "kernel": ("a kernel", "verify"),
    "loop": ("a loop", "schedule"),
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fields:
    """The entries of a checked mapping.

    `node` is what was written; unknown keys are already reported and left out.
    """

    node: Mapping
    values: dict[str, Node]

    @property
    def span(self) -> Span:
        """Where the whole mapping stands in its source."""
        return self.node.span

    def has(self, name: str) -> bool:
        """Whether the key is among the checked entries."""
        return name in self.values

    def get(self, name: str) -> Node | None:
        """The node of an optional key; None where the key is absent."""
        return self.values.get(name)

    def __getitem__(self, name: str) -> Node:
        return self.values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def key_span(self, name: str) -> Span:
        """The span of a key, or of the mapping when the key is absent."""
        return self.node.key_span(name)


class Reader:
    """Collects diagnostics while a tree is decoded.

    After `ERRORS_MAX` of them further ones are only counted.
    """

    def __init__(self, errors: Iterable[Diagnostic] = ()) -> None:
        self.errors: list[Diagnostic] = list(errors)
        self.suppressed = 0

    @property
    def ok(self) -> bool:
        """Whether no error has been reported so far."""
        return not self.errors

    def error(
        self,
        code: str,
        headline: str,
        span: Span,
        label: str = "",
        *,
        others: tuple[Annotation, ...] = (),
        notes: tuple[str, ...] = (),
        helps: tuple[str, ...] = (),
    ) -> None:
        """Record a fault.

        It gives None, so that a decoder can write `return reader.error(...)`.
        """
        if len(self.errors) >= ERRORS_MAX:
            self.suppressed += 1
            return None
        self.errors.append(
            diagnostic(code, headline, span, label, others=others, notes=notes, helps=helps)
        )
        return None

    def wrong_type(self, node: Node, expected: str, what: str) -> None:
        """Report a node of the wrong kind."""
        return self.error("TTN008", f"{what} must be {expected}, not {kind(node)}", node.span)

    # Collections

    def mapping(
        self,
        node: Node,
        *,
        required: Iterable[str] = (),
        optional: Iterable[str] | None = (),
        what: str = "this",
    ) -> Fields | None:
        """The entries of a mapping whose keys are known.

        `optional=None` allows any further key (names given by the user).

        Unknown and missing keys are reported and do not stop the decoding: the result has the known
        keys that are there.
        """
        if not isinstance(node, Mapping):
            return self.wrong_type(node, "a mapping", what)
        required = tuple(required)
        values: dict[str, Node] = {}
        known = None if optional is None else {*required, *optional}
        for entry in node:
            name = entry.key.text
            if known is None or name in known:
                values[name] = entry.value
                continue
            helps = suggestion(name, known - set(node.names)) or suggestion(name, known)
            self.error("TTN006", f"{what} has no key {quoted(name)}", entry.key.span, helps=helps)
        missing = [name for name in required if name not in values]
        if missing:
            noun = "key" if len(missing) == 1 else "keys"
            headline = f"{what} lacks the {noun} {listed(missing)}"
            self.error("TTN007", headline, self._head(node))
        return Fields(node, values)

    def is_other(self, node: Node, wanted: str) -> bool:
        """Whether a file is of another level than `wanted`, a key of LEVELS; that is reported."""
        if not isinstance(node, Mapping):
            return False
        found = next((level for level in LEVELS if level in node.names), wanted)
        # A tile program has a key `loop`, too.
        if found == wanted or (wanted in node.names and (wanted, found) != ("loop", "tile")):
            return False
        what, command = LEVELS[found]
        headline = f"this is {what}, not {LEVELS[wanted][0]}"
        self.error("TTN006", headline, node.key_span(found), helps=(f"`titan {command}` takes it",))
        return True

    def names(self, node: Node, what: str = "this") -> Fields | None:
        """A mapping from identifiers that the user chose.

        Keys that are no identifiers are reported and left out.
        """
        fields = self.mapping(node, optional=None, what=what)
        if fields is None:
            return None
        good = {}
        for entry in fields.node:
            if self.identifier(entry.key, f"a name in {what}") is not None:
                good[entry.key.text] = entry.value
        return Fields(fields.node, good)

    def sequence(
        self, node: Node, *, what: str = "this", at_least: int = 0, at_most: int | None = None
    ) -> tuple[Node, ...] | None:
        """The items of a list, its length checked."""
        if not isinstance(node, Sequence):
            return self.wrong_type(node, "a list", what)
        if len(node) < at_least or (at_most is not None and len(node) > at_most):
            bound = f"at least {at_least}" if len(node) < at_least else f"at most {at_most}"
            headline = f"{what} has {counted(len(node), 'item')}, but takes {bound}"
            return self.error("TTN009", headline, node.span)
        return node.items

    def list_of(
        self,
        node: Node,
        decode: Callable[[Node], T | None],
        *,
        what: str = "this",
        at_least: int = 0,
        at_most: int | None = None,
        single: bool = False,
    ) -> list[T]:
        """The decoded items of a list; items that fail are reported by `decode` and left out.

        With `single`, one item may stand without brackets.
        """
        if single and not isinstance(node, Sequence):
            items: tuple[Node, ...] | None = (node,)
        else:
            items = self.sequence(node, what=what, at_least=at_least, at_most=at_most)
        decoded = (decode(item) for item in items or ())
        return [value for value in decoded if value is not None]

    # Scalars

    def integer(
        self,
        node: Node,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
        what: str = "this",
    ) -> int | None:
        """An integer within bounds, both inclusive."""
        value = as_integer(node)
        if value is None:
            return self.wrong_type(node, "an integer", what)
        if minimum is not None and value < minimum:
            return self.error(
                "TTN009", f"{what} must be at least {minimum}, not {value}", node.span
            )
        if maximum is not None and value > maximum:
            return self.error("TTN009", f"{what} must be at most {maximum}, not {value}", node.span)
        return value

    def boolean(self, node: Node, what: str = "this") -> bool | None:
        """`true` or `false`."""
        value = as_boolean(node)
        return self.wrong_type(node, "`true` or `false`", what) if value is None else value

    def string(
        self, node: Node, what: str = "this", length_max: int = STRING_LENGTH_MAX
    ) -> str | None:
        """The text of a scalar, whatever a plain scalar would denote otherwise; not empty."""
        if not isinstance(node, Scalar) or node.is_null:
            return self.wrong_type(node, "a string", what)
        if not node.text.strip():
            return self.error("TTN008", f"{what} is empty", node.span)
        if len(node.text) > length_max:
            headline = f"{what} is longer than {length_max} characters"
            return self.error("TTN009", headline, node.span)
        return node.text

    def identifier(self, node: Node, what: str = "this") -> str | None:
        """A name: letters, digits and underscores, not beginning with a digit."""
        text = self.string(node, what, IDENTIFIER_LENGTH_MAX)
        if text is None:
            return None
        if _IDENTIFIER.fullmatch(text) is None:
            headline = f"{what} is not an identifier: {quoted(text)}"
            helps = ("use letters, digits, and underscores, not beginning with a digit",)
            return self.error("TTN008", headline, node.span, helps=helps)
        return text

    def choice(self, node: Node, options: Iterable[str], what: str = "this") -> str | None:
        """One word of a closed vocabulary."""
        text = self.string(node, what)
        if text is None:
            return None
        options = tuple(options)
        if text not in options:
            headline = f"{what} cannot be {quoted(text)}"
            return self.error("TTN010", headline, node.span, helps=suggestion(text, options))
        return text

    # Names

    def undeclared(self, name: str, span: Span, known: Iterable[str], noun: str = "name") -> None:
        """Report a use of a name that is not declared, with the nearest one that is."""
        headline = f"no {noun} {quoted(name)} is declared"
        self.error("TTN011", headline, span, helps=suggestion(name, known))

    def declared_twice(self, name: str, span: Span, first: Span, noun: str = "name") -> None:
        """Report a second declaration of a name."""
        others = (Annotation(first, "first declared here"),)
        headline = f"the {noun} {quoted(name)} is declared twice"
        self.error("TTN013", headline, span, "declared again", others=others)

    @staticmethod
    def _head(node: Mapping) -> Span:
        """Where to point for a missing key: the first key rather than the whole mapping."""
        return node.entries[0].key.span if node.entries else node.span
