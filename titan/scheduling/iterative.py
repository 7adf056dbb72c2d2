"""Iterative modulo scheduling with eviction (Rau, MICRO 1994), in plain Python.

The highest operation that is not placed takes its earliest legal seat within one interval; where
there is none it takes a seat by force, and what is in the way is placed again later. `iterative.c`
is the same algorithm, seat for seat; `native.py` chooses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from titan.scheduling.problem import Problem
from titan.scheduling.table import ReservationTable


def heights(problem: Problem, ii: int) -> list[int] | None:
    """Longest delay - ii * distance from each operation on; None when a cycle is positive."""
    n = problem.n
    into: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for u, v, delay, distance in problem.arcs:
        into[v].append((u, delay - ii * distance))
    height = [0] * n
    queue, queued, rounds = deque(range(n - 1, -1, -1)), [True] * n, [0] * n
    while queue:
        v = queue.popleft()
        queued[v] = False
        rounds[v] += 1
        if rounds[v] > n + 1:
            return None
        for u, weight in into[v]:
            if height[v] + weight > height[u]:
                height[u] = height[v] + weight
                if not queued[u]:
                    queued[u] = True
                    queue.append(u)
    return height


def iterative(
    problem: Problem, ii: int, budget: int, priority: list[int]
) -> tuple[list[int] | None, int, int]:
    """Issue cycles, or None when `budget` placements did not do; the placements made, and the seats
    that were examined."""
    n = problem.n
    into: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    out: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for u, v, delay, distance in problem.arcs:
        if u != v:
            into[v].append((u, delay - ii * distance))
            out[u].append((v, delay - ii * distance))
    table = ReservationTable(problem, ii)
    start, last = [-1] * n, [-1] * n
    heap: list[tuple[int, int]] = []
    for v in range(n):
        heappush(heap, (-priority[v], v))

    def evict(w: int) -> None:
        table.remove(w, start[w])
        start[w] = -1
        heappush(heap, (-priority[w], w))

    steps = seats = 0
    while heap and steps < budget:
        v = heappop(heap)[1]
        steps += 1
        earliest = max((start[u] + w for u, w in into[v] if start[u] >= 0), default=0)
        t = earliest = max(0, earliest)
        while t < earliest + ii:
            found = table.probe(v, t)
            seats += 1
            if found is None:
                break
            t += found.skip
        if t >= earliest + ii:
            t = earliest if last[v] < 0 or earliest > last[v] else last[v] + 1
            if not _clear(table, start, v, t, evict):
                return None, budget, seats
        table.commit(v, t)
        start[v] = last[v] = t
        for w, weight in out[v]:
            if start[w] >= 0 and start[w] - t < weight:
                evict(w)
        for u, weight in into[v]:
            if start[u] >= 0 and t - start[u] < weight:
                evict(u)
    if heap:
        return None, steps, seats
    return start, steps, seats


def _clear(
    table: ReservationTable, start: list[int], v: int, t: int, evict: Callable[[int], None]
) -> bool:
    """Evict, list by list, what collides with v at t, until it fits; False when it never does."""
    problem = table.problem
    lists: list[set[int]] = []
    for unit in sorted({block[0] for block in problem.blocks[v]}):
        lists.append({w for w in range(problem.n) if any(b[0] == unit for b in problem.blocks[w])})
    if problem.teams[v] >= 0:
        lists.append({w for w in range(problem.n) if problem.teams[w] == problem.teams[v]})
    if problem.fractional:
        lists.append(set(range(problem.n)))
    for members in lists:
        if table.probe(v, t) is None:
            return True
        for w in sorted(members):
            if start[w] >= 0 and w != v and table.collide(v, t, w, start[w]):
                evict(w)
    return table.probe(v, t) is None
