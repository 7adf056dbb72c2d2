"""Rau scheduling: the C loops and their Python twins, the arms, the searches, and diagnostics."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from tests.sampling import part
from titan.foundation.resources import root
from titan.scheduling import native, rau
from titan.scheduling.arms import (
    ArmPlacement,
    Overlay,
    cheapest,
    cost,
    fuse,
    groups,
    may_fuse,
    place_all,
    retry,
)
from titan.scheduling.assign import assign
from titan.scheduling.check import check
from titan.scheduling.iterative import heights, iterative
from titan.scheduling.loop.bounds import Unschedulable, bounds
from titan.scheduling.loop.generate import large_loop, small_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.scheduling.loop.recurrence import recurrence as plain_recurrence
from titan.scheduling.problem import compile_problem
from titan.scheduling.swing import pressure, swing
from titan.scheduling.table import ReservationTable
from titan.scheduling.work import SearchWork
from titan.target.model import Machine, Unit, WarpGroup

LOOPS = sorted(path.stem for path in (root("protocols") / "loops").glob("*.yaml"))
SLOW = {"fa3_forward_one"}
needs_core = pytest.mark.skipif(native.core() is None, reason="the C module is not built")


def library(name: str) -> Loop:
    return load_loop(root("protocols") / "loops" / f"{name}.yaml")


@needs_core
def test_c_and_python_place_alike() -> None:
    compared = 0
    for seed in range(200):
        loop = small_loop(seed) if seed % 2 else large_loop(30 + seed % 40, seed)
        teams = assign(loop)
        if teams is None:
            continue
        problem = compile_problem(loop, teams)
        if problem.fractional:
            continue
        placer = native.Placer(problem)
        for ii in range(1, 14):
            height = heights(problem, ii)
            assert placer.heights(ii) == height
            if height is None:
                continue
            budget = 4 * problem.n
            assert placer.place(ii, budget, height) == iterative(problem, ii, budget, height)
            compared += 1
    assert compared > 1000


@needs_core
def test_c_and_python_find_the_same_recurrence() -> None:
    for seed in range(200):
        loop = large_loop(20 + seed, seed, back=0.3)
        arcs = [(e.source, e.sink, e.delay_cycles, e.distance) for e in loop.dependences]
        assert native.recurrence(len(loop.operations), arcs) == plain_recurrence(
            len(loop.operations), arcs
        )


def test_recurrence_bound_is_the_least_interval_without_a_positive_cycle() -> None:
    for seed in range(60):
        loop = large_loop(12, seed, back=0.5)
        problem = compile_problem(loop)
        bound = bounds(loop).recurrence
        assert heights(problem, bound.ii) is not None
        assert bound.ii == 1 or heights(problem, bound.ii - 1) is None


LONG = ("gemm_epilogue", "fa4_forward_whole")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.heavy if name in LONG else ())
        for name in LOOPS
        if name not in SLOW
    ],
)
def test_library_loops_are_scheduled_and_hold(name: str) -> None:
    loop = library(name)
    outcome = rau.solve(loop, rau.RauOptions(seconds=30))
    assert outcome.schedule is not None
    assert check(loop, outcome.schedule) == []
    assert outcome.schedule.ii >= outcome.evidence.lower_bound


@pytest.mark.parametrize(
    ("name", "ii"),
    [("fa3_forward", 2048), ("fa3_backward", 2560), ("fa4_forward", 2048), ("gemm_hopper", 1024)],
)
def test_real_loops_reach_their_bound(name: str, ii: int) -> None:
    outcome = rau.solve(library(name))
    assert outcome.schedule is not None and outcome.proved
    assert outcome.schedule.ii == ii


def test_linear_and_galloping_search_agree() -> None:
    for seed in range(part(40)):
        loop = small_loop(seed)
        try:
            linear = rau.solve(loop, rau.RauOptions(search="linear", ii_cap=40))
            gallop = rau.solve(loop, rau.RauOptions(search="gallop", ii_cap=40))
        except Unschedulable:
            continue
        one = linear.schedule.ii if linear.schedule else None
        two = gallop.schedule.ii if gallop.schedule else None
        assert one == two, seed


def test_the_same_call_gives_the_same_schedule() -> None:
    for seed in range(20):
        loop = large_loop(60, seed)
        assert rau.solve(loop).schedule == rau.solve(loop).schedule


def test_every_arm_places_only_what_holds() -> None:
    used: set[str] = set()
    for seed in range(150):
        loop = large_loop(14, seed, units=2, back=0.4)
        problem = compile_problem(loop)
        for ii in range(bounds(loop).ii, bounds(loop).ii + 3):
            height = heights(problem, ii)
            assert height is not None
            state = ArmPlacement(problem, ii, height)
            if place_all(state, groups(problem, height)):
                used.update(state.arms_used)
                faults = check(loop, rau.Schedule(ii, tuple(state.starts), (0,) * problem.n))
                assert faults == []
    assert {"permute", "fuse"} <= used


def chain(delays: int = 1) -> Loop:
    machine = Machine("m", "", {"A": Unit("A", 1)})
    operations = tuple(Operation(f"o{i}", (ReservationUse("A", 1),), 1) for i in range(3))
    dependences = (Dependence(0, 1, delays), Dependence(1, 2, delays))
    return Loop("chain", machine, operations, dependences)


def test_fusion_is_refused_where_order_is_required() -> None:
    state = ArmPlacement(compile_problem(chain()), 3, [0, 0, 0])
    assert not may_fuse(state, [0], [2])
    assert not may_fuse(state, [2], [0])
    free = ArmPlacement(compile_problem(replace(chain(), dependences=())), 3, [0, 0, 0])
    assert may_fuse(free, [0], [2])


def test_fusion_is_refused_across_the_edge_of_an_inner_loop() -> None:
    """2 is in the inner loop that 1 stands for, which is in that of 0: no dependence is needed."""
    problem = compile_problem(replace(chain(), dependences=()))
    state = ArmPlacement(problem, 3, [0, 0, 0], parents=(None, 0, 1))
    for a, b in (([0], [1]), ([1], [2]), ([0], [2]), ([2], [0])):
        assert not may_fuse(state, a, b)
    beside = ArmPlacement(problem, 3, [0, 0, 0], parents=(None, 0, 0))
    assert may_fuse(beside, [1], [2])


def test_retry_leaves_out_what_is_dead_and_seats_it_last() -> None:
    """An operation of 3 rows has no seat until the others, of 1 row, have left the middle free."""
    machine = Machine("m", "", {"A": Unit("A", 1)})
    operations = tuple(
        Operation(f"o{i}", (ReservationUse("A", c),)) for i, c in enumerate((1, 2, 1))
    )
    state = ArmPlacement(compile_problem(Loop("l", machine, operations, ())), 4, [0, 0, 0])
    overlay = Overlay({0})
    assert retry(state, [0, 1, 2], overlay)
    assert state.starts == [3, 0, 2]  # 0 would have been first; it is looked at when 1 and 2 sit
    full = ArmPlacement(state.problem, 4, [0, 0, 0])
    assert not retry(full, [0], Overlay({0}))  # nothing alive is left to place
    assert full.starts == [-1, -1, -1]


def test_large_loops_are_placed_by_the_arms_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where eviction fails, the arms place a loop of more operations than `LARGE`."""
    loop = large_loop(rau.LARGE + 100, 3)
    monkeypatch.setattr(native.Placer, "place", lambda *_: (None, 0, 0))
    found = rau.solve(loop, rau.RauOptions(search="linear"))
    assert found.schedule is not None and check(loop, found.schedule) == []
    assert "arms" in found.statistics["arms"]  # type: ignore[operator]
    none = rau.solve(loop, rau.RauOptions(search="linear", arms_max=400, ii_cap=30))
    assert none.schedule is None


