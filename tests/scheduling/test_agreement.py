"""Brute force, the faithful formulation, and the fast one find the same optimum of small loops."""

from __future__ import annotations

import pytest

from tests.sampling import part
from tests.scheduling.simulate import brute_force
from titan.scheduling import faithful
from titan.scheduling.check import check
from titan.scheduling.joint import JointOptions, solve
from titan.scheduling.loop.bounds import Unschedulable
from titan.scheduling.loop.generate import small_loop

II_MAX = 6


def agree(seed: int, length: int, engine: str, with_faithful: bool = True) -> bool:
    """Whether the loop is feasible within the limits, after all comparisons."""
    loop = small_loop(seed)
    length = length if len(loop.operations) < 4 else length - 1
    brute = brute_force(loop, II_MAX, length)
    options = JointOptions(engine=engine, objective="edges", length_max=length, ii_max=II_MAX)
    try:
        outcome = solve(loop, options)
    except Unschedulable:
        assert brute is None, seed
        return False
    fast = None
    if outcome.schedule is not None:
        assert not check(loop, outcome.schedule)
        fast = (
            outcome.schedule.ii,
            outcome.schedule.length(loop),
            outcome.statistics["registers"],
            outcome.statistics["crossings"],
            outcome.statistics["idle_warps"],
        )
    assert fast == brute, seed
    if with_faithful:
        slow = faithful.solve(loop, 1, II_MAX, length)
        found = slow.schedule
        assert slow.status == ("infeasible" if brute is None else "optimal"), seed
        if found is not None and brute is not None:
            assert not check(loop, found)
            assert (found.ii, found.length(loop)) == brute[:2], seed
    return brute is not None


def test_random_loops_agree() -> None:
    feasible = sum(agree(seed, 6, "auto" if seed % 2 else "z3") for seed in range(part(100)))
    assert part(40) <= feasible <= part(95), "the generator makes loops of both kinds"


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_1000_random_loops_agree() -> None:
    feasible = sum(agree(seed, 7, "auto" if seed % 2 else "z3") for seed in range(1000, 2000))
    assert feasible > 400
