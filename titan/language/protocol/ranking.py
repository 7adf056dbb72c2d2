"""No hang for any size: an affine time for every statement under which every wait is late enough.

A wait depends on the arrivals of its index, an acquire on the releases of the index one depth
earlier, and everything an agent does on the waits before it. Feautrier's method (Farkas' lemma): if
one can give each statement a time that is affine in its loop variables and the sizes, such that
along every dependence time grows by at least 1, then no circle of waits exists, for any size. The
search is one problem of linear real arithmetic. Finding no times proves nothing.

Assumption: every arrival that a wait needs exists (the matching obligations say so).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any

from titan.language.protocol.families import UnsupportedProtocol
from titan.language.protocol.orders import FamilyExecution, order_cases
from titan.language.protocol.solver import RESOURCES_MAX, satisfiable, z3_solver
from titan.sync.expression import Binary, Constant, Expression, Name, Not, names_of

if TYPE_CHECKING:
    from titan.language.protocol.affine_times import AffineTimes

NODES_MAX, EDGES_MAX = 400, 4_500
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


def has_ranking(
    nodes: list[WaitNode], depths: dict[str, Expression], sizes: list[Expression]
) -> bool:
    """Whether affine times exist. `sizes` are conditions on the sizes.

    Times that the solver finds are judged by rational arithmetic. Raises UnsupportedProtocol.
    """
    if not nodes:
        return True
    if len(nodes) > NODES_MAX:
        raise UnsupportedProtocol(f"{len(nodes)} waits and arrivals, of {NODES_MAX} that get times")
    problem, edges = _Farkas(), edges_of(nodes, depths)
    if len(edges) > EDGES_MAX:
        raise UnsupportedProtocol(
            f"{len(edges):,} dependences, of {EDGES_MAX:,} along which times are looked for"
        )
    for edge in edges:
        problem.grows(edge, nodes, sizes)
    solver = z3_solver(4 * RESOURCES_MAX)
    solver.add(*problem.rows)
    if not satisfiable(solver):
        return False
    from titan.language.protocol.affine_times import refuse_unless_growing

    refuse_unless_growing(nodes, edges, sizes, problem.found(solver.model(), nodes, sizes))
    return True


class _Farkas:
    def __init__(self) -> None:
        import z3

        self.real = z3.Real
        self.sum = z3.Sum
        self.never = z3.BoolVal(False)
        self.rows: list[Any] = []
        self.fresh = count()
        self.weights: list[list[str]] = []  # of each edge

    def found(self, model: Any, nodes: list[WaitNode], sizes: list[Expression]) -> AffineTimes:
        """The solver's answer as numbers; what it leaves out is 0."""
        from titan.language.protocol.affine_times import AffineTimes

        values = {symbol.name(): model[symbol].as_fraction() for symbol in model.decls()}
        names = frozenset[str]().union(*map(names_of, sizes))
        times = []
        for number, node in enumerate(nodes):
            own = [*(loop.name for loop in node.execution.family.loops), *sorted(names), ""]
            keys = {name: f"ranking:{number}.{name}" for name in own}
            times.append({name: values.get(key, Fraction(0)) for name, key in keys.items()})
        multipliers = tuple(
            tuple(values.get(f"ranking:{name}", Fraction(0)) for name in names)
            for names in self.weights
        )
        return AffineTimes(tuple(times), multipliers)

    def _real(self, name: str) -> Any:
        return self.real(f"ranking:{name}")

    def _time(self, number: int, node: WaitNode, sizes: set[str], prime: str) -> dict[str, Any]:
        """Unknown coefficients of a node's time, by variable; "" is the constant."""
        variables = [loop.name for loop in node.execution.family.loops]
        time = {f"{name}{prime}": self._real(f"{number}.{name}") for name in variables}
        time.update({name: self._real(f"{number}.{name}") for name in sizes})
        time[""] = self._real(f"{number}.")
        return time

    def grows(self, edge: WaitEdge, nodes: list[WaitNode], sizes: list[Expression]) -> None:
        """time(target) - time(source) - 1 is a nonnegative combination of the conditions."""
        polyhedron = Polyhedron((*edge.conditions, *sizes))
        open_sizes: set[str] = set()
        for condition in sizes:
            open_sizes |= names_of(condition)
        later = self._time(edge.target, nodes[edge.target], open_sizes, "'")
        sooner = self._time(edge.source, nodes[edge.source], open_sizes, "")
        self.weights.append([f"weight.{next(self.fresh)}" for _ in range(len(polyhedron.rows) + 1)])
        weights = [self._real(name) for name in self.weights[-1]]
        self.rows += [weight >= 0 for weight in weights]
        names = set(later) | set(sooner)
        for row in polyhedron.rows:
            names |= row[0].keys()
        for name in sorted(names):
            left = later.get(name, 0) - sooner.get(name, 0)
            terms = []
            if name == "":
                left = left - 1
                terms.append(weights[-1])
            for weight, row in zip(weights, polyhedron.rows, strict=False):
                factor = row[1] if name == "" else row[0].get(name, 0)
                if factor:
                    terms.append(factor * weight)
            right = self.sum(terms) if terms else 0
            if isinstance(left, int) and isinstance(right, int):
                if left != right:
                    self.rows.append(self.never)
                continue
            self.rows.append(left == right)
