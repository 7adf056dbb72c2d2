"""The order in which shapes are tried: against longest paths by enumeration, and by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from titan.codegen.pipeline.build import BuildLimits, scheduled
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.cdna_ranking import ALONE, IN_FLIGHT
from titan.codegen.pipeline.instructions import predicted
from titan.codegen.pipeline.ranking import (
    CHAIN,
    INTERVAL,
    MANY,
    NEAR,
    TURN,
    chain_cycles,
    ranked,
    turn_cycles,
)
from titan.codegen.tile.instruction_costs import instruction_costs
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.loops import loop_of
from titan.codegen.tile.roofline import ISSUE_SLOTS
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.model import Loop
from titan.scheduling.run import Request, run
from titan.target.load import machine

LIBRARY = Path(__file__).resolve().parents[3] / "protocols" / "tiles"
QUICK = BuildLimits(schedule_seconds=0.2, solver="rau")


def ranking_of(name: str, target: str, limits: BuildLimits = QUICK):
    tile = load_tile(LIBRARY / f"{name}.yaml", target=target)
    loop, result, stages = scheduled(tile, limits)
    listed = list(shapes(tile, stages, stages))
    return tile, loop, result, listed, ranked(tile, loop, result, listed)


def longest(loop: Loop, apart: frozenset[int]) -> int:
    """Every path of one iteration, one by one."""

    def behind(place: int, begin: int) -> int:
        operation = loop.operations[place]
        end = begin + max(operation.cycles, operation.latency_cycles)
        next_ones = [
            behind(e.sink, begin + e.delay_cycles)
            for e in loop.dependences
            if e.source == place and not e.distance and e.sink not in apart
        ]
        return max([end, *next_ones])

    return max((behind(p, 0) for p in range(len(loop.operations)) if p not in apart), default=0)


def test_chains_are_the_longest_paths() -> None:
    for seed in range(60):
        loop = small_loop(seed)
        loads = frozenset(p for p, one in enumerate(loop.operations) if one.streaming)
        for without in (frozenset(), frozenset({seed % len(loop.operations)})):
            assert chain_cycles(loop, without) == longest(loop, loads | without), seed


def test_an_order_with_the_last_product_late_by_hand() -> None:
    """64 rows of 128 keys at head dimension 64 for each group: the scores, then their softmax."""
    tile = load_tile(LIBRARY / "attention_forward_64.yaml", target="sm_90a")
    loop = loop_of(tile, machine("sm_90a"), 3)
    by_name = {one.name: p for p, one in enumerate(loop.operations)}
    last = [item.name for item in tile.body if item.kind == "mma"][-1]
    late = frozenset(p for name, p in by_name.items() if name.startswith(f"{last}_"))
    loads = frozenset(p for p, one in enumerate(loop.operations) if one.streaming)
    assert turn_cycles(tile, loop) == longest(loop, loads | late)
    assert turn_cycles(tile, loop) < chain_cycles(loop)


@pytest.mark.parametrize(
    ("name", "target"),
    [("gemm", "sm_90a"), ("attention_decode_paged", "sm_90a"), ("copy", "sm_90a"),
     ("gemm_sm_100a", "sm_100a"), ("gemm_f16_gfx942", "gfx942"), ("layer_norm", "sm_90a")],
)  # fmt: skip
def test_the_ranking_is_by_cycles_then_by_instructions_then_by_the_list(
    name: str, target: str
) -> None:
    tile, _, _, listed, ranking = ranking_of(name, target)
    left = list(listed)
    for place, one in enumerate(ranking):
        assert not one.by_rule
        best = min(other.cycles for other in ranking[place:])
        assert one.cycles <= NEAR * best
        near = [o.shape for o in ranking[place:] if o.cycles == best or o.cycles < NEAR * best]
        issued = {id(shape): predicted(tile, shape) or 0.0 for shape in near}
        few = {shape for shape, number in issued.items() if number <= MANY * min(issued.values())}
        assert one.shape == next(shape for shape in left if id(shape) in few)
        left.remove(one.shape)
    assert not left


def test_a_shallow_order_of_the_schedule_comes_before_a_deep_plain_one() -> None:
    longer = BuildLimits(schedule_seconds=2, solver="rau")
    _, _, result, listed, ranking = ranking_of("attention_decode_paged", "sm_90a", longer)
    names = [one.shape.name for one in ranking]
    late = names.index("depth 4, last product one iteration late")
    assert names.index("depth 2, order of the schedule") < late
    assert [shape.name for shape in listed].index("depth 4, last product one iteration late") == 1
    first = ranking[0]
    assert first.least_cycles[INTERVAL] == result.schedule.ii  # type: ignore[union-attr]


def test_rules_come_first_and_say_so() -> None:
    _, _, _, listed, ranking = ranking_of("attention_forward", "sm_90a")
    assert [one.by_rule for one in ranking].count(True) == 1
    assert ranking[0].by_rule and ranking[0].shape == listed[0] and TURN in ranking[0].least_cycles
    _, _, _, listed, ranking = ranking_of("attention_forward_packed", "sm_90a")
    assert [one.shape for one in ranking[:2]] == listed[:2] and ranking[0].by_rule


def test_latency_is_spread_over_what_is_in_flight() -> None:
    _, loop, _, _, ranking = ranking_of("gemm", "sm_90a")
    by_name = {one.shape.name: one for one in ranking}
    assert by_name["depth 4, one iteration at a time"].least_cycles[IN_FLIGHT] == 596 / 4
    assert by_name["depth 4, no loading warp"].least_cycles[IN_FLIGHT] == 596 / 3
    alone = by_name["no pipeline"].least_cycles
    assert alone[IN_FLIGHT] == 596 + alone[CHAIN] == 596 + chain_cycles(loop)


def test_more_latency_moves_deep_rings_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """With loads of 5,000 cycles four stages in plain order beat two in that of the schedule."""
    tile, loop, result, listed, _ = ranking_of("attention_decode_paged", "sm_90a")
    monkeypatch.setattr("titan.codegen.pipeline.ranking.load_latency", lambda tile: 5000)
    names = [one.shape.name for one in ranked(tile, loop, result, listed)]
    deep, shallow = "depth 4, one iteration at a time", "depth 2, order of the schedule"
    assert names.index(deep) < names.index(shallow)


def test_the_same_ranking_without_a_schedule_of_its_own() -> None:
    """What is ranked twice stays as it is, also for a schedule of another solver."""
    tile, loop, result, listed, ranking = ranking_of("linear_attention_causal", "sm_90a")
    again = ranked(tile, loop, result, [one.shape for one in ranking])
    assert again == ranking
    other = run(loop, Request(solver="rau", budget_seconds=0.1))
    shuffled = ranked(tile, loop, replace(other, notes=()), listed)
    assert {one.shape.name for one in shuffled} == {shape.name for shape in listed}


def test_copies_of_four_bytes_cost_instructions_and_two_work_groups_hide_reads() -> None:
    """128 x 128 x 64 of four waves on gfx942: for each wave 32 copies of 4 bytes a lane, or 8 of 16
    through registers; a wave issues one instruction in four cycles."""
    tile, *_, ranking = ranking_of("gemm_gfx942", "gfx942")
    by_name = {one.shape.name: one for one in ranking}
    first = by_name["depth 1, through registers"]
    assert ranking[0] == first
    assert ALONE not in first.least_cycles  # 32 KiB of 64: another work-group has room
    direct = by_name["depth 2, counted waits"]
    costs = instruction_costs("gfx942")
    issued, fewer = (predicted(tile, one.shape) for one in (direct, first))
    assert costs is not None and issued is not None and fewer is not None
    apart = 32 * costs.costs["asked"] - 8 * costs.costs["copied"]
    assert issued - fewer == pytest.approx(apart)
    assert ISSUE_SLOTS not in direct.least_cycles and 4 * issued <= 1024  # those of the products
    assert direct.least_cycles[ALONE] == 1024 + 64
    assert direct.least_cycles[IN_FLIGHT] == 2 * first.least_cycles[IN_FLIGHT]
    eight, *_, ranking = ranking_of("gemm_f16_gfx942", "gfx942")
    assert eight.groups == 8 and not any(ALONE in one.least_cycles for one in ranking)
    *_, ranking = ranking_of("copy_gfx942", "gfx942")
    assert not any(ALONE in one.least_cycles for one in ranking)


def test_every_program_of_the_library_is_ranked() -> None:
    count = 0
    for path in sorted(LIBRARY.glob("*.yaml"))[::6]:
        for target in targets_of(path):
            *_, listed, ranking = ranking_of(path.stem, target)
            assert sorted(s.name for s in listed) == sorted(one.shape.name for one in ranking)
            count += 1
    assert count > 10
