"""Swing placement: every operation next to placed neighbours, to keep values short.

The register-aware arm. The operation with the least slack comes first; then always one that touches
what is placed. With producers placed it goes as early as it can, with consumers placed as late as
it can, and between both to the legal seat that adds the fewest register-cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from titan.scheduling.arms import ArmPlacement
from titan.scheduling.loop.model import DATA, Loop
from titan.scheduling.native import Placer
from titan.scheduling.problem import Problem


def depths(problem: Problem, ii: int) -> list[int] | None:
    """Longest path to each operation: heights of the reversed graph."""
    arcs = [(v, u, delay, distance) for u, v, delay, distance in problem.arcs]
    reverse = Problem(
        problem.n,
        arcs,
        problem.blocks,
        problem.units,
        problem.capacity,
        problem.teams,
        problem.windows,
        problem.waits,
        problem.fractional,
        problem.cycles,
    )
    return Placer(reverse).heights(ii)


def pressure(loop: Loop) -> Callable[[int, int, list[int]], int] | None:
    """Register-cycles that a seat adds, seen from the neighbours placed so far."""
    if not any(op.registers for op in loop.operations):
        return None
    edges: list[list[tuple[int, int]]] = [[] for _ in loop.operations]
    for e in loop.dependences:
        if e.kind == DATA and e.source != e.sink:
            edges[e.source].append((e.source, e.sink))
            edges[e.sink].append((e.source, e.sink))

    def added(v: int, t: int, starts: list[int]) -> int:
        total = 0
        for source, sink in edges[v]:
            if sink == v and starts[source] >= 0:
                total += max(0, t - starts[source]) * loop.operations[source].registers
            elif source == v and starts[sink] >= 0:
                total += max(0, starts[sink] - t) * loop.operations[v].registers
        return total

    return added


def swing(
    problem: Problem, ii: int, heights: list[int], loop: Loop
) -> tuple[list[int] | None, int]:
    """Issue cycles, or None when some operation finds no seat; and the seats examined."""
    depth = depths(problem, ii)
    if depth is None:
        return None, problem.n
    path = max((h + d for h, d in zip(heights, depth, strict=True)), default=0)
    slack = [path - h - d for h, d in zip(heights, depth, strict=True)]
    offset = (path // ii + 2) * ii
    state = ArmPlacement(problem, ii, heights)
    added = pressure(loop)
    touched: set[int] = set()
    waiting = set(range(problem.n))
    while waiting:
        v = min(waiting, key=lambda x: (x not in touched, slack[x], -heights[x], x))
        t = _seat(state, v, offset + depth[v], added)
        if t is None:
            return None, state.looked
        state.seat(v, t)
        waiting.discard(v)
        touched.update(u for u, _ in state.into[v])
        touched.update(w for w, _ in state.out[v])
    low = min(state.starts, default=0)
    return [s - low for s in state.starts], state.looked


def _seat(
    state: ArmPlacement,
    v: int,
    wish: int,
    added: Callable[[int, int, list[int]], int] | None,
) -> int | None:
    before = any(state.starts[u] >= 0 for u, _ in state.into[v])
    low, high = state.window(v)
    candidates: Iterable[int]
    if high is None and not before:
        candidates = range(wish, wish + state.ii)
    elif high is None:
        candidates = range(low, low + state.ii)
    elif not before:
        candidates = range(high, max(-1, high - state.ii), -1)
    else:
        return _cheapest(state, v, range(low, min(high, low + state.ii - 1) + 1), added)
    return next((t for t in candidates if state.table.probe(v, t) is None), None)


def _cheapest(
    state: ArmPlacement,
    v: int,
    seats: range,
    added: Callable[[int, int, list[int]], int] | None,
) -> int | None:
    legal, t = [], seats.start
    while t < seats.stop:
        found = state.table.probe(v, t)
        if found is None:
            legal.append(t)
        t += 1 if found is None else found.skip
    if not legal:
        return None
    if added is None:
        return legal[0]
    return min(legal, key=lambda t: (added(v, t, state.starts), t))
