"""The joint optimum: published results, evidence, strategies, normalisation, refinement."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.sampling import part
from titan.foundation.resources import root
from titan.scheduling import cnf, faithful, rau
from titan.scheduling.check import check
from titan.scheduling.encode import Encoding, Infeasible
from titan.scheduling.explain import explain, strategies, sub_tiles, three_groups
from titan.scheduling.joint import JointOptions, complete_horizon, solve
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.scheduling.normalise import TooSmall, normalise, normalise_loop
from titan.scheduling.refine import refine
from titan.scheduling.run import REAL as REAL_CYCLES
from titan.scheduling.run import Request, run
from titan.scheduling.storage import least_registers, peak_registers
from titan.scheduling.work import SearchWork


def library(name: str) -> Loop:
    return load_loop(root("protocols") / "loops" / f"{name}.yaml")


@pytest.mark.parametrize(
    ("name", "ii"),
    [("fa_simplified", 2), ("toy_gemm", 2), ("toy_fa_hopper", 4), ("toy_fa_blackwell", 2)],
)
@pytest.mark.parametrize("engine", cnf.available())
def test_toy_results_of_the_papers(name: str, ii: int, engine: str) -> None:
    outcome = solve(library(name), JointOptions(engine=engine))
    assert outcome.schedule is not None and outcome.proved
    assert outcome.schedule.ii == ii


REAL = [
    ("gemm_hopper", 1024),
    ("gemm_blackwell", 512),
    ("fa3_forward", 2048),
    pytest.param("fa3_backward", 2560, marks=pytest.mark.heavy),
    ("fa4_forward", 2048),
    ("linear_attention", 1536),
    ("gemm_mi300", 2048),
]


@pytest.mark.parametrize(("name", "ii"), REAL)
def test_real_loops_are_proved_in_real_cycles(name: str, ii: int) -> None:
    result = run(library(name), Request(solver="joint"))
    assert result.schedule is not None and result.proved
    assert result.schedule.ii == ii
    assert check(result.loop, result.schedule) == []
    assert result.normalised is not None
    joint = result.outcomes[0]
    assert joint.schedule is not None
    assert check(result.normalised.loop, joint.schedule) == []


def test_one_sub_tile_needs_more_than_its_bound_with_agreement() -> None:
    coarse = normalise_loop(library("fa3_forward_one"), 60)
    outcome = solve(coarse.loop, JointOptions(budget_seconds=60))
    assert outcome.schedule is not None
    assert outcome.schedule.ii > bounds(coarse.loop).ii
    assert outcome.evidence.complete and outcome.proved
    assert "every length" in outcome.evidence.detail and outcome.evidence.lengths_to is None
    wanted = "agreement" if len(cnf.available()) > 1 else "refutation"
    assert outcome.evidence.kind == wanted


@pytest.mark.heavy
def test_one_sub_tile_is_proved_in_real_cycles_and_not_before() -> None:
    """1024 is the bound of the tensor core, 1025 that of what waits; 1025 is refuted too."""
    result = run(library("fa3_forward_one"), Request(solver="joint"))
    assert result.schedule is not None and result.bounds.ii == 1025
    assert result.proved and result.schedule.ii == result.evidence.lower_bound == 1026
    assert [outcome.solver for outcome in result.outcomes] == ["joint", REAL_CYCLES]
    short = run(library("fa3_forward_one"), Request(solver="joint", budget_seconds=1e-3))
    assert not short.proved


def test_without_distances_a_refutation_reaches_to_its_horizon_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("titan.scheduling.joint.reach", lambda loop, ii: None)
    coarse = normalise_loop(library("fa3_forward_one"), 60)
    outcome = solve(coarse.loop, JointOptions(budget_seconds=60))
    assert not outcome.evidence.complete and not outcome.proved, "four stages are not all lengths"
    assert outcome.evidence.lengths_to is not None


def test_published_strategies_are_recognised() -> None:
    hopper = run(library("fa3_forward"), Request())
    assert hopper.schedule is not None
    names = strategies(hopper.loop, hopper.schedule)
    assert "first GEMM moved into the prologue" in names
    assert any(name.startswith("ping-pong") for name in names)
    for target in ("toy_fa_blackwell", "fa4_forward"):
        blackwell = run(library(target), Request())
        assert blackwell.schedule is not None
        names = strategies(blackwell.loop, blackwell.schedule)
        assert "three kinds of groups: GEMM, softmax, and rescale" in names, target
    gemm = run(library("gemm_hopper"), Request())
    assert gemm.schedule is not None
    assert "loads on a producer warp" in strategies(gemm.loop, gemm.schedule)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("toy_fa_hopper", "ping-pong"),
        ("fa3_forward_one", "first GEMM moved into the prologue"),
        ("toy_fa_blackwell", "first GEMM moved into the prologue"),
        ("toy_fa_blackwell", "three kinds of groups"),
    ],
)
def test_the_joint_solver_with_its_defaults_finds_strategies(name: str, strategy: str) -> None:
    result = run(library(name), Request(solver="joint"))
    assert result.schedule is not None and result.produced_by.startswith("joint")
    found = strategies(result.loop, result.schedule)
    assert any(one.startswith(strategy) for one in found), found


def joint_with_its_defaults(name: str) -> tuple[Loop, Schedule]:
    result = run(library(name), Request(solver="joint"))
    assert result.schedule is not None and result.proved
    assert result.produced_by == "joint"
    return result.loop, result.schedule


def test_the_joint_solver_gives_fa3_as_the_paper_has_it() -> None:
    """Section 6.2.1: each sub-tile on one warpgroup, ping-pong, and the first product ahead in one
    of them, which is enough to keep the tensor core busy."""
    loop, schedule = joint_with_its_defaults("fa3_forward")
    found = strategies(loop, schedule)
    assert any(one.startswith("ping-pong") for one in found)
    assert "first GEMM moved into the prologue for 1 of 2 sub-tiles" in found
    for tile in sub_tiles(loop):
        assert len({schedule.teams[v] for v in tile}) == 1


def test_the_joint_solver_gives_fa4_as_the_paper_has_it() -> None:
    """Section 6.2.2: variable latency, products, the softmax of each sub-tile, and all of the
    rescaling on groups of their own; the first product of every sub-tile ahead."""
    loop, schedule = joint_with_its_defaults("fa4_forward_whole")
    found = strategies(loop, schedule)
    assert any(one.startswith("three kinds of groups") for one in found)
    assert "first GEMM moved into the prologue" in found
    on: dict[str, set[str]] = {}
    for operation, team in zip(loop.operations, schedule.teams, strict=True):
        on.setdefault(loop.teams[team].name, set()).add(operation.name)
    softmax = [{f"{name}{g}" for name in ("tldS", "max", "sub", "exp", "sum", "cvt", "tstP")}
               for g in (0, 1)]  # fmt: skip
    rescale = {f"{name}{g}" for name in ("tldO", "rescale", "tstO") for g in (0, 1)}
    products = {"QK0", "QK1", "PV0", "PV1"}
    assert sorted(map(sorted, on.values())) == sorted(
        map(sorted, [{"LK", "LV"}, products, *softmax, rescale])
    )
    assert on["mma"] == products and on["producer"] == {"LK", "LV"}


@pytest.mark.parametrize("name", ["max0", "sub1", "sum0", "cvt1"])
def test_roles_of_fa4_are_named_where_all_of_the_softmax_has_them(name: str) -> None:
    """Not the exponentials alone: one other operation of a softmax on the group of the correction
    or of the other sub-tile, and the strategy has another name."""
    loop = library("fa4_forward_whole")
    groups = {group.name: i for i, group in enumerate(loop.teams)}
    of = {"L": "producer", "Q": "mma", "P": "mma"}
    teams = [
        groups[
            of.get(op.name[0])
            or ("correction" if "O" in op.name or "rescale" in op.name else f"softmax{op.name[-1]}")
        ]
        for op in loop.operations
    ]
    schedule = Schedule(2048, tuple(0 for _ in teams), tuple(teams))
    assert three_groups(loop, schedule)
    v = loop.index[name]
    for other in ("correction", "softmax1" if name.endswith("0") else "softmax0", "mma"):
        moved = (*teams[:v], groups[other], *teams[v + 1 :])
        assert not three_groups(loop, replace(schedule, teams=moved)), other


def test_without_its_registers_the_rescaling_costs_nothing_on_a_softmax_group() -> None:
    """What forces the third group is that a whole accumulator and scores do not fit together."""
    loop, schedule = joint_with_its_defaults("fa4_forward")  # accumulators in quarters
    assert not any(one.startswith("three kinds") for one in strategies(loop, schedule))


def test_a_strategy_is_named_only_where_all_of_it_holds() -> None:
    """One operation on the other warpgroup, or one sub-tile not ahead: the name is gone."""
    result = run(library("fa3_forward"), Request())
    assert result.schedule is not None
    loop, schedule = result.loop, result.schedule
    assert {"first GEMM moved into the prologue"} < set(strategies(loop, schedule))
    for name in ("sum0", "rescale1", "cvt1"):
        v = loop.index[name]
        teams = list(schedule.teams)
        teams[v] = next(t for t in teams if t not in (teams[v], teams[loop.index["LK"]]))
        mixed = replace(schedule, teams=tuple(teams))
        assert not any(one.startswith("ping-pong") for one in strategies(loop, mixed)), name
    starts = list(schedule.starts)
    for late, early in (("PV1", "QK1"), ("PV0", "QK0")):
        moved = list(starts)
        moved[loop.index[late]] = moved[loop.index[early]]
        names = strategies(loop, replace(schedule, starts=tuple(moved)))
        assert "first GEMM moved into the prologue" not in names, late


def test_sub_tiles_are_what_shares_values() -> None:
    loop = library("fa3_forward")
    names = [{loop.operations[v].name[-1] for v in members} for members in sub_tiles(loop)]
    assert sorted(map(sorted, names)) == [["0"], ["1"]]


def test_strategies_are_not_seen_where_they_are_not() -> None:
    loop = library("fa3_forward")
    result = run(loop, Request())
    assert result.schedule is not None
    sequential = replace(result.schedule, ii=result.schedule.length(loop) + 1000)
    names = strategies(loop, sequential)
    assert "first GEMM moved into the prologue" not in names
    one = replace(result.schedule, teams=tuple(min(team, 1) for team in result.schedule.teams))
    assert not any(name.startswith("ping-pong") for name in strategies(loop, one))


def test_explanation_names_what_binds() -> None:
    result = run(library("fa3_forward"), Request())
    assert result.schedule is not None
    story = explain(result.loop, result.schedule, result.bounds)
    assert story.binding[0].startswith("resource: TC")
    assert story.units[0].name == "TC" and story.units[0].share == 1.0


@pytest.mark.parametrize("name", ["fa_simplified", "toy_gemm", "toy_fa_hopper", "toy_fa_blackwell"])
def test_faithful_and_fast_agree_on_the_toys(name: str) -> None:
    loop = library(name)
    fast = solve(loop, JointOptions(objective="length"))
    assert fast.schedule is not None
    length = fast.schedule.length(loop)
    slow = faithful.solve(loop, 1, fast.schedule.ii, length, 120)
    assert slow.schedule is not None and slow.schedule.length(loop) == length
    assert slow.intervals_refuted == fast.schedule.ii - 1


def test_registers_then_edges_break_ties() -> None:
    for seed in range(40):
        loop = small_loop(seed)
        length = solve(loop, JointOptions(objective="length", ii_max=8))
        full = solve(loop, JointOptions(objective="edges", ii_max=8))
        if length.schedule is None or full.schedule is None:
            assert length.schedule is full.schedule
            continue
        assert full.schedule.ii == length.schedule.ii
        assert full.schedule.length(loop) == length.schedule.length(loop)
        assert int(str(full.statistics["registers"])) <= int(str(length.statistics["registers"]))


def test_what_every_schedule_needs_is_never_more_than_one_has() -> None:
    """The bound from which registers are bisected, against schedules of Rau."""
    names = ("fa3_forward", "fa4_forward", "linear_attention", "gemm_hopper")
    loops = [*(small_loop(seed) for seed in range(part(600, 200))), *map(library, names)]
    compared = 0
    for loop in loops:
        schedule = rau.solve(loop, rau.RauOptions(seconds=1.0)).schedule
        if schedule is not None:
            has = peak_registers(loop, schedule.ii, schedule.starts)
            assert least_registers(loop, schedule.ii) <= has, loop.name
            compared += has > 0
    assert compared > len(names)


def test_nothing_is_gained_beyond_the_complete_horizon() -> None:
    """The claim behind refutations for all lengths, on small loops: longer is never needed."""
    tried = 0
    for seed in range(150):
        loop = small_loop(seed)
        if len(loop.operations) > 3 or loop.limits.get("shared", 9) < 2:
            continue
        for ii in (1, 2, 3):
            full = complete_horizon(loop, ii)
            short = feasible(loop, ii, full)
            assert short == feasible(loop, ii, full + 2 * ii + 3), (seed, ii)
            tried += 1
    assert tried > 100


def feasible(loop: Loop, ii: int, horizon: int) -> bool:
    from titan.scheduling.joint import Attempt, Search

    search = Search(loop, JointOptions(objective="ii", second_solver=False), SearchWork(1e9))
    search.engine = cnf.available()[0]
    try:
        return Attempt(search, ii, horizon).best(0, final=False) is not None
    except Infeasible:
        return False


def test_cardinality_clauses_count() -> None:
    for weights in ([1, 1, 1], [2, 1, 3], [5, 4, 3, 2], [7], [2, 2, 2, 2]):
        for limit in range(sum(weights) + 1):
            formula = cnf.Cnf()
            literals = [formula.variable() for _ in weights]
            formula.at_most(list(zip(literals, weights, strict=True)), limit)
            solver = cnf.solver("z3")
            solver.load(formula, SearchWork(10))
            for values in product((0, 1), repeat=len(weights)):
                fits = sum(w * x for w, x in zip(weights, values, strict=True)) <= limit
                wish = [v if x else -v for v, x in zip(literals, values, strict=True)]
                assert solver.solve(wish, SearchWork(10)) == fits or formula.contradiction


def test_encoding_covers_forbid_exactly() -> None:
    loop = library("toy_fa_hopper")
    encoding = Encoding(loop, 4, 8)
    assert encoding.cnf.variables < 500
    encoding.forbid([(0, 1)], None)
    assert not encoding.cnf.contradiction


def brute_normalise(costs: list[int], total: int) -> int:
    best = None
    for chosen in product(range(1, total + 1), repeat=len(costs)):
        if sum(chosen) <= total:
            worst = max(
                abs(a * y - b * x)
                for a, x in zip(costs, chosen, strict=True)
                for b, y in zip(costs, chosen, strict=True)
            )
            best = worst if best is None else min(best, worst)
    assert best is not None
    return best


def test_normalisation_is_exact_integer_programming() -> None:
    for costs in ([3, 5], [100, 33, 66], [7, 11, 13], [1000, 10, 500], [5, 5, 9]):
        for total in (3, 4, 6, 9):
            if total < len(costs):
                continue
            found = normalise(costs, total)
            assert found.distortion == brute_normalise(costs, total), (costs, total)
            assert sum(found.costs[c] for c in costs) <= total
            assert all(found.costs[c] >= 1 for c in costs)


def test_normalisation_reports_distortion_and_refuses_what_cannot_be() -> None:
    exact = normalise([512, 128, 64], 300)
    assert exact.exact and exact.ratio_error == 0 and exact.costs == {512: 216, 128: 54, 64: 27}
    assert not normalise([1000, 999], 4).exact
    with pytest.raises(TooSmall):
        normalise([5, 5, 5], 2)


def test_refinement_keeps_the_order_and_holds() -> None:
    loop = library("fa4_forward")
    coarse = normalise_loop(loop)
    outcome = solve(coarse.loop)
    assert outcome.schedule is not None
    fine = refine(loop, coarse.loop, outcome.schedule, bounds(loop).ii)
    assert fine is not None and fine.ii == 2048
    assert check(loop, fine) == []