def test_retry_and_cost_leave_canonical_state_untouched_when_they_fail() -> None:
    loop = replace(chain(), dependences=(Dependence(0, 2, 1), Dependence(2, 0, 1, 1)))
    problem = compile_problem(loop)
    state = ArmPlacement(problem, 2, [0, 0, 0])
    state.seat(1, 0)
    state.seat(2, 1)
    before = (list(state.starts), [list(rows) for rows in state.table.rows])
    for arm in (retry, cost):
        overlay = Overlay()
        assert not arm(state, [0], overlay)
        assert overlay.dead == {0}
        assert (state.starts, state.table.rows) == before
    assert not fuse(state, [0], [])
    assert (state.starts, state.table.rows) == before


def test_probe_changes_nothing_and_agrees_with_counting() -> None:
    loop = small_loop(11)
    problem = compile_problem(loop, assign(loop))
    table = ReservationTable(problem, 4)
    for start in range(6):
        rows = [list(r) for r in table.rows]
        table.probe(0, start)
        assert table.rows == rows
    table.commit(0, 2)
    table.remove(0, 2)
    assert all(not any(rows) for rows in table.rows)


def test_a_failure_names_all_six_things() -> None:
    loop = replace(chain(2), dependences=(*chain(2).dependences, Dependence(2, 0, 1, 1)))
    outcome = rau.solve(replace(loop, dependences=loop.dependences), rau.RauOptions(ii_cap=4))
    assert outcome.schedule is None or outcome.schedule.ii >= 5
    problem = compile_problem(loop)
    state = ArmPlacement(problem, 4, [0, 0, 0])
    assert not place_all(state, [[0, 1, 2]])
    failure = state.failure
    assert failure is not None
    assert failure.ii == 4 and failure.cycles == 1 and failure.footprint and failure.rows
    assert failure.window[1] is not None and failure.group == (0, 1, 2) and failure.stage >= 0


