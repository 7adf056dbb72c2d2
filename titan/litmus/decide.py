"""Asks the solver whether the asked outcome of a litmus test has a consistent execution.

`decide` answers one question; `final_states` lists every final state of the observed registers and
locations. An execution in which a thread stays blocked counts as final, but an outcome that
mentions a register which that thread would still have assigned is not reached in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pysmt.exceptions import SolverReturnedUnknownResultError
from pysmt.shortcuts import Int, Solver

from titan.foundation.errors import InternalError
from titan.foundation.interrupts import pysmt_ended_by_signals
from titan.litmus.enumerate.candidates import TooManyCandidates, admits
from titan.litmus.language.ast import FinalMemory, FinalRegister, LitmusTest
from titan.litmus.language.condition import observed_terms
from titan.litmus.machine.answers import distinct_states
from titan.litmus.machine.decision import MachinesDisagree, decide_machine
from titan.litmus.machine.explorer import TooManyStates
from titan.litmus.model.execution import CandidateExecution
from titan.litmus.model.options import ModelOptions
from titan.litmus.smt.question import LitmusQuestion
from titan.litmus.smt.terms import NO, any_of, compare, negation
from titan.litmus.smt.witness import extract

SOLVER_LOGIC = "QF_LIA"
STATES_MAX = 256
MACHINE = "explorer"  # the engine of tests of machine instructions


class EnginesDisagree(InternalError):
    """Two engines give different answers: a bug of ours, never a verdict."""


@dataclass(frozen=True, slots=True)
class LitmusDecision:
    """The answer for one test.

    `allowed` is None when the solver returned unknown. `complete` is false when a loop was cut off,
    so that Forbidden holds only up to that bound. `rechecked`: the second engine evaluated the
    witness, too; it is false for Forbidden, and where that evaluation is too large.
    """

    test: LitmusTest
    options: ModelOptions
    allowed: bool | None
    complete: bool
    witness: CandidateExecution | None
    seconds: float
    solver: str
    note: str = ""
    rechecked: bool = False

    @property
    def verdict(self) -> str:
        """Allowed, Forbidden, `Forbidden (bounded)`, or Undecided."""
        if self.allowed is None:
            return "Undecided"
        if self.allowed:
            return "Allowed"
        return "Forbidden" if self.complete else "Forbidden (bounded)"

    @property
    def holds(self) -> bool | None:
        """Whether the quantified condition holds (herd's Ok or No); None when that is open."""
        if self.allowed is None or not (self.allowed or self.complete):
            return None
        return self.allowed == (self.test.quantifier.value == "exists")


def decide(
    test: LitmusTest,
    options: ModelOptions | None = None,
    *,
    unroll: int = 2,
    solver: str = "z3",
    recheck: bool = True,
) -> LitmusDecision:
    """Whether the asked outcome is allowed.

    Raises `UnsupportedTest` for what is not decided, and `EnginesDisagree` when the second engine
    does not accept the witness.
    """
    started = time.process_time()
    options = options or ModelOptions()
    if test.dialect.machine is not None:
        return _explored(test, options, started, recheck)
    question = LitmusQuestion(test, options, unroll)
    allowed: bool | None
    witness = None
    note = ""
    with Solver(name=solver, logic=SOLVER_LOGIC) as engine, pysmt_ended_by_signals(engine):
        for part in question.everything():
            engine.add_assertion(part)
        try:
            allowed = bool(engine.solve())
        except SolverReturnedUnknownResultError:
            allowed, note = None, "the solver returned unknown"
        if allowed:
            found = engine.get_model()
            witness = extract(question, found)
            raced = question.races_in(found)
            note = f"a data race on {' and '.join(raced)}" if raced else ""
    seconds = time.process_time() - started
    rechecked = False
    if witness is not None and recheck and not options.mutations:
        rechecked = _recheck(test, options, witness, unroll)
    complete = not question.graph.cut
    return LitmusDecision(
        test, options, allowed, complete, witness, seconds, solver, note, rechecked
    )


def _explored(
    test: LitmusTest, options: ModelOptions, started: float, recheck: bool
) -> LitmusDecision:
    """A test of machine instructions: every outcome, by one or both engines of the machine."""
    try:
        found = decide_machine(test, recheck=recheck)
    except TooManyStates as error:
        return gave_up(test, options, MACHINE, str(error), time.process_time() - started)
    except MachinesDisagree as error:
        raise EnginesDisagree(str(error)) from None
    seconds = time.process_time() - started
    return LitmusDecision(
        test, options, found.allowed, True, None, seconds, MACHINE, "", found.rechecked
    )


def gave_up(
    test: LitmusTest, options: ModelOptions, solver: str, note: str, seconds: float
) -> LitmusDecision:
    """No answer, with the reason."""
    return LitmusDecision(test, options, None, True, None, seconds, solver, note)


def _recheck(
    test: LitmusTest, options: ModelOptions, witness: CandidateExecution, unroll: int
) -> bool:
    """Evaluate the witness with the second engine; false when that is too large to finish."""
    try:
        if not admits(test, options, witness, rounds=unroll, budget=20_000):
            raise EnginesDisagree(f"the second engine does not accept the witness of {test.name}")
    except TooManyCandidates:
        return False
    return True


def final_states(
    test: LitmusTest,
    options: ModelOptions | None = None,
    *,
    unroll: int = 2,
    limit: int = STATES_MAX,
) -> list[dict[FinalRegister | FinalMemory, int]]:
    """Every reachable final state of what the condition mentions, sorted; at most `limit`."""
    terms = observed_terms(test.condition)
    if test.dialect.machine is not None:
        outcomes = decide_machine(test, recheck=False).outcomes
        return distinct_states(terms, outcomes)[:limit]
    question = LitmusQuestion(test, options or ModelOptions(), unroll)
    values = {term: question.term(term) for term in terms}
    stuck = [
        question.graph.undetermined.get((t.thread, t.register), NO)
        for t in terms
        if isinstance(t, FinalRegister)
    ]
    base = [negation(part) for part in stuck]
    if test.filter is not None:
        base.append(question.outcome(test.filter))
    late = [part for part in question.model.constraints if not part.is_true()]
    states: list[dict[FinalRegister | FinalMemory, int]] = []
    with Solver(name="z3", logic=SOLVER_LOGIC) as engine, pysmt_ended_by_signals(engine):
        for part in [*question.constraints, *late, *base]:
            engine.add_assertion(part)
        while len(states) < limit and engine.solve():
            state = {t: engine.get_value(v).constant_value() for t, v in values.items()}
            states.append(state)
            if not state:
                break
            engine.add_assertion(any_of(compare(values[t], "!=", Int(v)) for t, v in state.items()))
    return sorted(states, key=lambda state: [(str(t), v) for t, v in state.items()])
