"""Placement arms of Rau scheduling at one candidate interval.

Groups of operations (recurrences, else single operations) are placed one after the other, each by
the first arm that manages:

* permute: by predecessor priority, every operation at its earliest legal seat;
* fuse: the group is merged with a compatible group placed before it, and both are placed again;
* retry: like permute, in the order of slack; what finds no seat is marked dead in an overlay and
  left out, and only when the rest is seated does it get the least costly of the seats left;
* cost: every legal seat is ranked, and the least costly one is taken.

If a group defeats all four, the overlay is cleared and retry and cost run once more; if that fails
too, the last arm places the whole loop again with eviction. Nothing is committed that was not
probed, canonical state changes only when an arm has placed its whole group, and every order is
total: priority, then position.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import accumulate, compress
from operator import add, sub
from typing import TypeVar

from titan.scheduling.loop.recurrence import components
from titan.scheduling.model import PlacementFailure
from titan.scheduling.problem import Problem
from titan.scheduling.table import ReservationTable, SeatConflict

ROWS_KEPT = 8  # different conflicts of one failure
# Of an operation and the starts: what each seat adds to the values alive.
Pressure = Callable[[int, list[int]], Callable[[int], int]]
Rows = TypeVar("Rows", bytes, list[int])
BITS = bytes.maketrans(b"01", bytes([0, 1]))
ARMS = ("permute", "fuse", "retry", "cost", "evict")


@dataclass(slots=True)
class Overlay:
    """What attempts have learnt without touching the schedule: operations marked dead."""

    dead: set[int] = field(default_factory=set)


@dataclass(slots=True)
class ArmPlacement:
    """Canonical state at one interval; `before` and `behind` are dependences of one iteration."""

    problem: Problem
    ii: int
    priority: list[int]
    pressure: Pressure | None = None
    parents: tuple[int | None, ...] = ()
    table: ReservationTable = field(init=False)
    starts: list[int] = field(init=False)
    into: list[list[tuple[int, int]]] = field(init=False)
    before: list[list[int]] = field(init=False)
    behind: list[list[int]] = field(init=False)
    out: list[list[tuple[int, int]]] = field(init=False)
    arms_used: dict[str, int] = field(default_factory=dict)
    failure: PlacementFailure | None = None
    listed: int = 0

    def __post_init__(self) -> None:
        n = self.problem.n
        self.table = ReservationTable(self.problem, self.ii)
        self.starts = [-1] * n
        self.into = [[] for _ in range(n)]
        self.out = [[] for _ in range(n)]
        self.before = [[] for _ in range(n)]
        self.behind = [[] for _ in range(n)]
        for u, v, delay, distance in self.problem.arcs:
            if u != v:
                self.into[v].append((u, delay - self.ii * distance))
                self.out[u].append((v, delay - self.ii * distance))
            if distance == 0:
                self.before[v].append(u)
                self.behind[u].append(v)

    @property
    def looked(self) -> int:
        """Seats that were examined, one by one or in a list."""
        return self.table.probes + self.listed

    def window(self, v: int) -> tuple[int, int | None]:
        """Earliest and latest cycle that the placed neighbours of v permit."""
        low = max((self.starts[u] + w for u, w in self.into[v] if self.starts[u] >= 0), default=0)
        ends = [self.starts[x] - w for x, w in self.out[v] if self.starts[x] >= 0]
        return max(0, low), min(ends) if ends else None

    def seats(self, v: int) -> range:
        """The cycles to try: from the earliest permitted, at most one interval of them."""
        low, high = self.window(v)
        last = low + self.ii - 1
        return range(low, (min(last, high) if high is not None else last) + 1)

    def earliest(self, v: int) -> int | None:
        """The first legal seat; None records why there is none."""
        seats = self.seats(v)
        t = seats.start
        met: list[SeatConflict] = []
        while t < seats.stop:
            found = self.table.probe(v, t)
            if found is None:
                return t
            met.append(found)
            t += found.skip
        self.record(v, seats, met)
        return None

    def record(self, v: int, seats: range, met: list[SeatConflict]) -> None:
        """Keep why v has no seat: `met` are the conflicts in the order of the cycles tried."""
        problem = self.problem
        rows = dict.fromkeys((c.what, c.row, c.held, c.limit) for c in reversed(met))
        if not met:  # no cycle is permitted: the rows that the first one would take
            rows = dict.fromkeys(self._rows_at(v, seats.start))
        self.failure = PlacementFailure(
            self.ii,
            v,
            problem.cycles[v],
            tuple((problem.units[u], f, c, a) for u, f, c, a in problem.blocks[v]),
            tuple(rows)[:ROWS_KEPT],
            self.window(v),
            met[-1].what if met else None,
            (v,),
            sum(1 for s in self.starts if s >= 0),
            seats.start // self.ii,
        )

    def _rows_at(self, v: int, start: int) -> list[tuple[str, int, int, int]]:
        """What the rows hold that v would take at `start`."""
        problem, ii = self.problem, self.ii
        return [
            (problem.units[unit], row, self.table.rows[unit][row], problem.capacity[unit])
            for unit, first, cycles, _ in problem.blocks[v]
            for row in ((start + first + k) % ii for k in range(min(cycles, ii, ROWS_KEPT)))
        ]

    def seat(self, v: int, t: int) -> None:
        """Issue v at cycle t, which must be free."""
        self.table.commit(v, t)
        self.starts[v] = t

    def unseat(self, members: list[int]) -> None:
        """Take operations out of the schedule; those that are not in it stay out."""
        for v in members:
            if self.starts[v] >= 0:
                self.table.remove(v, self.starts[v])
                self.starts[v] = -1

    def place_in_order(
        self, order: list[int], choose: Callable[[int], int | None], overlay: Overlay | None = None
    ) -> bool:
        """Seat all of `order`, or none of it; what fails is marked dead in the overlay."""
        for i, v in enumerate(order):
            t = choose(v)
            if t is None:
                if overlay is not None:
                    overlay.dead.add(v)
                self.unseat(order[:i])
                return False
            self.seat(v, t)
        return True


def groups(problem: Problem, priority: list[int]) -> list[list[int]]:
    """Recurrences as groups, other operations alone; by the highest priority in the group."""
    of: dict[int, int] = {}
    for number, arcs in enumerate(components(problem.n, problem.arcs)):
        members = {problem.arcs[a][0] for a in arcs}
        if len(members) > 1:
            of.update(dict.fromkeys(members, number))
    found: dict[tuple[int, int], list[int]] = {}
    for v in range(problem.n):
        found.setdefault((0, of[v]) if v in of else (1, v), []).append(v)
    ordered = [sorted(g, key=lambda v: (-priority[v], v)) for g in found.values()]
    return sorted(ordered, key=lambda g: (-priority[g[0]], g[0]))


def permute(state: ArmPlacement, group: list[int], order: list[int]) -> bool:
    """Every operation of the group in this order at its earliest legal seat, or none of it."""
    return state.place_in_order(order, state.earliest)


def predecessor_order(state: ArmPlacement, group: list[int]) -> list[int]:
    """Operations after their predecessors within the group, the highest first."""
    if len(group) == 1:
        return group
    inside = set(group)
    left = {v: {u for u in state.before[v] if u in inside and u != v} for v in group}
    after: dict[int, list[int]] = {}
    for v, inputs in left.items():
        for u in inputs:
            after.setdefault(u, []).append(v)
    ready = [(-state.priority[v], v) for v, inputs in left.items() if not inputs]
    heapify(ready)
    found: list[int] = []
    while ready:
        _, u = heappop(ready)
        found.append(u)
        for v in after.get(u, ()):
            left[v].discard(u)
            if not left[v]:
                heappush(ready, (-state.priority[v], v))
    return found


def may_fuse(state: ArmPlacement, a: list[int], b: list[int]) -> bool:
    """No operation of one group is required to come before one of the other in an iteration, and
    none stands in an inner loop that one of the other is."""
    left, right = set(a), set(b)
    if any(ancestors(state.parents, v) & end for end, vs in ((left, b), (right, a)) for v in vs):
        return False
    for begin, end in ((left, right), (right, left)):
        queue, seen = list(begin), set(begin)
        while queue:
            for w in state.behind[queue.pop()]:
                if w in end:
                    return False
                if w not in seen:
                    seen.add(w)
                    queue.append(w)
    return True


def ancestors(parents: tuple[int | None, ...], v: int) -> set[int]:
    """The inner loops that v stands in, from the innermost; none where nothing is nested."""
    found: set[int] = set()
    above = parents[v] if parents else None
    while above is not None and above not in found:
        found.add(above)
        above = parents[above]
    return found


def fuse(state: ArmPlacement, group: list[int], placed: list[list[int]]) -> bool:
    """Merge with the nearest compatible group placed before, or leave everything as it was."""
    for other in reversed(placed[-4:]):
        if not may_fuse(state, group, other):
            continue
        before = {v: state.starts[v] for v in other}
        state.unseat(other)
        merged = sorted(
            group + other, key=lambda v: (-widest(state.problem, v), -state.priority[v], v)
        )
        if state.place_in_order(merged, state.earliest):
            return True
        for v, t in before.items():
            state.seat(v, t)
    return False


def widest(problem: Problem, v: int) -> int:
    """The largest block of a unit that v takes, in cycles times amount."""
    return max((cycles * amount for _, _, cycles, amount in problem.blocks[v]), default=0)


def retry(state: ArmPlacement, group: list[int], overlay: Overlay) -> bool:
    """By slack, least first, without what the overlay holds dead; what finds no seat joins it, and
    the others begin again. What is dead is examined again when they are seated."""

    def slack(v: int) -> int:
        low, high = state.window(v)
        return state.ii if high is None else high - low

    live = [v for v in group if v not in overlay.dead]
    while live:
        order = sorted(live, key=lambda v: (slack(v), -state.priority[v], v))
        if state.place_in_order(order, state.earliest, overlay):
            break
        live = [v for v in live if v not in overlay.dead]
    if not live:
        return False
    skipped = sorted(set(group) - set(live), key=lambda v: (-state.priority[v], v))
    if state.place_in_order(skipped, lambda v: cheapest(state, v)):
        return True
    state.unseat(live)
    return False


def cost(state: ArmPlacement, group: list[int], overlay: Overlay) -> bool:
    """Rank the legal seats: rows crowded, then register pressure, then distance to neighbours."""
    order = sorted(group, key=lambda v: (v in overlay.dead, -state.priority[v], v))
    return state.place_in_order(order, lambda v: cheapest(state, v), overlay)


def cheapest(state: ArmPlacement, v: int) -> int | None:
    """The legal seat of least cost, the first of equals; None records why there is none.

    The cost is lexicographic, so that the pressure is asked for only where no other seat has rows
    that are less crowded.
    """
    table, ii = state.table, state.ii
    seats = state.seats(v)
    state.listed += len(seats)
    free = _in_turn(_bits(~table.blocked(v) & table.all_rows, ii), seats.start % ii)
    if state.problem.fractional:
        free = bytes(
            fits and table.probe(v, t) is None for t, fits in zip(seats, free, strict=False)
        )
    legal = list(compress(seats, free))
    if not legal:
        return state.earliest(v)
    held = list(compress(_in_turn(crowded(state, v), seats.start % ii), free[: len(seats)]))
    equal = list(compress(legal, map(min(held).__eq__, held)))
    into = sum(1 for u, _ in state.into[v] if state.starts[u] >= 0)
    slope = into - sum(1 for w, _ in state.out[v] if state.starts[w] >= 0)
    if state.pressure is None:
        return equal[0] if slope >= 0 else equal[-1]
    words = state.pressure(v, state.starts)
    return min(_ends(equal, state.starts), key=lambda t: (words(t), slope * t, t))


def _bits(mask: int, count: int) -> bytes:
    """So many bits of a mask, the lowest first, as bytes of 0 and 1."""
    return f"{mask:0{count}b}"[::-1].encode().translate(BITS)


def _in_turn(rows: Rows, first: int) -> Rows:
    """The rows from one on, around the end."""
    return rows[first:] + rows[:first]


def _ends(seats: list[int], starts: list[int]) -> set[int]:
    """Of ascending seats those next to where an operation starts, and both ends: between them
    the pressure rises evenly, so that it is least at one of them, and first and last where it is
    the same."""
    found = {seats[0], seats[-1]}
    for start in starts:
        place = bisect_left(seats, start)
        found.update(seats[max(0, place - 1) : place + 2])
    return found


def crowded(state: ArmPlacement, v: int) -> list[int]:
    """How full the rows are that the operation would take, by the row of its seat."""
    ii = state.ii
    total = [0] * ii
    for unit, first, cycles, _ in state.problem.blocks[v]:
        sums = list(accumulate(state.table.rows[unit] * 2, initial=0))
        taken = list(map(sub, sums[min(cycles, ii) :], sums[:ii]))
        total = list(map(add, total, _in_turn(taken[:ii], first % ii)))
    return total


def place_all(state: ArmPlacement, ordered: list[list[int]]) -> bool:
    """Every group by its first arm that manages; False leaves the failure recorded."""
    overlay = Overlay()
    placed: list[list[int]] = []
    for number, group in enumerate(ordered):
        if permute(state, group, predecessor_order(state, group)):
            arm = "permute"
        elif fuse(state, group, placed):
            arm = "fuse"
        elif retry(state, group, overlay):
            arm = "retry"
        elif cost(state, group, overlay):
            arm = "cost"
        elif retry(state, group, Overlay()):
            arm = "retry"
        elif cost(state, group, Overlay()):
            arm = "cost"
        else:
            _record_group(state, group, number)
            return False
        state.arms_used[arm] = state.arms_used.get(arm, 0) + 1
        placed.append(group)
    return True


def _record_group(state: ArmPlacement, group: list[int], number: int) -> None:
    if state.failure is not None:
        state.failure = replace(state.failure, group=tuple(group), order=number)
