"""The paper's formulation: by Z3, integer programs and SMT solvers, and from the command line."""

from __future__ import annotations

import json

import pytest

from tests.sampling import part
from titan.cli.main import run as titan
from titan.cli.schedule import JOINT_ENGINES
from titan.foundation.resources import root
from titan.scheduling import joint, paper
from titan.scheduling.check import check
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.paper_engines import (
    ENGINES,
    UNCOUNTED,
    EngineMissing,
    Sum,
    Uncounted,
    Z3Engine,
    engine,
)
from titan.scheduling.work import SearchWork

LOOPS = root("protocols") / "loops"
HERE = ("z3", "scip", "cbc", "cp-sat", "cvc5")


def installed(name):
    try:
        return engine(name)
    except EngineMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", HERE)
def test_every_engine_decides_small_problems(name):
    one = installed(name)
    exactly, most = Sum(((1, 1), (2, 1), (3, 1)), 1, exact=True), Sum(((1, 2), (2, 3)), 2)
    answer = one.solve(3, [(-3,), (1, 2)], [exactly, most], SearchWork(20))
    assert callable(answer)
    assert [answer(n) for n in (1, 2, 3)] == [True, False, False]
    assert one.solve(3, [(-3,), (-1,)], [exactly, most], SearchWork(20)) is False
    assert one.solve(1, [], [Sum((), -1)], SearchWork(20)) is False
    assert callable(one.solve(1, [], [Sum((), 0)], SearchWork(20)))


def pigeons(count: int) -> tuple[int, list[tuple[int, ...]], list[Sum]]:
    """One pigeon more than holes: no solution, and no short proof of it."""
    number = {(p, h): p * count + h + 1 for p in range(count + 1) for h in range(count)}
    clauses = [tuple(number[p, h] for h in range(count)) for p in range(count + 1)]
    for hole in range(count):
        for first in range(count + 1):
            clauses += [(-number[first, hole], -number[p, hole]) for p in range(first)]
    return len(number), clauses, []


@pytest.mark.parametrize("name", ["cbc", "highs"])
def test_what_counts_nothing_runs_to_its_end_or_is_refused(name, monkeypatch):
    """No solver is told of a wall-clock limit, and no result depends on one."""
    one = installed(name)
    assert name in UNCOUNTED
    pywraplp = pytest.importorskip("ortools.linear_solver.pywraplp")
    monkeypatch.setattr(pywraplp.Solver, "SetTimeLimit", None)
    assert one.solve(*pigeons(3), SearchWork(1e-3)) is False
    assert one.solve(*pigeons(3), SearchWork(0)) is None

    def endless(*given):
        while True:
            pass

    monkeypatch.setattr("titan.scheduling.paper_engines.SECONDS_MAX", 1)
    monkeypatch.setattr(one, "_solve", endless)
    with pytest.raises(Uncounted):
        one.solve(*pigeons(3), SearchWork(20))


@pytest.mark.parametrize("name", ["cvc5", "scip", "cp-sat", "z3"])
def test_a_spent_budget_says_nothing_the_same_way(name):
    one = installed(name)
    assert one.solve(*pigeons(3), SearchWork(20)) is False
    spent = []
    for _ in range(2):
        work = SearchWork(0.05)
        assert one.solve(*pigeons(12), work) in (None, False)
        spent.append(work.done)
    assert spent[0] == spent[1] > 0


@pytest.mark.parametrize("name", ["scip", "cp-sat", "cvc5"])
def test_engines_agree_with_z3_on_random_loops(name):
    """The intervals that an engine finds are those that Z3 finds; the checker takes them."""
    installed(name)
    for seed in range(part(4)):
        loop = small_loop(seed)
        found = [
            paper.solve(loop, paper.PaperOptions(one, one, budget_seconds=300)).schedule
            for one in ("z3", name)
        ]
        assert (found[0] is None) == (found[1] is None)
        if found[0] is not None and found[1] is not None:
            assert found[0].ii == found[1].ii
            assert not check(loop, found[1])


@pytest.mark.parametrize("name", ["fa_simplified", "toy_gemm", "toy_fa_hopper", "toy_fa_blackwell"])
def test_the_paper_and_the_encoding_find_the_same_interval(name):
    loop = load_loop(LOOPS / f"{name}.yaml")
    mine = joint.solve(loop).schedule
    theirs = paper.solve(loop).schedule
    assert mine is not None and theirs is not None and mine.ii == theirs.ii


def test_fewer_figures_never_need_a_larger_interval():
    for seed in range(5):
        loop = small_loop(seed)
        found = [
            paper.solve(loop, paper.PaperOptions(figure=figure)).schedule
            for figure in paper.FIGURES
        ]
        intervals = [schedule.ii for schedule in found if schedule is not None]
        assert intervals == sorted(intervals)
        assert found[0] is not None or all(schedule is None for schedule in found)


def test_what_is_refuted_up_to_some_length_is_no_proof():
    """A joint schedule above the bound: its evidence says up to which lengths."""
    results = (paper.solve(small_loop(seed)) for seed in range(40))
    above = next(r for r in results if r.schedule and r.evidence.kind == "refutation")
    assert not above.proved and above.evidence.lengths_to


def test_the_command(tmp_path, capsys):
    path = str(LOOPS / "toy_fa_blackwell.yaml")
    assert titan(["schedule", path, "--formulation", "paper", "--format", "json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)
    assert data["produced_by"] == "paper" and data["ii"] == 2
    assert data["solvers"][0]["statistics"]["figures"] == "4 to 6"
    saved = tmp_path / "s.json"
    options = ["--formulation", "paper", "--figures", "4", "--save", str(saved)]
    assert titan(["schedule", path, *options]) == 0
    assert saved.exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--engine", "scip"], "needs --formulation paper"),
        (["--figures", "5"], "needs --formulation paper"),
        (["--formulation", "paper", "--engine", "sat"], "sums"),
        (["--stages", "2"], "needs --solver rau"),
    ],
)
def test_options_that_contradict_each_other(options, text, capsys):
    assert titan(["schedule", str(LOOPS / "toy_gemm.yaml"), *options]) == 2
    assert text in capsys.readouterr().err


def test_a_solver_that_is_not_installed_is_told(capsys):
    try:
        engine("yices")
    except EngineMissing:
        options = ["--formulation", "paper", "--engine", "yices"]
        assert titan(["schedule", str(LOOPS / "toy_gemm.yaml"), *options]) == 2
        assert "yices" in capsys.readouterr().err
    else:
        pytest.skip("yices is installed")


def test_the_command_knows_the_engines():
    assert set(JOINT_ENGINES) == {"sat", *ENGINES}
    assert Z3Engine().name in ENGINES
