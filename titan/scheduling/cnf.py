"""Clauses in conjunctive normal form, and the two solvers that decide them.

A literal is a variable's positive or negative number; True and False represent themselves, so that
an encoder need not know which of its bounds are constants.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from titan.foundation.extras import require
from titan.foundation.interrupts import z3_ended_by_signals
from titan.scheduling.work import CLAUSE, PROPAGATIONS, Z3_UNITS, BudgetSpent, SearchWork

if TYPE_CHECKING:
    import pysat.solvers
    import z3

Literal = int | bool
PROPAGATIONS_MAX = 1 << 40
Z3_MAX = 4_000_000_000


class Cnf:
    """A growing list of clauses. `fresh` are those added since the last `take`."""

    def __init__(self) -> None:
        self.variables = 0
        self.clauses: list[list[int]] = []
        self._taken = 0
        self._most = sys.maxsize
        self.contradiction = False

    def bound(self, work: SearchWork) -> None:
        """From here on a clause more than the work pays for raises BudgetSpent: they are counted as
        they are handed over, and a limit that is written out has millions."""
        self._most = self._taken + work.left // CLAUSE

    def variable(self) -> int:
        """A new variable."""
        self.variables += 1
        return self.variables

    def add(self, *literals: Literal) -> None:
        """At least one holds; a constant True drops the clause, False drops out of it."""
        clause = []
        for literal in literals:
            if literal is True:
                return
            if literal is not False:
                clause.append(literal)
        self.add_plain(clause)

    def add_plain(self, clause: list[int]) -> None:
        """The same of variables alone; the list is kept."""
        if not clause:
            self.contradiction = True
        self.clauses.append(clause)
        if len(self.clauses) > self._most:
            raise BudgetSpent

    def at_most(self, weighted: list[tuple[Literal, int]], limit: int) -> None:
        """The weights of the literals that hold sum to at most `limit`.

        Clauses of a decision diagram over (position, sum so far), shared where equal: a path that
        would pass the limit is closed.
        """
        items: list[tuple[int, int]] = []
        for literal, weight in weighted:
            if literal is True:
                limit -= weight
            elif literal is not False and weight:
                items.append((literal, weight))
        if limit < 0:
            self.contradiction = True
            self.clauses.append([])
            return
        items.sort(key=lambda item: (-item[1], item[0]))
        rest = sum(weight for _, weight in items)
        if rest <= limit:
            return
        if len(items) == 1 or items[-1][1] + items[-2][1] > limit:
            self._at_most_one(items, limit)
            return
        frontier: dict[int, Literal] = {0: True}
        for literal, weight in items:
            following: dict[int, Literal] = {}
            rest -= weight
            for total, here in sorted(frontier.items()):
                self._step(following, here, None, total, rest, limit)
                if total + weight > limit:
                    self.add(_not(here), -literal)
                else:
                    self._step(following, here, literal, total + weight, rest, limit)
            frontier = following

    def _step(
        self,
        following: dict[int, Literal],
        here: Literal,
        literal: int | None,
        total: int,
        rest: int,
        limit: int,
    ) -> None:
        """The sum is `total` if it was `here` and `literal` holds (None: whatever holds)."""
        if total + rest <= limit:
            return
        if total not in following:
            following[total] = True if here is True and literal is None else self.variable()
        there = following[total]
        if literal is None:
            self.add(_not(here), there)
        else:
            self.add(_not(here), -literal, there)

    def _at_most_one(self, items: list[tuple[int, int]], limit: int) -> None:
        """Any two pass the limit: at most one holds, and none that passes it alone."""
        for i, (literal, weight) in enumerate(items):
            if weight > limit:
                self.add(-literal)
            for other, _ in items[:i]:
                self.add(-literal, -other)

    def take(self) -> list[list[int]]:
        """Clauses added since the last call."""
        new = self.clauses[self._taken :]
        self._taken = len(self.clauses)
        return new


def _not(literal: Literal) -> Literal:
    return (not literal) if isinstance(literal, bool) else -literal


negate = _not


class Solver(Protocol):
    """Decides the clauses given so far under assumptions."""

    name: str

    def load(self, cnf: Cnf, work: SearchWork) -> None:
        """Take over the clauses that are new since the last call; making them counts as well."""

    def solve(self, assumptions: Iterable[int], work: SearchWork) -> bool | None:
        """Whether the clauses hold under the assumptions; None if the work did not suffice."""

    def value(self, variable: int) -> bool:
        """The value of a variable in the last solution."""


class Z3Count:
    """What z3 has done for one solver, in its own units: its limit of time is by the clock.

    Every solver has a context of its own, so that what was asked before changes no answer.
    """

    def __init__(self, solver: z3.Solver) -> None:
        self.solver = solver

    def check(self, work: SearchWork, assumptions: Iterable[z3.BoolRef] = ()) -> z3.CheckSatResult:
        """The answer of the solver within the work, which is spent."""
        before = self.done()
        self.solver.set("rlimit", min(max(1, work.left // Z3_UNITS), Z3_MAX))
        with z3_ended_by_signals(self.solver):
            answer = self.solver.check(list(assumptions))
        work.spend((self.done() - before) * Z3_UNITS)
        return answer

    def done(self) -> int:
        """Its count so far."""
        known = self.solver.statistics()
        pairs = (known[place] for place in range(len(known)))
        return next((int(value) for name, value in pairs if name == "rlimit count"), 0)


class Z3Solver:
    """Z3's finite-domain solver; clauses arrive as DIMACS text, which is fast."""

    def __init__(self) -> None:
        import z3

        self.z3 = z3
        self.name = f"z3 {z3.get_version_string()}"
        self.context = z3.Context()
        self.solver = z3.SolverFor("QF_FD", ctx=self.context)
        self.count = Z3Count(self.solver)
        self._model: z3.ModelRef | None = None

    def load(self, cnf: Cnf, work: SearchWork) -> None:
        """Each batch is a DIMACS text of its own; equal numbers are equal variables."""
        new = cnf.take()
        work.spend(CLAUSE * len(new))
        if new:
            lines = [f"p cnf {cnf.variables} {len(new)}"]
            lines.extend(" ".join(map(str, clause)) + " 0" for clause in new)
            self.solver.from_string("\n".join(lines) + "\n")

    def _literal(self, literal: int) -> z3.BoolRef:
        """DIMACS variables carry numbers, not strings, as their symbols."""
        z3, context = self.z3, self.context
        symbol = z3.Z3_mk_int_symbol(context.ref(), abs(literal))
        sort = z3.BoolSort(context)
        atom = z3.BoolRef(z3.Z3_mk_const(context.ref(), symbol, sort.ast), context)
        return atom if literal > 0 else z3.Not(atom)

    def solve(self, assumptions: Iterable[int], work: SearchWork) -> bool | None:
        """Whether the clauses hold under the assumptions; None when the work did not do."""
        answer = self.count.check(work, [self._literal(literal) for literal in assumptions])
        if answer == self.z3.unknown:
            return None
        if answer == self.z3.unsat:
            return False
        self._model = self.solver.model()
        return True

    def value(self, variable: int) -> bool:
        """What the last solution gives a variable; asked for one by one, since most are not."""
        if self._model is None:
            raise ValueError("the solver has no solution")
        value = self._model.eval(self._literal(variable), model_completion=True)
        return bool(self.z3.is_true(value))


