"""Explore all interleavings of a sync program with the native core.

Decides a program for given sizes, or for every size where the quotient applies (quotient.py).
Breadth first, whole states stored, no hashing of states into less than themselves. The reductions
keep every fault kind: native/store.c (agents that cannot be distinguished) and native/closure.c
(steps that no other step can interfere with) give the arguments. A refutation is returned only with
a trace that the reference interpreter has confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from titan.engines.explore.cases import cases_of
from titan.engines.explore.components import Component, components, whole_trace
from titan.engines.explore.flatten import flatten
from titan.engines.explore.known import number_events
from titan.engines.explore.layout import (
    LIMITS,
    RunStatus,
    SearchError,
    SearchNumber,
    StepActor,
)
from titan.engines.explore.nests import closing_forms, trace_of
from titan.engines.explore.quotient import NotApplicableError, apply_quotient
from titan.engines.explore.replay import replay
from titan.engines.explore.rows import counts_of, words_of
from titan.engines.explore.smaller import smaller_sizes
from titan.engines.explore.tables import Flat, TooLargeError
from titan.engines.result import Budget, EngineResult
from titan.foundation.errors import InternalError, Refusal
from titan.foundation.native_core import check_core
from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason, Verdict
from titan.sync.fault import Actor, FaultKind, Step, Trace
from titan.sync.interpreter import LocalLoopError, Sizes
from titan.sync.program import SyncProgram

SLICE_SECONDS = 0.1


class CoreMissingError(Refusal):
    """The native explorer was not built."""

    reason = Reason.MISSING_CORE


class ExplorationError(Refusal):
    """The program cannot be executed: DIVISION by zero, a number beyond 64 bits (OVERFLOW)."""


SHORTENING = Budget(states_max=200_000)
SMALLER = Budget(states_max=4_000)
FIRST_STATES_MAX = 2_000_000  # of a search for any number with partial order, before it is given up
CLOSURE_OPERATIONS = 3000  # of others, until partial order continues without their numbers


@dataclass(frozen=True, slots=True)
class Reductions:
    """Which reductions of the state space a search may use; all are on by default."""

    symmetry: bool = True
    partial_order: bool = True


@dataclass(frozen=True, slots=True)
class ExplorationResult(EngineResult):
    """`scope` says in words which sizes are covered; `seconds` is processor time."""

    transitions: int = 0
    seconds: float = 0.0
    bytes: int = 0
    scope: str = ""


_REMARKS = {
    Reason.TIME: "its time budget ran out",
    Reason.STATES: "its state budget ran out",
    Reason.MEMORY: "its memory budget ran out",
    Reason.IN_FLIGHT: (
        "more operations in flight at once than the explorer has room for "
        f"({LIMITS['FLIGHTS_MAX']} of one agent)"
    ),
    Reason.DRIFT: "agents drift too far apart in a loop whose inner trip count is open",
    Reason.LATE_SIZE: "the value of a size is needed before any loop has counted up to it",
    Reason.PUBLICATION: (
        "the explorer does not decide what engines and weak synchronisation make visible"
    ),
}
_DIFFERS = (
    "one number of iterations holds for all passes of the loop around, and the search that lets "
    "them differ finds a fault that only numbers that differ show"
)
_LIMITS = {
    SearchError.FLIGHTS: Reason.IN_FLIGHT,
    SearchError.WINDOW: Reason.DRIFT,
    SearchError.LEVEL: Reason.LATE_SIZE,
    SearchError.MEMORY: Reason.MEMORY,
    SearchError.RELAY: Reason.PUBLICATION,
}

Progress = Callable[[int, float], None]
ACTORS = {
    StepActor.AGENT: Actor.AGENT,
    StepActor.READS: Actor.READS,
    StepActor.FINISH: Actor.FINISH,
}


def explore(
    program: SyncProgram,
    sizes: Sizes | None = None,
    budget: Budget | None = None,
    reductions: Reductions | None = None,
    progress: Progress | None = None,
) -> ExplorationResult:
    """Search. `progress` is called with states and seconds several times a second.

    Without `reductions`, both are used, on each part of the program that has nothing to do with the
    others (components.py). Partial order can keep a search for any number from closing
    (two roles that drift apart are followed one after the other), so such a search gives up when
    half of the time is spent, and begins again with symmetry alone.

    Raises CoreMissingError, quotient.NotApplicableError (open sizes that have no quotient),
    LocalLoopError, ExplorationError, tables.TooLargeError, replay.ReplayError.
    """
    whole = budget or Budget()
    if reductions is not None:
        return _shortened(program, _search_batches(program, sizes, whole, reductions, progress))
    parts = components(program)
    if len(parts) == 1:
        return _shortened(program, _search_forms(program, sizes, whole, progress))
    return _search_parts(program, parts, sizes, whole, progress)


def _search_parts(
    program: SyncProgram,
    parts: list[Component],
    sizes: Sizes | None,
    budget: Budget,
    progress: Progress | None,
) -> ExplorationResult:
    """Search one component after the other, within one budget; a fault of any is one of all."""
    found: list[ExplorationResult] = []
    refused: Refusal | None = None
    for part in parts:
        try:
            result = _search_forms(part.program, sizes, _left(budget, found), progress)
        except (NotApplicableError, TooLargeError) as refusal:
            refused = refused or refusal
            continue
        if result.trace is not None:
            result = _shortened(part.program, result)
            assert result.trace is not None
            trace = whole_trace(program, part, result.trace)
            return _joined([*found, replace(result, trace=trace)])
        found.append(result)
    if refused is not None:
        raise refused
    return _joined(found)


def _search_cases(
    program: SyncProgram, sizes: Sizes | None, budget: Budget, progress: Progress | None
) -> ExplorationResult | None:
    """Search the cases of a size one after the other; None where there are none (cases.py)."""
    found: list[ExplorationResult] = []
    for case in cases_of(program, sizes or {}):
        result = _search_forms(case, sizes, _left(budget, found), progress)
        if result.trace is not None:
            result = replace(result, trace=trace_of(program, result.trace))
        found.append(result)
        if result.verdict is not Verdict.VERIFIED:
            break
    return _joined(found) if found else None


def _search_forms(
    program: SyncProgram, sizes: Sizes | None, budget: Budget, progress: Progress | None
) -> ExplorationResult:
    """Search the forms of nested loops that close (nests.py), and the program where none decides.

    Whatever they do not decide, the reason is that of the program itself.
    """
    apart = _search_cases(program, sizes, budget, progress)
    if apart is not None:
        return apart
    spent: list[ExplorationResult] = []
    for form in closing_forms(program, sizes or {}):
        left = _left(budget, spent)
        part = replace(left, states_max=min(left.states_max // 2, FIRST_STATES_MAX))
        try:
            result = _search_batches(form, sizes, part, None, progress)
        except (NotApplicableError, TooLargeError, ExplorationError):
            continue
        if result.verdict is Verdict.VERIFIED:
            return result
        trace = None if result.trace is None else trace_of(program, result.trace)
        if trace is not None:
            return replace(result, trace=trace)
        spent.append(result)
    result = _search_batches(program, sizes, _left(budget, spent), None, progress)
    if result.verdict is Verdict.UNDECIDED and spent:
        first = spent[0]  # what kept the first search from deciding, where that is known
        remark = first.remark or _DIFFERS
        result = replace(result, reason=first.reason or result.reason, remark=remark)
    return _with_spent(result, spent)


def _with_spent(result: ExplorationResult, before: list[ExplorationResult]) -> ExplorationResult:
    """The result with the states and seconds of searches that did not decide."""
    return replace(
        result,
        states=result.states + sum(item.states for item in before),
        seconds=result.seconds + sum(item.seconds for item in before),
    )


def _search_batches(
    program: SyncProgram,
    sizes: Sizes | None,
    budget: Budget,
    reductions: Reductions | None,
    progress: Progress | None,
) -> ExplorationResult:
    """One search for each batch of events that are followed (known.py); as a rule there is one."""
    found: list[ExplorationResult] = []
    flat = flatten(program, sizes)
    apply_quotient(flat)
    for batch in range(flat.event_batches):
        number_events(flat, batch)
        left = _left(budget, found)
        if reductions is None:
            found.append(_search_reduced(flat, left, progress))
        else:
            found.append(_search(flat, left, reductions, progress))
        if found[-1].verdict is not Verdict.VERIFIED:
            break
    return _joined(found)


def _left(budget: Budget, found: list[ExplorationResult]) -> Budget:
    """What several searches have left of a budget."""
    states = budget.states_max - sum(item.states for item in found)
    seconds = budget.seconds_max - sum(item.seconds for item in found)
    return replace(budget, states_max=max(states, 0), seconds_max=max(seconds, 0.0))


def _joined(found: list[ExplorationResult]) -> ExplorationResult:
    """One result of several, with the trace and the reason of the one that decides."""
    if len(found) == 1:
        return found[0]
    verdicts = (Verdict.REFUTED, Verdict.UNDECIDED, Verdict.VERIFIED)
    first = min(found, key=lambda item: verdicts.index(item.verdict))
    return replace(
        first,
        states=sum(item.states for item in found),
        transitions=sum(item.transitions for item in found),
        seconds=sum(item.seconds for item in found),
        bytes=max(item.bytes for item in found),
        scope="; ".join(dict.fromkeys(item.scope for item in found)),
    )


def _search_reduced(flat: Flat, budget: Budget, progress: Progress | None) -> ExplorationResult:
    """Search with both reductions; without partial order where it keeps the search open."""
    if not flat.classes or flat.mark_fields:
        return _search(flat, budget, Reductions(), progress)
    first = replace(
        budget,
        states_max=min(budget.states_max, FIRST_STATES_MAX),
        seconds_max=budget.seconds_max / 2,
    )
    result = _search(flat, first, Reductions(), progress)
    undecided = result.verdict is Verdict.UNDECIDED
    if undecided and result.reason is not Reason.PUBLICATION:
        left = max(budget.seconds_max - result.seconds, 0.0)
        plain = Reductions(partial_order=False)
        result = _search(flat, replace(budget, seconds_max=left), plain, progress)
    return result


def _search(
    flat: Flat,
    budget: Budget,
    reductions: Reductions,
    progress: Progress | None,
) -> ExplorationResult:
    run = _Run(flat, budget, reductions)
    try:
        return run.search(progress)
    finally:
        run.close()


def _shortened(program: SyncProgram, result: ExplorationResult) -> ExplorationResult:
    """The result with small sizes, and a shortest trace for them, where small searches find one.

    Reductions and open sizes change the order of a breadth-first search; a second search with all
    interleavings and the sizes of the trace does not depend on it.
    """
    if result.trace is None:
        return result
    kind = result.trace.fault.kind
    for sizes in smaller_sizes(program, dict(result.trace.parameters)):
        found = _for_sizes(program, sizes, SMALLER)
        if found.trace is not None and found.trace.fault.kind is kind:
            return replace(result, trace=found.trace)
    again = _for_sizes(program, dict(result.trace.parameters), SHORTENING)
    if again.trace is None or len(again.trace.steps) >= len(result.trace.steps):
        return result
    return replace(result, trace=again.trace, seconds=result.seconds + again.seconds)


def _for_sizes(program: SyncProgram, sizes: Sizes, budget: Budget) -> ExplorationResult:
    """All interleavings for the sizes, without partial order."""
    flat = flatten(program, sizes)
    apply_quotient(flat)
    return _search(flat, budget, Reductions(symmetry=True, partial_order=False), None)


def core() -> Any:
    """The native module. Raises CoreMissingError, StaleCoreError."""
    try:
        from titan.engines.explore import _core  # type: ignore[attr-defined]
    except ImportError:
        raise CoreMissingError(
            "the native explorer is not built: no C compiler was there when TITAN was installed"
        ) from None
    check_core(_core, Path(__file__).parent)
    return _core


class _Run:
    """One search in the core, and the memory that its tables live in."""

    def __init__(self, flat: Flat, budget: Budget, reductions: Reductions) -> None:
        self.flat, self.budget = flat, budget
        module = core()
        self.ffi, self.lib = module.ffi, module.lib
        self.keep: list[Any] = []
        self.tables = self._tables()
        self.search_handle = self.lib.titan_new(
            self.tables,
            int(reductions.symmetry),
            # What is independent of these marks is not worked out.
            int(reductions.partial_order and not flat.mark_fields),
            budget.states_max,
            budget.bytes_max,
        )
        if self.search_handle == self.ffi.NULL:
            raise MemoryError("no memory for the explorer")

    def close(self) -> None:
        self.lib.titan_free(self.search_handle)

    def _tables(self) -> Any:
        program = self.ffi.new("titan_program *")
        for name, count in counts_of(self.flat, CLOSURE_OPERATIONS).items():
            setattr(program, name, count)
        for name, words in words_of(self.flat).items():
            try:
                array = self.ffi.new("word[]", words or [0])
            except OverflowError:
                raise TooLargeError("a number beyond 64 bits") from None
            self.keep.append(array)
            setattr(program, name, array)
        return program

    # ------------------------------------------------------------------------------ search

    def search(self, progress: Progress | None) -> ExplorationResult:
        """Run in slices, so that an interrupt is felt and progress is reported."""
        begin = time.process_time()
        slice_states, status = 200, RunStatus.CONTINUES
        while status == RunStatus.CONTINUES:
            before = time.process_time()
            status = self.lib.titan_run(self.search_handle, slice_states)
            now = time.process_time()
            if now - before < SLICE_SECONDS:
                slice_states *= 2
            elif now - before > 4 * SLICE_SECONDS:
                slice_states = max(1, slice_states // 2)
            if progress is not None:
                progress(self.number(SearchNumber.STATES), now - begin)
            spent = now - begin
            if status == RunStatus.CONTINUES and spent > self.budget.seconds_max:
                return self._result(Verdict.UNDECIDED, begin, reason=Reason.TIME)
        return self._conclude(status, begin)

    def _conclude(self, status: int, begin: float) -> ExplorationResult:
        error = self.number(SearchNumber.ERROR)
        if status == RunStatus.DONE:
            return self._result(Verdict.VERIFIED, begin)
        if status == RunStatus.STATES:
            return self._result(Verdict.UNDECIDED, begin, reason=Reason.STATES)
        if status == RunStatus.BROKEN:
            if error in _LIMITS:
                return self._result(Verdict.UNDECIDED, begin, reason=_LIMITS[SearchError(error)])
            if error == SearchError.LOCAL_LOOP:
                raise LocalLoopError("control flow without an operation does not end")
            if error == SearchError.DIVISION:
                raise ExplorationError("division by zero", reason=Reason.DIVISION)
            if error == SearchError.NUMBER:
                raise ExplorationError("a number beyond 64 bits", reason=Reason.OVERFLOW)
            raise InternalError(f"internal error {error} of the explorer")
        return self._result(Verdict.REFUTED, begin, trace=self._trace())

    def number(self, which: SearchNumber) -> int:
        """One of the numbers that the core keeps of its search."""
        out = self.ffi.new("int64_t[]", SearchNumber.COUNT.value)
        self.lib.titan_numbers(self.search_handle, out)
        return int(out[which])

    def _result(
        self,
        verdict: Verdict,
        begin: float,
        trace: Trace | None = None,
        reason: Reason | None = None,
    ) -> ExplorationResult:
        return ExplorationResult(
            verdict,
            self.number(SearchNumber.STATES),
            trace,
            reason,
            "" if reason is None else _REMARKS[reason],
            transitions=self.number(SearchNumber.TRANSITIONS),
            seconds=time.process_time() - begin,
            bytes=self.number(SearchNumber.BYTES),
            scope=self.flat.scope,
        )

    def _trace(self) -> Trace:
        kind = FaultKind(f"TTN{self.number(SearchNumber.FAULT)}")
        steps = self.ffi.new("step_t[]", self.lib.titan_path_length(self.search_handle) + 1)
        sizes = self.ffi.new("word[]", 2 * len(self.flat.parameters) + 1)
        count = self.lib.titan_trace(self.search_handle, steps, sizes)
        if count < 0:
            raise InternalError("the path to a fault could not be followed")
        followed = tuple(
            Step(ACTORS[step.actor], step.agent, step.ordinal if step.actor else -1)
            for step in (steps[i] for i in range(count))
        )
        return replay(self.flat.source, self._sizes(sizes), followed, kind)

    def _sizes(self, sizes: Any) -> Sizes:
        """Sizes of the trace: as given, as decided on the path, or the least that is possible."""
        result: dict[str, int | tuple[int, ...]] = {}
        logged: dict[int, dict[int, int]] = {}
        entry = self.ffi.new("word[4]")
        for number in range(self.lib.titan_logged(self.search_handle)):
            self.lib.titan_log(self.search_handle, number, entry)
            logged.setdefault(entry[0], {})[entry[1]] = entry[2]
        for number, parameter in enumerate(self.flat.parameters):
            if parameter.name in self.flat.sizes:
                result[parameter.name] = self.flat.sizes[parameter.name]
            elif parameter.per is None:
                result[parameter.name] = max(sizes[2 * number], parameter.minimum)
            else:
                seen = logged.get(number, {})
                last = max(seen, default=0)
                result[parameter.name] = tuple(
                    seen.get(instance, parameter.minimum) for instance in range(last + 1)
                )
        return result
