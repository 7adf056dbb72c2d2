"""Writes the certificate of a fence set: the explorer's counterexample without each fence.

Untrusted: what it finds is written by the checker's own steps.
"""

from __future__ import annotations

from titan.engines.explore.search import explore
from titan.engines.result import Budget
from titan.proof.check import sealed
from titan.proof.fence_check import fence_head, fence_line, fences_of, without_fence
from titan.sync.open_numbers import NotCoveredError
from titan.sync.program import SyncProgram

FENCE_STATES_MAX = 300_000


def write_fences(program: SyncProgram, states_max: int = FENCE_STATES_MAX) -> str:
    """The certificate of a program's fences. Raises NotCoveredError where one is not needed."""
    fences = fences_of(program)
    if not fences:
        raise NotCoveredError("the program has no fence")
    lines = []
    for number, fence in enumerate(fences):
        trace = explore(without_fence(program, number), budget=Budget(states_max=states_max)).trace
        if trace is None:
            raise NotCoveredError(f"nothing fails without fence {number} ({fence.kind.value})")
        sizes = {n: size if isinstance(size, int) else list(size) for n, size in trace.parameters}
        lines.append(fence_line(program, number, sizes, [step.text for step in trace.steps])[0])
    return sealed(fence_head(program) + "\n".join([*lines, ""]))
