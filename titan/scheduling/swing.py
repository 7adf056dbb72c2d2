"""Swing placement: every operation next to placed neighbours, to keep values short.

The register-aware arm. The operation with the least slack comes first; then always one that touches
what is placed. With producers placed it goes as early as it can, with consumers placed as late as
it can, and between both to the legal seat that adds the fewest register-cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from titan.scheduling.arms import ArmPlacement, Pressure
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


def pressure(loop: Loop) -> Pressure | None:
    """Register-cycles that a seat adds, seen from the neighbours placed so far: of an operation
    and the starts, a function of the seat."""
    if not any(op.registers for op in loop.operations):
        return None
    words = [op.registers for op in loop.operations]
    read: list[list[int]] = [[] for _ in words]
    used: list[list[int]] = [[] for _ in words]
    for e in loop.dependences:
        if e.kind == DATA and e.source != e.sink:
            used[e.source].append(e.sink)
            read[e.sink].append(e.source)

    def added(v: int, starts: list[int]) -> Callable[[int], int]:
        before = [(starts[u], words[u]) for u in read[v] if starts[u] >= 0 and words[u]]
        behind = [starts[w] for w in used[v] if starts[w] >= 0] if words[v] else []

        def at(t: int) -> int:
            total = 0
            for start, amount in before:
                if t > start:
                    total += (t - start) * amount
            for start in behind:
                if start > t:
                    total += (start - t) * words[v]
            return total

        return at

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
    added: Pressure | None,
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
    added: Pressure | None,
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
    at = added(v, state.starts)
    return min(legal, key=lambda t: (at(t), t))
