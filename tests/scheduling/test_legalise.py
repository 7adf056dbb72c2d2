"""What the differentiable scheduler does after the descent; this needs no PyTorch."""

from __future__ import annotations

import random

from titan.scheduling import gauss
from titan.scheduling.check import check
from titan.scheduling.iterative import heights
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.generate import large_loop
from titan.scheduling.model import Schedule
from titan.scheduling.problem import Problem, compile_problem


def problem_of(seed: int, n: int = 30) -> tuple[object, Problem]:
    loop = large_loop(n, seed, units=3, back=0.2)
    return loop, compile_problem(loop)


def test_the_topological_pass_keeps_dependences_and_prefers_early_wishes() -> None:
    rng = random.Random(5)
    for seed in range(20):
        _, problem = problem_of(seed)
        wish = [rng.randrange(50) for _ in range(problem.n)]
        order = gauss.topological(problem, wish)
        place = {v: i for i, v in enumerate(order)}
        assert sorted(order) == list(range(problem.n))
        before = [(u, v) for u, v, _, distance in problem.arcs if distance == 0]
        assert all(place[u] < place[v] for u, v in before)
        free = {v for v in range(problem.n)} - {v for _, v in before}
        assert wish[order[0]] == min(wish[v] for v in free)


def test_a_fixed_point_is_legal_and_not_before_the_wishes() -> None:
    rng, found = random.Random(8), 0
    for seed in range(25):
        loop = large_loop(30, seed, units=3, back=0.2)
        problem = compile_problem(loop)
        least = max(sum(c for uses in problem.blocks for _, _, c, _ in uses), 1)
        wish = [rng.randrange(3 * problem.n) for _ in range(problem.n)]
        starts = gauss.fixed_point(problem, least, wish)
        if starts is None:
            continue
        found += 1
        assert all(s >= w for s, w in zip(starts, wish, strict=True))
        assert check(loop, Schedule(least, tuple(starts), (0,) * problem.n)) == []
    assert found > 15


def test_a_legal_wish_stays_as_it_is() -> None:
    for seed in range(10):
        _, problem = problem_of(seed)
        ii = 400
        first = gauss.fixed_point(problem, ii, [0] * problem.n)
        assert first is not None
        assert gauss.fixed_point(problem, ii, first) == first


def test_an_interval_below_the_bounds_has_no_fixed_point() -> None:
    refused = 0
    for seed in range(10):
        _, problem = problem_of(seed)
        refused += gauss.fixed_point(problem, 1, [0] * problem.n, passes=20) is None
        if heights(problem, 1) is None:
            assert gauss.fixed_point(problem, 1, [0] * problem.n, passes=20) is None
    assert refused == 10


def test_legalisation_says_who_produced_the_result() -> None:
    """Hopeless wishes are refined by Rau; an impossible interval gives nothing, and says so."""
    named = set()
    for seed in range(12):
        loop = large_loop(30, seed, units=3, back=0.2)
        problem = compile_problem(loop)
        rng, least = random.Random(seed), bounds(loop).ii
        means = [float(rng.randrange(400)) for _ in range(problem.n)]
        for ii in (1, least, least + 1, 4 * least):
            starts, who = gauss.legalise(loop, problem, ii, means)
            named.add(who)
            assert (starts is None) == (who == "")
            if starts is not None:
                assert check(loop, Schedule(ii, tuple(starts), (0,) * problem.n)) == []
    assert named == {"", "gauss", "gauss refined by rau"}


def test_means_become_cycles_from_zero() -> None:
    assert gauss.wishes([-1.6, 0.0, 2.4]) == [0, 2, 4]
    assert gauss.wishes([]) == []
