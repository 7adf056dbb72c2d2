"""What solvers may spend is counted in their own work: no clock decides what they find."""

from __future__ import annotations

import pytest

from titan.foundation.resources import root
from titan.scheduling.cnf import Cnf, SatSolver, Z3Solver
from titan.scheduling.encode import Encoding
from titan.scheduling.loop.load import load_loop
from titan.scheduling.paper_engines import Z3Engine, engine
from titan.scheduling.work import CLAUSE, UNITS, BudgetSpent, SearchWork

HOLES = 9


def pigeons() -> tuple[int, list[tuple[int, ...]]]:
    """One pigeon more than holes: no solution, and no short proof of that."""
    place = [[1 + HOLES * p + h for h in range(HOLES)] for p in range(HOLES + 1)]
    clauses = [tuple(row) for row in place]
    for hole in range(HOLES):
        clauses += [(-place[p][hole], -place[q][hole]) for p in range(HOLES + 1) for q in range(p)]
    return HOLES * (HOLES + 1), clauses


@pytest.mark.parametrize("kind", [Z3Solver, SatSolver])
def test_a_budget_of_a_solver_is_work(kind):
    """The same answer after the same work, whatever was asked of other solvers before."""
    if kind is SatSolver:
        pytest.importorskip("pysat")
    variables, clauses = pigeons()
    for seconds, answer in ((0.02, None), (60.0, False)):
        spent = []
        for _ in range(3):
            cnf, solver, work = Cnf(), kind(), SearchWork(seconds)
            names = [cnf.variable() for _ in range(variables)]
            for clause in clauses if seconds < 1 else [(1,), (-1,)]:
                cnf.add(*(names[abs(n) - 1] * (1 if n > 0 else -1) for n in clause))
            solver.load(cnf, work)
            assert solver.solve([], work) is answer
            spent.append(work.done)
            if answer is None:
                assert not work.left and work.done < 2 * work.limit
        assert len(set(spent)) == 1
    assert Z3Engine().solve(variables, clauses, [], SearchWork(0.02)) is None


def test_a_part_of_a_budget_counts_in_the_whole():
    whole = SearchWork(1.0)
    part = SearchWork(0.25, whole)
    part.spend(UNITS // 8)
    assert (part.left, whole.left, whole.seconds_left) == (UNITS // 8, UNITS * 7 // 8, 0.875)
    whole.spend(UNITS)
    assert not part.left and not whole.left


def test_a_budget_of_cp_sat_is_work():
    pytest.importorskip("ortools")
    assert engine("cp-sat").solve(1, [(1,), (-1,)], [], SearchWork(2e-6)) in (False, None)
    assert engine("cp-sat").solve(1, [(1,), (-1,)], [], SearchWork(10.0)) is False


def test_clauses_that_no_work_pays_for_are_not_made():
    """A limit written out for every row of a long interval would fill the memory first."""
    cnf, work = Cnf(), SearchWork(0.02)
    cnf.bound(work)
    names = [cnf.variable() for _ in range(200)]
    with pytest.raises(BudgetSpent):
        for shift in range(1000):
            cnf.at_most([(name, 7 + (name + shift) % 90) for name in names], 3000)
    assert len(cnf.clauses) == work.limit // CLAUSE + 1


def test_an_encoding_stops_where_its_budget_ends():
    loop = load_loop(root("protocols") / "loops" / "fa3_forward.yaml")
    with pytest.raises(BudgetSpent):
        Encoding(loop, 2048, 3 * 2048, work=SearchWork(0.01))
    encoding = Encoding(loop, 2048, 3 * 2048)
    encoding.cnf.take()
    encoding.cnf.bound(SearchWork(0.01))
    with pytest.raises(BudgetSpent):
        for team in range(len(loop.teams)):
            encoding.limit_registers(team, 100)
