"""Breadth-first search with the reference interpreter: every interleaving, no reduction.

Decides a program with concrete sizes, slowly. It is the oracle of the fast explorer; it shares the
interpreter (the definition) and nothing else with it.
"""

from __future__ import annotations

from collections import deque

from titan.engines.result import Budget, EngineResult
from titan.foundation.verdict import Reason, Verdict
from titan.sync.fault import Fault, Step, Trace
from titan.sync.interpreter import Interpreter, Sizes, State
from titan.sync.program import SyncProgram

STATES_MAX = 200_000


def explore_reference(
    program: SyncProgram, sizes: Sizes | None = None, budget: Budget | None = None
) -> EngineResult:
    """Search all interleavings; REFUTED carries a shortest trace, UNDECIDED a spent budget.

    Without a budget it stops at `STATES_MAX` states. Raises ValueError when a parameter has no
    size, LocalLoopError and ZeroDivisionError from the interpreter.
    """
    states_max = STATES_MAX if budget is None else budget.states_max
    machine = Interpreter(program, sizes)
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
            remark = "its state budget ran out"
            return EngineResult(Verdict.UNDECIDED, len(parents), None, Reason.STATES, remark)
    return EngineResult(Verdict.VERIFIED, len(parents))


def _refuted(
    machine: Interpreter,
    parents: dict[State, tuple[State, Step] | None],
    state: State,
    last: Step | None,
    fault: Fault,
) -> EngineResult:
    steps = [] if last is None else [last]
    while (entry := parents[state]) is not None:
        state, step = entry
        steps.append(step)
    trace = Trace(tuple(machine.sizes.items()), tuple(reversed(steps)), fault)
    return EngineResult(Verdict.REFUTED, len(parents), trace)
