"""The engines under one interface: a program and a budget in, an `EngineReport` out.

What an engine may spend is counted in states and in operations, so that the same program gets the
same report on a machine of any speed and load. Processor time is a backstop behind both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import thread_time

from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget as EngineBudget
from titan.engines.result import EngineResult
from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason, Verdict
from titan.sync.expression import Expression
from titan.sync.fault import Trace
from titan.sync.program import SyncProgram
from titan.verify.model import SECONDS_MAX, STATES_MAX, STEPS_MAX, EngineReport
from titan.verify.sizes import Values, free_parameters, size_sets

REFERENCE_STATES_MAX = 400_000
EXPLORER, ORDER, REFERENCE = "explorer", "happens-before", "reference"
Sizes = tuple[tuple[str, tuple[int, ...] | None], ...]


@dataclass(frozen=True, slots=True)
class VerifyBudget:
    """What an engine may spend: states of searches, operations of runs, processor time."""

    states: int = STATES_MAX
    steps: int = STEPS_MAX
    seconds: float = SECONDS_MAX

    def spent(self) -> Reason | None:
        """What there is nothing left of."""
        if self.states <= 0:
            return Reason.STATES
        if self.steps <= 0:
            return Reason.STEPS
        return Reason.TIME if self.seconds <= 0 else None


@dataclass(frozen=True, slots=True)
class EngineAttempt:
    """The result of one engine for one choice of sizes."""

    verdict: Verdict
    states: int = 0
    steps: int = 0
    trace: Trace | None = None
    remark: str = ""
    reason: Reason | None = None
    obstacle: Expression | None = None


def covered(names: list[str], done: list[Values]) -> Sizes:
    """The values that were explored, parameter by parameter."""
    table: dict[str, set[int]] = {name: set() for name in names}
    for values in done:
        for name, value in values.items():
            table[name] |= set(value) if isinstance(value, tuple) else {value}
    return tuple((name, tuple(sorted(values))) for name, values in table.items())


class BoundedRun:
    """One engine for one choice of sizes after the other, up to the bound.

    It stops where a choice is not verified or the budget is spent, and may continue from there with
    a larger budget. The report names the choices that were verified, or the one that is refuted.
    """

    def __init__(
        self,
        engine: str,
        program: SyncProgram,
        ask: Callable[[Values, VerifyBudget], EngineAttempt],
        sets: list[Values] | None = None,
    ) -> None:
        self._engine = engine
        self._names = free_parameters(program)
        self._pending = list(size_sets(program)) if sets is None else sets
        self._ask = ask
        self._done: list[Values] = []
        self._states = self._steps = 0
        self._seconds = 0.0

    def advance(self, budget: VerifyBudget) -> EngineReport:
        """The report after all that `budget` allows, what was spent before included."""
        result = EngineAttempt(Verdict.VERIFIED)
        while self._pending and result.verdict is Verdict.VERIFIED:
            result = self._next(budget)
        refuted = result.verdict is Verdict.REFUTED
        return EngineReport(
            self._engine,
            result.verdict,
            self._seconds,
            self._states,
            covered(self._names, self._pending[:1] if refuted else self._done),
            result.trace,
            result.remark,
            steps=self._steps,
            reason=result.reason,
            obstacle=result.obstacle,
        )

    def _next(self, budget: VerifyBudget) -> EngineAttempt:
        left = VerifyBudget(
            budget.states - self._states,
            budget.steps - self._steps,
            budget.seconds - self._seconds,
        )
        spent = left.spent()
        if spent is not None:
            return EngineAttempt(
                Verdict.UNDECIDED, remark=f"its {spent} budget ran out", reason=spent
            )
        started = thread_time()
        result = self._ask(self._pending[0], left)
        self._seconds += thread_time() - started
        self._states += result.states
        self._steps += result.steps
        if result.verdict is Verdict.VERIFIED:
            self._done.append(self._pending.pop(0))
        return result


def run_reference(program: SyncProgram, budget: VerifyBudget) -> EngineReport:
    """The reference search for all sizes up to the bound."""

    def ask(values: Values, left: VerifyBudget) -> EngineAttempt:
        return _attempt(explore_reference(program, values, EngineBudget(left.states)))

    states = min(budget.states, REFERENCE_STATES_MAX)
    return BoundedRun(REFERENCE, program, ask).advance(replace(budget, states=states))


def order_run(program: SyncProgram, sets: list[Values] | None = None) -> BoundedRun:
    """The happens-before engine, to be run for all sizes up to the bound, or for those given."""
    from titan.engines.happens_before.engine import analyse

    longest = EngineBudget().operations_max

    def ask(values: Values, left: VerifyBudget) -> EngineAttempt:
        limits = EngineBudget(operations_max=min(left.steps, longest))
        result = analyse(program, values, limits)
        if result.reason is Reason.STEPS:  # it is made again where the budget becomes larger
            return _attempt(result)
        attempt = replace(_attempt(result), steps=result.operations)
        if result.reason is not None:
            attempt = replace(attempt, remark=f"not applicable: {result.remark}")
        if attempt.trace is None and result.fault and attempt.verdict is Verdict.REFUTED:
            attempt = replace(attempt, trace=Trace(tuple(values.items()), (), result.fault))
        return attempt

    return BoundedRun(ORDER, program, ask, sets)


def run_order(program: SyncProgram, budget: VerifyBudget) -> EngineReport:
    """The happens-before engine for all sizes up to the bound."""
    return order_run(program).advance(budget)


def run_explorer(program: SyncProgram, budget: VerifyBudget) -> EngineReport:
    """The explorer, for every value of the parameters. Raises CoreMissingError."""
    started = thread_time()
    result = _explored(program, {}, budget)
    sizes: Sizes = tuple((name, None) for name in free_parameters(program))
    if result.verdict is Verdict.UNDECIDED:
        sizes = ()
    return EngineReport(
        EXPLORER,
        result.verdict,
        thread_time() - started,
        result.states,
        sizes,
        result.trace,
        result.remark,
        reason=result.reason,
        obstacle=result.obstacle,
    )


def run_explorer_bounded(program: SyncProgram, budget: VerifyBudget) -> EngineReport:
    """The explorer for all sizes up to the bound. Raises CoreMissingError."""

    def ask(values: Values, left: VerifyBudget) -> EngineAttempt:
        return _explored(program, values, left)

    return BoundedRun(EXPLORER, program, ask).advance(budget)


def _explored(program: SyncProgram, values: Values, left: VerifyBudget) -> EngineAttempt:
    """One search. Whatever keeps the explorer from deciding is a reason, never a verdict."""
    from titan.engines.explore import search
    from titan.engines.explore.quotient import NotApplicableError
    from titan.engines.explore.replay import NativeReplayError
    from titan.engines.explore.tables import TooLargeError

    try:
        return _attempt(search.explore(program, values, EngineBudget(left.states, left.seconds)))
    except NotApplicableError as error:
        remark = f"no finite quotient: {error}"
        return EngineAttempt(
            Verdict.UNDECIDED, remark=remark, reason=error.reason, obstacle=error.expression
        )
    except NativeReplayError as error:
        remark = f"its trace does not replay: {error}"
        return EngineAttempt(Verdict.DISAGREEMENT, remark=remark, reason=Reason.REPLAY)
    except (search.ExplorationError, TooLargeError) as error:
        if error.reason is Reason.DIVISION:
            raise ZeroDivisionError(str(error)) from None
        return EngineAttempt(Verdict.UNDECIDED, remark=str(error), reason=error.reason)


def _attempt(result: EngineResult) -> EngineAttempt:
    return EngineAttempt(
        result.verdict,
        result.states,
        trace=result.trace,
        remark=result.remark,
        reason=result.reason,
    )
