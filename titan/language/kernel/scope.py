"""Names in scope, expressions and references of a kernel file, with their faults located.

A name represents an expression: a size for its number, a loop variable or parameter for itself, a
`let` name for its definition. Expressions are returned with all constants folded.
"""

from __future__ import annotations

import re
from dataclasses import field

from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.records import dataclass
from titan.foundation.source.reader import Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Node, Scalar, kind
from titan.language.kernel.listing import pieces
from titan.language.kernel.table import NUMBER_MAX
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    ExpressionError,
    Not,
    evaluate,
    linear_form,
    names_of,
    parse_expression,
    substitute,
)

_NAME = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*")
_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")
_SIZE_MAX = 400


@dataclass(slots=True)
class NameScope:
    """Names that an expression may use, from the outermost to the innermost block.

    `changed`: names of expressions whose counter has taken a new value since, with that counter.
    """

    names: dict[str, Expression] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)

    def child(self) -> NameScope:
        """A scope for an inner block: what it adds is not seen in this one."""
        return NameScope(dict(self.names), dict(self.changed))

    def define(self, name: str, value: Expression) -> None:
        """The name represents this expression from here on."""
        self.names[name] = value
        self.changed.pop(name, None)

    def change(self, counters: set[str]) -> None:
        """Counters take new values: what names hold of them is no longer what it was."""
        if not counters:
            return
        for name, value in self.names.items():
            found = (names_of(value) & counters) - {name}
            if found:
                self.changed[name] = min(found)


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference as written: `name[index, part]@cta = tile`."""

    name: str
    span: Span
    index: Expression | None = None
    part: Expression | None = None
    cta: Expression | None = None
    tile: Expression | None = None


class KernelTerms:
    """Reads expressions and references under a scope; faults go to the reader."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    # Expressions

    def expression(
        self, node: Node, scope: NameScope, what: str, truth: bool = False
    ) -> Expression | None:
        """An expression, its names replaced by what they represent; `truth`: of a condition."""
        boolean = isinstance(node, Scalar) and node.plain and node.text in ("true", "false")
        if not isinstance(node, Scalar) or node.is_null or (boolean and not truth):
            found = "a truth value" if boolean else kind(node)
            self.reader.error(
                "TTN008", f"{what} must be an integer expression, not {found}", node.span
            )
            return None
        return self.text(node.text, _inner(node), scope, what)

    def text(self, text: str, span: Span, scope: NameScope, what: str) -> Expression | None:
        """The expression that `text` is, which stands at `span`."""
        try:
            found = parse_expression(text)
        except ExpressionError as error:
            place = span.within(error.offset, max(1, len(text) - error.offset))
            headline = f"{what} is not an expression: {error}"
            self.reader.error("TTN015", headline, place if text.strip() else span)
            return None
        unknown = sorted(names_of(found) - set(scope.names))
        for name in unknown:
            at = re.search(rf"\b{re.escape(name)}\b", text)
            place = span.within(at.start(), len(name)) if at else span
            self.reader.undeclared(name, place, scope.names)
        if unknown:
            return None
        for name in sorted(names_of(found) & scope.changed.keys()):
            self._outdated(name, text, span, scope)
        replaced = substitute(found, scope.names)
        if _size(replaced, _SIZE_MAX) > _SIZE_MAX:
            self.reader.error("TTN003", f"{what} is too large once its names are replaced", span)
            return None
        if _divides_by_zero(replaced):
            self.reader.error("TTN015", f"{what} divides by zero", span)
            return None
        if _largest(replaced) > NUMBER_MAX:
            self.reader.error("TTN009", f"{what} goes beyond 32 bits", span)
            return None
        return replaced

    def _outdated(self, name: str, text: str, span: Span, scope: NameScope) -> None:
        """Report a `let` name whose counter has changed: it would mean another value now."""
        at = re.search(rf"\b{re.escape(name)}\b", text)
        place = span.within(at.start(), len(name)) if at else span
        counter = quoted(scope.changed[name])
        headline = f"{quoted(name)} represents an expression of {counter}, which has changed since"
        help_text = f"define {quoted(name)} again behind `count`, or count behind its last use"
        self.reader.error("TTN017", headline, place, helps=(help_text,))

    def constant(
        self, node: Node, scope: NameScope, what: str, minimum: int = 0, maximum: int = NUMBER_MAX
    ) -> int | None:
        """A number that the sizes alone determine, within bounds."""
        found = self.expression(node, scope, what)
        if found is None:
            return None
        if not isinstance(found, Constant):
            free = sorted(names_of(found))
            headline = f"{what} must be a number, but depends on {quoted(free[0])}"
            self.reader.error("TTN009", headline, node.span)
            return None
        if not minimum <= found.value <= maximum:
            bound = f"at least {minimum}" if found.value < minimum else f"at most {maximum}"
            headline = f"{what} must be {bound}, not {found.value}"
            self.reader.error("TTN009", headline, node.span)
            return None
        return found.value

    def affine(self, ref: Ref, what: str) -> Expression | None:
        """The index of a ring reference, which must be affine."""
        if ref.index is None:
            self.reader.error(
                "TTN015", f"{what} {quoted(ref.name)} needs an index", ref.span,
                helps=(f"write `{ref.name}[t]` for iteration t",),
            )  # fmt: skip
            return None
        if linear_form(ref.index) is None:
            headline = f"the index of {what} {quoted(ref.name)} is not affine"
            note = "a ring reference names an iteration; its stage and phase follow from it"
            self.reader.error("TTN012", headline, ref.span, notes=(note,))
            return None
        return ref.index

    # References

    def reference(self, node: Node, scope: NameScope, what: str) -> Ref | None:
        """`name`, `name[index]`, `name[index, part]`, each with `@cta` and ` = tile`."""
        if not isinstance(node, Scalar) or node.is_null:
            self.reader.error("TTN008", f"{what} must be a reference, not {kind(node)}", node.span)
            return None
        text, span = node.text, _inner(node)
        named = _NAME.match(text)
        if named is None or len(named.group(1)) > 64:
            self.reader.error(
                "TTN008", f"{what} must be a reference, not {quoted(text)}", node.span
            )
            return None
        name, rest = named.group(1), named.end()
        whole = span.within(named.start(1), len(text.rstrip()) - named.start(1))
        parts: list[Expression] = []
        if text[rest : rest + 1] == "[":
            end = _closing(text, rest)
            if end < 0:
                place = span.within(rest, 1)
                self.reader.error("TTN015", "this bracket is not closed", place)
                return None
            for start, piece in pieces(text[rest + 1 : end], rest + 1):
                found = self.text(piece, span.within(start, len(piece)), scope, "the index")
                if found is None:
                    return None
                parts.append(found)
            rest = end + 1
            if len(parts) > 2:
                self.reader.error("TTN015", f"{what} has more than two indices", whole)
                return None
        tail = self._tail(text, rest, span, scope, what)
        if tail is None:
            return None
        index = parts[0] if parts else None
        part = parts[1] if len(parts) > 1 else None
        return Ref(name, whole, index, part, *tail)

    def _tail(
        self, text: str, rest: int, span: Span, scope: NameScope, what: str
    ) -> tuple[Expression | None, Expression | None] | None:
        """The part after the index: the CTA and the tile."""
        cta = tile = None
        equals = _EQUALS.search(text, rest)
        middle = text[rest : equals.start() if equals else len(text)]
        if middle.strip():
            at = rest + len(middle) - len(middle.lstrip())
            if text[at] != "@":
                place = span.within(at, len(middle.strip()))
                headline = f"{what} cannot continue with {quoted(middle.strip())}"
                self.reader.error("TTN015", headline, place)
                return None
            piece = text[at + 1 : rest + len(middle)]
            cta = self.text(piece, span.within(at + 1, len(piece)), scope, "the CTA")
            if cta is None:
                return None
        if equals is not None:
            piece = text[equals.end() :]
            start = equals.end() + len(piece) - len(piece.lstrip())
            place = span.within(start, max(1, len(piece.strip())))
            tile = self.text(piece.strip(), place, scope, "the tile")
            if tile is None:
                return None
        return cta, tile

    def unknown(self, ref: Ref, known: dict[str, str] | set[str], noun: str) -> None:
        """Report a reference to something that is not declared."""
        place = ref.span.within(0, len(ref.name))
        headline = f"no {noun} {quoted(ref.name)} is declared"
        self.reader.error("TTN011", headline, place, helps=suggestion(ref.name, known))