def test_stages_bound_raises_the_interval() -> None:
    loop = chain(10)
    free = rau.solve(loop)
    tight = rau.solve(loop, rau.RauOptions(stages_max=2))
    assert free.schedule is not None and tight.schedule is not None
    assert tight.evidence.lower_bound == 11 > free.evidence.lower_bound
    assert tight.schedule.stages(loop) <= 2


@pytest.mark.heavy
@pytest.mark.long
def test_register_awareness_refuses_what_the_naive_scheduler_accepts() -> None:
    loop = library("gemm_epilogue")
    naive = rau.solve(loop, rau.RauOptions(registers="naive", seconds=20))
    aware = rau.solve(loop, rau.RauOptions(seconds=20))
    assert naive.schedule is not None and aware.schedule is not None
    assert naive.schedule.ii < aware.schedule.ii
    kinds = {fault.kind for fault in check(loop, naive.schedule)}
    assert kinds == {"registers"}


def test_swing_keeps_values_short() -> None:
    loop = library("fa4_forward")
    teams = assign(loop)
    assert teams is not None
    problem = compile_problem(loop, teams)
    height = heights(problem, 2048)
    assert height is not None
    starts, seats = swing(problem, 2048, height, loop)
    assert starts is not None and seats >= len(starts)
    assert check(loop, rau.Schedule(2048, tuple(starts), teams)) == []


def test_ten_thousand_operations() -> None:
    loop = large_loop(10_000, 1)
    outcome = rau.solve(loop)
    assert outcome.schedule is not None and outcome.proved
    # the widest reservations come first, and no other order was tried before
    assert outcome.statistics["arms"] == {"evict by width": 1, "style specialised": 1}
    placements = outcome.statistics["placements"]
    assert isinstance(placements, int) and placements < 2 * len(loop.operations)


def test_the_rows_of_a_failure_are_those_of_the_conflict() -> None:
    """A unit that is full everywhere: the failure names its rows, not those of the first seat."""
    units = {"A": Unit("A", 1), "B": Unit("B", 1)}
    machine = Machine("m", "", units)
    operations = (
        Operation("first", (ReservationUse("A", 3),)),
        Operation("second", (ReservationUse("B", 1), ReservationUse("A", 2))),
    )
    loop = Loop("l", machine, operations, ())
    problem = compile_problem(loop)
    state = ArmPlacement(problem, 4, [0, 0])
    state.seat(0, 0)
    assert state.earliest(1) is None
    assert state.failure is not None and state.failure.pool == "A"
    assert {row[0] for row in state.failure.rows} == {"A"}
    assert all(held == limit == 1 for _, _, held, limit in state.failure.rows)


