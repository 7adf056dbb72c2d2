"""The answer for one file of a suite, whatever comes of it: plain data for any process.

A file that cannot be read or is not decided has a fault instead of a decision, so that the others
keep their answers. Two solvers that contradict each other are a fault of TITAN and raise
EnginesDisagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from titan.foundation.source.span import Span
from titan.foundation.verdict import Verdict
from titan.litmus.decide import LitmusDecision
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.suite import SuiteEntry
from titan.litmus.model.options import ModelOptions
from titan.litmus.report import State

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LitmusRequest:
    """What is asked of every test. `timeout` is processor time of each, in seconds.

    `confirm`: with the other solver, too. `states`: all final states.
    """

    options: ModelOptions = field(default_factory=ModelOptions)
    solver: str = "z3"
    unroll: int = 2
    timeout: int | None = None
    confirm: bool = False
    states: bool = True


@dataclass(frozen=True, slots=True)
class LitmusAnswer:
    """`decision` is None where there is a `fault`; `span` is where it stands in the file."""

    entry: SuiteEntry
    decision: LitmusDecision | None = None
    expected: str | None = None
    states: list[State] | None = None
    fault: str = ""
    span: Span | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the test is as it should be: as recorded, or else as its condition asks."""
        decision = self.decision
        if decision is None:
            return Verdict.REFUSED
        if decision.holds is None:
            return Verdict.UNDECIDED
        good = decision.holds if self.expected is None else decision.verdict == self.expected
        return Verdict.VERIFIED if good else Verdict.REFUTED


def answer(entry: SuiteEntry, request: LitmusRequest) -> LitmusAnswer:
    """Decide one file as asked. Raises EnginesDisagree."""
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.language.suite import read_test
    from titan.litmus.model.unsupported import UnsupportedTest

    expected = entry.expected.under(request.options) if entry.expected is not None else None
    try:
        test = read_test(entry.path)
        decision = _decided(test, request, request.solver)
        if request.confirm:
            other = "cvc5" if request.solver == "z3" else "z3"
            _compare(decision, _decided(test, request, other))
    except LitmusError as error:
        return LitmusAnswer(entry, fault=error.message, span=error.span)
    except UnsupportedTest as error:
        return LitmusAnswer(entry, fault=str(error))
    found = None
    if request.states and decision.allowed is not None:
        from titan.litmus.decide import final_states

        ask = partial(final_states, test, request.options, unroll=request.unroll)
        found = _limited(request.timeout, ask)
    return LitmusAnswer(entry, decision, expected, found)


def _decided(test: LitmusTest, request: LitmusRequest, solver: str) -> LitmusDecision:
    from titan.litmus.decide import decide, gave_up

    ask = partial(decide, test, request.options, unroll=request.unroll, solver=solver)
    decision = _limited(request.timeout, ask)
    if decision is None:
        note = f"its {request.timeout} s of processor time ran out"
        return gave_up(test, request.options, solver, note, float(request.timeout or 0))
    return decision


def _limited(seconds: int | None, ask: Callable[[], Result]) -> Result | None:
    from titan.foundation.limited import within

    return ask() if seconds is None else within(seconds, ask)


def _compare(first: LitmusDecision, second: LitmusDecision) -> None:
    """Two solvers must not contradict each other; one that gave up contradicts nothing."""
    from titan.litmus.decide import EnginesDisagree

    verdicts = {first.allowed, second.allowed} - {None}
    if len(verdicts) > 1:
        raise EnginesDisagree(
            f"{first.test.name}: {first.solver} says {first.verdict}, "
            f"{second.solver} says {second.verdict}"
        )
