"""The warp assignment of a schedule is that of the kernel, or is refused with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from titan.codegen.pipeline import assignment
from titan.codegen.pipeline.assignment import as_the_form, form_teams, misplaced
from titan.codegen.pipeline.build import BuildLimits, build, considered, scheduled
from titan.codegen.tile.load import load_tile, targets_of
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.scheduling import run as scheduling
from titan.scheduling.check import check

TILES = root("protocols") / "tiles"
RAU = BuildLimits(2.0, solver="rau")


def gemm():
    return load_tile(TILES / "gemm.yaml", target="sm_90a")


def test_a_schedule_with_the_groups_of_the_form_is_taken_as_it_is():
    tile = gemm()
    loop, result, _ = scheduled(tile, RAU)
    assert misplaced(tile, loop, result.schedule) == []
    assert as_the_form(tile, loop, result, 2.0) == (result, "")
    assert None not in form_teams(tile, loop)


def test_groups_by_other_names_are_the_same_kernel():
    tile = gemm()
    loop, result, _ = scheduled(tile, RAU)
    swap = {loop.teams[i].name: i for i in range(len(loop.teams))}
    other = {swap["consumer0"]: swap["consumer1"], swap["consumer1"]: swap["consumer0"]}
    teams = tuple(other.get(team, team) for team in result.schedule.teams)
    assert misplaced(tile, loop, replace(result.schedule, teams=teams)) == []


def moved(loop, result, name):
    """The schedule with one operation on the other computing group."""
    v = loop.index[name]
    groups = {group.name: i for i, group in enumerate(loop.teams)}
    teams = list(result.schedule.teams)
    teams[v] = next(groups[g] for g in ("consumer0", "consumer1") if groups[g] != teams[v])
    return replace(result, schedule=replace(result.schedule, teams=tuple(teams)))


def test_another_assignment_is_refused_and_the_kernel_has_that_of_the_form(monkeypatch):
    tile = gemm()
    real = scheduling.run

    def odd(loop, request):
        found = real(loop, replace(request, solver="rau"))
        return moved(loop, found, "acc_next_0")

    monkeypatch.setattr(scheduling, "run", odd)
    made = build(tile, "", BuildLimits(2.0))
    assert made.finding.verdict is Verdict.VERIFIED
    first = made.steps[0]
    assert not first.taken and first.reason.startswith(
        "the warp assignment has no form: `acc_next_0`"
    )
    assert misplaced(tile, made.loop, made.result.schedule) == []
    assert check(made.loop, made.result.schedule) == []


def test_where_no_cycles_hold_with_the_form_nothing_is_taken_from_the_schedule(monkeypatch):
    tile = gemm()
    loop, result, _ = scheduled(tile, RAU)
    odd = moved(loop, result, "acc_next_0")
    monkeypatch.setattr(assignment, "check", lambda loop, schedule: ["it does not hold"])
    found, why = as_the_form(tile, loop, odd, 2.0)  # Rau's own has the groups of the form
    assert found is not None and "found again" in found.notes[-1] and "acc_next_0" in why
    monkeypatch.setattr(assignment, "run", lambda loop, request: odd)
    assert as_the_form(tile, loop, odd, 2.0) == (None, why)


def test_all_waves_load_where_no_engine_does():
    tile = load_tile(TILES / "gemm_small_tiles_gfx942.yaml", target="gfx942")
    loop, result, _ = scheduled(tile, RAU)
    wanted = dict(zip((op.name for op in loop.operations), form_teams(tile, loop), strict=True))
    assert wanted["a"] is wanted["b"] is None and wanted["acc_next_0"] is not None
    assert misplaced(tile, loop, result.schedule) == []


def test_where_products_stand_in_tensor_memory_another_assignment_is_refused():
    tile = load_tile(TILES / "gemm_sm_100a.yaml", target="sm_100a")
    loop, result, _ = scheduled(tile, RAU)
    groups = {group.name: i for i, group in enumerate(loop.teams)}
    (v,) = (i for i, operation in enumerate(loop.operations) if not operation.streaming)
    assert result.schedule.teams[v] == groups["mma"]
    teams = list(result.schedule.teams)
    teams[v] = next(i for name, i in groups.items() if name.startswith("consumer"))
    odd = replace(result, schedule=replace(result.schedule, teams=tuple(teams)))
    found, why = as_the_form(tile, loop, odd, 2.0)
    assert why == "the warp assignment has no form: `acc_next_0` is on consumer0, " + (
        "the form has it on mma"
    )
    assert found.schedule.teams == result.schedule.teams and not check(loop, found.schedule)


def test_roles_of_attention_in_tensor_memory_are_those_of_the_schedule():
    """Loads, products, softmax and correction have their own groups; moved, it is refused."""
    tile = load_tile(TILES / "attention_forward_256_sm_100a.yaml", target="sm_100a")
    loop, found, _ = scheduled(tile, RAU)  # its groups may be others: Rau chooses none of its own
    result, _ = as_the_form(tile, loop, found, 2.0)
    assert as_the_form(tile, loop, result, 2.0) == (result, "")
    groups = {group.name: i for i, group in enumerate(loop.teams)}
    wanted = form_teams(tile, loop)
    v = wanted.index(groups["correction"])
    teams = list(result.schedule.teams)
    teams[v] = groups["softmax0"]
    odd = replace(result, schedule=replace(result.schedule, teams=tuple(teams)))
    found, why = as_the_form(tile, loop, odd, 2.0)
    name = loop.operations[v].name
    assert f"`{name}` is on softmax0, the form has it on correction" in why
    assert misplaced(tile, loop, found.schedule) == [] and not check(loop, found.schedule)


@pytest.mark.heavy
@pytest.mark.parametrize("path", sorted(TILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_schedules_give_every_program_of_the_library_the_groups_of_its_form(path):
    for target in targets_of(path):
        tile = load_tile(path, target=target)
        loop, result, _ = scheduled(tile, replace(RAU, schedule_seconds=5.0))
        settled, _ = as_the_form(tile, loop, result, 30.0)
        assert settled is not None and misplaced(tile, loop, settled.schedule) == []
        assert check(loop, settled.schedule) == []


@pytest.mark.heavy
@pytest.mark.long
def test_cycles_are_found_for_the_groups_of_the_form_where_groups_change_places():
    """Rau deals the rows of two softmax groups out as it likes; with those of the form it is asked
    again, so that the kernel has the order of a schedule and not one iteration at a time."""
    tile = load_tile(TILES / "attention_forward_64_sm_100a.yaml", target="sm_100a")
    limits = BuildLimits()
    loop, found, stages = scheduled(tile, limits)
    assert misplaced(tile, loop, found.schedule)
    settled, listed, steps = considered(tile, loop, found, stages, limits)
    assert [step.shape.name for step in steps] == ["groups of the schedule"]
    assert misplaced(tile, loop, settled.schedule) == [] == check(loop, settled.schedule)
    assert listed[0].overlapped
