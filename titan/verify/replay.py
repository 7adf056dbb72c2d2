"""Replays a trace on the reference interpreter, step by step, and says whether the fault is real.

No counterexample of any engine is shown before it was replayed here.
"""

from __future__ import annotations

from titan.foundation.errors import InternalError
from titan.foundation.records import dataclass
from titan.sync.fault import Fault, FaultKind, Step, Trace
from titan.sync.interpreter import Interpreter, State
from titan.sync.program import SyncProgram


class ReplayError(InternalError):
    """Not a trace of this program: a step is impossible, or it ends without a fault."""


@dataclass(frozen=True, slots=True)
class Played:
    """One executed step: the state before it, and after it unless it ends in the fault."""

    step: Step
    before: State
    after: State | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A trace executed again: its steps, the `last` state and the `fault` that it ends in."""

    machine: Interpreter
    steps: tuple[Played, ...]
    last: State
    fault: Fault


def replay(program: SyncProgram, trace: Trace) -> Replay:
    """Execute all steps. Raises ReplayError where the trace does not lead to its fault.

    Weak synchronisation is not a fault of an interleaving: the trace leads to the later access,
    and a reader of the file asks the happens-before engine again.
    """
    try:
        machine = Interpreter(program, dict(trace.parameters))
        state = machine.initial()
    except (ValueError, KeyError, ArithmeticError) as error:
        raise ReplayError(f"the program cannot start: {error}") from None
    played: list[Played] = []
    fault: Fault | None = None
    for number, step in enumerate(trace.steps, start=1):
        early = machine.state_fault(state)
        if early is not None:
            raise ReplayError(f"the fault occurs before step {number}")
        if not machine.possible(state, step):
            raise ReplayError(f"step {number} is not possible")
        after, fault = machine.apply(state, step)
        played.append(Played(step, state, after))
        if after is None:
            if number != len(trace.steps):
                raise ReplayError(f"the fault already occurs at step {number}")
            break
        state = after
    if fault is None:
        fault = machine.state_fault(state)
    if fault is None and trace.fault.kind is FaultKind.WEAK_SYNCHRONISATION:
        fault = trace.fault  # decided on the order of this run: no machine that interleaves sees it
    if fault is None:
        raise ReplayError("no fault is reached")
    if fault.kind != trace.fault.kind:
        raise ReplayError(f"the fault is {fault.kind}, not {trace.fault.kind}")
    return Replay(machine, tuple(played), state, fault)
