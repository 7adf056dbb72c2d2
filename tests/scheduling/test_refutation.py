"""Refutations: no schedule contradicts the clauses, and a faulty proof is refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import part
from tests.scheduling.test_reach import legal, limited_loop
from titan.foundation.resources import root
from titan.scheduling.check import check
from titan.scheduling.loop.generate import small_loop
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Evidence, Schedule
from titan.scheduling.normalise import normalise_loop
from titan.scheduling.prove import prove
from titan.scheduling.refutation import (
    REGISTERS,
    Contradiction,
    Cover,
    Formula,
    Refutation,
    Unbounded,
    check_refutation,
)
from titan.scheduling.run import Request, run
from titan.scheduling.rup import Late, refutes
from titan.scheduling.store import as_data, certify, read, write
from titan.scheduling.work import SearchWork
from titan.target.load import TargetRefused

pysat = pytest.importorskip("pysat.solvers")


def coarse() -> Loop:
    """FlashAttention-3 with one sub-tile in coarse cycles: its optimum lies above the bound."""
    return normalise_loop(load_loop(root("protocols") / "loops" / "fa3_forward_one.yaml"), 100).loop


@pytest.fixture(scope="module")
def proved() -> tuple[Loop, Schedule, Evidence, tuple[Refutation, ...]]:
    loop = coarse()
    result = run(loop, Request(solver="joint", total_max=1000, proofs=True))
    assert result.schedule is not None and result.evidence.kind == "proof"
    assert result.bounds.ii < result.schedule.ii
    return loop, result.schedule, result.evidence, result.refutations


def satisfiable(variables: int, clauses: list[list[int]]) -> bool:
    return any(
        all(any((x > 0) == values[abs(x) - 1] for x in clause) for clause in clauses)
        for values in product((False, True), repeat=variables)
    )


def test_propagation_is_right_about_random_clauses() -> None:
    """True is only ever said of clauses without a solution; a solver's lemmas are accepted."""
    rng = random.Random(3)
    shown = 0
    for _ in range(400):
        n = rng.randint(3, 7)
        clauses = [
            [rng.choice((-1, 1)) * v for v in rng.sample(range(1, n + 1), rng.randint(1, 3))]
            for _ in range(rng.randint(3, 6 * n))
        ]
        junk = [
            tuple(rng.choice((-1, 1)) * v for v in rng.sample(range(1, n + 1), rng.randint(1, 2)))
            for _ in range(rng.randint(0, 6))
        ]
        answer = satisfiable(n, clauses)
        if refutes(n, clauses, junk):
            assert not answer
        if not answer:
            with pysat.Solver(name="glucose4", bootstrap_with=clauses, with_proof=True) as solver:
                assert solver.solve() is False
                lines = [x.split() for x in solver.get_proof() if not x.startswith("d")]
            lemmas = [tuple(int(x) for x in line if x != "0") for line in lines]
            assert refutes(n, clauses, lemmas)
            shown += 1
    assert shown > 100


def test_a_clause_that_does_not_follow_ends_the_check() -> None:
    clauses = [[1, 2], [1, -2], [-1, 2], [-1, -2]]
    assert not refutes(2, clauses, [])
    assert refutes(2, clauses, [(1,)])
    assert not refutes(3, clauses[:3], [(3,), (1,), (-1,)])
    assert not refutes(2, clauses, [()]), "the empty clause is not a lemma by itself"
    with pytest.raises(ValueError, match="variable"):
        refutes(2, clauses, [(5,)])
    with pytest.raises(Late):
        refutes(2, clauses, [(1,)], visits_max=-1)


def full(loop: Loop, ii: int, rng: random.Random) -> Formula:
    """All pairs, and every cover that a few random draws give."""
    formula = Formula(loop, ii)
    n = len(loop.operations)
    if loop.has_teams:
        for v, o in product(range(n), repeat=2):
            if v != o:
                formula.apart(v, o)
    for what in (REGISTERS, *loop.limits):
        for _ in range(12):
            named = rng.sample(range(n), rng.randint(1, n))
            copies = tuple((u, rng.randint(1, 3)) for u in named)
            try:
                formula.cover(Cover(what, copies))
            except ValueError:
                continue
    return formula


@pytest.mark.parametrize("units", [False, True])
def test_every_legal_schedule_satisfies_the_clauses(units: bool) -> None:
    rng, schedules, loops = random.Random(11), 0, 0
    for seed in range(part(60, 3)):
        loop = limited_loop(seed, units) if seed % 3 else tied(seed)
        for ii in range(1, 5):
            try:
                formula = full(loop, ii, rng)
            except Unbounded:
                continue
            except Contradiction:
                assert not legal(loop, ii), (seed, ii)
                continue
            known = legal(loop, ii)
            loops += 1
            with pysat.Solver(name="glucose4", bootstrap_with=formula.clauses) as solver:
                if not known:
                    continue
                for starts in rng.sample(known, min(6, len(known))):
                    assert solver.solve(assumptions=placed(formula, starts)), (seed, ii, starts)
                    schedules += 1
    assert loops > part(50, 3) and schedules > part(80, 3), (loops, schedules)


