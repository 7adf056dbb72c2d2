"""Solvers of the paper's formulation: Z3, integer linear programs, and SMT solvers through pysmt.

A problem is a number of variables of 0 and 1 (from 1 up), clauses over them (a negative number is
the negated variable), and weighted sums of variables with a limit. Nothing here knows schedules;
the caller checks what a solver answers.

No answer depends on the clock: Z3 and cvc5 count resources, CP-SAT deterministic time, SCIP nodes.
The others count nothing that is the same everywhere: they run to their end, and where one does not
come to it within some hours of processor time the whole search is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from titan.foundation.errors import Refusal
from titan.foundation.extras import brought_by
from titan.foundation.interrupts import ended_by_signals
from titan.foundation.limited import within
from titan.foundation.verdict import Reason
from titan.scheduling.cnf import Z3Count
from titan.scheduling.work import SearchWork

if TYPE_CHECKING:
    import z3
    from pysmt.fnode import FNode

Clause = tuple[int, ...]
Answer = Callable[[int], bool] | bool | None
"""Which variables hold in a solution; False where there is none; None when the work did not do."""

Held = list[bool] | bool | None
"""The values of all variables, from number 0; False where there is no solution; None: undecided."""

INTEGER_PROGRAMS = ("scip", "cbc", "highs", "cp-sat")
UNCOUNTED = ("cbc", "highs")  # OR-tools gives these limits of wall-clock time only
SMT_SOLVERS = ("yices", "cvc5", "msat")
SECONDS_MAX = 4 * 3600  # of processor time
NODE, ITERATION = 400, 20  # units of work in a node of SCIP, and in an iteration of its LPs
CVC5 = 2  # its resources in a unit of work
ENGINES = ("z3", *INTEGER_PROGRAMS, *SMT_SOLVERS)


class EngineMissing(Refusal):
    """A solver that was asked for is not installed."""

    reason = Reason.MISSING_TOOL


class Uncounted(Refusal):
    """A solver without a limit that is the same everywhere has not come to its end."""

    reason = Reason.TIME


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
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], work: SearchWork
    ) -> Answer:
        """Decide one problem within the work, which is spent."""


class Z3Engine:
    """Z3's finite-domain solver.

    Clauses are handed over as one DIMACS text, sums as pseudo-boolean terms over the same
    variables: a Python object for every literal took a hundred times as long as solving.
    """

    name = "z3"

    def solve(
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], work: SearchWork
    ) -> Answer:
        """Decide one problem within the work, which is spent."""
        import z3

        if not work.left:
            return None
        context = z3.Context()
        solver = z3.SolverFor("QF_FD", ctx=context)
        atoms: dict[int, z3.BoolRef] = {}

        def atom(number: int) -> z3.BoolRef:
            """The constant that a DIMACS text calls `number`."""
            if number not in atoms:
                symbol = z3.Z3_mk_int_symbol(context.ref(), number)
                made = z3.Z3_mk_const(context.ref(), symbol, z3.BoolSort(context).ast)
                atoms[number] = z3.BoolRef(made, context)
            return atoms[number]

        for one in sums:
            terms = [(atom(variable), weight) for variable, weight in one.terms]
            if not terms:
                holds = one.limit == 0 if one.exact else one.limit >= 0
                solver.add(z3.BoolVal(holds, context))
            else:
                solver.add((z3.PbEq if one.exact else z3.PbLe)(terms, one.limit))
        if clauses:
            lines = [f"p cnf {variables} {len(clauses)}"]
            lines.extend(" ".join(map(str, clause)) + " 0" for clause in clauses)
            solver.from_string("\n".join(lines) + "\n")
        answer = Z3Count(solver).check(work)
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
            text = f"the engine {name} needs OR-tools: {brought_by('sched')}"
            raise EngineMissing(text) from None
        known = {"cp-sat": "SAT"}.get(name, name.upper())
        if pywraplp.Solver.CreateSolver(known) is None:
            raise EngineMissing(f"OR-tools was built without the solver {name}")
        self.name, self.known = name, known

    def solve(
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], work: SearchWork
    ) -> Answer:
        """Decide one problem within the work, which is spent."""
        if not work.left:
            return None
        if self.name not in UNCOUNTED:
            return _answer(self._solve(variables, clauses, sums, work))
        held = _to_the_end(self.name, lambda: self._solve(variables, clauses, sums, SearchWork(0)))
        work.spend(len(clauses) + len(sums))
        return _answer(held)

    def _solve(
        self,
        variables: int,
        clauses: Sequence[Clause],
        sums: Sequence[Sum],
        work: SearchWork,
    ) -> Held:
        """The values of all variables."""
        from ortools.linear_solver import pywraplp

        solver = pywraplp.Solver.CreateSolver(self.known)
        if self.known == "SAT":
            limit = f"max_deterministic_time: {work.seconds_left} num_workers: 1"
            alone = "catch_sigint_signal: false"
            solver.SetSolverSpecificParametersAsString(f"{limit} {alone}")
        if self.known == "SCIP":
            nodes = max(1, work.left // NODE)
            solver.SetSolverSpecificParametersAsString(f"limits/totalnodes = {nodes}")
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
        with ended_by_signals(solver.InterruptSolve):
            status = solver.Solve()
        if self.known == "SCIP":
            work.spend(NODE * max(1, solver.nodes()) + ITERATION * max(0, solver.iterations()))
        else:  # the count of CP-SAT is not handed out
            work.spend(len(clauses) + len(sums))
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
            way = brought_by("check") if name == "cvc5" else f"pysmt-install --{name}"
            raise EngineMissing(f"pysmt finds no solver {name}: {way}")
        self.name = name

    def solve(
        self, variables: int, clauses: Sequence[Clause], sums: Sequence[Sum], work: SearchWork
    ) -> Answer:
        """Decide one problem within the work, which is spent."""
        if not work.left:
            return None
        work.spend(len(clauses) + len(sums))
        if self.name == "cvc5":
            return _answer(self._solve(variables, clauses, sums, work.left * CVC5))
        return _answer(_to_the_end(self.name, lambda: self._solve(variables, clauses, sums)))

    def _solve(
        self,
        variables: int,
        clauses: Sequence[Clause],
        sums: Sequence[Sum],
        resources: int | None = None,
    ) -> Held:
        """The values of all variables; pysmt has no limit that all solvers keep."""
        from pysmt.exceptions import SolverReturnedUnknownResultError
        from pysmt.shortcuts import LE as at_most
        from pysmt.shortcuts import Equals, Int, Ite, Not, Or, Plus, Solver, Symbol

        atoms = [Symbol(f"x{number}") for number in range(variables + 1)]

        def total(one: Sum) -> FNode:
            parts = [Ite(atoms[v], Int(weight), Int(0)) for v, weight in one.terms]
            return Plus(parts) if parts else Int(0)

        limits = {} if resources is None else {"rlimit": str(resources)}
        with Solver(name=self.name, logic="QF_LIA", solver_options=limits) as solver:
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


def _to_the_end(name: str, solve: Callable[[], Held]) -> Held:
    """The solver's result, in a process of its own. Raises Uncounted."""
    held = within(SECONDS_MAX, lambda: (solve(),))
    if held is None:
        raise Uncounted(f"{name} was still at work after {SECONDS_MAX} s of processor time")
    return held[0]


def _answer(held: Held) -> Answer:
    return held.__getitem__ if isinstance(held, list) else held


def engine(name: str) -> PaperEngine:
    """The solver of this name. Raises EngineMissing."""
    if name in INTEGER_PROGRAMS:
        return IntegerProgram(name)
    return SmtSolver(name) if name in SMT_SOLVERS else Z3Engine()
