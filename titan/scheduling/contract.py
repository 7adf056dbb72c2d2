"""Loops most of whose operations take no unit: only those that take one are searched for.

At one interval a dependence asks for a least distance between two issue cycles, so that paths of
dependences through operations without a unit can be replaced by their longest ones between the
operations that take units. Whoever has cycles for these has cycles for all: what lies between
fits, because no path is longer than the distance that was kept. The reduced loop is that of one
interval alone. It has no warp groups, pools or storage, where every operation counts.

The joint solver decides reduced loops; a schedule is extended to all operations and checked as any
other. Nothing is refuted here: a reduced loop without an answer leaves its interval open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from dataclasses import dataclass, replace

from titan.scheduling import cnf, joint
from titan.scheduling.check import check
from titan.scheduling.encode import Infeasible, shortest
from titan.scheduling.loop.model import Dependence, Loop
from titan.scheduling.model import Schedule
from titan.scheduling.work import SLOW, SearchWork

KEPT_MAX = 256  # operations that take units
PATHS_MAX = 8_000_000  # of those, times all dependences
ATTEMPTS = 8  # intervals that a budget is for
STAGES = 2  # beyond the shortest length of an iteration
Arc = tuple[int, int]  # another operation, and the least distance to it


@dataclass(frozen=True, slots=True)
class Reduced:
    """The operations that take units, at one interval; `kept`: their places in the whole loop."""

    loop: Loop
    kept: tuple[int, ...]


def applies(loop: Loop) -> bool:
    """Whether some operations can be left out, and the others are few."""
    kept = sum(bool(operation.uses) for operation in loop.operations)
    stored = any(o.registers or o.footprints or o.slots is not None for o in loop.operations)
    limited = loop.groups or loop.pools or stored
    few = 1 < kept <= KEPT_MAX and kept * len(loop.dependences) <= PATHS_MAX
    return bool(not limited and few and kept < len(loop.operations))


def improve(
    loop: Loop, best: Schedule, lower: int, seconds: float, whole: SearchWork
) -> Schedule | None:
    """A schedule of a smaller interval than the best one, by bisection down to the bound; None
    where none was found."""
    work = SearchWork(seconds, whole)
    found, low, high = None, lower, best.ii
    while low < high and work.left:
        middle = (low + high) // 2
        one = schedule_at(loop, middle, SearchWork(seconds / ATTEMPTS, work))
        if one is None:
            low = middle + 1
        else:
            found, high = one, middle
    return found


def schedule_at(loop: Loop, ii: int, work: SearchWork) -> Schedule | None:
    """A schedule of this interval that the checker accepts, or None."""
    reduced = reduce(loop, ii, work)
    if reduced is None:
        return None
    search = joint.Search(reduced.loop, joint.JointOptions(objective="ii"), work)
    search.engine = cnf.available()[0]
    try:
        horizon = shortest(reduced.loop, ii) + STAGES * ii
        found = joint.Attempt(search, ii, horizon).find(horizon)
    except (Infeasible, joint.BudgetSpent):
        return None
    if found is None:
        return None
    starts = extended(loop, ii, dict(zip(reduced.kept, found.starts, strict=True)))
    schedule = Schedule(ii, starts, (0,) * len(starts))
    return None if check(loop, schedule) else schedule


def reduce(loop: Loop, ii: int, work: SearchWork) -> Reduced | None:
    """The loop of the operations that take units; None where an interval has a positive cycle."""
    kept = [place for place, operation in enumerate(loop.operations) if operation.uses]
    number = {place: row for row, place in enumerate(kept)}
    out = _arcs(loop, ii)
    arcs: list[Dependence] = []
    for place in kept:
        paths = _longest(out, {place: 0}, work, number)
        if paths is None or paths[place] > 0:
            return None
        for other, distance in paths.items():
            if other in number and other != place:
                arcs.append(_dependence(number[place], number[other], distance, ii))
    operations = tuple(loop.operations[place] for place in kept)
    found = replace(loop, name=f"{loop.name}, reduced", operations=operations,
                    dependences=tuple(arcs))  # fmt: skip
    return Reduced(found, tuple(kept))


def extended(loop: Loop, ii: int, starts: dict[int, int]) -> tuple[int, ...]:
    """Cycles of all operations: what follows those with cycles is as early as they ask for, what
    leads to them as late as they allow, and so on; the first is at 0."""
    out = _arcs(loop, ii)
    back: list[list[Arc]] = [[] for _ in loop.operations]
    for place, arcs in enumerate(out):
        for other, distance in arcs:
            back[other].append((place, distance))
    unlimited, known, count = SearchWork(1e12), dict(starts), 0
    while len(known) < len(out):
        if len(known) == count:  # nothing joins the others to these
            known[next(place for place in range(len(out)) if place not in known)] = 0
        count = len(known)
        known = (_longest(out, known, unlimited) or {}) | known
        turned = {place: -cycle for place, cycle in known.items()}  # time runs the other way
        earlier = _longest(back, turned, unlimited) or {}
        known = {place: -cycle for place, cycle in earlier.items()} | known
    least = min(known.values())
    return tuple(known[place] - least for place in range(len(loop.operations)))


def _arcs(loop: Loop, ii: int) -> list[list[Arc]]:
    """For each operation what follows it, and after how many cycles at least."""
    out: list[list[Arc]] = [[] for _ in loop.operations]
    for e in loop.dependences:
        out[e.source].append((e.sink, e.delay_cycles - ii * e.distance))
    return out


def _longest(
    out: list[list[Arc]], begin: dict[int, int], work: SearchWork, ends: Container[int] = ()
) -> dict[int, int] | None:
    """The longest paths from operations whose cycles are given, to all that they lead to; None
    where a cycle of dependences is positive. Paths end at `ends`: what lies behind these follows
    from their own."""
    found, waiting, queued = dict(begin), deque(begin), set(begin)
    visits: dict[int, int] = {}
    while waiting:
        place = waiting.popleft()
        queued.discard(place)
        visits[place] = visits.get(place, 0) + 1
        if visits[place] > len(out) + 1:
            return None
        if place in ends and place not in begin:
            continue
        work.spend(SLOW // 4 * (1 + len(out[place])))
        for other, distance in out[place]:
            cycle = found[place] + distance
            if other not in found or cycle > found[other]:
                found[other] = cycle
                if other not in queued:
                    queued.add(other)
                    waiting.append(other)
    return found


def _dependence(source: int, sink: int, distance: int, ii: int) -> Dependence:
    """One that asks for so many cycles at this interval: a distance that is not positive is that of
    a later iteration, so that those within one iteration have no cycle."""
    later = 0 if distance > 0 else 1 - distance // ii
    return Dependence(source, sink, distance + later * ii, later)
