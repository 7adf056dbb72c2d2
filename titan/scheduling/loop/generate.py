"""Random loops with fixed seeds: small ones for agreement, large ones for measuring."""

from __future__ import annotations

import random

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
