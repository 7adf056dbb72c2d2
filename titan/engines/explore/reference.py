"""Breadth-first search with the reference interpreter: every interleaving, no reduction.

Decides a program with concrete sizes, slowly. It is the oracle of the fast explorer; it shares the
interpreter (the definition) and nothing else with it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from titan.sync.fault import Fault, Step, Trace
from titan.sync.interpreter import Machine, Sizes, State
from titan.sync.program import SyncProgram


class Outcome(StrEnum):
    VERIFIED = "verified"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class SearchResult:
    outcome: Outcome
    states: int
    trace: Trace | None = None


def explore_reference(
    program: SyncProgram, sizes: Sizes | None = None, states_max: int = 200_000
) -> SearchResult:
    """Search all interleavings; REFUTED carries a shortest trace, UNDECIDED a spent budget."""
    machine = Machine(program, sizes)
    first = machine.initial()
    parents: dict[State, tuple[State, Step] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        fault = machine.state_fault(state)
        if fault is not None:
            return _refuted(machine, parents, state, None, fault)
        for step in machine.steps(state):
            successor, fault = machine.apply(state, step)
            if fault is not None:
                return _refuted(machine, parents, state, step, fault)
            assert successor is not None
            if successor not in parents:
                parents[successor] = (state, step)
                waiting.append(successor)
        if len(parents) > states_max:
            return SearchResult(Outcome.UNDECIDED, len(parents))
    return SearchResult(Outcome.VERIFIED, len(parents))


def _refuted(
    machine: Machine,
    parents: dict[State, tuple[State, Step] | None],
    state: State,
    last: Step | None,
    fault: Fault,
) -> SearchResult:
    steps = [] if last is None else [last]
    while (entry := parents[state]) is not None:
        state, step = entry
        steps.append(step)
    trace = Trace(tuple(machine.sizes.items()), tuple(reversed(steps)), fault)
    return SearchResult(Outcome.REFUTED, len(parents), trace)
