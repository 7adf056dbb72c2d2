"""One test under one reading, as formulas for a solver.

An execution in which a thread stays blocked counts as final, but an outcome that mentions a
register which that thread would still have assigned is not reached in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pysmt.fnode import FNode
from pysmt.shortcuts import BOOL, Int, Symbol
from pysmt.solvers.solver import Model

from titan.litmus.language.ast import (
    Compare,
    Condition,
    Connective,
    FinalRegister,
    LitmusTest,
    Race,
    Term,
    Undefined,
)
from titan.litmus.language.condition import mentions_race, observed_terms
from titan.litmus.model.options import ModelOptions
from titan.litmus.model.unsupported import UnsupportedTest
from titan.litmus.smt.axioms import consistent
from titan.litmus.smt.events import EventGraph, build_events
from titan.litmus.smt.model import AxiomaticModel
from titan.litmus.smt.terms import NO, all_of, any_of, both, choose, compare, negation


@dataclass(slots=True)
class LitmusQuestion:
    """One test under one reading, as formulas: everything a solver needs."""

    test: LitmusTest
    options: ModelOptions
    unroll: int = 2
    graph: EventGraph = field(init=False)
    model: AxiomaticModel = field(init=False)
    constraints: list[FNode] = field(init=False)
    _final: dict[str, FNode] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.test.dialect.machine is not None:
            raise UnsupportedTest("instructions of a machine have no axioms")
        self.graph = build_events(self.test, self.unroll)
        self.model = AxiomaticModel(self.graph, self.options)
        self.constraints = consistent(self.model)

    def outcome(self, condition: Condition) -> FNode:
        """The condition on the final state, with blocked threads excluded where they matter."""
        parts = [self._formula(condition)]
        for term in observed_terms(condition):
            if isinstance(term, FinalRegister):
                stuck = self.graph.undetermined.get((term.thread, term.register), NO)
                parts.append(negation(stuck))
        return all_of(parts)

    def asked(self) -> FNode:
        """The condition of the test as a formula over final values."""
        parts = [self.outcome(self.test.asked)]
        if self.test.filter is not None:
            parts.append(self.outcome(self.test.filter))
        if mentions_race(self.test.asked):
            return all_of(parts)
        return any_of((all_of(parts), self.model.undefined_behaviour()))

    def everything(self) -> list[FNode]:
        """All formulas of the question: constraints of the model, filter, condition."""
        asked = self.asked()  # may add the constraints of final values and of late relations
        late = [part for part in self.model.constraints if not part.is_true()]
        return [*self.constraints, *late, asked]

    def races_in(self, model: Model) -> list[str]:
        """The locations that race in a solver's model, where that leaves the test undefined."""
        if not self.model.races_are_undefined:
            return []
        races = {x.name: self.model.race(x.name) for x in self.test.locations}
        return [
            name
            for name, race in races.items()
            if model.get_value(race, model_completion=True).is_true()
        ]

    def _formula(self, condition: Condition) -> FNode:
        match condition:
            case Compare(left, relation, right):
                return compare(self.term(left), relation, self.term(right))
            case Undefined(location):
                return self.model.undefined(location)
            case Race(location):
                return self.model.race(location)
            case Connective("not", (part,)):
                return negation(self._formula(part))
            case Connective("and", parts):
                return all_of(self._formula(part) for part in parts)
            case Connective(_, parts):
                return any_of(self._formula(part) for part in parts)
        raise TypeError(condition)

    def term(self, term: Term) -> FNode:
        """The final value of a register or location as a term."""
        if isinstance(term, int):
            return Int(term)
        if isinstance(term, FinalRegister):
            return self.graph.registers.get((term.thread, term.register), Int(0))
        return self._final_value(self.test.memory(term.location))

    def _final_value(self, memory: str) -> FNode:
        """The value of a write without a successor in coherence order; it need not be unique."""
        if memory in self._final:
            return self._final[memory]
        writes = [w for w in self.model.writes if self.graph.memory(w) == memory]
        flags = [Symbol(f"final_{w.index}", BOOL) for w in writes]
        value: FNode = Int(0)
        for write, flag in zip(writes, flags, strict=True):
            later = any_of(f for (a, _), f in self.model.co.items() if a == write.index)
            self.constraints.append(any_of((negation(flag), both(write.guard, negation(later)))))
            assert write.value is not None
            value = choose(flag, write.value, value)
        self.constraints.append(any_of(flags))
        self._final[memory] = value
        return value
