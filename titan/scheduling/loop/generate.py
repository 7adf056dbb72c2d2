"""Random loops with fixed seeds: small ones for agreement, large ones for measuring.

`large_loop` is layered, and its optimum is mostly the bound. `random_dag` has every edge with the
same probability. `gapped_loop` has an optimum that is known and lies above every bound.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from titan.scheduling.loop.model import DATA, ORDER, Dependence, Loop, Operation, ReservationUse
from titan.target.model import Machine, Memory, ResourcePool, Unit, WarpGroup


def small_loop(seed: int, with_groups: bool = True) -> Loop:
    """2 to 4 operations, costs of 1 to 3 cycles, every kind of constraint now and then."""
    rng = random.Random(seed)
    units = {name: Unit(name, rng.choice((1, 1, 1, 2))) for name in ("A", "B")}
    pools: tuple[ResourcePool, ...] = ()
    if rng.random() < 0.2:
        window = rng.choice((1, 1, 2, 3))
        amount = rng.choice((1, 2))
        pools = (ResourcePool("P", (("A", 1), ("B", 1)), amount, window),)
    memories = {"shared": Memory("shared", rng.choice((3, 4, 6, 99)))}
    groups: tuple[WarpGroup, ...] = ()
    if with_groups and rng.random() < 0.8:
        groups = _groups(rng)
    n = rng.randint(2, 4)
    special = any(group.variable_latency for group in groups)
    operations = tuple(_operation(rng, i, groups, special, units, pools) for i in range(n))
    dependences = _dependences(rng, operations)
    target = Machine(
        "random", "", units, pools, memories, threads_per_warp=1, warps_max=8, registers_total=99
    )
    return Loop(f"small_{seed}", target, operations, dependences, groups)


def _groups(rng: random.Random) -> tuple[WarpGroup, ...]:
    found = []
    if rng.random() < 0.4:
        found.append(WarpGroup("load", 1, None, True))
    for i in range(rng.randint(1, 2)):
        found.append(WarpGroup(f"g{i}", rng.choice((1, 2, 2)), rng.choice((None, 2, 3))))
    return tuple(found)


def _operation(
    rng: random.Random,
    i: int,
    groups: tuple[WarpGroup, ...],
    special: bool,
    units: dict[str, Unit],
    pools: tuple[ResourcePool, ...],
) -> Operation:
    uses = []
    for name in rng.sample(("A", "B"), rng.choice((1, 1, 1, 2))):
        amount = rng.randint(1, units[name].capacity)
        amount = min(amount, pools[0].amount) if pools else amount
        uses.append(ReservationUse(name, rng.randint(1, 3), amount, rng.choice((0, 0, 0, 1))))
    load = special and rng.random() < 0.3
    slots = rng.choice((1, 2)) if load and rng.random() < 0.5 else None
    return Operation(
        f"o{i}",
        tuple(uses),
        latency_cycles=rng.randint(0, 3),
        registers=0 if load else rng.choice((0, 1, 1, 2)),
        warps=1 if load else rng.choice((1, 1, 2)) if any(g.warps > 1 for g in groups) else 1,
        footprints=(("shared", rng.randint(1, 2)),) if rng.random() < 0.4 else (),
        variable_latency=load,
        streaming=load,
        slots=slots,
        spill_cycles=rng.choice((0, 0, 1, 2)),
        issue_cycles=rng.choice((None, None, 1)),
    )


def _dependences(rng: random.Random, operations: tuple[Operation, ...]) -> tuple[Dependence, ...]:
    n = len(operations)
    found = []
    for v in range(1, n):
        for u in range(v):
            if rng.random() < 0.55:
                delay = operations[u].latency_cycles
                kind = ORDER if rng.random() < 0.15 else DATA
                hold = 1 if rng.random() < 0.1 else 0
                found.append(Dependence(u, v, delay, 0, kind, rng.random() < 0.25, hold))
    for _ in range(rng.choice((0, 1, 1, 2))):
        u, v = rng.randrange(n), rng.randrange(n)
        kind = ORDER if rng.random() < 0.3 else DATA
        distance = rng.choice((1, 1, 2))
        found.append(Dependence(u, v, rng.randint(0, 3), distance, kind, rng.random() < 0.15))
    return tuple(found)


def large_loop(n: int, seed: int, units: int = 6, back: float = 0.05) -> Loop:
    """A layered dependence graph with some recurrences, for schedulers of large loops."""
    rng = random.Random(seed)
    names = [f"U{i}" for i in range(units)]
    total = [0] * units
    operations = []
    for i in range(n):
        unit = rng.randrange(units)
        cycles = rng.choice((1, 1, 1, 2, 3))
        total[unit] += cycles
        latency = rng.choice((1, 1, 2, 3, 5))
        operations.append(
            Operation(f"o{i}", (ReservationUse(names[unit], cycles),), max(cycles, latency))
        )
    target_ii = max(8, round(n**0.5))
    table = {name: Unit(name, max(1, -(-total[i] // target_ii))) for i, name in enumerate(names)}
    found = []
    for v in range(1, n):
        for _ in range(rng.choice((1, 1, 2, 3))):
            u = rng.randrange(max(0, v - 64), v)
            found.append(Dependence(u, v, operations[u].latency_cycles))
    for _ in range(int(n * back)):
        v = rng.randrange(n)
        u = rng.randrange(v, min(n, v + 16))
        found.append(Dependence(u, v, operations[u].latency_cycles, rng.choice((1, 1, 2, 3))))
    target = Machine("random", "", table)
    return Loop(f"random_{n}_{seed}", target, tuple(operations), tuple(found))


def random_dag(n: int, density: float = 0.01, back_edges: int = 0, seed: int = 0) -> Loop:
    """A loop of n operations where each of the n (n - 1) / 2 forward edges is there with
    probability `density`, and `back_edges` more are carried to a later iteration.

    Units are as in `large_loop`: six, with capacities for an interval near the root of n. Raises
    ValueError unless 0 <= density <= 1.
    """
    if not 0 <= density <= 1:
        raise ValueError(f"an edge density is a number from 0 to 1, not {density}")
    rng = random.Random(seed)
    base = large_loop(n, seed, back=0.0)
    edges = [
        Dependence(u, v, base.operations[u].latency_cycles) for u, v in _pairs(n, density, rng)
    ]
    for _ in range(back_edges):
        v = rng.randrange(n)
        u = rng.randrange(v, min(n, v + 16))
        edges.append(Dependence(u, v, base.operations[u].latency_cycles, rng.choice((1, 2, 3))))
    return Loop(f"dag_{n}_{seed}", base.machine, base.operations, tuple(edges))


def _pairs(n: int, density: float, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Pairs u < v, each with this probability: jumps from one to the next, not n squared draws."""
    if density == 0:
        return
    place, total = -1, n * (n - 1) // 2
    while True:
        jump = math.log(1 - rng.random()) / math.log(1 - density) if density < 1 else 0.0
        place += 1 + int(min(jump, total))
        if place >= total:
            return
        v = (1 + math.isqrt(8 * place + 1)) // 2
        yield place - v * (v - 1) // 2, v