def placed(formula: Formula, starts: tuple[int, ...]) -> list[int]:
    """Assumptions that the operations are issued as here, moved to where the anchor is at 0."""
    anchor = next(v for v in range(formula.n) if formula.low[v] == formula.high[v] == 0)
    found = []
    for v, start in enumerate(starts):
        t = start - starts[anchor]
        assert formula.low[v] <= t <= formula.high[v], "the windows lose a schedule"
        for literal, wanted in ((formula.by(v, t), True), (formula.by(v, t - 1), False)):
            if isinstance(literal, bool):
                assert literal == wanted
            else:
                found.append(literal if wanted else -literal)
    return found


def test_what_is_refuted_has_no_schedule() -> None:
    """On random loops, groups and transfers included; most empty intervals are refuted."""
    refuted = missed = 0
    for seed in range(part(80)):
        for loop in (limited_loop(seed, True), tied(seed)):
            for ii in (1, 2, 3):
                found = prove(loop, ii, SearchWork(5.0))
                empty = not legal(loop, ii)
                assert found is None or empty, (seed, ii)
                refuted += found is not None
                missed += empty and found is None
    assert refuted > part(60) and missed < refuted, (refuted, missed)


def tied(seed: int) -> Loop:
    """A random loop with groups and transfers whose values all take registers."""
    loop = small_loop(seed)
    operations = tuple(replace(op, registers=max(1, op.registers)) for op in loop.operations[:3])
    arcs = tuple(e for e in loop.dependences if max(e.source, e.sink) < len(operations))
    return replace(loop, operations=operations, dependences=arcs)


def test_a_certificate_with_proofs_is_checked_alone(
    tmp_path: Path, proved: tuple[Loop, Schedule, Evidence, tuple[Refutation, ...]]
) -> None:
    loop, schedule, evidence, refutations = proved
    assert not check(loop, schedule)
    write(tmp_path / "c.json", as_data(loop, schedule, evidence, refutations))
    found, claim = read(tmp_path / "c.json", loop)
    assert found == schedule and tuple(claim["refutations"]) == refutations
    assert certify(loop, found, claim) == []
    worse = replace(schedule, ii=schedule.ii + 50)
    assert any(f.kind == "claim" for f in certify(loop, worse, claim))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r.update(lemmas=""),
        lambda r: r.update(lemmas="1 0 -1 0"),
        lambda r: r.update(lemmas=r["lemmas"].replace("0 ", "0 999999999 0 ", 1)),
        lambda r: r.update(covers=[{"what": "registers", "copies": {"max0": 1}}]),
        lambda r: r.update(covers=[{"what": "shared", "copies": {"QK0": 1}}]),
        lambda r: r.update(covers=[{"what": "nothing", "copies": {"QK0": 9}}]),
        lambda r: r.update(pairs=[["QK0", "QK0"]]),
        lambda r: r.update(ii=r["ii"] + 1),
    ],
)
def test_a_spoiled_refutation_is_refused(
    tmp_path: Path,
    proved: tuple[Loop, Schedule, Evidence, tuple[Refutation, ...]],
    spoil: Callable[[dict[str, Any]], None],
) -> None:
    loop, schedule, evidence, refutations = proved
    data = as_data(loop, schedule, evidence, refutations)
    spoil(data["claim"]["refutations"][-1])
    write(tmp_path / "c.json", data)
    found, claim = read(tmp_path / "c.json", loop)
    assert [fault.kind for fault in certify(loop, found, claim)] == ["claim"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r.pop("lemmas"),
        lambda r: r.update(lemmas="1 2"),
        lambda r: r.update(lemmas="1 x 0"),
        lambda r: r.update(pairs=[["QK0"]]),
        lambda r: r.update(pairs=[["QK0", "nobody"]]),
        lambda r: r.update(covers=[{"what": "registers", "copies": {"nobody": 1}}]),
        lambda r: r.update(covers=[{"what": "registers", "copies": {"QK0": 0}}]),
        lambda r: r.update(ii=0),
    ],
)
def test_a_refutation_that_cannot_be_read_is_diagnosed(
    tmp_path: Path,
    proved: tuple[Loop, Schedule, Evidence, tuple[Refutation, ...]],
    spoil: Callable[[dict[str, Any]], None],
) -> None:
    loop, schedule, evidence, refutations = proved
    data = as_data(loop, schedule, evidence, refutations)
    spoil(data["claim"]["refutations"][-1])
    write(tmp_path / "c.json", data)
    with pytest.raises(TargetRefused):
        read(tmp_path / "c.json", loop)


def test_an_interval_that_has_a_schedule_is_not_refuted(
    proved: tuple[Loop, Schedule, Evidence, tuple[Refutation, ...]],
) -> None:
    loop, schedule, _, refutations = proved
    assert prove(loop, schedule.ii, SearchWork(20.0)) is None
    stretched = replace(refutations[-1], ii=schedule.ii)
    assert check_refutation(loop, stretched) is not None


def test_what_checks_certificates_imports_no_solver_and_no_scheduler() -> None:
    code = (
        "import sys, json;"
        "import titan.scheduling.store, titan.scheduling.check, titan.scheduling.refutation;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(text.stdout))
    assert not loaded & {"z3", "pysat", "pysmt", "cvc5", "ortools", "torch"}
    searching = {"encode", "joint", "rau", "faithful", "gauss", "prove", "run", "cnf", "reach"}
    assert not {f"titan.scheduling.{name}" for name in searching} & loaded
