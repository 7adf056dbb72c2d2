"""The engines that decide sync programs, each behind one function from a program to a verdict.

An engine whose module is not part of this checkout is left out, and `test_engines_are_whole` says
so; a module that is there but cannot be imported is an error, never a silent skip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Reason, Verdict
from titan.sync.fault import Fault, Trace
from titan.sync.interpreter import Interpreter
from titan.sync.program import SyncProgram

REFERENCE_STATES_MAX = 6_000
OTHER_STATES_MAX = 400_000


@dataclass(frozen=True, slots=True)
class Answer:
    """`outcome` None: the engine does not apply to the program."""

    verdict: Verdict | None
    trace: Trace | None = None
    reason: str = ""
    steps_to_fault: int = -1


def reference(program: SyncProgram) -> Answer:
    result = explore_reference(program, budget=Budget(states_max=REFERENCE_STATES_MAX))
    length = len(result.trace.steps) if result.trace else -1
    return Answer(result.verdict, result.trace, "", length)


def _explorer(symmetry: bool, partial_order: bool) -> Callable[[SyncProgram], Answer]:
    from titan.engines.explore.search import Reductions, explore
    from titan.engines.result import Budget

    reductions = Reductions(symmetry, partial_order)

    def run(program: SyncProgram) -> Answer:
        result = explore(program, None, Budget(OTHER_STATES_MAX, 30.0), reductions)
        length = len(result.trace.steps) if result.trace else -1
        # What an engine's arrival publishes is happens-before's to decide, on one run.
        elsewhere = result.verdict is Verdict.UNDECIDED and result.reason is Reason.PUBLICATION
        decided = None if elsewhere else result.verdict
        return Answer(decided, result.trace, result.remark, length)

    return run


def _happens_before(program: SyncProgram) -> Answer:
    from titan.engines.happens_before.engine import analyse

    result = analyse(program)
    decided = None if result.verdict is Verdict.UNDECIDED else result.verdict
    return Answer(decided, result.trace, result.remark)


def engines() -> dict[str, Callable[[SyncProgram], Answer]]:
    """All engines of this checkout but the reference search."""
    found: dict[str, Callable[[SyncProgram], Answer]] = {}
    if find_spec("titan.engines.explore.search") is not None:
        for symmetry in (True, False):
            for partial_order in (True, False):
                flags = [
                    name
                    for name, on in (("symmetry", symmetry), ("partial order", partial_order))
                    if on
                ]
                name = f"explorer with {' and '.join(flags) or 'no reductions'}"
                found[name] = _explorer(symmetry, partial_order)
    if find_spec("titan.engines.happens_before.engine") is not None:
        found["happens-before"] = _happens_before
    return found


def replayed(program: SyncProgram, trace: Trace) -> Fault | None:
    """The fault that the interpreter meets at the end of the trace; None if it meets none there.

    Raises AssertionError where a step of the trace is not possible.
    """
    machine = Interpreter(program)
    state = machine.initial()
    for number, step in enumerate(trace.steps):
        assert step in machine.steps(state), f"step {number}, {step}, is not possible"
        successor, fault = machine.apply(state, step)
        if fault is not None:
            assert number == len(trace.steps) - 1, f"{fault.kind} at step {number}, not at the end"
            return fault
        assert successor is not None
        state = successor
    return machine.state_fault(state)
