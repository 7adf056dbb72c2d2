"""No hang for any size: an affine time for every statement under which every wait is late enough.

A wait depends on the arrivals of its index, an acquire on the releases of the index one depth
earlier, and everything an agent does on the waits before it. Feautrier's method (Farkas' lemma): if
one can give each statement a time that is affine in its loop variables and the sizes, such that
along every dependence time grows by at least 1, then no circle of waits exists, for any size. The
search is one problem of linear real arithmetic. Finding no times proves nothing.

Assumption: every arrival that a wait needs exists (the matching obligations say so).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from typing import Any

from titan.language.protocol.affine_times import AffineTimes, refuse_unless_growing
from titan.language.protocol.dependences import Polyhedron, WaitEdge, WaitNode, edges_of
from titan.language.protocol.families import UnsupportedProtocol
from titan.language.protocol.solver import RESOURCES_MAX, satisfiable, z3_solver
from titan.sync.expression import Expression, names_of

NODES_MAX, EDGES_MAX = 400, 4_500


def has_ranking(
    nodes: list[WaitNode], depths: dict[str, Expression], sizes: list[Expression]
) -> bool:
    """Whether affine times exist. `sizes` are conditions on the sizes.

    Times that the solver finds are checked by rational arithmetic. Raises UnsupportedProtocol.
    """
    if not nodes:
        return True
    if len(nodes) > NODES_MAX:
        raise UnsupportedProtocol(
            f"{len(nodes)} waits and arrivals; at most {NODES_MAX} are scheduled"
        )
    problem, edges = _Farkas(), edges_of(nodes, depths)
    if len(edges) > EDGES_MAX:
        raise UnsupportedProtocol(
            f"{len(edges):,} dependences; at most {EDGES_MAX:,} are scheduled"
        )
    for edge in edges:
        problem.grows(edge, nodes, sizes)
    solver = z3_solver(4 * RESOURCES_MAX)
    solver.add(*problem.rows)
    if not satisfiable(solver):
        return False
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
        values = {
            symbol.name(): model[symbol].as_fraction()
            for symbol in model.decls()
            if symbol.name().startswith("ranking:")  # a model may name what a tactic has made
        }
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
