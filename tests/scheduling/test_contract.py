"""Reduced loops: against the joint solver on whole loops, and schedules that are extended."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.sampling import part
from tests.scheduling.test_mips_like import OPTIMUM, mips_like
from titan.scheduling import contract, joint
from titan.scheduling.check import check
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.scheduling.model import Schedule
from titan.scheduling.rau import sequential_ii
from titan.scheduling.run import JOINT_OPERATIONS, REDUCED, Request, run
from titan.scheduling.work import SearchWork
from titan.target.model import Machine, Unit


def random_loop(seed: int) -> Loop:
    """Five operations that take units for 1 to 3 cycles, and four that take none, between them."""
    chance = random.Random(seed)
    units = {name: Unit(name, chance.choice((1, 1, 2))) for name in "UV"}
    takes = [True] * 5 + [False] * 4
    chance.shuffle(takes)
    operations = tuple(
        Operation(
            f"n{place}",
            (ReservationUse(chance.choice("UV"), chance.randint(1, 3)),) if unit else (),
            chance.randint(1, 4),
        )
        for place, unit in enumerate(takes)
    )
    edges = [
        Dependence(chance.randrange(sink), sink, chance.randint(0, 4))
        for sink in range(1, 9)
        for _ in range(chance.choice((1, 2)))
    ]
    for _ in range(chance.choice((1, 2, 3))):
        source = chance.randrange(2, 9)
        sink = chance.randrange(source)
        edges.append(Dependence(source, sink, chance.randint(1, 6), chance.choice((1, 1, 2))))
    return Loop(f"mixed_{seed}", Machine("m", "", units), operations, tuple(edges))


def much() -> SearchWork:
    return SearchWork(1e6)


def test_the_smallest_interval_is_that_of_the_whole_loop() -> None:
    """Another engine: the joint solver with every operation in it."""
    above = 0
    for seed in range(part(150)):
        loop = random_loop(seed)
        assert contract.applies(loop)
        right = joint.solve(loop, joint.JointOptions(objective="ii", stages_max=16)).schedule
        low = bounds(loop).ii
        worst = Schedule(sequential_ii(loop), (0,) * 9, (0,) * 9)
        found = contract.improve(loop, worst, low, 60.0, much())
        assert right is not None and found is not None, seed
        assert found.ii == right.ii and check(loop, found) == [], seed
        above += right.ii > low
    assert above > part(3), "some optima are above the bound"


def test_cycles_between_those_that_were_found_always_fit() -> None:
    """Whatever the order: any starts that the reduced loop takes are extended."""
    for seed in range(40):
        loop = random_loop(seed)
        ii = bounds(loop).ii + seed % 5
        reduced = contract.reduce(loop, ii, much())
        assert reduced is not None and len(reduced.kept) == 5
        chance, starts = random.Random(seed), dict.fromkeys(range(5), 0)
        for _ in range(50):  # raised until all distances of the reduced loop hold
            for e in reduced.loop.dependences:
                least = starts[e.source] + e.delay_cycles - e.distance * ii
                starts[e.sink] = max(starts[e.sink], least + chance.choice((0, 0, 0, 1)))
        held = Schedule(ii, tuple(starts[row] for row in range(5)), (0,) * 5)
        if any(fault.kind == "dependence" for fault in check(reduced.loop, held)):
            continue  # raised too far
        whole = contract.extended(loop, ii, {p: starts[r] for r, p in enumerate(reduced.kept)})
        faults = check(loop, Schedule(ii, whole, (0,) * 9))
        assert not [fault for fault in faults if fault.kind == "dependence"], seed
        moved = {whole[place] - starts[row] for row, place in enumerate(reduced.kept)}
        assert len(moved) == 1 and min(whole) == 0, seed


def with_chains() -> Loop:
    """The loop on a machine like a MIPS, its dependences in two or three parts by operations that
    take no unit."""
    loop = mips_like()
    operations, edges = list(loop.operations), []
    for number, e in enumerate(loop.dependences):
        parts = 3 if number % 2 else 2
        source, left = e.source, e.delay_cycles
        for step in range(parts - 1):
            operations.append(Operation(f"between_{number}_{step}"))
            edges.append(Dependence(source, len(operations) - 1, left // 2))
            source, left = len(operations) - 1, left - left // 2
        edges.append(Dependence(source, e.sink, left, e.distance))
    return replace(loop, operations=tuple(operations), dependences=tuple(edges))


def test_a_large_loop_gets_the_optimum_of_its_few_operations_with_units() -> None:
    loop = with_chains()
    assert len(loop.operations) > max(50, JOINT_OPERATIONS - 14)
    longer = replace(
        loop, operations=(*loop.operations, *(Operation(f"alone_{n}") for n in range(20)))
    )
    found = run(longer, Request(budget_seconds=10))
    assert found.schedule is not None and check(longer, found.schedule) == []
    assert found.schedule.ii == OPTIMUM and found.produced_by == REDUCED
    assert found.evidence.kind == "bound"


@pytest.mark.parametrize("fault", ["shorter", "forgotten"])
def test_a_fault_of_the_reduction_gives_no_wrong_schedule(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """What is handed back has passed the checker on the whole loop."""
    right, wrong = contract._dependence, 0

    def planted(source: int, sink: int, distance: int, ii: int) -> Dependence:
        made = right(source, sink, distance, ii)
        forgotten = -9 if fault == "shorter" else -made.delay_cycles - 99
        return replace(made, delay_cycles=made.delay_cycles + forgotten)

    monkeypatch.setattr(contract, "_dependence", planted)
    for seed in range(20):
        loop = random_loop(seed)
        found = contract.schedule_at(loop, bounds(loop).ii + 1, much())
        wrong += found is None
        assert found is None or check(loop, found) == []
    assert wrong > 3, "the fault is seen"


def test_what_is_not_reduced() -> None:
    loop = random_loop(1)
    stored = replace(loop.operations[0], registers=4)
    assert not contract.applies(replace(loop, operations=(stored, *loop.operations[1:])))
    assert not contract.applies(mips_like()), "every operation takes a unit"
