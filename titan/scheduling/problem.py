"""A loop with its warp assignment fixed, compiled for placement.

What the assignment decides becomes plain numbers: a data dependence between groups is longer by
the transfer, and its sink waits with its warps. Pools with a window of one cycle become further
units; pools with a longer window are kept apart as `fractional`.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.scheduling.loop.model import DATA, Loop

Block = tuple[int, int, int, int]  # unit, first cycle, cycles, amount


@dataclass(frozen=True, slots=True)
class Fractional:
    """A pool over a window: weights by unit position, at most `amount` in `window` cycles."""

    name: str
    weights: dict[int, int]
    amount: int
    window: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Arcs (source, sink, delay, distance), blocks and limits as plain numbers, by position."""

    n: int
    arcs: list[tuple[int, int, int, int]]
    blocks: list[list[Block]]
    units: list[str]
    capacity: list[int]
    teams: list[int]
    windows: list[int]
    waits: list[bool]
    fractional: list[Fractional]
    cycles: list[int]


def compile_problem(loop: Loop, teams: tuple[int, ...] | None = None) -> Problem:
    """`teams` None places without regard to warps (no transfers, no waiting)."""
    units = sorted({use.unit for operation in loop.operations for use in operation.uses})
    number = {unit: i for i, unit in enumerate(units)}
    capacity = [loop.units[unit].capacity for unit in units]
    blocks = [
        [(number[use.unit], use.first_cycle, use.cycles, use.amount) for use in operation.uses]
        for operation in loop.operations
    ]
    fractional: list[Fractional] = []
    for pool in loop.pools:
        weights = {number[unit]: weight for unit, weight in pool.members if unit in number}
        if not weights:
            continue
        if pool.window_cycles > 1:
            fractional.append(Fractional(pool.name, weights, pool.amount, pool.window_cycles))
            continue
        row = len(capacity)
        units.append(f"pool {pool.name}")
        capacity.append(pool.amount)
        for uses in blocks:
            mine = [(row, f, c, a * weights[u]) for u, f, c, a in uses if u in weights]
            uses.extend(mine)
    with_teams = teams is not None and loop.has_teams
    assigned = list(teams) if with_teams and teams is not None else [-1] * len(loop.operations)
    waits = [False] * len(loop.operations)
    arcs = []
    for e in loop.dependences:
        delay = e.delay_cycles
        crosses = with_teams and e.kind == DATA and assigned[e.source] != assigned[e.sink]
        spill = loop.operations[e.source].spill_cycles if crosses else 0
        arcs.append((e.source, e.sink, delay + spill, e.distance))
        if with_teams and (e.blocking or spill > 0):
            waits[e.sink] = True
    windows = [operation.issue_window for operation in loop.operations]
    cycles = [operation.cycles for operation in loop.operations]
    return Problem(
        len(loop.operations),
        arcs,
        blocks,
        units,
        capacity,
        assigned,
        windows,
        waits,
        fractional,
        cycles,
    )