def gapped_loop(n: int, density: float = 0.002, seed: int = 0, units: int = 6) -> tuple[Loop, int]:
    """A loop and its optimal interval, which is one above its largest lower bound.

    Every operation takes its unit, of capacity 1, in its first and in its third cycle. With c of
    them on a unit the resource bound is 2 c. Rows x and x + 2 are neighbours on a ring; modulo 2 c
    there are two rings of c rows, which pairs of neighbours cover only where c is even. On the
    fullest unit c is odd, so that 2 c is impossible; modulo 2 c + 1 there is one ring, and c pairs
    leave one row of it free. Dependences are acyclic and exclude no interval.
    """
    rng = random.Random(seed)
    most = max(1, (-(-n // units)) | 1)
    counts = [most] + [0] * (units - 1)
    for _ in range(n - most):
        open_units = [u for u in range(1, units) if counts[u] < most]
        counts[rng.choice(open_units) if open_units else 1] += 1
    of = [unit for unit, count in enumerate(counts) for _ in range(count)]
    rng.shuffle(of)
    operations = tuple(
        Operation(
            f"o{i}",
            (ReservationUse(f"U{unit}", 1), ReservationUse(f"U{unit}", 1, 1, 2)),
            latency_cycles=rng.choice((3, 4, 6)),
        )
        for i, unit in enumerate(of)
    )
    edges = tuple(
        Dependence(u, v, operations[u].latency_cycles) for u, v in _pairs(n, density, rng)
    )
    target = Machine("random", "", {f"U{u}": Unit(f"U{u}", 1) for u in range(units)})
    return Loop(f"gapped_{n}_{seed}", target, operations, edges), 2 * max(counts) + 1
