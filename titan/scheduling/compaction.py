"""Shortens lifetimes at the same interval: operations move later, up to their consumers.

Untrusted: the caller checks the result. Needs a valid placement.
"""

from __future__ import annotations

from titan.scheduling.arms import ArmPlacement
from titan.scheduling.problem import Problem
from titan.scheduling.work import SEAT, SearchWork


def push_together(
    problem: Problem, ii: int, starts: list[int], work: SearchWork | None = None
) -> list[int]:
    """Move operations later, last first, up to their consumers: producers' values live shorter."""
    state = ArmPlacement(problem, ii, [0] * problem.n)
    for v, t in enumerate(starts):
        state.seat(v, t)
    for v in sorted(range(problem.n), key=lambda x: (-starts[x], x)):
        _, high = state.window(v)
        if high is None or high <= state.starts[v]:
            continue
        old = state.starts[v]
        state.unseat([v])
        for t in range(high, max(old, high - ii), -1):
            if state.table.probe(v, t) is None:
                break
        else:
            t = old
        state.seat(v, t)
    if work is not None:
        work.spend(SEAT * state.looked)
    low = min(state.starts, default=0)
    return [s - low for s in state.starts]
