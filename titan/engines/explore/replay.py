"""Replay: every trace of the explorer is executed again by the reference interpreter.

The explorer is untrusted. A trace counts only when `Interpreter` accepts each of its steps and
reports the fault; what the user sees is the fault as the interpreter found it.
"""

from __future__ import annotations

from titan.foundation.errors import InternalError
from titan.sync.fault import Fault, FaultKind, Step, Trace
from titan.sync.interpreter import Interpreter, Sizes
from titan.sync.program import SyncProgram


class NativeReplayError(InternalError):
    """A trace that the interpreter does not confirm: an internal error."""


def replay(program: SyncProgram, sizes: Sizes, steps: tuple[Step, ...], kind: FaultKind) -> Trace:
    """The confirmed trace. Raises NativeReplayError when a step is impossible or the fault
    another."""
    machine = Interpreter(program, sizes)
    state = machine.initial()
    fault: Fault | None = None
    for position, step in enumerate(steps):
        if step not in machine.steps(state):
            raise NativeReplayError(f"step {position} of the trace, {step}, is not possible")
        successor, fault = machine.apply(state, step)
        if fault is not None:
            if position != len(steps) - 1:
                raise NativeReplayError(f"{fault.kind} occurs at step {position}, before the end")
            break
        assert successor is not None
        state = successor
    if fault is None:
        fault = machine.state_fault(state)
    if fault is None or fault.kind != kind:
        found = "no fault" if fault is None else fault.kind.value
        raise NativeReplayError(f"the trace ends with {found} where {kind.value} was found")
    return Trace(tuple(machine.sizes.items()), steps, fault)
