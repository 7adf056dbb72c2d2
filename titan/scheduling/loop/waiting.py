"""The waiting bound: operations that wait between the long ones of their warp group.

An operation that waits starts while no other of its group is being issued. So the issue window of
another operation of the group lies between two starts of waiting operations that follow each
other: strictly after the one, and it ends before the other or with it. Take the waiting operations
of a group that share a unit of capacity 1: the starts of two that follow each other are apart at
least as long as the first takes the unit, and longer than the windows between them together, where
these cannot overlap because their operations share another unit of capacity 1. The distances add
up to the interval, so that the best way to deal the windows out over the gaps bounds it.

It holds for schedules of every length. Only operations that one group alone can run are counted.
Fewer windows than there are give a smaller bound, and a right one: the longest are dealt out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from titan.scheduling.loop.model import Loop, Operation

DEALS_MAX = 20_000  # ways of dealing windows out that are tried


@dataclass(frozen=True, slots=True)
class Waiting:
    """Interval at least `ii`: `waits` take one unit, `long` another, all on one group."""

    ii: int
    group: str
    unit: str
    waits: tuple[str, ...]
    long: tuple[str, ...]


def waiting_bound(loop: Loop) -> Waiting | None:
    """The largest such bound; None where nothing of this kind is there."""
    if not loop.groups:
        return None
    best: Waiting | None = None
    waits = {e.sink for e in loop.dependences if e.blocking}
    for group, members in sorted(_only_here(loop).items()):
        for unit, waiting in _by_unit(loop, [v for v in members if v in waits]):
            rest = [v for v in members if v not in waits]
            for _, long in _by_unit(loop, [v for v in rest if _is_issued_on(loop, v)]):
                found = _of(loop, loop.groups[group].name, unit, waiting, long)
                if best is None or found.ii > best.ii:
                    best = found
    return best


def _only_here(loop: Loop) -> dict[int, list[int]]:
    """Operations by the one group that can run them."""
    producer = next((i for i, team in enumerate(loop.groups) if team.variable_latency), None)
    found: dict[int, list[int]] = {}
    for v, operation in enumerate(loop.operations):
        groups = [
            i
            for i, group in enumerate(loop.groups)
            if group.warps >= operation.warps
            and (producer is None or operation.variable_latency == (i == producer))
        ]
        if len(groups) == 1:
            found.setdefault(groups[0], []).append(v)
    return found


def _alone(loop: Loop, operation: Operation) -> tuple[str, int] | None:
    """The unit of capacity 1 that an operation takes from its issue on, and for how long."""
    for use in operation.uses:
        if use.first_cycle == 0 and use.amount == 1 and loop.units[use.unit].capacity == 1:
            return use.unit, use.cycles
    return None


def _is_issued_on(loop: Loop, v: int) -> bool:
    """Whether an operation takes such a unit for as long as its warps issue it."""
    found = _alone(loop, loop.operations[v])
    return found is not None and loop.operations[v].issue_window <= found[1]


def _by_unit(loop: Loop, members: list[int]) -> Iterator[tuple[str, list[int]]]:
    by_unit: dict[str, list[int]] = {}
    for v in members:
        found = _alone(loop, loop.operations[v])
        if found is not None:
            by_unit.setdefault(found[0], []).append(v)
    yield from sorted(by_unit.items())


def _of(loop: Loop, group: str, unit: str, waits: list[int], long: list[int]) -> Waiting:
    apart = []
    for v in waits:
        found = _alone(loop, loop.operations[v])
        assert found is not None
        apart.append(found[1])
    windows = sorted(((loop.operations[v].issue_window, v) for v in long), reverse=True)
    dealt = [v for _, v in windows]
    while dealt and len(apart) ** len(dealt) > DEALS_MAX:
        dealt.pop()
    ii = _dealt([loop.operations[v].issue_window for v in dealt], apart, [0] * len(apart))
    names = tuple(loop.operations[v].name for v in waits)
    return Waiting(ii, group, unit, names, tuple(loop.operations[v].name for v in sorted(dealt)))


def _dealt(windows: list[int], apart: list[int], load: list[int]) -> int:
    """The least sum of the gaps, over all ways to deal the windows out."""
    if not windows:
        return sum(max(a, held + 1 if held else 0) for a, held in zip(apart, load, strict=True))
    best, tried = None, set()
    for gap, key in enumerate(zip(apart, load, strict=True)):
        if key in tried:
            continue  # a gap like one before
        tried.add(key)
        load[gap] += windows[0]
        found = _dealt(windows[1:], apart, load)
        load[gap] -= windows[0]
        best = found if best is None or found < best else best
    assert best is not None
    return best
