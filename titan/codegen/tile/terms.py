"""Names, expressions, numbers and views as they are written in tile files, faults located."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field

from titan.codegen.tile.model import ScalarArgument
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.reader import Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Node, Scalar, kind
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    ExpressionError,
    Name,
    Not,
    evaluate,
    names_of,
    parse_expression,
    substitute,
)

NUMBER_MAX = 2**31 - 1
_NODES_MAX = 400
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?|[-+]?inf")
_MULTIPLE = re.compile(rf"(?:({_NUMBER.pattern})\s*\*\s*)?([A-Za-z_][A-Za-z0-9_]*)")
_NAME = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*")
NAME_LENGTH_MAX = 64


@dataclass(frozen=True, slots=True)
class WrittenReference:
    """`name[offset, ...]` as it is written."""

    name: str
    span: Span
    offsets: tuple[Expression, ...]


@dataclass(slots=True)
class TileScope:
    """What each name in an expression represents: a number, or itself; scalars stand apart.

    `positive` are names whose numbers are at least 1, so that offsets and the number of iterations
    may divide by them.
    """

    names: dict[str, Expression] = field(default_factory=dict)
    scalars: dict[str, ScalarArgument] = field(default_factory=dict)
    positive: set[str] = field(default_factory=set)

    def with_names(self, *names: str) -> TileScope:
        """The scope with more names that expressions may use."""
        names_here = {**self.names, **{name: Name(name) for name in names}}
        return TileScope(names_here, self.scalars, self.positive)


class TileTerms:
    """Reads expressions and views; faults go to the reader."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def expression(
        self, node: Node, scope: TileScope, what: str, divisors: Set[str] = frozenset()
    ) -> Expression | None:
        """The expression of a node, with the divisors of `text`; None, and a diagnostic, where it
        is none."""
        if not isinstance(node, Scalar) or node.is_null:
            text = f"{what} must be an integer expression, not {kind(node)}"
            return self.reader.error("TTN008", text, node.span)
        return self.text(node.text, inner_span(node), scope, what, divisors)

    def text(
        self,
        text: str,
        span: Span,
        scope: TileScope,
        what: str,
        divisors: Set[str] = frozenset(),
    ) -> Expression | None:
        """The expression that `text` is, which stands at `span`; names replaced by their values.

        Divisors are positive constants, or names of `divisors`.
        """
        try:
            found = parse_expression(text)
        except ExpressionError as error:
            place = span.within(error.offset, max(1, len(text) - error.offset))
            self.reader.error(
                "TTN015", f"{what} is not an expression: {error}", place if text.strip() else span
            )
            return None
        unknown = sorted(names_of(found) - set(scope.names))
        for name in unknown:
            at = re.search(rf"\b{re.escape(name)}\b", text)
            place = span.within(at.start(), len(name)) if at else span
            self.reader.undeclared(name, place, scope.names)
        if unknown:
            return None
        replaced = substitute(found, scope.names)
        nodes = _nodes(replaced)
        if len(nodes) > _NODES_MAX:
            self.reader.error("TTN003", f"{what} is too large once its names are replaced", span)
            return None
        if any(
            isinstance(item, Binary)
            and item.operator in ("//", "%")
            and not (isinstance(item.right, Constant) and item.right.value > 0)
            and not (isinstance(item.right, Name) and item.right.name in divisors)
            for item in nodes
        ):
            self.reader.error("TTN015", f"{what} divides by what is not a positive number", span)
            return None
        if any(isinstance(item, Constant) and abs(item.value) > NUMBER_MAX for item in nodes):
            self.reader.error("TTN009", f"{what} goes beyond 32 bits", span)
            return None
        return replaced

    def constant(
        self, node: Node, scope: TileScope, what: str, minimum: int = 1, maximum: int = NUMBER_MAX
    ) -> int | None:
        """A number that the fixed sizes alone determine, within bounds."""
        found = self.expression(node, scope, what)
        if found is None:
            return None
        free = sorted(names_of(found))
        if free:
            text = f"{what} must be a number, but depends on {quoted(free[0])}"
            return self.reader.error("TTN009", text, node.span)
        value = evaluate(found, {})
        if not minimum <= value <= maximum:
            bound = f"at least {minimum}" if value < minimum else f"at most {maximum}"
            text = f"{what} must be {bound}, not {value}"
            return self.reader.error("TTN009", text, node.span)
        return value

    def number(self, node: Node, what: str) -> float | None:
        """A decimal number, `inf` or `-inf`."""
        if isinstance(node, Scalar) and _NUMBER.fullmatch(node.text.strip()):
            value = float(node.text)
            if abs(value) <= 3.4028234663852886e38 or node.text.strip().lstrip("+-") == "inf":
                return value
            return self.reader.error("TTN009", f"{what} is beyond the numbers of f32", node.span)
        text = f"{what} must be a number, not {kind(node)}"
        return self.reader.error("TTN008", text, node.span)

    def multiple(
        self, node: Node, scope: TileScope, what: str
    ) -> tuple[float, ScalarArgument | None] | None:
        """A number, a scalar argument, or `number * scalar`; a scalar alone has the number 1."""
        found = _MULTIPLE.fullmatch(node.text.strip()) if isinstance(node, Scalar) else None
        if found is None or found.group(2) == "inf":
            number = self.number(node, what)
            return None if number is None else (number, None)
        if found.group(2) not in scope.scalars:
            self.reader.undeclared(found.group(2), node.span, scope.scalars, "scalar argument")
            return None
        return float(found.group(1) or 1), scope.scalars[found.group(2)]

    def view(self, node: Node, scope: TileScope, what: str) -> WrittenReference | None:
        """`tensor[offset, ...]`, one offset a dimension."""
        if not isinstance(node, Scalar) or node.is_null:
            text = f"{what} must be a view `tensor[offset, ...]`, not {kind(node)}"
            return self.reader.error("TTN008", text, node.span)
        text, span = node.text.rstrip(), inner_span(node)
        named = _NAME.match(text)
        rest = named.end() if named else 0
        if named is None or text[rest : rest + 1] != "[" or not text.endswith("]"):
            text = f"{what} must be a view `tensor[offset, ...]`, not {quoted(node.text)}"
            return self.reader.error("TTN015", text, node.span)
        offsets = []
        for start, item in _items(text[rest + 1 : -1], rest + 1):
            place = span.within(start, max(1, len(item)))
            found = self.text(item, place, scope, f"an offset of {what}", scope.positive)
            if found is None:
                return None
            offsets.append(found)
        whole = span.within(named.start(1), len(named.group(1)))
        return WrittenReference(named.group(1), whole, tuple(offsets))


def inner_span(node: Scalar) -> Span:
    """Where the text of a scalar begins: after the quotation mark, if there is one."""
    span = node.span
    if node.plain or span.start_line != span.end_line:
        return span
    return span.within(1, max(0, span.end_column - span.start_column - 2))


def _items(text: str, offset: int) -> list[tuple[int, str]]:
    """The parts between the commas outside of brackets, each with its place."""
    items, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if char == "," and depth == 0:
            items.append((offset + start, text[start:position]))
            start = position + 1
    items.append((offset + start, text[start:]))
    return items


def _nodes(expression: Expression) -> list[Expression]:
    """All nodes, at most one more than the limit."""
    found: list[Expression] = []
    waiting = [expression]
    while waiting and len(found) <= _NODES_MAX:
        node = waiting.pop()
        found.append(node)
        if isinstance(node, Binary):
            waiting += [node.left, node.right]
        elif isinstance(node, Not):
            waiting.append(node.operand)
    return found
