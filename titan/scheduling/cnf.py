"""Clauses in conjunctive normal form, and the two solvers that decide them.

A literal is a variable's positive or negative number; True and False represent themselves, so that
an encoder need not know which of its bounds are constants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import z3

Literal = int | bool
SLICE_SECONDS = 0.5


class Cnf:
    """A growing list of clauses. `fresh` are those added since the last `take`."""

    def __init__(self) -> None:
        self.variables = 0
        self.clauses: list[list[int]] = []
        self._taken = 0
        self.contradiction = False

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
        if not clause:
            self.contradiction = True
        self.clauses.append(clause)

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

    def load(self, cnf: Cnf) -> None:
        """Take over the clauses that are new since the last call."""

    def solve(self, assumptions: Iterable[int], seconds: float) -> bool | None:
        """Whether the clauses hold under the assumptions; None if the time did not suffice."""

    def value(self, variable: int) -> bool:
        """The value of a variable in the last solution."""


def z3_resources(seconds: float) -> int:
    """The limit of z3 for `seconds`, in its own units: the same on every machine.

    Its finite-domain solver spends about 500,000 of them a second; its own limit of time is by the
    clock.
    """
    return min(max(1, int(seconds * 500_000)), 4_000_000_000)


class Z3Solver:
    """Z3's finite-domain solver; clauses arrive as DIMACS text, which is fast."""

    def __init__(self) -> None:
        import z3

        self.z3 = z3
        self.name = f"z3 {z3.get_version_string()}"
        self.solver = z3.SolverFor("QF_FD")
        self._model: z3.ModelRef | None = None

    def load(self, cnf: Cnf) -> None:
        """Each batch is a DIMACS text of its own; equal numbers are equal variables."""
        new = cnf.take()
        if new:
            lines = [f"p cnf {cnf.variables} {len(new)}"]
            lines.extend(" ".join(map(str, clause)) + " 0" for clause in new)
            self.solver.from_string("\n".join(lines) + "\n")

    def _literal(self, literal: int) -> z3.BoolRef:
        """DIMACS variables carry numbers, not strings, as their symbols."""
        z3 = self.z3
        context = z3.main_ctx()
        symbol = z3.Z3_mk_int_symbol(context.ref(), abs(literal))
        sort = z3.BoolSort()
        atom = z3.BoolRef(z3.Z3_mk_const(context.ref(), symbol, sort.ast), context)
        return atom if literal > 0 else z3.Not(atom)

    def solve(self, assumptions: Iterable[int], seconds: float) -> bool | None:
        """Whether the clauses hold under the assumptions; None when the time did not do."""
        self.solver.set("rlimit", z3_resources(seconds))
        answer = self.solver.check([self._literal(literal) for literal in assumptions])
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


def interruptible(solve: Callable[[], bool | None]) -> bool | None:
    """What a call of a python-sat solver returns; an interrupt is one, not an error of python-sat.

    Raises KeyboardInterrupt.
    """
    import pysolvers

    try:
        return solve()
    except pysolvers.error as error:
        if "keyboard interrupt" in str(error):
            raise KeyboardInterrupt from None
        raise


class SatSolver:
    """A SAT solver of the python-sat package, incremental."""

    def __init__(self, engine: str = "glucose4") -> None:
        from pysat.solvers import Solver as Engine

        self.name = f"python-sat {engine}"
        self.solver = Engine(name=engine)
        self._model: list[bool] = []
        self.variables = 0

    def load(self, cnf: Cnf) -> None:
        """Take over the clauses that are new since the last call."""
        self.variables = cnf.variables
        for clause in cnf.take():
            self.solver.add_clause(clause)

    def solve(self, assumptions: Iterable[int], seconds: float) -> bool | None:
        """Whether the clauses hold under the assumptions; None when the time did not do."""
        if seconds > 1_000_000:
            answer = interruptible(lambda: self.solver.solve(assumptions=list(assumptions)))
        else:
            answer = self._limited(list(assumptions), seconds)
        if answer:
            values = [False] * (self.variables + 1)
            for literal in self.solver.get_model() or ():
                if literal > 0 and literal <= self.variables:
                    values[literal] = True
            self._model = values
        return answer

    def _limited(self, assumptions: list[int], seconds: float) -> bool | None:
        """In slices of conflicts, so that the time limit holds without threads."""
        deadline = time.process_time() + seconds
        conflicts = 2000
        while True:
            begin = time.process_time()
            self.solver.conf_budget(conflicts)
            answer = interruptible(lambda: self.solver.solve_limited(assumptions=assumptions))
            now = time.process_time()
            if answer is not None or now > deadline:
                return answer
            if now - begin > SLICE_SECONDS:
                conflicts = max(100, conflicts // 2)
            else:
                conflicts *= 2

    def value(self, variable: int) -> bool:
        """What the last solution gives a variable."""
        return self._model[variable]


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
