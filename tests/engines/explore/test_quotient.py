"""The verdict for every size is the conjunction of the verdicts for each size."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.building import at, e, loop, program
from tests.edits import perturb
from tests.engines.explore.rings import MISTAKES, persistent, ring
from tests.rings import ring as random_ring
from tests.sampling import sampled
from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.interpreter import Sizes

FULL = Reductions(symmetry=False, partial_order=False)
SETTINGS = (FULL, Reductions(symmetry=False), Reductions(partial_order=False), Reductions())
BUDGET = Budget(states_max=200_000, seconds_max=20)


def conjunction(given: ir.SyncProgram, sizes: list[Sizes], states_max: int = 4000) -> Verdict:
    """REFUTED if the reference refutes one size, UNDECIDED if it fails to decide one."""
    found = Verdict.VERIFIED
    for size in sizes:
        outcome = explore_reference(given, size, Budget(states_max)).verdict
        if outcome is Verdict.REFUTED:
            return outcome
        found = outcome if outcome is Verdict.UNDECIDED else found
    return found


def bounded(depth: int) -> list[Sizes]:
    return [{"tiles": tiles} for tiles in range(3 * depth + 3)]


@pytest.mark.parametrize("lag", (False, True))
@pytest.mark.parametrize("mistake", sampled(("", *MISTAKES), every=4))
def test_rings(lag: bool, mistake: str) -> None:
    for depth, consumers, phases in product((1, 2, 3), (1, 2), (True, False)):
        if depth * consumers > 4 or (lag and depth == 1):
            continue
        given = ring(depth, consumers, lag, phases, mistake)
        expected = conjunction(given, bounded(depth))
        for reductions in SETTINGS:
            result = explore(given, budget=BUDGET, reductions=reductions)
            assert result.verdict is not Verdict.UNDECIDED, (depth, consumers, reductions)
            if expected is not Verdict.UNDECIDED:
                assert result.verdict == expected, (depth, consumers, phases, reductions)


def test_a_ring_is_verified_for_every_size_and_the_scope_says_so() -> None:
    result = explore(ring(3, 2))
    assert result.verdict is Verdict.VERIFIED
    assert "any number of tiles" in result.scope
    assert "by 6 from 3 on" in result.scope


def test_one_stage_with_lag_deadlocks() -> None:
    result = explore(ring(1, 1, lag=True))
    assert result.verdict is Verdict.REFUTED
    assert result.trace is not None and dict(result.trace.parameters)["tiles"] == 2


def work_sizes(items: int, tiles: int) -> list[Sizes]:
    counts = range(1, tiles + 1)
    return [
        {"work": work, "k_tiles": numbers}
        for work in range(items + 1)
        for numbers in product(counts, repeat=max(work, 1))
    ]


@pytest.mark.parametrize("mistake", ("", "acquire", "parity", "tile", "drain", "release", "guard"))
@pytest.mark.parametrize("depth", (1, 2))
def test_persistent_kernels(depth: int, mistake: str) -> None:
    for phases in (True, False):
        given = persistent(depth, 1, phases, mistake)
        expected = conjunction(given, work_sizes(3, 3))
        assert expected is not Verdict.UNDECIDED
        for reductions in SETTINGS:
            result = explore(given, budget=BUDGET, reductions=reductions)
            assert result.verdict == expected, (phases, reductions)


@pytest.mark.parametrize("block", sampled(range(4), every=2))
def test_random_rings_with_mistakes(block: int) -> None:
    decided = 0
    for seed in range(10 * block, 10 * block + 10):
        random = Random(seed)
        drawn = random_ring(random)
        depth = max(barrier.stages for barrier in drawn.barriers)
        edited = perturb(drawn, random, random.choice((0, 1, 1, 2)))
        opened = tuple(replace(parameter, value=None) for parameter in edited.parameters)
        given = replace(edited, parameters=opened)
        expected = conjunction(given, bounded(depth), 500)
        if expected is Verdict.UNDECIDED:
            continue
        for reductions in (FULL, Reductions()):
            try:
                result = explore(given, budget=BUDGET, reductions=reductions)
            except NotApplicableError:
                continue
            if result.verdict is not Verdict.UNDECIDED:
                decided += 1
                assert result.verdict == expected, (seed, reductions)
    assert decided > 4


def one_role(*body: ir.Operation, variables: tuple[tuple[str, int], ...] = ()) -> ir.SyncProgram:
    return program(
        "small",
        [ir.Role("warp", body, 1, 1, variables=variables)],
        parameters=[ir.Parameter("tiles")],
        barriers=[ir.Barrier("b", 1, 4)],
    )


def test_reasons_are_told_in_the_words_of_the_program() -> None:
    square = one_role(loop("t", "tiles", [ir.Arrive(at("b", "t * t % 4"))]))
    with pytest.raises(NotApplicableError, match=r"role warp: t \* t multiplies numbers that grow"):
        explore(square)
    index = one_role(loop("t", "tiles", [ir.Arrive(at("b", "t"))]))
    with pytest.raises(NotApplicableError, match="role warp: t grows with the loops"):
        explore(index)
    falling = one_role(
        loop("t", "tiles", [ir.Assign("v", e("t - 3")), ir.Arrive(at("b", "v % 4"))]),
        variables=(("v", 0),),
    )
    with pytest.raises(NotApplicableError, match="t - 3 does not step v up"):
        explore(falling)


def test_a_counter_with_a_remainder_needs_its_period() -> None:
    seen = ir.Wait(at("b", "t * 3 % 4"), e("t // 4 % 2"))
    given = one_role(loop("t", "tiles", [ir.Arrive(at("b", "t * 3 % 4")), seen]))
    result = explore(given)
    assert result.verdict is Verdict.VERIFIED
    assert "by 8 from" in result.scope


def test_an_upper_end_below_the_size() -> None:
    # The guard t + 1 < tiles is known only when the size is; the last tile is not announced.
    guarded = ir.Branch(e("t + 1 < tiles"), (ir.Arrive(at("b", "t % 4")),))
    wait = ir.Branch(e("t + 2 < tiles"), (ir.Wait(at("b", "t % 4"), e("t // 4 % 2")),))
    given = one_role(loop("t", "tiles", [guarded, wait]))
    assert explore(given).verdict is Verdict.VERIFIED
    late = ir.Branch(e("t + 2 <= tiles + 1"), (ir.Wait(at("b", "t % 4"), e("t // 4 % 2")),))
    refuted = explore(one_role(loop("t", "tiles", [guarded, late])))
    assert refuted.verdict is Verdict.REFUTED
    assert refuted.trace is not None and dict(refuted.trace.parameters) == {"tiles": 1}


def test_a_minimum_with_an_open_size_is_decided_by_its_smaller_side() -> None:
    issue = ir.Asynchronous((), "loads")
    wait = ir.QueueWait("loads", e("min(1, tiles - t - 1)"))
    given = replace(
        one_role(loop("t", "tiles", [issue, wait])), queues=(ir.Queue("loads", grouped=False),)
    )
    for reductions in SETTINGS:
        result = explore(given, reductions=reductions)
        assert result.verdict is Verdict.VERIFIED
