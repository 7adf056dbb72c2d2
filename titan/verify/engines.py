"""The engines behind one interface: a program and a budget in, an `EngineReport` out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget as EngineBudget
from titan.engines.result import EngineResult
from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason, Verdict
from titan.sync.fault import Trace
from titan.sync.program import SyncProgram
from titan.verify.model import EngineReport
from titan.verify.sizes import Values, free_parameters, size_sets

REFERENCE_STATES_MAX = 400_000
EXPLORER, ORDER, REFERENCE = "explorer", "happens-before", "reference"
Sizes = tuple[tuple[str, tuple[int, ...] | None], ...]


@dataclass(frozen=True, slots=True)
class Budget:
    states: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Said:
    """What an engine says for one choice of sizes."""

    verdict: Verdict
    states: int = 0
    trace: Trace | None = None
    remark: str = ""
    reason: Reason | None = None


def covered(names: list[str], done: list[Values]) -> Sizes:
    """The values that were gone through, parameter by parameter."""
    table: dict[str, set[int]] = {name: set() for name in names}
    for values in done:
        for name, value in values.items():
            table[name] |= set(value) if isinstance(value, tuple) else {value}
    return tuple((name, tuple(sorted(values))) for name, values in table.items())


def run_bounded(
    engine: str,
    program: SyncProgram,
    budget: Budget,
    ask: Callable[[Values, Budget], Said],
) -> EngineReport:
    """Ask for all sizes up to the bound, until one is not verified or the budget is spent."""
    started = time.monotonic()
    names = free_parameters(program)
    done: list[Values] = []
    states = 0
    for values in size_sets(program):
        spent = time.monotonic() - started
        left = Budget(budget.states - states, budget.seconds - spent)
        if left.states <= 0 or left.seconds <= 0:
            reason = Reason.STATES if left.states <= 0 else Reason.TIME
            said = Said(Verdict.UNDECIDED, remark="its time or states ran out", reason=reason)
        else:
            said = ask(values, left)
        states += said.states
        if said.verdict is not Verdict.VERIFIED:
            spent = time.monotonic() - started
            sizes = covered(names, done)
            return EngineReport(
                engine,
                said.verdict,
                spent,
                states,
                sizes,
                said.trace,
                said.remark,
                reason=said.reason,
            )
        done.append(values)
    spent = time.monotonic() - started
    return EngineReport(engine, Verdict.VERIFIED, spent, states, covered(names, done))


def run_reference(program: SyncProgram, budget: Budget) -> EngineReport:
    """The reference search for all sizes up to the bound."""

    def ask(values: Values, left: Budget) -> Said:
        return _said(explore_reference(program, values, EngineBudget(left.states)))

    states = min(budget.states, REFERENCE_STATES_MAX)
    return run_bounded(REFERENCE, program, Budget(states, budget.seconds), ask)


def run_order(program: SyncProgram, budget: Budget) -> EngineReport:
    """The happens-before engine for all sizes up to the bound."""
    from titan.engines.happens_before.engine import analyse

    def ask(values: Values, left: Budget) -> Said:
        result = analyse(program, values)
        said = _said(result)
        if result.reason not in (None, Reason.STEPS):
            said = replace(said, remark=f"not applicable: {result.remark}")
        if said.trace is None and said.verdict is Verdict.REFUTED and result.fault is not None:
            said = replace(said, trace=Trace(tuple(values.items()), (), result.fault))
        return said

    return run_bounded(ORDER, program, budget, ask)


def run_explorer(program: SyncProgram, budget: Budget) -> EngineReport:
    """The explorer, for every value of the parameters. Raises CoreMissingError."""
    started = time.monotonic()
    said = _explored(program, {}, budget)
    sizes: Sizes = tuple((name, None) for name in free_parameters(program))
    if said.verdict is Verdict.UNDECIDED:
        sizes = ()
    seconds = time.monotonic() - started
    return EngineReport(
        EXPLORER,
        said.verdict,
        seconds,
        said.states,
        sizes,
        said.trace,
        said.remark,
        reason=said.reason,
    )


def run_explorer_bounded(program: SyncProgram, budget: Budget) -> EngineReport:
    """The explorer for all sizes up to the bound. Raises CoreMissingError."""

    def ask(values: Values, left: Budget) -> Said:
        return _explored(program, values, left)

    return run_bounded(EXPLORER, program, budget, ask)


def _explored(program: SyncProgram, values: Values, left: Budget) -> Said:
    """One search. Whatever keeps the explorer from deciding is a remark, never a verdict."""
    from titan.engines.explore import search
    from titan.engines.explore.flatten import TooLargeError
    from titan.engines.explore.quotient import NotApplicableError
    from titan.engines.explore.replay import NativeReplayError

    budget = EngineBudget(left.states, left.seconds)
    try:
        return _said(search.explore(program, values, budget))
    except NotApplicableError as error:
        return _undecided(error, f"no finite quotient: {error}")
    except NativeReplayError as error:
        return Said(Verdict.DISAGREEMENT, remark=f"its trace does not replay: {error}")
    except (search.ExplorationError, TooLargeError) as error:
        if error.reason is Reason.DIVISION:
            raise ZeroDivisionError(str(error)) from None
        return _undecided(error, str(error))


def _said(result: EngineResult) -> Said:
    return Said(result.verdict, result.states, result.trace, result.remark, result.reason)


def _undecided(refusal: Refusal, remark: str) -> Said:
    return Said(Verdict.UNDECIDED, remark=remark, reason=refusal.reason)