def limited(solver: pysat.solvers.Solver, assumptions: Sequence[int]) -> bool | None:
    """What `solve_limited` returns, in a thread of its own.

    In the main thread python-sat answers an interrupt by a jump out of the solver, wherever that
    is, and leaves a heap that may be corrupted. Here the main thread takes the interrupt, and the
    solver ends at its next look. Raises KeyboardInterrupt.
    """
    solver.clear_interrupt()
    with ThreadPoolExecutor(1) as thread:  # which ends with the solver
        try:
            return thread.submit(solver.solve_limited, assumptions, expect_interrupt=True).result()
        except BaseException:
            solver.interrupt()
            raise


class SatSolver:
    """A SAT solver of the python-sat package, incremental. Raises UserError without it."""

    def __init__(self, engine: str = "glucose4") -> None:
        require("pysat", "sched", "the engine sat")
        from pysat.solvers import Solver as Engine

        self.name = f"python-sat {engine}"
        self.solver = Engine(name=engine)
        self._model: list[int] = []

    def load(self, cnf: Cnf, work: SearchWork) -> None:
        """Take over the clauses that are new since the last call."""
        new = cnf.take()
        work.spend(CLAUSE * len(new))
        self.solver.append_formula(new)

    def solve(self, assumptions: Iterable[int], work: SearchWork) -> bool | None:
        """Whether the clauses hold under the assumptions; None when the work did not do."""
        answer = counted(self.solver, work, list(assumptions))
        if answer:
            self._model = self.solver.get_model() or []
        return answer

    def value(self, variable: int) -> bool:
        """What the last solution gives a variable; the solver lists them by their numbers."""
        return variable <= len(self._model) and self._model[variable - 1] > 0


def counted(
    solver: pysat.solvers.Solver, work: SearchWork, assumptions: Sequence[int]
) -> bool | None:
    """The answer of a python-sat solver within the work, which is spent."""
    if not work.left:
        return None
    before = solver.accum_stats()["propagations"]
    solver.prop_budget(min(work.left * PROPAGATIONS, PROPAGATIONS_MAX))
    answer = limited(solver, assumptions)
    spent = solver.accum_stats()["propagations"] - before
    work.spend(spent // PROPAGATIONS + 1)
    return None if answer is None else bool(answer)


def available() -> tuple[str, ...]:
    """Solvers at hand, the preferred one first."""
    try:
        import pysat  # noqa: F401
    except ImportError:
        return ("z3",)
    return ("sat", "z3")


def solver(name: str) -> Solver:
    """`z3`, `sat`, or the name of an engine of python-sat."""
    if name == "z3":
        return Z3Solver()
    return SatSolver() if name == "sat" else SatSolver(name)
