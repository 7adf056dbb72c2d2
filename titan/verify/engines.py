"""The engines behind one interface: a program and a budget in, an `EngineReport` out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from titan.explore.reference import Outcome, explore_reference
from titan.sync.program import SyncProgram
from titan.verify.model import EngineReport, Verdict
from titan.verify.sizes import Values, free_parameters, size_sets

_VERDICT_OF = {
    Outcome.VERIFIED: Verdict.VERIFIED,
    Outcome.REFUTED: Verdict.REFUTED,
    Outcome.UNDECIDED: Verdict.UNDECIDED,
}
REFERENCE_STATES_MAX = 400_000


@dataclass(frozen=True, slots=True)
class Budget:
    states: int
    seconds: float


def covered(names: list[str], done: list[Values]) -> tuple[tuple[str, tuple[int, ...] | None], ...]:
    """The values that were gone through, parameter by parameter."""
    table: dict[str, set[int]] = {name: set() for name in names}
    for values in done:
        for name, value in values.items():
            table[name] |= set(value) if isinstance(value, tuple) else {value}
    return tuple((name, tuple(sorted(values))) for name, values in table.items())


def run_reference(program: SyncProgram, budget: Budget) -> EngineReport:
    """The reference search, for all sizes up to the bound or until the budget is spent."""
    started = time.monotonic()
    names = free_parameters(program)
    done: list[Values] = []
    states = 0
    left = min(budget.states, REFERENCE_STATES_MAX)
    for values in size_sets(program):
        spent = time.monotonic() - started
        if left <= 0 or spent > budget.seconds:
            return _undecided("reference", states, spent, covered(names, done), "its budget")
        result = explore_reference(program, values, left)
        states += result.states
        left -= result.states
        verdict = _VERDICT_OF[result.outcome]
        spent = time.monotonic() - started
        if verdict is Verdict.REFUTED:
            return EngineReport("reference", verdict, spent, states, (), result.trace)
        if verdict is Verdict.UNDECIDED:
            return _undecided("reference", states, spent, covered(names, done), "its budget")
        done.append(values)
    spent = time.monotonic() - started
    return EngineReport("reference", Verdict.VERIFIED, spent, states, covered(names, done))


def _undecided(
    engine: str,
    states: int,
    seconds: float,
    sizes: tuple[tuple[str, tuple[int, ...] | None], ...],
    what: str,
) -> EngineReport:
    remark = f"{what} of states or seconds ran out"
    return EngineReport(engine, Verdict.UNDECIDED, seconds, states, sizes, remark=remark)
