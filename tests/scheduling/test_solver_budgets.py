"""What solvers may spend is counted in their own work: no clock decides what they find."""

from __future__ import annotations

import pytest

from titan.scheduling.cnf import Cnf, Z3Solver, z3_resources
from titan.scheduling.paper_engines import Z3Engine, engine

HOLES = 9


def pigeons() -> tuple[int, list[tuple[int, ...]]]:
    """One pigeon more than holes: no solution, and no short proof of that."""
    place = [[1 + HOLES * p + h for h in range(HOLES)] for p in range(HOLES + 1)]
    clauses = [tuple(row) for row in place]
    for hole in range(HOLES):
        clauses += [(-place[p][hole], -place[q][hole]) for p in range(HOLES + 1) for q in range(p)]
    return HOLES * (HOLES + 1), clauses


def test_a_budget_of_z3_is_work():
    variables, clauses = pigeons()
    for seconds, answers in ((0.02, (None,)), (60.0, (False,))):
        found = []
        for _ in range(2):
            cnf, solver = Cnf(), Z3Solver()
            names = [cnf.variable() for _ in range(variables)]
            for clause in clauses if seconds < 1 else [(1,), (-1,)]:
                cnf.add(*(names[abs(n) - 1] * (1 if n > 0 else -1) for n in clause))
            solver.load(cnf)
            found.append(solver.solve([], seconds))
        assert set(found) == set(answers)
    assert Z3Engine().solve(variables, clauses, [], 0.02) is None
    assert z3_resources(2.0) == 2 * z3_resources(1.0) and z3_resources(0) == 1


def test_a_budget_of_cp_sat_is_work():
    pytest.importorskip("ortools")
    assert engine("cp-sat").solve(1, [(1,), (-1,)], [], 1e-6) in (False, None)
    assert engine("cp-sat").solve(1, [(1,), (-1,)], [], 10.0) is False
