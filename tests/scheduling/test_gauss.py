"""The differentiable scheduler; skipped without PyTorch, which `make gauss` installs."""

from __future__ import annotations

import pytest

from titan.foundation.resources import root
from titan.scheduling import gauss
from titan.scheduling.assign import assign
from titan.scheduling.check import check
from titan.scheduling.loop.generate import large_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.problem import compile_problem
from titan.scheduling.regular import pareto

torch = pytest.importorskip("torch")


def make_model(ii: int) -> gauss.GaussModel:
    loop = large_loop(12, 3, units=2, back=0.3)
    teams = assign(loop)
    assert teams is not None
    return gauss.GaussModel(torch, loop, compile_problem(loop, teams), ii, gauss.GaussOptions())


def sharpen(model: gauss.GaussModel, starts: list[int]) -> None:
    with torch.no_grad():
        model.position.copy_(torch.tensor([s / model.horizon for s in starts]))
        model.log_sigma.fill_(-6.0)


def test_sharp_losses_are_the_plain_violations() -> None:
    """With vanishing deviations the expected losses equal what counting gives; equality is free."""
    model = make_model(9)
    starts = [(7 * v) % 23 for v in range(model.problem.n)]
    sharpen(model, starts)
    ii = model.ii
    arcs = [(u, v, d - ii * k) for u, v, d, k in model.problem.arcs if u != v]
    wanted = [max(0, starts[u] + w - starts[v]) for u, v, w in arcs]
    assert torch.allclose(model.dependence(), torch.tensor(wanted).float(), atol=0.02)
    rows = [[0] * ii for _ in model.problem.capacity]
    for v, blocks in enumerate(model.problem.blocks):
        for unit, first, cycles, amount in blocks:
            for k in range(cycles):
                rows[unit][(starts[v] + first + k) % ii] += amount
    assert torch.allclose(model.rows(), torch.tensor(rows).float(), atol=0.02)


def test_expected_violation_agrees_with_sampling() -> None:
    model = make_model(9)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(20_000, model.problem.n, generator=generator)
    sample = model.mean + noise * model.sigma
    gap = sample[:, model.source] + model.weight - sample[:, model.sink]
    for a in range(len(model.weight)):
        u, v = int(model.source[a]), int(model.sink[a])
        assert u != v
    counted = gap.clamp(min=0).mean(0)
    assert torch.allclose(counted, model.dependence(), rtol=0.1, atol=0.3)


def test_rows_of_wide_distributions_sum_to_the_demand() -> None:
    model = make_model(9)
    demand = torch.zeros(len(model.problem.capacity))
    for blocks in model.problem.blocks:
        for unit, _, cycles, amount in blocks:
            demand[unit] += cycles * amount
    assert torch.allclose(model.rows().sum(1), demand, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "ii"), [("fa_simplified", 2), ("toy_fa_hopper", 4), ("toy_gemm", 2)]
)
def test_prebuilt_loops_are_feasible(name: str, ii: int) -> None:
    loop = load_loop(root("protocols") / "loops" / f"{name}.yaml")
    outcome = gauss.solve(loop, gauss.GaussOptions(iterations=300))
    assert outcome.schedule is not None and outcome.schedule.ii == ii
    assert check(loop, outcome.schedule) == []


def test_the_same_seed_gives_the_same_schedule() -> None:
    loop = large_loop(40, 5)
    options = gauss.GaussOptions(iterations=200, device="cpu")
    assert gauss.solve(loop, options).schedule == gauss.solve(loop, options).schedule


def test_a_hundred_operations() -> None:
    loop = large_loop(100, 1)
    outcome = gauss.solve(loop, gauss.GaussOptions(iterations=400))
    assert outcome.schedule is not None
    assert check(loop, outcome.schedule) == []
    assert outcome.solver in ("gauss", "gauss refined by rau", "rau (gauss fell back)")


def test_a_wide_normal_is_wrapped_and_not_cut_off() -> None:
    """Rows are sums over all turns of the normal distribution, however wide it is."""
    model = make_model(9)
    with torch.no_grad():
        model.log_sigma.fill_(float(torch.log(torch.tensor(11.0))))
    ii, mean, sigma = model.ii, model.mean.detach(), model.sigma.detach()
    turns = torch.arange(-40, 41) * ii
    wanted = torch.zeros(len(model.problem.capacity), ii)
    for v, blocks in enumerate(model.problem.blocks):
        for row in range(ii):
            cells = row + turns - mean[v]
            mass = float(
                (
                    model.below((cells + 0.5) / sigma[v]) - model.below((cells - 0.5) / sigma[v])
                ).sum()
            )
            for unit, first, cycles, amount in blocks:
                for k in range(cycles):
                    wanted[unit][(row + first + k) % ii] += mass * amount
    assert torch.allclose(model.rows(), wanted, atol=5e-3)


def test_multipliers_as_on_the_card_begin_at_nothing() -> None:
    loop = large_loop(20, 4, units=2)
    for multipliers in gauss.MULTIPLIERS:
        options = gauss.GaussOptions(iterations=100, multipliers=multipliers, device="cpu")
        found = gauss.solve(loop, options).schedule
        assert found is not None and check(loop, found) == []


def test_regular_wishes_keep_the_latency() -> None:
    loop = load_loop(root("protocols") / "loops" / "toy_fa_hopper.yaml")
    points = pareto(loop, gauss.GaussOptions(iterations=60, device="cpu"))
    assert any(point.produced_by.startswith("gauss") or point.front for point in points)
    teams = assign(loop)
    assert teams is not None
    problem = compile_problem(loop, teams)
    assert gauss.regular_wishes(loop, problem, 1, gauss.GaussOptions(iterations=5)) is None
