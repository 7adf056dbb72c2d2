"""The fences of least cost that justify every pair: a weighted hitting set, solved exactly (z3).

Every demand needs one of its alternatives; an alternative needs all its fences. The objectives in
this order: cost, number of fences, changes to the text, and early places. What the solver says is
not believed: `satisfied` checks each demand again, and the kernel that results is verified by the
engines that know nothing of this graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from titan.engines.fences.demands import Alternative, Choice, Demand
from titan.engines.fences.justify import satisfied
from titan.foundation.errors import Refusal
from titan.foundation.interrupts import z3_ended_by_signals

RESOURCES_MAX = 400_000_000  # in the units of z3 (rlimit), not in time


class Unsatisfiable(Refusal):
    """Some pairs cannot be justified by any fence at the points that were offered."""

    def __init__(self, demands: list[Demand]) -> None:
        super().__init__(f"{len(demands)} pairs cannot be justified by a fence")
        self.demands = demands


class GaveUp(Refusal):
    """The solver spent its budget."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """The price of a choice, in the order of the objectives after the number of fences."""

    cost: int
    change: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class Solution:
    """The fences to insert and the sum of their costs, in the relative units of the target."""

    chosen: frozenset[Choice]
    cost: int


def clauses_of(demands: Iterable[Demand]) -> dict[frozenset[Alternative], Demand]:
    """Each different set of alternatives once, those implied by smaller ones left out."""
    found: dict[frozenset[Alternative], Demand] = {}
    for demand in demands:
        found.setdefault(demand.alternatives, demand)
    kept: dict[frozenset[Alternative], Demand] = {}
    for clause in sorted(found, key=len):
        if not any(smaller <= clause for smaller in kept):
            kept[clause] = found[clause]
    return kept


def cheapest(
    demands: Iterable[Demand],
    weights: Mapping[Choice, Weighed],
    fixed: frozenset[Choice] = frozenset(),
) -> Solution:
    """The best set of choices beside the fixed ones. Raises Unsatisfiable, GaveUp."""
    clauses = clauses_of(demands)
    hopeless = [demand for clause, demand in clauses.items() if not clause]
    if hopeless:
        raise Unsatisfiable(hopeless)
    chosen = _solve(list(clauses), weights, fixed)
    wrong = [demand for demand in clauses.values() if not satisfied(demand, chosen | fixed)]
    assert not wrong, "the solver's answer does not satisfy the demands"
    return Solution(chosen, sum(weights[choice].cost for choice in chosen))


def _solve(
    clauses: list[frozenset[Alternative]],
    weights: Mapping[Choice, Weighed],
    fixed: frozenset[Choice],
) -> frozenset[Choice]:
    import z3

    used = {choice for clause in clauses for alternative in clause for choice in alternative.needed}
    order = sorted(used - fixed, key=lambda choice: (weights[choice].place, repr(choice)))
    names = {choice: z3.Bool(f"f{number}") for number, choice in enumerate(order)}
    optimiser = z3.Optimize()
    optimiser.set("rlimit", RESOURCES_MAX)

    def literal(choice: Choice) -> z3.BoolRef:
        return z3.BoolVal(True) if choice in fixed else names[choice]

    for clause in sorted(clauses, key=lambda item: sorted(map(repr, item))):
        options = [
            z3.And(*[literal(choice) for choice in sorted(alternative.needed, key=repr)])
            for alternative in sorted(clause, key=repr)
        ]
        optimiser.add(z3.Or(*options))
    points: dict[tuple[Hashable, object], list[z3.BoolRef]] = {}
    for choice in order:
        points.setdefault((choice.point, choice.kind), []).append(names[choice])
    for group in points.values():
        if len(group) > 1:
            optimiser.add(z3.AtMost(*group, 1))

    def objective(value: Mapping[Choice, int]) -> None:
        if order:
            optimiser.minimize(z3.Sum([z3.If(names[c], value[c], 0) for c in order]))

    objective({choice: weights[choice].cost for choice in order})
    objective({choice: 1 for choice in order})
    objective({choice: weights[choice].change for choice in order})
    objective({choice: weights[choice].place for choice in order})
    with z3_ended_by_signals(optimiser):
        answer = optimiser.check()
    if answer == z3.unsat:
        raise Unsatisfiable([])
    if answer != z3.sat:
        raise GaveUp("the solver spent its budget")
    model = optimiser.model()
    return frozenset(choice for choice in order if z3.is_true(model.eval(names[choice], True)))
