"""Reads the final condition of a litmus test: herd's syntax and the C-like one.

Grammar, loosest first: `or` (`\\/`, `|`, `||`, `or`), `and` (`/\\`, `&`, `&&`, `and`), `not` (`~`,
`!`, `not`), then a comparison (`=`, `==`, `!=`, `<`, `<=`, `>`, `>=`), `undefined(b)`, `race(x)`,
`true`, `false` or a parenthesis. A term is a number, `P0:r1`, `0:r1`, a location (also `[x]`), or
a register that exactly one thread uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from titan.foundation.errors import UserError
from titan.foundation.source.span import Source, Span
from titan.litmus.language.ast import (
    Compare,
    Condition,
    Connective,
    FinalMemory,
    FinalRegister,
    Race,
    Term,
    Undefined,
)

_TOKEN = re.compile(
    r"\s*(?:(?P<or>\\/|\|\|?|\bor\b)|(?P<and>/\\|&&?|\band\b)|(?P<rel>==|!=|<=|>=|=|<|>)"
    r"|(?P<not>~|!|\bnot\b)|(?P<open>[(\[])|(?P<close>[)\]])|(?P<number>-?\d+\b(?!\s*:))"
    r"|(?P<name>[A-Za-z0-9_.$]+(?:\s*:\s*[A-Za-z_$][A-Za-z0-9_$]*)?))"
)


class LitmusError(UserError):
    """A litmus file that cannot be read; `span` is the smallest range that shows why."""

    def __init__(self, message: str, span: Span | None) -> None:
        super().__init__(f"{span}: {message}" if span is not None else message)
        self.message = message
        self.span = span


class ConditionReader:
    """Recursive-descent reader over one stretch of a source."""

    def __init__(
        self,
        source: Source,
        start: int,
        end: int,
        threads: Mapping[str, Iterable[str]],
        locations: Iterable[str],
    ) -> None:
        self.source = source
        self.position = start
        self.end = end
        self.threads = {name: set(registers) for name, registers in threads.items()}
        self.thread_names = list(threads)
        self.locations = set(locations)
        self.kind = self.text = ""
        self.token_span = source.span(start, start)
        self._advance()

    def read(self) -> Condition:
        """The condition, to the end of the stretch. Raises LitmusError."""
        result = self._disjunction()
        if self.kind:
            raise LitmusError(f"`{self.text}` does not continue the condition", self.token_span)
        return result

    def _advance(self) -> None:
        while self.position < self.end and self.source.text[self.position].isspace():
            self.position += 1
        if self.position >= self.end:
            self.kind, self.text = "", ""
            self.token_span = self.source.span(self.end, self.end)
            return
        match = _TOKEN.match(self.source.text, self.position, self.end)
        if match is None or match.lastgroup is None:
            span = self.source.span(self.position, self.position + 1)
            raise LitmusError("this character has no meaning in a condition", span)
        self.kind, self.text = match.lastgroup, match.group(match.lastgroup)
        self.token_span = self.source.span(*match.span(match.lastgroup))
        self.position = match.end()

    def _disjunction(self) -> Condition:
        parts = [self._conjunction()]
        while self.kind == "or":
            self._advance()
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Connective("or", tuple(parts))

    def _conjunction(self) -> Condition:
        parts = [self._negation()]
        while self.kind == "and":
            self._advance()
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Connective("and", tuple(parts))

    def _negation(self) -> Condition:
        if self.kind == "not":
            self._advance()
            return Connective("not", (self._negation(),))
        return self._atom()

    def _atom(self) -> Condition:
        if self.kind == "open" and self.text == "(":
            self._advance()
            inner = self._disjunction()
            self._expect("close", ")")
            return inner
        if self.kind == "name" and self.text in ("true", "false"):
            value = Connective("and" if self.text == "true" else "or", ())
            self._advance()
            return value
        if self.kind == "name" and self.text in ("undefined", "race"):
            flag = self.text
            self._advance()
            self._expect("open", "(")
            location = self._location(self.text)
            self._advance()
            self._expect("close", ")")
            return Undefined(location) if flag == "undefined" else Race(location)
        left = self._term()
        if self.kind != "rel":
            raise LitmusError("expected a comparison after this term", self.token_span)
        relation = "==" if self.text == "=" else self.text
        self._advance()
        return Compare(left, relation, self._term())

    def _expect(self, kind: str, text: str) -> None:
        if self.kind != kind:
            found = f"`{self.text}`" if self.text else "the end of the condition"
            raise LitmusError(f"expected `{text}`, found {found}", self.token_span)
        self._advance()

    def _location(self, name: str) -> str:
        if name not in self.locations:
            raise LitmusError(f"unknown location `{name}`", self.token_span)
        return name

    def _term(self) -> Term:
        if self.kind == "number":
            number = int(self.text)
            self._advance()
            return number
        if self.kind == "open" and self.text == "[":
            self._advance()
            location = self._location(self.text)
            self._advance()
            self._expect("close", "]")
            return FinalMemory(location)
        if self.kind != "name":
            found = f"`{self.text}`" if self.text else "the end of the condition"
            raise LitmusError(
                f"expected a register, a location, or a number, found {found}", self.token_span
            )
        term = self._named(self.text)
        self._advance()
        return term

    def _named(self, text: str) -> Term:
        if ":" in text:
            thread, register = (part.strip() for part in text.split(":"))
            if thread.isdigit() and int(thread) < len(self.thread_names):
                thread = self.thread_names[int(thread)]
            if thread not in self.threads:
                raise LitmusError(f"unknown thread `{thread}`", self.token_span)
            return FinalRegister(thread, register)
        if text in self.locations:
            return FinalMemory(text)
        owners = [name for name, registers in self.threads.items() if text in registers]
        if len(owners) == 1:
            return FinalRegister(owners[0], text)
        problem = "is used by several threads" if owners else "is neither a location nor a register"
        raise LitmusError(f"`{text}` {problem}", self.token_span)


def format_condition(condition: Condition, outer: int = 0) -> str:
    """The condition in herd's syntax; parentheses only where they are needed."""
    match condition:
        case Compare(left, relation, right):
            return f"{left}{'=' if relation == '==' else relation}{right}"
        case Undefined(location):
            return f"undefined({location})"
        case Race(location):
            return f"race({location})"
        case Connective("not", (part,)):
            return f"~({format_condition(part)})"
        case Connective(kind, parts):
            if not parts:
                return "true" if kind == "and" else "false"
            level, sign = (2, " /\\ ") if kind == "and" else (1, " \\/ ")
            text = sign.join(format_condition(part, level) for part in parts)
            return f"({text})" if outer > level or (outer and outer != level) else text
    raise TypeError(condition)


def observed_terms(condition: Condition) -> list[FinalRegister | FinalMemory]:
    """The registers and locations that the condition mentions, in order of first mention."""
    found: dict[FinalRegister | FinalMemory, None] = {}

    def visit(part: Condition) -> None:
        if isinstance(part, Compare):
            for term in (part.left, part.right):
                if not isinstance(term, int):
                    found[term] = None
        elif isinstance(part, Connective):
            for inner in part.parts:
                visit(inner)

    visit(condition)
    return list(found)


def mentions_race(condition: Condition) -> bool:
    """Whether the condition asks for a data race itself, so that one is no reason to stop."""
    if isinstance(condition, Connective):
        return any(mentions_race(part) for part in condition.parts)
    return isinstance(condition, Race)
