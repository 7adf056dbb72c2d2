"""Questions of linear integer arithmetic, asked of z3: is there a counterexample, and which one.

Expressions are translated as they are; quotients and remainders are those of SMT-LIB, which for
positive divisors round down as the language does. Products of two unknowns, questions beyond
RESOURCES_MAX and protocols beyond TERMS_MAX are Unsupported; both count work, not time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from math import gcd
from typing import Any, TypeAlias

from titan.foundation.interrupts import z3_ended_by_signals
from titan.foundation.records import dataclass
from titan.language.protocol.families import UnsupportedProtocol
from titan.sync.expression import Binary, Constant, Expression, Name, Not, linear_form

RESOURCES_MAX = 20_000_000  # of one question, in the units of z3 (rlimit), not in time
TERMS_MAX = 150_000  # of all questions of a protocol, made or examined
Formula: TypeAlias = Any  # of z3, which names no types
SMALL = (1, 2, 3, 4, 6, 9, 14)  # bounds on sizes in a counterexample, tried in turn


def z3_solver(resources: int) -> Any:
    """A z3 solver that gives up after `resources`, in its own units.

    The plain one: those for one logic take longer to set up than most questions to answer.
    """
    import z3

    solver = z3.SimpleSolver()
    solver.set("rlimit", resources)
    return solver


def satisfiable(solver: Any) -> bool:
    """Whether what was asserted can hold. Raises UnsupportedProtocol when the solver gives up."""
    import z3

    with z3_ended_by_signals(solver):
        answer = solver.check()
    if answer == z3.unknown:
        raise UnsupportedProtocol("the solver returned unknown")
    return bool(answer == z3.sat)


@dataclass(frozen=True, slots=True)
class Question:
    """A question as SMT-LIB, with the answer of z3: whether there is a counterexample."""

    text: str
    satisfiable: bool


_archive: ContextVar[list[Question] | None] = ContextVar("questions", default=None)


@contextmanager
def archived() -> Iterator[list[Question]]:
    """Collects the questions that are answered inside."""
    questions: list[Question] = []
    token = _archive.set(questions)
    try:
        yield questions
    finally:
        _archive.reset(token)


def _keep(solver: Any, found: bool) -> None:
    questions = _archive.get()
    if questions is None:
        return
    status = "sat" if found else "unsat"
    text = "\n".join(line for line in solver.to_smt2().split("\n") if "(set-info" not in line)
    head = "(set-logic QF_LIA)\n" if "(set-logic" not in text else ""
    questions.append(Question(f"{head}(set-info :status {status})\n{text}", found))


class Terms:
    """The terms and formulas of z3 under the names that questions are written with."""

    def __init__(self) -> None:
        import z3

        self._z3 = z3
        self._true, self._false, self._zero = z3.BoolVal(True), z3.BoolVal(False), z3.IntVal(0)
        self.made = 0

    def number(self, value: int) -> Any:
        """A constant."""
        return self._z3.IntVal(value)

    def truth(self, value: bool) -> Any:
        """True or false."""
        return self._true if value else self._false

    def symbol(self, name: str) -> Any:
        """The integer unknown of this name."""
        return self._z3.Int(name)

    def all(self, *parts: Any) -> Any:
        """The conjunction."""
        kept = [part for part in parts if not part.eq(self._true)]
        if any(part.eq(self._false) for part in kept):
            return self._false
        self.count(len(kept))
        return kept[0] if len(kept) == 1 else self._z3.And(kept) if kept else self._true

    def any(self, *parts: Any) -> Any:
        """The disjunction."""
        kept = [part for part in parts if not part.eq(self._false)]
        if any(part.eq(self._true) for part in kept):
            return self._true
        self.count(len(kept))
        return kept[0] if len(kept) == 1 else self._z3.Or(kept) if kept else self._false

    def negation(self, part: Any) -> Any:
        """The negation."""
        if part.eq(self._true) or part.eq(self._false):
            return self.truth(part.eq(self._false))
        return self._z3.Not(part)

    def total(self, terms: list[Any]) -> Any:
        """The sum; 0 of nothing."""
        kept = [term for term in terms if not term.eq(self._zero)]
        self.count(len(kept))
        return kept[0] if len(kept) == 1 else self._z3.Sum(kept) if kept else self._zero

    def choice(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """One of two terms."""
        self.count(1)
        if condition.eq(self._true) or condition.eq(self._false):
            return then if condition.eq(self._true) else otherwise
        return self._z3.If(condition, then, otherwise)

    def compared(self, operator: str, left: Any, right: Any) -> Any:
        """One of the six comparisons."""
        self.count(1)
        match operator:
            case "<":
                return left < right
            case "<=":
                return left <= right
            case "==":
                return left == right
            case "!=":
                return left != right
            case ">=":
                return left >= right
        return left > right

    def count(self, terms: int) -> None:
        """Count further terms, made or examined. Raises UnsupportedProtocol beyond TERMS_MAX."""
        self.made += terms
        if self.made > TERMS_MAX:
            text = f"the questions of its rules have more than {TERMS_MAX:,} terms"
            raise UnsupportedProtocol(text)


class SolverArithmetic:
    """Translates expressions and asks z3. What is assumed holds in every question."""

    def __init__(self) -> None:
        self.terms = Terms()
        self.always: list[Formula] = []
        self.solver = z3_solver(RESOURCES_MAX)
        self._truths: dict[Expression, tuple[Formula, int]] = {}  # with the terms that each counts

    def assume(self, expression: Expression) -> None:
        """Make a condition hold in every later question."""
        self.always.append(self.truth(expression))

    # -------------------------------------------------------------------------- translation

    def number(self, expression: Expression) -> Any:
        """An integer term."""
        terms = self.terms
        match expression:
            case Constant(value):
                return terms.number(value)
            case Name(name):
                return terms.symbol(name)
            case Binary("+", left, right):
                return self.number(left) + self.number(right)
            case Binary("-", left, right):
                return self.number(left) - self.number(right)
            case Binary("*", left, right):
                if not isinstance(left, Constant) and not isinstance(right, Constant):
                    raise UnsupportedProtocol("a product of two quantities that are not fixed")
                return self.number(left) * self.number(right)
            case Binary("min" | "max" as operator, left, right):
                first, second = self.number(left), self.number(right)
                lower = terms.compared("<=", first, second)
                if operator == "min":
                    return terms.choice(lower, first, second)
                return terms.choice(lower, second, first)
            case Binary("//" | "%" as operator, left, Constant(divisor)) if divisor > 0:
                whole = self.number(left)
                return whole / divisor if operator == "//" else whole % divisor
            case Binary("//" | "%"):
                raise UnsupportedProtocol("a division by a quantity that is not fixed")
        return terms.choice(self.truth(expression), terms.number(1), terms.number(0))

    def truth(self, expression: Expression) -> Formula:
        """A formula: the expression is not 0. Rules ask for the same conditions many times."""
        known = self._truths.get(expression)
        if known is None:
            before = self.terms.made
            formula = self._truth(expression)
            self._truths[expression] = formula, self.terms.made - before
            return formula
        self.terms.count(known[1])
        return known[0]

    def _truth(self, expression: Expression) -> Formula:
        terms = self.terms
        match expression:
            case Constant(value):
                return terms.truth(value != 0)
            case Not(operand):
                return terms.negation(self.truth(operand))
            case Binary("and", left, right):
                return terms.all(self.truth(left), self.truth(right))
            case Binary("or", left, right):
                return terms.any(self.truth(left), self.truth(right))
            case Binary("<" | "<=" | "==" | "!=" | ">=" | ">" as operator, left, right):
                decided = _decided(operator, left, right)
                if decided is not None:
                    return terms.truth(decided)
                return terms.compared(operator, self.number(left), self.number(right))
        return terms.compared("!=", self.number(expression), terms.number(0))

    def all_of(self, conditions: Iterable[Expression]) -> Formula:
        """The conjunction of all conditions as formula; true where there are none."""
        return self.terms.all(*(self.truth(condition) for condition in conditions))

    # ---------------------------------------------------------------------------- questions

    def example(self, formula: Any, small: Iterable[str] = ()) -> dict[str, int] | None:
        """Values that make the formula true, those of `small` kept small; None: there are none.

        Raises UnsupportedProtocol when the solver gives up.
        """
        terms = self.terms
        if formula.eq(terms.truth(False)):
            return None
        solver = self.solver
        solver.push()
        try:
            solver.add(*self.always, formula)
            found = satisfiable(solver)
            _keep(solver, found)
            return self._values(solver, small) if found else None
        finally:
            solver.pop()

    def _values(self, solver: Any, small: Iterable[str]) -> dict[str, int]:
        """A model of what is asserted, in which the names of `small` are small."""
        terms = self.terms
        symbols = [terms.symbol(name) for name in small]
        for bound in SMALL:
            solver.push()
            solver.add(*(symbol <= bound for symbol in symbols))
            found = satisfiable(solver)
            model = solver.model() if found else None
            solver.pop()
            if found:
                break
        else:
            satisfiable(solver)
            model = solver.model()
        assert model is not None
        import z3

        values = {symbol.name(): model[symbol] for symbol in model.decls() if symbol.arity() == 0}
        # z3 may name truth values of its own beside the unknowns of the question.
        return {name: value.as_long() for name, value in values.items() if z3.is_int_value(value)}


def _decided(operator: str, left: Expression, right: Expression) -> bool | None:
    """Whether a comparison holds, where the difference of its sides is a constant; or None."""
    form = linear_form(Binary("-", left, right))
    if form is None:
        return None
    if form[0]:
        # Multiples of what all unknowns are multiples of never make up for the rest.
        apart = form[1] % gcd(*form[0].values()) != 0
        return (operator == "!=") if apart and operator in ("==", "!=") else None
    value = form[1]
    return {
        "<": value < 0, "<=": value <= 0, "==": value == 0,
        "!=": value != 0, ">=": value >= 0, ">": value > 0,
    }[operator]  # fmt: skip


Residue = tuple[int, int] | None


@lru_cache(maxsize=4096)
def residue(expression: Expression) -> Residue:
    """(g, r): whatever the unknowns are, the value is r plus a multiple of g; None: not affine."""
    form = linear_form(expression)
    return None if form is None else (gcd(*form[0].values()), form[1])


def apart(one: Residue, other: Residue) -> bool:
    """Whether no values of the unknowns, those of each its own, make the two equal."""
    if one is None or other is None:
        return False
    common, difference = gcd(one[0], other[0]), one[1] - other[1]
    return difference % common != 0 if common else difference != 0
