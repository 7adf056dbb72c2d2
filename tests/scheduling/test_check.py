"""The checker of schedules: it accepts what the simulation accepts, and refuses planted faults."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.scheduling.simulate import violations
from titan.scheduling.check import KINDS, check
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.model import ORDER, Dependence, Loop, Operation, ReservationUse
from titan.scheduling.model import Schedule
from titan.target.model import Machine, Memory, ResourcePool, Unit, WarpGroup


def test_agrees_with_the_played_program_on_random_schedules() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1500):
        loop, rng = small_loop(seed), random.Random(seed)
        ii = rng.randint(1, 6)
        starts = tuple(rng.randint(0, 6) for _ in loop.operations)
        teams = tuple(rng.randrange(len(loop.teams)) for _ in loop.operations)
        kinds = {fault.kind for fault in check(loop, Schedule(ii, starts, teams))}
        expected = violations(loop, ii, starts, teams)
        assert kinds == expected, (seed, ii, starts, teams)
        seen.update(kinds or {"none"})
    wanted = set(KINDS) - {"shape", "start", "completion"} | {"none"}
    assert wanted <= set(seen), wanted - set(seen)


MACHINE = Machine(
    "m",
    "",
    {name: Unit(name, 1) for name in ("A", "B", "C")},
    (ResourcePool("P", (("B", 1), ("C", 1)), 1),),
    {"shared": Memory("shared", 10)},
    threads_per_warp=1,
)
GROUPS = (WarpGroup("load", 1, None, True), WarpGroup("x", 2, 5), WarpGroup("y", 2, 5))


def sound() -> tuple[Loop, Schedule]:
    """A loop in which every kind of constraint is at its limit, and a schedule that holds."""
    operations = (
        Operation(
            "ld",
            (ReservationUse("C", 1),),
            1,
            footprints=(("shared", 3),),
            variable_latency=True,
            streaming=True,
            slots=2,
        ),
        Operation("a", (ReservationUse("A", 2),), 2, registers=6, warps=2, spill_cycles=1),
        Operation(
            "b", (ReservationUse("B", 1),), 1, registers=4, warps=2, footprints=(("shared", 4),)
        ),
        Operation("c", (ReservationUse("A", 1),), 1, warps=2),
    )
    dependences = (
        Dependence(0, 1, 1, 0, blocking=True),
        Dependence(1, 2, 2),
        Dependence(2, 3, 1),
        Dependence(3, 0, 1, 2, ORDER),
    )
    loop = Loop("sound", MACHINE, operations, dependences, GROUPS)
    return loop, Schedule(4, (0, 1, 5, 7), (0, 1, 2, 2))


def test_accepts_the_sound_schedule() -> None:
    loop, schedule = sound()
    assert check(loop, schedule, schedule.length(loop)) == []
    assert violations(loop, schedule.ii, schedule.starts, schedule.teams) == set()


def moved(schedule: Schedule, v: int, start: int) -> Schedule:
    starts = list(schedule.starts)
    starts[v] = start
    return replace(schedule, starts=tuple(starts))


def placed(schedule: Schedule, v: int, team: int) -> Schedule:
    teams = list(schedule.teams)
    teams[v] = team
    return replace(schedule, teams=tuple(teams))


LOOP, GOOD = sound()
PLANTED = [
    ("dependence", LOOP, moved(GOOD, 2, 2)),
    ("spill", LOOP, moved(GOOD, 2, 3)),
    ("capacity", LOOP, moved(GOOD, 3, 6)),
    ("pool", LOOP, moved(GOOD, 2, 4)),
    ("start", LOOP, moved(GOOD, 0, -1)),
    ("shape", LOOP, replace(GOOD, ii=0)),
    ("shape", LOOP, replace(GOOD, starts=GOOD.starts[:-1])),
    ("warps", LOOP, placed(GOOD, 3, 7)),
    ("warps", LOOP, placed(GOOD, 3, 0)),
    ("variable-latency", LOOP, placed(GOOD, 0, 1)),
    ("variable-latency", LOOP, placed(GOOD, 3, 0)),
    ("registers", replace(LOOP, groups=(GROUPS[0], replace(GROUPS[1], registers_per_thread=2),
                                        GROUPS[2])), GOOD),
    ("memory", replace(LOOP, memories=(("shared", 9),)), GOOD),
    ("ring", replace(LOOP, operations=(replace(LOOP.operations[0], slots=1),
                                       *LOOP.operations[1:])), moved(GOOD, 1, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "loop", "schedule"), PLANTED)
def test_refuses_planted_faults(kind: str, loop: Loop, schedule: Schedule) -> None:
    assert kind in {fault.kind for fault in check(loop, schedule)}


def test_refuses_a_schedule_longer_than_it_claims() -> None:
    loop, schedule = sound()
    faults = check(loop, schedule, schedule.length(loop) - 1)
    assert {fault.kind for fault in faults} == {"completion"}


def test_refuses_waiting_while_another_operation_is_issued() -> None:
    loop, schedule = sound()
    waits = replace(loop.dependences[2], blocking=True)
    again = replace(loop, dependences=(*loop.dependences[:2], waits, *loop.dependences[3:]))
    busy = replace(loop.operations[2], issue_cycles=1, uses=(ReservationUse("B", 1),))
    changed = replace(again, operations=(*loop.operations[:2], busy, loop.operations[3]))
    assert check(changed, schedule) == []
    slow = replace(busy, uses=(ReservationUse("B", 1), ReservationUse("D", 4)), issue_cycles=None)
    machine = replace(MACHINE, units={**MACHINE.units, "D": Unit("D", 1)})
    broken = replace(
        changed, machine=machine, operations=(*loop.operations[:2], slow, loop.operations[3])
    )
    assert {f.kind for f in check(broken, schedule)} == {"concurrency"}


def test_counts_values_that_outlive_the_schedule() -> None:
    """A loop-carried value lives past the unrolling to its length: three copies, not two."""
    machine = Machine("m", "", {"A": Unit("A", 1)}, threads_per_warp=1)
    operations = (Operation("a", (ReservationUse("A", 1),), 1, registers=1), Operation("b", (), 1))
    carried = Dependence(0, 1, 1, 3)
    loop = Loop("long", machine, operations, (carried,), (WarpGroup("g", 1, 2),))
    schedule = Schedule(2, (0, 0), (0, 0))
    assert schedule.stages(loop) == 1
    assert {f.kind for f in check(loop, schedule)} == {"registers"}
    assert check(replace(loop, groups=(WarpGroup("g", 1, 3),)), schedule) == []


def test_order_dependences_end_no_lifetime() -> None:
    machine = Machine("m", "", {"A": Unit("A", 1)}, threads_per_warp=1)
    operations = (Operation("a", (ReservationUse("A", 1),), 1, registers=5),)
    order = Dependence(0, 0, 1, 4, ORDER)
    loop = Loop("order", machine, operations, (order,), (WarpGroup("g", 1, 1),))
    assert check(loop, Schedule(1, (0,), (0,))) == []
    data = replace(loop, dependences=(replace(order, kind="data"),))
    assert {f.kind for f in check(data, Schedule(1, (0,), (0,)))} == {"registers"}