def test_storage_that_rejects_placements_is_recorded() -> None:
    """Two values of 3 words that are alive at once, in a group of 4 words."""
    machine = Machine(
        "m", "", {"A": Unit("A", 1)}, threads_per_warp=1, warps_max=8, registers_total=99
    )
    operations = (
        Operation("u", (ReservationUse("A", 1),), 9, registers=3),
        Operation("v", (ReservationUse("A", 1),), 1),
    )
    loop = Loop("l", machine, operations, (Dependence(0, 1, 9),), (WarpGroup("g", 1, 4),))
    result = rau.solve(loop, rau.RauOptions(search="linear"))
    assert result.schedule is not None and result.schedule.ii >= 9
    (one,) = result.rejections
    assert (one.resource, one.group, one.limit) == ("registers", 0, 4)
    assert one.used > one.limit and one.count >= 1
    assert one.used == sum(3 * copies for _, copies in one.cover)


def test_scattered_feasibility_is_found_by_samples() -> None:
    """Ten of every thirty intervals from 150 up are feasible; galloping meets one far above."""
    run = rau._Run(small_loop(0), rau.RauOptions(), SearchWork(1e9))

    def feasible(ii: int) -> bool:
        if ii not in run.tried:
            fits = ii >= 150 and ii % 30 < 10
            run.tried[ii] = rau.Schedule(ii, (), ()) if fits else None
        return run.tried[ii] is not None

    found = rau.gallop(run, feasible, 101, 5000)
    assert found is not None and found <= 190
    assert len(run.tried) < 200


def test_a_spent_budget_ends_the_search() -> None:
    """Nothing may be done: few intervals, and one way of placing each."""
    result = rau.solve(library("fa3_backward"), rau.RauOptions(seconds=0.0))
    assert result.statistics["intervals_tried"] <= 3  # type: ignore[operator]


def test_the_cheapest_seat_is_that_of_all_seats_ranked():
    """Against a probe of every seat, ranked by rows, pressure and distance counted one by one."""

    def registers(loop, starts, v, t, e):
        """Register-cycles of the value of a dependence, where v is one of its ends and at t."""
        if e.kind != "data" or e.source == e.sink or v not in (e.source, e.sink):
            return 0
        begin, end = (t if x == v else starts[x] for x in (e.source, e.sink))
        placed = min(begin, end) >= 0 or starts[e.sink if e.source == v else e.source] >= 0
        return max(0, end - begin) * loop.operations[e.source].registers if placed else 0

    def slow(state, v):
        table, ii = state.table, state.ii
        ranked = []
        for t in state.seats(v):
            if table.probe(v, t) is not None:
                continue
            rows = sum(
                table.rows[unit][(t + first + k) % ii]
                for unit, first, cycles, _ in state.problem.blocks[v]
                for k in range(min(cycles, ii))
            )
            near = sum(t - state.starts[u] for u, _ in state.into[v] if state.starts[u] >= 0)
            near += sum(state.starts[w] - t for w, _ in state.out[v] if state.starts[w] >= 0)
            words = sum(registers(loop, state.starts, v, t, e) for e in loop.dependences)
            ranked.append((rows, words, near, t))
        return min(ranked)[-1] if ranked else None

    placed = 0
    for seed in range(part(120, 20)):
        loop = small_loop(seed) if seed % 2 else large_loop(12 + seed % 20, seed)
        problem = compile_problem(loop, assign(loop) if loop.has_teams else None)
        ii = bounds(loop).ii + seed % 3
        state = ArmPlacement(problem, ii, [0] * problem.n, pressure(loop))
        for v in range(problem.n):
            wanted = slow(state, v)
            assert cheapest(state, v) == wanted, (seed, v)
            if wanted is not None:
                state.seat(v, wanted)
                placed += 1
    assert placed > 40


