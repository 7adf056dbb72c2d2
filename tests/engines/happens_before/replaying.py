"""Step a trace through the reference interpreter."""

from __future__ import annotations

from titan.engines.happens_before.engine import OrderResult
from titan.sync.fault import Fault
from titan.sync.interpreter import Interpreter
from titan.sync.program import SyncProgram


def replayed(program: SyncProgram, result: OrderResult) -> Fault | None:
    """The fault that the interpreter meets at the end of the trace, and nowhere before."""
    assert result.trace is not None
    machine = Interpreter(program, dict(result.trace.parameters))
    state = machine.initial()
    steps = result.trace.steps
    for number, step in enumerate(steps):
        assert machine.state_fault(state) is None, f"fault before step {number}"
        assert step in machine.steps(state), f"step {number} is not possible"
        successor, fault = machine.apply(state, step)
        if fault is not None:
            assert number == len(steps) - 1, f"fault at step {number} of {len(steps)}"
            return fault
        assert successor is not None
        state = successor
    return machine.state_fault(state)


def assert_shown(program: SyncProgram, result: OrderResult) -> None:
    """The interpreter confirms the refutation: same kind, at the end of the trace."""
    assert result.fault is not None
    fault = replayed(program, result)
    assert fault is not None, result.fault
    assert fault.kind is result.fault.kind, (fault, result.fault)
