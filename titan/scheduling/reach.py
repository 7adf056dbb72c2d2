"""How far apart two operations of one iteration can be, in any schedule of an interval.

A refutation within these distances holds for schedules of every length. Why:

1. Moving a whole schedule by a constant changes nothing: dependences, transfers and lifetimes are
   differences, units, pools and waiting depend on issue cycles modulo the interval, and all rows of
   an interval move together. So one operation, the anchor, may be given a fixed cycle.
2. A dependence or a ring of slots bounds a difference M(v) - M(u) from below (`precedence`).
3. A value of R words that lives T cycles has ceil(T / ii) copies alive in some cycle of the steady
   state. They are all on one group: R ceil(T / ii) is at most the largest limit L of a group that
   may run its producer, so T <= floor(L / R) ii. Memories alike, less what rings own.
4. In the mean over an interval, all values together hold the sum of R T words, at most L ii. Every
   lifetime has a least length by 2, so what remains of L ii bounds the sum of R times what the
   lifetimes are longer: the slack. Along a path that leaves each operation at most once and uses
   only values of R words or more, that is at most slack / R cycles in all.

2 to 4 bound M(v) - M(u) from above by a shortest path. Order dependences only ever take part as 2:
they end no lifetime. Transfers between groups make lower bounds larger; leaving them out keeps more
schedules. Where the sum of 4 counts operations of several groups, it compares with the sum of their
limits.

Where two operations have no bound (a value without registers, memory or slots), nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.scheduling.encode import Infeasible, allowed_teams, precedence
from titan.scheduling.loop.bounds import ring_footprint
from titan.scheduling.loop.model import DATA, Loop

Matrix = list[list[int | None]]


@dataclass(frozen=True, slots=True)
class Reach:
    """First and last issue cycle of every operation, when the anchor is issued at cycle 0."""

    anchor: int
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def cycles(self) -> int:
        """All cycles in which something may be issued."""
        return max(self.high) - min(self.low) + 1


@dataclass(frozen=True, slots=True)
class ReachStore:
    """Words that the values of some operations share: `amounts` by operation, 0 for the others."""

    limit: int
    amounts: tuple[int, ...]


def reach(loop: Loop, ii: int) -> Reach | None:
    """None where some distance has no bound. Raises Infeasible where the bounds contradict."""
    n = len(loop.operations)
    arcs = precedence(loop, ii)
    least = longest(n, arcs)
    hops: list[tuple[int, int, int]] = [(v, u, -weight) for u, v, weight in arcs]
    hops += _copies(loop, ii)
    best = shortest_paths(n, hops)
    if best is None:
        raise Infeasible("the limits leave no room for a value")
    for store in _stores(loop):
        _with_slack(loop, ii, least, hops, store, best)
    return _anchored(best)


def _anchored(best: Matrix) -> Reach | None:
    """Windows from the anchor that leaves the fewest cycles open."""
    n = len(best)
    found: Reach | None = None
    width = 0
    for a in range(n):
        low, high = [], []
        for v in range(n):
            above, below = best[a][v], best[v][a]
            if above is None or below is None:
                return None
            low.append(-below)
            high.append(above)
        if any(x > y for x, y in zip(low, high, strict=True)):
            raise Infeasible("limits leave no room between two operations")
        total = sum(high) - sum(low)
        if found is None or total < width:
            found, width = Reach(a, tuple(low), tuple(high)), total
    return found


def longest(n: int, arcs: list[tuple[int, int, int]]) -> Matrix:
    """Lower bounds of M(v) - M(u). Raises Infeasible on a positive cycle."""
    negated = shortest_paths(n, [(u, v, -weight) for u, v, weight in arcs])
    if negated is None:
        raise Infeasible("a dependence cycle is longer than the interval allows")
    return [[None if x is None else -x for x in row] for row in negated]


def shortest_paths(n: int, hops: list[tuple[int, int, int]]) -> Matrix | None:
    """M(v) - M(u) is at most the entry (u, v); None where a cycle is negative."""
    best: Matrix = [[0 if u == v else None for v in range(n)] for u in range(n)]
    for u, v, cost in hops:
        old = best[u][v]
        if old is None or cost < old:
            best[u][v] = cost
    for k in range(n):
        for u in range(n):
            first = best[u][k]
            if first is None:
                continue
            row, through = best[u], best[k]
            for v in range(n):
                second = through[v]
                if second is None:
                    continue
                old = row[v]
                if old is None or first + second < old:
                    row[v] = first + second
    if any((best[v][v] or 0) < 0 for v in range(n)):
        return None
    return best


def _uses(loop: Loop, u: int, ii: int) -> list[tuple[int, int]]:
    """(v, shift): the value of u lives until M(v) + shift or longer."""
    return [
        (e.sink, e.distance * ii + e.hold_cycles)
        for e in loop.dependences
        if e.source == u and e.kind == DATA
    ]


def _copies(loop: Loop, ii: int) -> list[tuple[int, int, int]]:
    """3 of the module text: no more copies of a value than fit."""
    hops = []
    for u, operation in enumerate(loop.operations):
        counts = []
        words = [loop.team_words(team) for team in allowed_teams(loop, u)]
        known = [x for x in words if x is not None]
        if operation.registers and known and len(known) == len(words):
            counts.append(max(known) // operation.registers)
        if operation.slots is None:
            for memory, amount in operation.footprints:
                if amount:
                    counts.append(_left(loop, memory) // amount)
        if counts:
            lived = max(0, min(counts)) * ii
            hops += [(u, v, lived - shift) for v, shift in _uses(loop, u, ii)]
    return hops


def _left(loop: Loop, memory: str) -> int:
    return loop.limits[memory] - sum(ring_footprint(op, memory) for op in loop.operations)


def _stores(loop: Loop) -> list[ReachStore]:
    """Registers of each group that operations cannot leave, of all groups, and memories."""
    found = []
    n = len(loop.operations)
    registers = [op.registers for op in loop.operations]
    teams = [allowed_teams(loop, v) for v in range(n)]
    for team in range(len(loop.teams)):
        words = loop.team_words(team)
        amounts = tuple(registers[v] if teams[v] == [team] else 0 for v in range(n))
        if words is not None and any(amounts):
            found.append(ReachStore(words, amounts))
    used = sorted({team for v in range(n) if registers[v] for team in teams[v]})
    limits = [loop.team_words(team) for team in used]
    known = [x for x in limits if x is not None]
    if len(used) > 1 and len(known) == len(limits):
        found.append(ReachStore(sum(known), tuple(registers)))
    for memory in sorted(loop.limits):
        sizes = tuple(
            0 if op.slots is not None else dict(op.footprints).get(memory, 0)
            for op in loop.operations
        )
        if any(sizes):
            found.append(ReachStore(_left(loop, memory), sizes))
    return found


def _with_slack(
    loop: Loop,
    ii: int,
    least: Matrix,
    hops: list[tuple[int, int, int]],
    store: ReachStore,
    best: Matrix,
) -> None:
    """4 of the module text, for every amount that a value of the store has; tightens `best`."""
    n = len(loop.operations)
    lives, slack = [0] * n, store.limit * ii
    for u in range(n):
        for v, shift in _uses(loop, u, ii):
            known = least[u][v]
            if known is not None:
                lives[u] = max(lives[u], known + shift)
        slack -= store.amounts[u] * lives[u]
    for u, v, more in _turns(loop, ii, store, lives):
        slack -= more * min(store.amounts[u], store.amounts[v])
        lives[u] += more
        lives[v] += more
    if slack < 0:
        raise Infeasible("the least lifetimes pass a limit")
    for amount in sorted({x for x in store.amounts if x}):
        further = [
            (u, v, lives[u] - shift)
            for u in range(n)
            if store.amounts[u] >= amount
            for v, shift in _uses(loop, u, ii)
        ]
        paths = shortest_paths(n, hops + further)
        if paths is None:  # a shortest walk would leave an operation twice: fewer hops
            within = [hop for hop in further if hop[2] == lives[hop[0]]]
            paths = shortest_paths(n, hops + within)
        if paths is None:
            continue
        for u in range(n):
            for v in range(n):
                path, old = paths[u][v], best[u][v]
                if u != v and path is not None:
                    found = path + slack // amount
                    best[u][v] = found if old is None else min(old, found)


def _turns(loop: Loop, ii: int, store: ReachStore, lives: list[int]) -> list[tuple[int, int, int]]:
    """Pairs (u, v, m) whose lifetimes together are at least m longer than the least of each.

    Where u feeds v and v feeds u, the two lifetimes span the distance around: their sum is at
    least that many intervals. Each operation is in one pair only. With R and S words and lifetimes
    e and f longer than the least, e + f >= m gives
    R e + S f >= m min(R, S) + R max(0, e - m) + S max(0, f - m):
    the first summand comes off the slack, and e counts against the slack beyond m only.
    """
    found, taken = [], set[int]()
    for u in range(len(loop.operations)):
        for v, there in _uses(loop, u, ii):
            if v <= u or u in taken or v in taken:
                continue
            around = [there + back for x, back in _uses(loop, v, ii) if x == u]
            more = max(around, default=0) - lives[u] - lives[v]
            if more > 0 and store.amounts[u] and store.amounts[v]:
                found.append((u, v, more))
                taken |= {u, v}
    return found
