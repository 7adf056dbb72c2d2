"""Solvers of the paper's formulation: Z3, integer linear programs, and SMT solvers through pysmt.

A problem is a number of variables of 0 and 1 (from 1 up), clauses over them (a negative number is
the negated variable), and weighted sums of variables with a limit. Nothing here knows schedules;
the caller checks what a solver answers.

No answer depends on the clock: Z3 and CP-SAT count work, SCIP processor time, and solvers that know
wall-clock limits alone, or none, run in a process that has so much processor time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from titan.foundation.errors import Refusal
from titan.foundation.limited import within
from titan.foundation.verdict import Reason
from titan.scheduling.cnf import z3_resources

if TYPE_CHECKING:
    import z3
    from pysmt.fnode import FNode

Clause = tuple[int, ...]
Answer = Callable[[int], bool] | bool | None
"""Which variables hold in a solution; False where there is none; None when the time did not do."""

Held = list[bool] | bool | None
"""The values of all variables, from number 0; False where there is no solution; None: undecided."""

INTEGER_PROGRAMS = ("scip", "cbc", "highs", "cp-sat")
BY_THE_CLOCK = ("cbc", "highs")  # OR-tools gives these limits of wall-clock time only
SMT_SOLVERS = ("yices", "cvc5", "msat")
ENGINES = ("z3", *INTEGER_PROGRAMS, *SMT_SOLVERS)


class EngineMissing(Refusal):
    """A solver that was asked for is not installed."""

    reason = Reason.MISSING_TOOL


@dataclass(frozen=True, slots=True)
class Sum:
    """The weights of the variables that hold sum to at most `limit`, or to exactly that."""

    terms: tuple[tuple[int, int], ...]
    limit: int
    exact: bool = False


class PaperEngine(Protocol):
    """A solver of problems over variables of 0 and 1."""

    name: str

    def solve(
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], seconds: float
    ) -> Answer:
        """Decide one problem within `seconds` of processor time."""


class Z3Engine:
    """Z3's finite-domain solver.

    Clauses are handed over as one DIMACS text, sums as pseudo-boolean terms over the same
    variables: a Python object for every literal took a hundred times as long as solving.
    """

    name = "z3"

    def solve(
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], seconds: float
    ) -> Answer:
        """Decide one problem within `seconds` of processor time."""
        import z3

        solver = z3.SolverFor("QF_FD")
        solver.set("rlimit", z3_resources(seconds))
        atoms: dict[int, z3.BoolRef] = {}

        def atom(number: int) -> z3.BoolRef:
            """The constant that a DIMACS text calls `number`."""
            if number not in atoms:
                context = z3.main_ctx()
                symbol = z3.Z3_mk_int_symbol(context.ref(), number)
                made = z3.Z3_mk_const(context.ref(), symbol, z3.BoolSort().ast)
                atoms[number] = z3.BoolRef(made, context)
            return atoms[number]

        for one in sums:
            terms = [(atom(variable), weight) for variable, weight in one.terms]
            if not terms:
                solver.add(one.limit == 0 if one.exact else one.limit >= 0)
            else:
                solver.add((z3.PbEq if one.exact else z3.PbLe)(terms, one.limit))
        if clauses:
            lines = [f"p cnf {variables} {len(clauses)}"]
            lines.extend(" ".join(map(str, clause)) + " 0" for clause in clauses)
            solver.from_string("\n".join(lines) + "\n")
        answer = solver.check()
        if answer == z3.unknown:
            return None
        if answer == z3.unsat:
            return False
        model = solver.model()
        return lambda number: bool(z3.is_true(model.eval(atom(number), model_completion=True)))


class IntegerProgram:
    """The problem as an integer linear program, by one of the solvers that OR-tools brings."""

    def __init__(self, name: str) -> None:
        try:
            from ortools.linear_solver import pywraplp
        except ImportError:
            text = f"the engine {name} needs OR-tools: pip install titan-verify[sched]"
            raise EngineMissing(text) from None
        known = {"cp-sat": "SAT"}.get(name, name.upper())
        if pywraplp.Solver.CreateSolver(known) is None:
            raise EngineMissing(f"OR-tools was built without the solver {name}")
        self.name, self.known = name, known

    def solve(
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], seconds: float
    ) -> Answer:
        """Decide one problem within `seconds` of processor time."""
        if self.name not in BY_THE_CLOCK:
            return _answer(self._solve(variables, clauses, sums, seconds))
        return _answer(_limited(seconds, lambda: self._solve(variables, clauses, sums, None)))

    def _solve(
        self,
        variables: int,
        clauses: Sequence[Clause],
        sums: Sequence[Sum],
        seconds: float | None,
    ) -> Held:
        """The values of all variables; no limit where `seconds` is None."""
        from ortools.linear_solver import pywraplp

        solver = pywraplp.Solver.CreateSolver(self.known)
        if self.known == "SAT":
            solver.SetSolverSpecificParametersAsString(f"max_deterministic_time: {seconds}")
        elif seconds is not None:
            solver.SetTimeLimit(max(1, int(seconds * 1000)))
        if self.known == "SCIP":
            solver.SetSolverSpecificParametersAsString("timing/clocktype = 1")  # processor time
        x = [solver.BoolVar(f"x{number}") for number in range(variables + 1)]
        infinity = solver.infinity()
        for clause in clauses:  # at least one literal: negated ones count as 1 - x
            row = solver.Constraint(1 - sum(literal < 0 for literal in clause), infinity)
            for literal in clause:
                row.SetCoefficient(x[abs(literal)], 1 if literal > 0 else -1)
        for one in sums:
            if not one.terms and not (one.limit == 0 or (one.limit > 0 and not one.exact)):
                return False
            row = solver.Constraint(one.limit if one.exact else -infinity, one.limit)
            for variable, weight in one.terms:
                row.SetCoefficient(x[variable], weight)
        status = solver.Solve()
        if status in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
            return [
                False,
                *(x[number].solution_value() > 0.5 for number in range(1, variables + 1)),
            ]
        return False if status == pywraplp.Solver.INFEASIBLE else None


class SmtSolver:
    """The problem as linear integer arithmetic, by a solver that pysmt knows and finds."""

    def __init__(self, name: str) -> None:
        from pysmt.environment import get_env

        if name not in get_env().factory.all_solvers():
            raise EngineMissing(f"pysmt finds no solver {name}: pysmt-install --{name}")
        self.name = name

    def solve(
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], seconds: float
    ) -> Answer:
        """Decide one problem within `seconds` of processor time."""
        return _answer(_limited(seconds, lambda: self._solve(variables, clauses, sums)))

    def _solve(self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum]) -> Held:
        """The values of all variables; pysmt has no limit of time that all solvers keep."""
        from pysmt.exceptions import SolverReturnedUnknownResultError
        from pysmt.shortcuts import LE as at_most
        from pysmt.shortcuts import Equals, Int, Ite, Not, Or, Plus, Solver, Symbol

        atoms = [Symbol(f"x{number}") for number in range(variables + 1)]

        def total(one: Sum) -> FNode:
            parts = [Ite(atoms[v], Int(weight), Int(0)) for v, weight in one.terms]
            return Plus(parts) if parts else Int(0)

        with Solver(name=self.name, logic="QF_LIA") as solver:
            for clause in clauses:
                literals = [atoms[n] if n > 0 else Not(atoms[-n]) for n in clause]
                solver.add_assertion(Or(literals))
            for one in sums:
                relation = Equals if one.exact else at_most
                solver.add_assertion(relation(total(one), Int(one.limit)))
            try:
                if not solver.solve():
                    return False
            except SolverReturnedUnknownResultError:
                return None
            return [False, *(bool(solver.get_value(atom).is_true()) for atom in atoms[1:])]


def _limited(seconds: float, solve: Callable[[], Held]) -> Held:
    """The solver's result within `seconds` of processor time, in a process of its own."""
    return within(max(1, math.ceil(seconds)), solve)


def _answer(held: Held) -> Answer:
    return held.__getitem__ if isinstance(held, list) else held


def engine(name: str) -> PaperEngine:
    """The solver of this name. Raises EngineMissing."""
    if name in INTEGER_PROGRAMS:
        return IntegerProgram(name)
    return SmtSolver(name) if name in SMT_SOLVERS else Z3Engine()
