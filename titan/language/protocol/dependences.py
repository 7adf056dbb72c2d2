"""What waits for what: dependences between statements, under conditions as linear inequalities.

Says which executions cannot be before which; decides nothing about them. A condition that is not
affine is left out, so that the set of a dependence is at least as large as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from titan.foundation.records import dataclass
from titan.language.protocol.orders import FamilyExecution, order_cases
from titan.sync.expression import Binary, Constant, Expression, Name, Not

Linear = tuple[dict[str, int], int]


@dataclass(frozen=True, slots=True)
class WaitNode:
    """A statement that waits, or that others wait for, with the index it touches."""

    execution: FamilyExecution
    ring: str
    index: Expression
    waits: bool


@dataclass(frozen=True, slots=True)
class WaitEdge:
    """Under `conditions`, `target` (variables primed) cannot be before `source`; both by number."""

    source: int
    target: int
    conditions: tuple[Expression, ...]


class Polyhedron:
    """Conditions as inequalities `linear >= 0`; what is not affine is left out (a larger set)."""

    def __init__(self, conditions: Iterable[Expression]) -> None:
        self.rows: list[Linear] = []
        self.extra: dict[Expression, str] = {}
        self.fresh = count()
        for condition in conditions:
            self._add(condition, True)

    def linear(self, expression: Expression) -> Linear | None:
        """The affine form; minima, maxima and quotients get a bounded variable of their own."""
        match expression:
            case Constant(value):
                return {}, value
            case Name(name):
                return {name: 1}, 0
            case Binary("+" | "-" as operator, left, right):
                first, second = self.linear(left), self.linear(right)
                if first is None or second is None:
                    return None
                return _combined(first, second, 1 if operator == "+" else -1)
            case Binary("*", left, right):
                first, second = self.linear(left), self.linear(right)
                if first is None or second is None or (first[0] and second[0]):
                    return None
                scaled, factor = (first, second[1]) if not second[0] else (second, first[1])
                return {name: c * factor for name, c in scaled[0].items()}, scaled[1] * factor
            case Binary("max" | "min" as operator, left, right):
                return self._bounded(expression, operator, left, right)
            case Binary("//" | "%" as operator, left, Constant(divisor)) if divisor > 0:
                return self._divided(operator, left, divisor)
        return None

    def _bounded(
        self, expression: Expression, operator: str, left: Expression, right: Expression
    ) -> Linear | None:
        if expression not in self.extra:
            first, second = self.linear(left), self.linear(right)
            if first is None or second is None:
                return None
            name = f"bound!{next(self.fresh)}"
            self.extra[expression] = name
            sign = 1 if operator == "max" else -1
            for form in (first, second):
                row = _combined(({name: 1}, 0), form, -1)
                self.rows.append(_scaled(row, sign))
        return {self.extra[expression]: 1}, 0

    def _divided(self, operator: str, left: Expression, divisor: int) -> Linear | None:
        key = Binary("//", left, Constant(divisor))
        if key not in self.extra:
            whole = self.linear(left)
            if whole is None:
                return None
            name = f"quotient!{next(self.fresh)}"
            self.extra[key] = name
            rest = _combined(whole, ({name: divisor}, 0), -1)
            self.rows += [rest, _combined(({}, divisor - 1), rest, -1)]
        quotient = self.extra[key]
        if operator == "//":
            return {quotient: 1}, 0
        whole = self.linear(left)
        return None if whole is None else _combined(whole, ({quotient: divisor}, 0), -1)

    def _add(self, condition: Expression, holds: bool) -> None:
        match condition:
            case Not(operand):
                self._add(operand, not holds)
            case Binary("and", left, right) if holds:
                self._add(left, True)
                self._add(right, True)
            case Binary("or", left, right) if not holds:
                self._add(left, False)
                self._add(right, False)
            case Binary("<" | "<=" | ">=" | ">" | "==" | "!=" as operator, left, right):
                first, second = self.linear(left), self.linear(right)
                if first is not None and second is not None:
                    name = operator if holds else _OPPOSITE[operator]
                    self._compare(name, _combined(second, first, -1))

    def _compare(self, operator: str, difference: Linear) -> None:
        """`difference` is right minus left."""
        if operator in ("<", "<=", "=="):
            self.rows.append(_shifted(difference, -1 if operator == "<" else 0))
        if operator in (">", ">=", "=="):
            self.rows.append(_shifted(_scaled(difference, -1), -1 if operator == ">" else 0))


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def _combined(first: Linear, second: Linear, sign: int) -> Linear:
    result = dict(first[0])
    for name, factor in second[0].items():
        result[name] = result.get(name, 0) + sign * factor
    return {name: factor for name, factor in result.items() if factor}, (
        first[1] + sign * second[1]
    )


def _scaled(form: Linear, factor: int) -> Linear:
    return {name: c * factor for name, c in form[0].items()}, form[1] * factor


def _shifted(form: Linear, amount: int) -> Linear:
    return form[0], form[1] + amount


def edges_of(nodes: list[WaitNode], depths: dict[str, Expression]) -> list[WaitEdge]:
    """All dependences between executions of the nodes; targets have primed variables."""
    edges: list[WaitEdge] = []
    for number, source in enumerate(nodes):
        for other, node in enumerate(nodes):
            target = _primed(node)
            both = [*source.execution.conditions, *target.execution.conditions]
            if source.waits and node.execution.family.agent is source.execution.family.agent:
                for case in order_cases(source.execution, target.execution):
                    edges.append(WaitEdge(number, other, (*both, *case)))
            if not source.waits and node.waits and source.ring == node.ring:
                given = source.execution.value(source.index)
                wanted = target.execution.value(target.index)
                kind = type(node.execution.family.statement).__name__
                released = type(source.execution.family.statement).__name__ == "Release"
                if (kind == "Acquire") != released:
                    continue
                if released:
                    given = Binary("+", given, depths[source.ring])
                edges.append(WaitEdge(number, other, (*both, Binary("==", given, wanted))))
    return edges


def _primed(node: WaitNode) -> WaitNode:
    family = node.execution.family.renamed("'")
    return WaitNode(FamilyExecution(family), node.ring, node.index, node.waits)
