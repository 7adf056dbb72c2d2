"""When time runs out a schedule is still found; and loops without warp specialisation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from titan.foundation.resources import root
from titan.scheduling import joint, rau
from titan.scheduling import run as module
from titan.scheduling.check import check
from titan.scheduling.common import common_group
from titan.scheduling.loop.bounds import Unschedulable, bounds
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import SchedulerResult
from titan.scheduling.normalise import Normalised, TooSmall, normalise_loop
from titan.scheduling.refine import stretched
from titan.scheduling.run import Request, run
from titan.scheduling.sequence import in_sequence, topological
from titan.scheduling.work import SearchWork


def library(name: str) -> Loop:
    return load_loop(root("protocols") / "loops" / f"{name}.yaml")


def test_operations_in_sequence_are_legal_on_random_loops() -> None:
    found = 0
    for seed in range(150):
        loop = small_loop(seed)
        order = topological(loop)
        place = {v: i for i, v in enumerate(order)}
        assert sorted(order) == list(range(len(loop.operations)))
        assert all(place[e.source] < place[e.sink] for e in loop.dependences if not e.distance)
        try:
            lower = bounds(loop).ii
        except Unschedulable:
            continue
        teams = tuple(0 for _ in loop.operations)
        schedule = in_sequence(loop, teams, lower)
        if schedule is not None:
            assert not check(loop, schedule) and schedule.ii >= lower
            found += 1
    assert found > 50


def test_rau_without_time_still_finds_a_schedule() -> None:
    loop = common_group(library("fa3_backward"))
    outcome = rau.solve(loop, rau.RauOptions(seconds=0.01))
    assert outcome.schedule is not None and not check(loop, outcome.schedule)
    assert outcome.schedule.ii > outcome.evidence.lower_bound
    assert outcome.statistics["arms"]["in sequence"] == 1  # type: ignore[index]


@pytest.mark.heavy
@pytest.mark.long
def test_a_tight_register_limit_gives_a_larger_interval_not_nothing() -> None:
    loop = library("fa3_backward")
    groups = tuple(
        replace(g, registers_per_thread=176) if g.registers_per_thread else g for g in loop.groups
    )
    loop = replace(loop, groups=groups)
    result = run(loop, Request(solver="joint", total_max=60, budget_seconds=4))
    assert result.schedule is not None and not check(loop, result.schedule)
    assert result.produced_by == "joint, larger interval" and result.gap is not None
    assert result.gap > 0 and not result.proved


@pytest.mark.parametrize("name", ["fa3_forward_one", "fa3_forward", "gemm_epilogue", "fa4_forward"])
def test_a_stretched_schedule_keeps_every_limit(name: str) -> None:
    loop = library(name)
    coarse = normalise_loop(loop, 60).loop
    rough = joint.anyhow(coarse, joint.JointOptions(budget_seconds=20))
    assert rough is not None and not check(coarse, rough)
    schedule = stretched(loop, coarse, rough)
    assert schedule is not None and not check(loop, schedule)


def test_one_group_does_everything_without_transfers() -> None:
    loop = library("fa3_forward")
    common = common_group(loop)
    assert [(g.warps, g.registers_per_thread) for g in common.groups] == [(8, 255)]
    assert not any(op.variable_latency for op in common.operations)
    assert common_group(replace(loop, groups=())).groups == ()
    dealt = library("fa4_forward")
    (group,) = common_group(dealt).groups
    assert (group.warps, group.registers_per_thread) == (12, 168)
    assert group.warps * 32 * (group.registers_per_thread or 0) <= dealt.machine.registers_total


@pytest.mark.parametrize("far", [True, False])
def test_where_the_interval_is_far_a_rougher_loop_is_searched_too(
    monkeypatch: pytest.MonkeyPatch, far: bool
) -> None:
    """The first search is answered by a plain sequence, of a large interval or of the least."""
    loop = common_group(library("fa3_backward"))
    lower = bounds(loop).ii
    teams = tuple(0 for _ in loop.operations)
    asked: list[int] = []

    def normalised(given: Loop, total_max: int) -> Normalised:
        asked.append(total_max)
        raise TooSmall("not in this test")

    def kept(given: Loop, options: rau.RauOptions, work: SearchWork) -> SchedulerResult:
        schedule = in_sequence(given, teams, lower)
        assert schedule is not None and schedule.ii > lower
        interval = schedule.ii if far else lower + 1
        return replace(real_rau(given, options, work), schedule=replace(schedule, ii=interval))

    real_rau = rau.solve
    monkeypatch.setattr(module, "normalise_loop", normalised)
    monkeypatch.setattr(rau, "solve", kept)
    monkeypatch.setattr(module, "check", lambda loop, schedule: [])
    run(loop, Request(budget_seconds=0.5))
    assert asked == ([300, module.ROUGHER_TOTAL] if far else [300])
