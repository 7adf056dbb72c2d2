"""The verdict on one program by all engines that apply, with the scope in words.

A program with open sizes is first run at one size, where most faults show, by the happens-before
engine and by the explorer; then it is searched for every number where the explorer's quotient
applies, or else for all sizes up to a bound. The happens-before engine runs besides at some sizes:
only it sees relaxed synchronisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from time import thread_time

from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.control import LocalLoopError

Values = dict[str, int | tuple[int, ...]]
REFERENCE_STATES_MAX = 60_000
SIZE_SETS_MAX = 40


@dataclass(frozen=True, slots=True)
class MutationBudget:
    """For all searches of one program together; `seconds` is processor time, a backstop."""

    states: int = 1_000_000
    seconds: float = 120.0


class _Account:
    """What the searches of one program have spent of a budget."""

    def __init__(self, budget: MutationBudget) -> None:
        self._states = budget.states
        self._until = thread_time() + budget.seconds

    def left(self, share: int = 1) -> MutationBudget:
        """One part in `share` of what is left; never nothing, so that a search can say what it
        lacks.
        """
        seconds = max(self._until - thread_time(), 0.01)
        return MutationBudget(max(self._states // share, 1), seconds)

    def spend(self, decision: MutantDecision) -> MutantDecision:
        """Subtract what a search visited; returns the decision."""
        self._states -= decision.states
        return decision


@dataclass(frozen=True, slots=True)
class MutantDecision:
    """`rule` and `message` of the fault; `scope` what VERIFIED covers, or why it is undecided.

    `ordered`: the sizes at which the happens-before engine has verified the program too, in words;
    None where it did not at one of them. `states` are those that the search visited.
    """

    verdict: Verdict
    engines: tuple[str, ...]
    scope: str = ""
    rule: str = ""
    message: str = ""
    ordered: str | None = None
    states: int = 0


DEFAULT_BUDGET = MutationBudget()


class Decider:
    """Decides programs that differ little from one another.

    The first of them shows whether a search for every number ends: if it fails there, as the
    quotient does not apply or the budget is spent, only bounded searches are made of the others.
    Where it ends for the first, each of the others is given half of its states for it.
    """

    def __init__(self, budget: MutationBudget = DEFAULT_BUDGET) -> None:
        self.budget = budget
        self._any_number: bool | None = None  # not known before the first program

    def __call__(self, program: ir.SyncProgram) -> MutantDecision:
        """Refuted as soon as one engine refutes; verified when nothing is left open."""
        try:
            return self._decide(program, _Account(self.budget))
        except ZeroDivisionError:
            return MutantDecision(Verdict.UNDECIDED, (), "an expression divides by zero")
        except LocalLoopError as error:
            return MutantDecision(Verdict.UNDECIDED, (), str(error))

    def _decide(self, program: ir.SyncProgram, account: _Account) -> MutantDecision:
        typical = typical_sizes(program)
        for engine in (_order, _explore):
            decision = account.spend(engine(program, typical, account.left()))
            if decision.verdict is Verdict.REFUTED:
                return decision
        whole = self._whole(program, account)
        if whole.verdict is not Verdict.VERIFIED:
            return whole
        ordered = True
        for sizes in _some_sizes(program):
            decision = _order(program, sizes, self.budget)
            if decision.verdict is Verdict.REFUTED:
                return decision
            ordered = ordered and decision.verdict is Verdict.VERIFIED
        if not ordered:
            return whole
        engines = (*whole.engines, "happens-before")
        return MutantDecision(Verdict.VERIFIED, engines, whole.scope, ordered=_in_words(program))

    def _whole(self, program: ir.SyncProgram, account: _Account) -> MutantDecision:
        """All sizes, or as many as a bound allows."""
        if all(parameter.value is not None for parameter in program.parameters):
            return _explore(program, {}, account.left())
        if self._any_number is not False:
            decision = _every_number(program, account.left(2))
            if decision is not None:
                account.spend(decision)
                if decision.verdict is not Verdict.UNDECIDED:
                    self._any_number = True
                    return decision
            if self._any_number is None:
                self._any_number = False
        return self._all_sizes(program, account)

    def _all_sizes(self, program: ir.SyncProgram, account: _Account) -> MutantDecision:
        """All sizes up to a bound, the fewest first; the bound is in the scope."""
        engines: tuple[str, ...] = ()
        sets = list(_size_sets(program))
        for sizes in sets:
            decision = account.spend(_explore(program, sizes, account.left()))
            if decision.verdict is not Verdict.VERIFIED:
                return decision
            engines = decision.engines
        names = ", ".join(p.name for p in program.parameters if p.value is None)
        last = max(value for sizes in sets for value in sizes.values() if isinstance(value, int))
        return MutantDecision(Verdict.VERIFIED, engines, f"{names} up to {last} (a bound)")


def decide(program: ir.SyncProgram, budget: MutationBudget = DEFAULT_BUDGET) -> MutantDecision:
    """The verdict on one program."""
    return Decider(budget)(program)


def depth_of(program: ir.SyncProgram) -> int:
    """The most stages of any array."""
    stages = [barrier.stages for barrier in program.barriers]
    stages += [buffer.stages for buffer in program.buffers]
    return max(stages, default=1)


def typical_sizes(program: ir.SyncProgram) -> Values:
    """Two rounds of the deepest array, or what the program asks for."""
    size = min(2 * depth_of(program) + 1, 12)
    return {p.name: max(size, p.minimum) for p in program.parameters if p.value is None}


def _some_sizes(program: ir.SyncProgram) -> list[Values]:
    names = [p for p in program.parameters if p.value is None]
    depth = depth_of(program)
    wanted = (0, 1, depth, depth + 1, 3 * depth + 2) if names else (0,)
    unique: list[Values] = []
    for size in wanted:
        values: Values = {p.name: max(size, p.minimum) for p in names}
        if values not in unique:
            unique.append(values)
    return unique


def _in_words(program: ir.SyncProgram) -> str:
    """The values of `_some_sizes`: `tiles = 0, 1, 4`; nothing where no size is open."""
    sets = _some_sizes(program)
    return "; ".join(f"{n} = {', '.join(str(values[n]) for values in sets)}" for n in sets[0])


def _explore(
    program: ir.SyncProgram, sizes: Values | None, budget: MutationBudget
) -> MutantDecision:
    """The explorer, or the reference search where the explorer was not built."""
    from titan.engines.explore import search
    from titan.engines.explore.tables import TooLargeError

    try:
        limits = Budget(budget.states, budget.seconds)
        result = search.explore(program, sizes, limits)
    except search.CoreMissingError:
        return _reference(program, sizes, budget)
    except (search.ExplorationError, TooLargeError) as error:
        return MutantDecision(Verdict.UNDECIDED, ("explorer",), str(error))
    if result.trace is not None:
        fault = result.trace.fault
        return MutantDecision(result.verdict, ("explorer",), "", fault.kind.value, fault.message)
    spent = f"not decided: {result.remark}" if result.remark else ""
    scope = spent or result.scope
    return MutantDecision(result.verdict, ("explorer",), scope, states=result.states)


def _reference(
    program: ir.SyncProgram, sizes: Values | None, budget: MutationBudget
) -> MutantDecision:
    if sizes is None:
        raise ValueError("the reference search needs sizes")
    result = explore_reference(program, sizes, Budget(min(budget.states, REFERENCE_STATES_MAX)))
    if result.trace is not None:
        fault = result.trace.fault
        return MutantDecision(result.verdict, ("reference",), "", fault.kind.value, fault.message)
    spent = "the budget of states is spent" if result.verdict is Verdict.UNDECIDED else ""
    return MutantDecision(result.verdict, ("reference",), spent)


def _every_number(program: ir.SyncProgram, budget: MutationBudget) -> MutantDecision | None:
    """The verdict for every size; None where the explorer has no such search for the program."""
    try:
        from titan.engines.explore.quotient import NotApplicableError
        from titan.engines.explore.search import CoreMissingError, core

        core()
    except (ImportError, CoreMissingError):
        return None
    try:
        return _explore(program, None, budget)
    except NotApplicableError:
        return None


def _size_sets(program: ir.SyncProgram) -> Iterator[Values]:
    names = [p for p in program.parameters if p.value is None]
    last = 3 * depth_of(program) + 2
    while last > 1 and (last + 1) ** len(names) > SIZE_SETS_MAX:
        last -= 1
    ranges = [range(p.minimum, max(last, p.minimum) + 1) for p in names]
    for chosen in sorted(product(*ranges), key=sum):
        yield {p.name: value for p, value in zip(names, chosen, strict=True)}


def _order(program: ir.SyncProgram, sizes: Values, budget: MutationBudget) -> MutantDecision:
    from titan.engines.happens_before import engine

    result = engine.analyse(program, sizes)
    if result.verdict is Verdict.REFUTED and result.fault is not None:
        fault = result.fault
        name = ("happens-before",)
        return MutantDecision(Verdict.REFUTED, name, "", fault.kind.value, fault.message)
    verified = result.verdict is Verdict.VERIFIED
    outcome = Verdict.VERIFIED if verified else Verdict.UNDECIDED
    return MutantDecision(outcome, ("happens-before",), result.remark)
