"""The recurrence bound: the maximum over dependence cycles of delay over distance, rounded up.

Newton's method on the ratio: look for a cycle whose delay exceeds `ii` times its distance, raise
`ii` to that cycle's ratio, and repeat until there is none. Every cycle found is a witness.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.errors import TitanError

Arc = tuple[int, int, int, int]  # source, sink, delay, distance


class PositiveCycle(TitanError):
    """A dependence cycle of distance 0 with a positive delay: no interval satisfies it."""

    def __init__(self, arcs: tuple[int, ...]) -> None:
        super().__init__("positive cycle of distance 0")
        self.arcs = arcs


def recurrence(n: int, arcs: Sequence[Arc]) -> tuple[int, tuple[int, ...]]:
    """The bound (at least 1) and the positions in `arcs` of a critical cycle, () when none binds.

    Raises PositiveCycle.
    """
    ii = 1
    witness: tuple[int, ...] = ()
    for component in components(n, arcs):
        while True:
            cycle = positive_cycle(n, [(arcs[a], a) for a in component], ii)
            if cycle is None:
                break
            delay = sum(arcs[a][2] for a in cycle)
            distance = sum(arcs[a][3] for a in cycle)
            if distance == 0:
                raise PositiveCycle(tuple(cycle))
            ii = -(-delay // distance)
            witness = tuple(cycle)
    return ii, witness or unit_cycle(arcs)


def unit_cycle(arcs: Sequence[Arc]) -> tuple[int, ...]:
    """A self-arc that gives a bound of exactly 1, when there is one; otherwise nothing binds."""
    for a, (u, v, delay, distance) in enumerate(arcs):
        if u == v and distance and -(-delay // distance) == 1:
            return (a,)
    return ()


def components(n: int, arcs: Sequence[Arc]) -> list[list[int]]:
    """Arcs inside each strongly connected component, by iterative depth-first search."""
    out: list[list[int]] = [[] for _ in range(n)]
    for a, (u, _, _, _) in enumerate(arcs):
        out[u].append(a)
    order, low, on_stack = [-1] * n, [0] * n, [False] * n
    component = [-1] * n
    stack: list[int] = []
    counter = found = 0
    for root in range(n):
        if order[root] != -1:
            continue
        order[root] = low[root] = counter
        counter += 1
        work = [(root, 0)]
        stack.append(root)
        on_stack[root] = True
        while work:
            v, i = work.pop()
            if i < len(out[v]):
                work.append((v, i + 1))
                w = arcs[out[v][i]][1]
                if order[w] == -1:
                    order[w] = low[w] = counter
                    counter += 1
                    stack.append(w)
                    on_stack[w] = True
                    work.append((w, 0))
                elif on_stack[w]:
                    low[v] = min(low[v], order[w])
                continue
            if low[v] == order[v]:
                while True:
                    w = stack.pop()
                    on_stack[w] = False
                    component[w] = found
                    if w == v:
                        break
                found += 1
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[v])
    inside: dict[int, list[int]] = {}
    for a, (u, v, _, _) in enumerate(arcs):
        if component[u] == component[v]:
            inside.setdefault(component[u], []).append(a)
    return [inside[c] for c in sorted(inside)]


def positive_cycle(n: int, arcs: list[tuple[Arc, int]], ii: int) -> list[int] | None:
    """Positions of the arcs of a cycle of positive weight delay - ii * distance, or None."""
    value = {u: 0 for (u, _, _, _), _ in arcs}
    parent: dict[int, tuple[int, int]] = {}
    turn = 0
    while True:  # ends: a positive cycle shows among the parents after at most one pass a node
        changed = False
        for (u, v, delay, distance), position in arcs:
            weight = value[u] + delay - ii * distance
            if weight > value[v]:
                value[v] = weight
                parent[v] = (u, position)
                changed = True
        if not changed:
            return None
        if turn & (turn - 1) == 0:
            cycle = _parent_cycle(list(value), parent)
            if cycle is not None:
                return cycle
        turn += 1


def _parent_cycle(nodes: list[int], parent: dict[int, tuple[int, int]]) -> list[int] | None:
    """A cycle among the parent pointers; such a cycle always has positive weight."""
    state: dict[int, int] = {}
    for start in nodes:
        v = start
        while v in parent and v not in state:
            state[v] = start
            v = parent[v][0]
        if v in parent and state[v] == start:
            cycle = []
            w = v
            while True:
                w, position = parent[w]
                cycle.append(position)
                if w == v:
                    return cycle[::-1]
    return None
