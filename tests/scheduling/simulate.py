"""A second opinion on schedules: the program is played out cycle by cycle.

Shares nothing with titan.scheduling: no intervals, no residues; iterations are laid out one after
the other, and in every cycle what runs, what is issued and what is alive is collected and counted.
Also the brute force: every placement within a length, judged by this simulation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

from titan.scheduling.loop.model import Loop


def violations(loop: Loop, ii: int, starts: tuple[int, ...], teams: tuple[int, ...]) -> set[str]:
    """Kinds of constraint that the played program breaks."""
    ops = loop.operations
    reach = max([e.distance for e in loop.dependences], default=0)
    span = max(s + op.cycles for s, op in zip(starts, ops, strict=True))
    windows = max([pool.window_cycles for pool in loop.pools], default=1)
    count = 2 * (-(-(span + windows) // ii) + reach) + 3
    broken: set[str] = set()
    at = {(v, i): starts[v] + i * ii for v in range(len(ops)) for i in range(count)}
    use: dict[tuple[str, int], int] = defaultdict(int)
    issuing: dict[int, set[tuple[int, int]]] = defaultdict(set)
    waiting: set[tuple[int, int]] = set()
    last_use: dict[tuple[int, int], int] = {}
    for (v, i), t in at.items():
        for block in ops[v].uses:
            for c in range(block.cycles):
                use[(block.unit, t + block.first_cycle + c)] += block.amount
        for c in range(ops[v].issue_window):
            issuing[t + c].add((v, i))
        last_use[(v, i)] = t
    for e in loop.dependences:
        for i in range(count - e.distance):
            source, sink = (e.source, i), (e.sink, i + e.distance)
            crosses = e.kind == "data" and teams[e.source] != teams[e.sink]
            extra = ops[e.source].spill_cycles if crosses else 0
            if at[sink] < at[source] + e.delay_cycles:
                broken.add("dependence")
            elif at[sink] < at[source] + e.delay_cycles + extra:
                broken.add("spill")
            if e.kind == "data":
                last_use[source] = max(last_use[source], at[sink] + e.hold_cycles)
        if e.blocking or (
            e.kind == "data" and teams[e.source] != teams[e.sink] and ops[e.source].spill_cycles
        ):
            waiting.update((e.sink, i) for i in range(count))
    for (unit, _), amount in use.items():
        if amount > loop.units[unit].capacity:
            broken.add("capacity")
    end = max(t for _, t in use) + 1 if use else 0
    for pool in loop.pools:
        weights = dict(pool.members)
        sums = [sum(use[(u, t)] * w for u, w in weights.items()) for t in range(end)]
        if any(sum(sums[t : t + pool.window_cycles]) > pool.amount for t in range(end)):
            broken.add("pool")
    if loop.groups:
        for v, i in waiting:
            for o, _ in issuing[at[(v, i)]]:
                if o != v and teams[o] == teams[v]:
                    broken.add("concurrency")
    broken |= storage(loop, at, last_use, teams)
    broken |= assignment(loop, teams)
    return broken


def storage(
    loop: Loop,
    at: dict[tuple[int, int], int],
    last_use: dict[tuple[int, int], int],
    teams: tuple[int, ...],
) -> set[str]:
    """Limits of registers, rings and memories that the played program passes."""
    ops, broken = loop.operations, set()
    # Values of the last iterations have no consumer in the played program: they are not counted,
    # and the middle of the program has every overlap.
    alive: dict[tuple[str, object, int], int] = defaultdict(int)
    for (v, i), t in at.items():
        for x in range(t, last_use[(v, i)]):
            alive[("registers", teams[v], x)] += ops[v].registers
            alive[("ring", v, x)] += 1
            for memory, amount in ops[v].footprints:
                if ops[v].slots is None:
                    alive[("memory", memory, x)] += amount
    fixed: dict[str, int] = defaultdict(int)
    for op in ops:
        for memory, amount in op.footprints:
            fixed[memory] += amount * (op.slots or 0)
    for memory, limit in loop.limits.items():
        if fixed[memory] > limit:
            broken.add("memory")
    for (kind, what, _), amount in alive.items():
        if kind == "registers":
            limit = loop.team_words(what)  # type: ignore[arg-type]
        elif kind == "ring":
            limit = ops[what].slots  # type: ignore[index]
        else:
            limit = loop.limits[what] - fixed[what]  # type: ignore[index]
        if limit is not None and amount > limit:
            broken.add(kind)
    return broken


def assignment(loop: Loop, teams: tuple[int, ...]) -> set[str]:
    """Groups that may not run what they were given."""
    ops, broken = loop.operations, set()
    for v, team in enumerate(teams):
        if not loop.groups:
            break
        if loop.groups[team].warps < ops[v].warps:
            broken.add("warps")
        if any(g.variable_latency for g in loop.groups) and (
            ops[v].variable_latency != loop.groups[team].variable_latency
        ):
            broken.add("variable-latency")
    return broken


def placements(loop: Loop, length: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every assignment of cycles and groups that ends by `length`."""
    cycles = [range(max(0, length - op.cycles + 1)) for op in loop.operations]
    teams = [
        [
            k
            for k, g in enumerate(loop.teams)
            if not loop.groups
            or (
                g.warps >= op.warps
                and (
                    not any(x.variable_latency for x in loop.groups)
                    or op.variable_latency == g.variable_latency
                )
            )
        ]
        for op in loop.operations
    ]
    for starts in product(*cycles):
        for assigned in product(*teams):
            yield starts, assigned


def quick(loop: Loop, ii: int, starts: tuple[int, ...]) -> bool:
    """Dependences alone, to throw most placements away before they are played."""
    return all(
        starts[e.sink] + e.distance * ii >= starts[e.source] + e.delay_cycles
        for e in loop.dependences
    )


def brute_force(loop: Loop, ii_to: int, length_to: int) -> tuple[int, ...] | None:
    """The least (interval, length, registers, crossings, idle) with a length up to `length_to`."""
    for ii in range(1, ii_to + 1):
        best: tuple[int, ...] | None = None
        for starts, teams in placements(loop, length_to):
            if not quick(loop, ii, starts):
                continue
            ends = [s + op.cycles for s, op in zip(starts, loop.operations, strict=True)]
            if best is not None and max(ends) > best[0]:
                continue
            key = (
                max(ends), registers(loop, ii, starts), crossings(loop, teams), idle(loop, teams)
            )  # fmt: skip
            if (best is None or key < best) and not violations(loop, ii, starts, teams):
                best = key
        if best is not None:
            return (ii, *best)
    return None


def registers(loop: Loop, ii: int, starts: tuple[int, ...]) -> int:
    """Most register words alive in one cycle of the steady state."""
    ends = list(starts)
    for e in loop.dependences:
        if e.kind == "data":
            ends[e.source] = max(ends[e.source], starts[e.sink] + e.distance * ii + e.hold_cycles)
    rows = [0] * ii
    for s, e, op in zip(starts, ends, loop.operations, strict=True):
        for x in range(s, e):
            rows[x % ii] += op.registers
    return max(rows)


def crossings(loop: Loop, teams: tuple[int, ...]) -> int:
    """Values in registers that change groups."""
    return sum(
        e.kind == "data"
        and loop.operations[e.source].spill_cycles > 0
        and teams[e.source] != teams[e.sink]
        for e in loop.dependences
    )


def idle(loop: Loop, teams: tuple[int, ...]) -> int:
    """Warps without work while another of their group issues."""
    return sum(
        loop.teams[team].warps - op.warps for team, op in zip(teams, loop.operations, strict=True)
    )