def mixed_loop(n: int, seed: int) -> Loop:
    """A large loop whose operations take one to three blocks of two units, some of them late."""
    rng = random.Random(seed)
    loop = large_loop(n, seed, back=0.2)
    names = sorted(loop.units)
    units = {name: Unit(name, rng.choice((3, 4, 7))) for name in names}
    operations = tuple(
        replace(
            operation,
            uses=tuple(
                ReservationUse(
                    rng.choice(names), rng.randint(1, 4), rng.randint(1, 3), rng.choice((0, 0, 2))
                )
                for _ in range(rng.choice((0, 1, 1, 2, 3)))
            ),
        )
        for operation in loop.operations
    )
    return replace(loop, operations=operations, machine=replace(loop.machine, units=units))


@needs_core
def test_c_and_python_place_operations_of_several_blocks_alike() -> None:
    compared = failed = 0
    for seed in range(30):
        loop = mixed_loop(20 + seed, seed)
        problem = compile_problem(loop, assign(loop))
        of_loop, of_problem = native.read(loop), native.Placer(problem)
        assert of_loop is not None
        read = native.Placer(problem, of_loop)
        for ii in (2, 3, 5, 8, 13, 21, 34, 55, 89):
            height = heights(problem, ii)
            assert read.heights(ii) == of_problem.heights(ii) == height
            if height is None:
                continue
            assert read.rows(ii) == of_problem.rows(ii)
            for order in (height, read.numbers(read.by_width(height))):
                found = iterative(problem, ii, 6 * problem.n, order)
                assert of_problem.place(ii, 6 * problem.n, order) == found
                assert read.place(ii, 6 * problem.n, order) == found
                compared += 1
                failed += found[0] is None
    assert compared > 200
    assert 20 < failed < compared - 20


@needs_core
def test_what_c_reads_of_a_loop_is_what_the_loop_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        loop = mixed_loop(450, seed) if seed % 2 else large_loop(450, seed)
        columns = native.read(loop)
        assert columns is not None
        try:
            known = bounds(loop)
        except Unschedulable as error:
            with pytest.raises(Unschedulable, match=re.escape(str(error))):
                bounds(loop, counted=columns)
            continue
        assert bounds(loop, counted=columns) == known
        assert bounds(loop, 3, counted=columns) == bounds(loop, 3)
        assert columns.sequential_ii == rau.sequential_ii(loop)
        options = rau.RauOptions(seconds=0.02, below_max=4)
        outcome = rau.solve(loop, options)
        with monkeypatch.context() as patched:
            patched.setattr(rau, "read", lambda _: None)
            plain = rau.solve(loop, options)
        assert replace(outcome, seconds=0.0) == replace(plain, seconds=0.0)


@needs_core
def test_c_leaves_to_python_what_its_columns_do_not_hold() -> None:
    loop = large_loop(20, 1)
    first, *rest = loop.operations

    def with_first(**fields: object) -> Loop:
        return replace(loop, operations=(replace(first, **fields), *rest))  # type: ignore[arg-type]

    class Number(int):
        pass

    assert native.read(loop) is not None
    edge = loop.dependences[0]
    others = [
        replace(loop, groups=(WarpGroup("g", 4),)),
        with_first(registers=1),
        with_first(footprints=(("shared", 1),)),
        with_first(slots=2),
        with_first(latency_cycles=1 << 40),
        with_first(latency_cycles=Number(3)),
        with_first(latency_cycles=True),
        with_first(spill_cycles=None),
        with_first(uses=(ReservationUse("nowhere", 1),)),
        with_first(uses=(ReservationUse("U0", 0),)),
        with_first(uses=[ReservationUse("U0", 1)]),
        with_first(uses=("U0",)),
        replace(loop, dependences=(replace(edge, sink=20),)),
        replace(loop, dependences=(replace(edge, source=-1),)),
        replace(loop, dependences=(replace(edge, distance=-1),)),
        replace(loop, dependences=(replace(edge, delay_cycles=1.0),)),  # type: ignore[arg-type]
        replace(loop, dependences=list(loop.dependences)),  # type: ignore[arg-type]
        replace(loop, operations=list(loop.operations)),  # type: ignore[arg-type]
        replace(loop, operations=()),
    ]
    assert [native.read(other) for other in others] == [None] * len(others)