def _inner(node: Scalar) -> Span:
    """Where the text of a scalar begins: behind the quotation mark, if there is one."""
    span = node.span
    if node.plain or span.start_line != span.end_line:
        return span
    return span.within(1, max(0, span.end_column - span.start_column - 2))


def _closing(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += {"[": 1, "]": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return -1


def _size(expression: Expression, limit: int) -> int:
    """Number of nodes; counting stops beyond `limit`."""
    count, waiting = 0, [expression]
    while waiting and count <= limit:
        node = waiting.pop()
        count += 1
        if isinstance(node, Binary):
            waiting += [node.left, node.right]
        elif isinstance(node, Not):
            waiting.append(node.operand)
    return count


def _nodes(expression: Expression) -> list[Expression]:
    found, waiting = [], [expression]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if isinstance(node, Binary):
            waiting += [node.left, node.right]
        elif isinstance(node, Not):
            waiting.append(node.operand)
    return found


def _divides_by_zero(expression: Expression) -> bool:
    return any(
        isinstance(node, Binary) and node.operator in ("//", "%") and node.right == Constant(0)
        for node in _nodes(expression)
    )


def _largest(expression: Expression) -> int:
    """The largest magnitude of a constant in the expression."""
    return max(
        (abs(node.value) for node in _nodes(expression) if isinstance(node, Constant)), default=0
    )


def value_of(expression: Expression) -> int | None:
    """The number that an expression without names is."""
    return evaluate(expression, {}) if not names_of(expression) else None
