"""Questions of linear integer arithmetic, through pysmt: is there a counterexample, and which one.

Expressions are translated as they are; division and remainder by constants get a quotient and a
remainder of their own. Products of two unknowns and questions beyond RESOURCES_MAX are Unsupported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any

from titan.language.protocol.families import UnsupportedProtocol
from titan.sync.expression import Binary, Constant, Expression, Name, Not

RESOURCES_MAX = 20_000_000  # of one question, in the units of z3 (rlimit), not in time


def z3_solver(resources: int) -> Any:
    """A z3 solver that gives up after `resources`, in its own units.

    Made without the factory of pysmt, which imports every solver that is installed.
    """
    from pysmt.environment import get_env
    from pysmt.logics import QF_UFLIRA
    from pysmt.solvers.z3 import Z3Solver

    return Z3Solver(get_env(), QF_UFLIRA, solver_options={"rlimit": resources})


@dataclass(frozen=True, slots=True)
class Question:
    """A question as SMT-LIB, with what z3 said: whether there is a counterexample."""

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


def _keep(formula: Any, satisfiable: bool) -> None:
    questions = _archive.get()
    if questions is None:
        return
    from io import StringIO

    from pysmt.smtlib.script import smtlibscript_from_formula

    out = StringIO()
    smtlibscript_from_formula(formula).serialize(out, daggify=False)
    status = "sat" if satisfiable else "unsat"
    questions.append(Question(f"(set-info :status {status})\n{out.getvalue()}", satisfiable))


class SolverArithmetic:
    """Translates expressions and asks z3. `sizes` are constraints that hold in every question."""

    def __init__(self) -> None:
        from pysmt import shortcuts, typing

        self.smt: Any = shortcuts
        self.integer = typing.INT
        self.always: list[Any] = []
        self.fresh = count()
        self.divisions: dict[tuple[Expression, int], tuple[Any, Any]] = {}
        self.asked = 0

    def symbol(self, name: str) -> Any:
        """The integer unknown of this name; the same name gives the same unknown."""
        return self.smt.Symbol(name, self.integer)

    def assume(self, expression: Expression) -> None:
        """Make a condition hold in every later question."""
        self.always.append(self.truth(expression))

    # -------------------------------------------------------------------------- translation

    def number(self, expression: Expression) -> Any:
        """An integer term."""
        smt = self.smt
        match expression:
            case Constant(value):
                return smt.Int(value)
            case Name(name):
                return self.symbol(name)
            case Binary("+", left, right):
                return smt.Plus(self.number(left), self.number(right))
            case Binary("-", left, right):
                return smt.Minus(self.number(left), self.number(right))
            case Binary("*", left, right):
                if not isinstance(left, Constant) and not isinstance(right, Constant):
                    raise UnsupportedProtocol("a product of two quantities that are not fixed")
                return smt.Times(self.number(left), self.number(right))
            case Binary("min", left, right):
                first, second = self.number(left), self.number(right)
                return smt.Ite(smt.LE(first, second), first, second)
            case Binary("max", left, right):
                first, second = self.number(left), self.number(right)
                return smt.Ite(smt.GE(first, second), first, second)
            case Binary("//" | "%" as operator, left, Constant(divisor)) if divisor > 0:
                quotient, rest = self._division(left, divisor)
                return quotient if operator == "//" else rest
            case Binary("//" | "%"):
                raise UnsupportedProtocol("a division by a quantity that is not fixed")
        return smt.Ite(self.truth(expression), smt.Int(1), smt.Int(0))

    def _division(self, left: Expression, divisor: int) -> tuple[Any, Any]:
        key = (left, divisor)
        if key not in self.divisions:
            number = next(self.fresh)
            quotient, rest = self.symbol(f"quotient!{number}"), self.symbol(f"rest!{number}")
            smt = self.smt
            whole = smt.Plus(smt.Times(smt.Int(divisor), quotient), rest)
            self.always.append(
                smt.And(
                    smt.Equals(self.number(left), whole),
                    smt.GE(rest, smt.Int(0)),
                    smt.LT(rest, smt.Int(divisor)),
                )
            )
            self.divisions[key] = (quotient, rest)
        return self.divisions[key]

    def truth(self, expression: Expression) -> Any:
        """A formula: the expression is not 0."""
        smt = self.smt
        match expression:
            case Constant(value):
                return smt.Bool(value != 0)
            case Not(operand):
                return smt.Not(self.truth(operand))
            case Binary("and", left, right):
                return smt.And(self.truth(left), self.truth(right))
            case Binary("or", left, right):
                return smt.Or(self.truth(left), self.truth(right))
            case Binary("<" | "<=" | "==" | "!=" | ">=" | ">" as operator, left, right):
                first, second = self.number(left), self.number(right)
                match operator:
                    case "<":
                        return smt.LT(first, second)
                    case "<=":
                        return smt.LE(first, second)
                    case "==":
                        return smt.Equals(first, second)
                    case "!=":
                        return smt.Not(smt.Equals(first, second))
                    case ">=":
                        return smt.GE(first, second)
                return smt.GT(first, second)
        return self.smt.Not(smt.Equals(self.number(expression), smt.Int(0)))

    def all_of(self, conditions: Iterable[Expression]) -> Any:
        """The conjunction of all conditions as formula; true where there are none."""
        return self.smt.And([self.truth(condition) for condition in conditions])

    # ---------------------------------------------------------------------------- questions

    def example(self, formula: Any, small: Iterable[str] = ()) -> dict[str, int] | None:
        """Values that make the formula true, those of `small` kept small; None: there are none.

        Raises UnsupportedProtocol when the solver gives up.
        """
        from pysmt.exceptions import PysmtException

        self.asked += 1
        smt = self.smt
        names = list(small)
        try:
            with z3_solver(RESOURCES_MAX) as solver:
                whole = smt.And([*self.always, formula])
                solver.add_assertion(whole)
                satisfiable = solver.solve()
                _keep(whole, satisfiable)
                if not satisfiable:
                    return None
                for bound in (1, 2, 3, 4, 6, 9, 14):
                    limits = [smt.LE(self.symbol(name), smt.Int(bound)) for name in names]
                    solver.push()
                    solver.add_assertion(smt.And(limits))
                    if solver.solve():
                        break
                    solver.pop()
                else:
                    solver.solve()
                symbols = smt.And([formula, *self.always]).get_free_variables()
                return {
                    symbol.symbol_name(): solver.get_value(symbol).constant_value()
                    for symbol in symbols
                    if symbol.symbol_type() == self.integer
                }
        except PysmtException as error:
            raise UnsupportedProtocol(f"the solver gave up ({type(error).__name__})") from None
