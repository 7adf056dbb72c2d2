"""Distances between operations: no legal schedule leaves them, on random loops, all placements."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from titan.foundation.resources import root
from titan.scheduling import cnf
from titan.scheduling.check import check
from titan.scheduling.encode import Infeasible, allowed_teams
from titan.scheduling.joint import Attempt, JointOptions, Search
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import DATA, ORDER, Dependence, Loop, WarpGroup
from titan.scheduling.model import Schedule
from titan.scheduling.reach import Reach, reach
from titan.scheduling.work import SearchWork

CYCLES = 11


def limited_loop(seed: int, units: bool = False) -> Loop:
    """A loop whose values all take registers, with small limits and values that go around."""
    rng = random.Random(seed)
    loop = small_loop(seed)
    operations = tuple(
        replace(
            op,
            registers=rng.choice((1, 1, 2, 3)),
            warps=1,
            variable_latency=False,
            slots=None,
            uses=op.uses if units else (),
        )
        for op in loop.operations[:3]
    )
    n = len(operations)
    arcs = [
        Dependence(u, u + 1, rng.randint(0, 2), rng.choice((0, 0, 1)), DATA) for u in range(n - 1)
    ]
    for _ in range(rng.randint(0, 2)):
        u, v = rng.randrange(n), rng.randrange(n)
        kind = rng.choice((DATA, DATA, ORDER))
        hold = rng.choice((0, 0, 1)) if kind == DATA else 0
        arcs.append(Dependence(u, v, rng.randint(0, 2), rng.randint(1, 2), kind, False, hold))
    groups = tuple(WarpGroup(f"g{i}", 1, rng.randint(2, 5)) for i in range(rng.choice((1, 1, 2))))
    return replace(loop, operations=operations, dependences=tuple(arcs), groups=groups)


def legal(loop: Loop, ii: int) -> list[tuple[int, ...]]:
    """Starts of every legal schedule within CYCLES whose first operation is at 0."""
    n = len(loop.operations)
    teams = list(product(*(allowed_teams(loop, v) for v in range(n))))
    found = []
    for starts in product(range(CYCLES), repeat=n):
        if min(starts) == 0 and any(
            not check(loop, Schedule(ii, starts, t), faults_max=1) for t in teams
        ):
            found.append(starts)
    return found


def windows(loop: Loop, ii: int) -> Reach | str | None:
    try:
        return reach(loop, ii)
    except Infeasible:
        return "none"


def test_no_legal_schedule_leaves_the_distances() -> None:
    bounded = refused = schedules = touched = 0
    for seed in range(60):
        loop = limited_loop(seed)
        for ii in (1, 2, 3):
            found = windows(loop, ii)
            if found is None:
                continue
            starts = legal(loop, ii)
            if isinstance(found, str):
                assert not starts, (seed, ii)
                refused += 1
                continue
            bounded += 1
            schedules += len(starts)
            for row in starts:
                for v, t in enumerate(row):
                    since = t - row[found.anchor]
                    assert found.low[v] <= since <= found.high[v], (seed, ii, row)
                    touched += v != found.anchor and since == found.high[v]
    assert bounded > 40 and refused > 10 and schedules > 400 and touched > 50


def test_a_refutation_of_any_length_agrees_with_all_placements() -> None:
    answers = {True: 0, False: 0}
    for seed in range(60, 110):
        loop = limited_loop(seed, units=True)
        for ii in (1, 2, 3):
            found = windows(loop, ii)
            if not isinstance(found, Reach) or found.cycles > CYCLES:
                continue
            search = Search(loop, JointOptions(second_solver=False), SearchWork(1e9))
            search.engine = cnf.available()[0]
            try:
                schedule = Attempt(search, ii, found.cycles, found).find(None)
            except Infeasible:
                schedule = None
            assert (schedule is not None) == bool(legal(loop, ii)), (seed, ii)
            answers[schedule is not None] += 1
    assert min(answers.values()) > 5, answers


@pytest.mark.parametrize("name", ["fa3_forward_one", "gemm_hopper", "linear_attention"])
def test_distances_of_real_loops_are_a_few_intervals(name: str) -> None:
    loop = load_loop(root("protocols") / "loops" / f"{name}.yaml")
    found = reach(loop, 2048)
    assert found is not None and found.cycles < 8 * 2048


def test_a_value_that_nothing_limits_has_no_distance() -> None:
    loop = load_loop(root("protocols") / "loops" / "fa_simplified.yaml")
    assert reach(loop, 2) is None
