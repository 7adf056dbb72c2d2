"""From coarse cycles back to real ones: the order of a schedule, kept, at the least interval.

The normalised schedule decides which operation follows which on every unit and in every warp group,
and in which iteration. Kept as dependences of the real loop, this leaves a system of differences:
its least interval is a maximum cycle ratio, its least solution the earliest issue cycles. Where the
interval equals a bound of the real loop, the optimum of the real loop is proved, whatever the
normalisation distorted.
"""

from __future__ import annotations

from titan.scheduling.check import check
from titan.scheduling.compaction import push_together
from titan.scheduling.loop.model import Loop
from titan.scheduling.loop.recurrence import Arc, components, positive_cycle
from titan.scheduling.model import Schedule
from titan.scheduling.problem import Problem, compile_problem


def refine(loop: Loop, coarse_loop: Loop, coarse: Schedule, lower: int) -> Schedule | None:
    """A schedule of `loop` in the order of `coarse`, or None when that order cannot be kept."""
    problem = compile_problem(loop, coarse.teams)
    arcs = [*problem.arcs, *ring_arcs(loop), *order_arcs(loop, problem, coarse_loop, coarse)]
    for _ in range(1000):
        cycle = worst_cycle(problem.n, arcs, lower)
        if cycle is None:
            break
        delay = sum(arcs[a][2] for a in cycle)
        distance = sum(arcs[a][3] for a in cycle)
        if distance <= 0:
            return None
        lower = -(-delay // distance)
    else:
        return None
    starts = earliest(problem.n, arcs, lower)
    if starts is None:
        return None
    candidates = [starts, push_together(problem, lower, starts)]
    for candidate in candidates:
        schedule = Schedule(lower, tuple(candidate), coarse.teams)
        if not check(loop, schedule):
            return schedule
    return None


def stretched(loop: Loop, coarse_loop: Loop, coarse: Schedule) -> Schedule | None:
    """The coarse schedule with all its cycles multiplied, so that every real cost fits its place.

    Nothing changes its order and every lifetime grows alike, so that limits of registers and
    memories are kept, which the order alone does not ensure. None where a positive cost is 0 there.
    """
    pairs: list[tuple[int, int]] = []
    for real, rough in zip(loop.operations, coarse_loop.operations, strict=True):
        pairs += [(real.spill_cycles, rough.spill_cycles)]
        pairs += [(real.issue_window, rough.issue_window), (real.cycles, rough.cycles)]
        for a, b in zip(real.uses, rough.uses, strict=True):
            pairs += [(a.end_cycle, b.end_cycle), (a.cycles, b.cycles)]
    for e, f in zip(loop.dependences, coarse_loop.dependences, strict=True):
        pairs += [(e.delay_cycles, f.delay_cycles), (e.hold_cycles, f.hold_cycles)]
    if any(a > 0 and b <= 0 for a, b in pairs):
        return None
    factor = max((-(-a // b) for a, b in pairs if b > 0), default=1)
    starts = tuple(factor * start for start in coarse.starts)
    schedule = Schedule(factor * coarse.ii, starts, coarse.teams)
    return None if check(loop, schedule, faults_max=1) else schedule


def worst_cycle(n: int, arcs: list[Arc], ii: int) -> list[int] | None:
    """A cycle that this interval does not satisfy."""
    for component in components(n, arcs):
        cycle = positive_cycle(n, [(arcs[a], a) for a in component], ii)
        if cycle is not None:
            return cycle
    return None


def earliest(n: int, arcs: list[Arc], ii: int) -> list[int] | None:
    """The earliest issue cycles at an interval; None where a cycle is longer than it."""
    starts = [0] * n
    for _ in range(n + 1):
        changed = False
        for u, v, delay, distance in arcs:
            weight = starts[u] + delay - ii * distance
            if weight > starts[v]:
                starts[v] = weight
                changed = True
        if not changed:
            return starts
    return None


def ring_arcs(loop: Loop) -> list[Arc]:
    """A value of a ring ends before its slot is written again."""
    found = []
    for e in loop.dependences:
        slots = loop.operations[e.source].slots
        if slots is not None and e.kind == "data":
            found.append((e.sink, e.source, e.hold_cycles, slots - e.distance))
    return found


def order_arcs(loop: Loop, problem: Problem, coarse_loop: Loop, coarse: Schedule) -> list[Arc]:
    """What the coarse schedule decides on every unit of capacity one, and for who waits."""
    n, ii, at = problem.n, coarse.ii, coarse.starts
    found: list[Arc] = []
    for u in range(n):
        for v in range(n):
            if u == v:
                continue
            pairs = zip(loop.operations[u].uses, coarse_loop.operations[u].uses, strict=True)
            for real, rough in pairs:
                if loop.units[real.unit].capacity != 1:
                    continue
                others = zip(loop.operations[v].uses, coarse_loop.operations[v].uses, strict=True)
                for real_v, rough_v in others:
                    if real_v.unit != real.unit:
                        continue
                    gap = at[u] + rough.end_cycle - at[v] - rough_v.first_cycle
                    delay = real.end_cycle - real_v.first_cycle
                    found.append((u, v, delay, -(-gap // ii)))
            if problem.teams[u] >= 0 and problem.teams[u] == problem.teams[v] and problem.waits[v]:
                window = coarse_loop.operations[u].issue_window
                turns = -(-(at[u] + window - at[v]) // ii)
                found.append((u, v, problem.windows[u], turns))
                found.append((v, u, 1, 1 - turns))
    return found
