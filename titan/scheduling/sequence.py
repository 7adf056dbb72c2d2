"""The last resort: one operation after the other, then the least interval of that order.

Where a search runs out of time an interval at which nothing overlaps is still known, and keeping
its order (`refine.py`) gives a smaller one at once. Registers and memories fit where one iteration
alone fits.
"""

from __future__ import annotations

from titan.scheduling.check import check
from titan.scheduling.loop.model import DATA, Loop
from titan.scheduling.model import Schedule
from titan.scheduling.refine import refine


def in_sequence(loop: Loop, teams: tuple[int, ...], lower: int) -> Schedule | None:
    """A schedule in a topological order, or None where one iteration alone passes a limit.

    By earliest cycles first; then, where more is alive at once than fits, in the order of the file,
    in which one sub-tile follows the other.
    """
    for order in (topological(loop), topological(loop, by_cycle=False)):
        apart = _in_order(loop, order, teams)
        if not check(loop, apart, faults_max=1):
            return refine(loop, loop, apart, lower) or apart
    return None


def _in_order(loop: Loop, order: list[int], teams: tuple[int, ...]) -> Schedule:
    """One operation after the other, an iteration begun when the one before is over."""
    starts, now = [0] * len(order), 0
    into = [[e for e in loop.dependences if e.sink == v and e.distance == 0] for v in order]
    for v, dependences in zip(order, into, strict=True):
        for e in dependences:
            crosses = e.kind == DATA and teams[e.source] != teams[e.sink]
            spill = loop.operations[e.source].spill_cycles if crosses else 0
            now = max(now, starts[e.source] + e.delay_cycles + spill)
        starts[v] = now
        now += loop.operations[v].cycles
    carried = max((e.delay_cycles + e.hold_cycles for e in loop.dependences), default=0)
    spills = max((op.spill_cycles for op in loop.operations), default=0)
    return Schedule(now + carried + spills + 1, tuple(starts), teams)


def topological(loop: Loop, by_cycle: bool = True) -> list[int]:
    """Operations by earliest cycle, in the order of the file where that is equal; or by that
    order alone."""
    n = len(loop.operations)
    waiting, earliest = [0] * n, [0] * n
    for e in loop.dependences:
        if e.distance == 0:
            waiting[e.sink] += 1
    delays = [[e for e in loop.dependences if e.source == v and e.distance == 0] for v in range(n)]
    ready = sorted(v for v in range(n) if not waiting[v])
    found: list[int] = []
    while ready:
        u = min(ready, key=lambda v: (earliest[v] if by_cycle else 0, v))
        ready.remove(u)
        found.append(u)
        for e in delays[u]:
            earliest[e.sink] = max(earliest[e.sink], earliest[u] + e.delay_cycles)
            waiting[e.sink] -= 1
            if not waiting[e.sink]:
                ready.append(e.sink)
    return found
