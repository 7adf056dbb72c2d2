"""Sixteen operations on a machine like a MIPS, where no placement of Rau's gives the optimum.

Found by random search: units that a multiplication or a division holds for several cycles, and two
cycles of dependences through them. Rau's first interval is 30; 26 is the recurrence bound, and the
joint solver has a schedule for it.
"""

from __future__ import annotations

import pytest

from benchmarks.schedule_instances import exact
from titan.scheduling import rau
from titan.scheduling.check import check
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.scheduling.run import Request, run
from titan.target.model import Machine, Unit

# The unit, how many cycles it is held, and the latency; as of a pipeline with few of them.
KINDS = {
    "lw": ("MEM", 1, 3), "sw": ("MEM", 1, 1), "addu": ("ALU", 1, 1), "mult": ("MUL", 10, 10),
    "mul.d": ("MUL", 4, 8), "add.d": ("FPA", 3, 4), "div.s": ("FPA", 7, 12),
}  # fmt: skip
LINES = (
    "div.s", "addu", "div.s", "addu", "add.d", "sw", "mul.d", "lw", "lw", "mult", "sw", "mul.d",
    "lw", "div.s", "mul.d", "sw",
)  # fmt: skip
NEXT = (
    (0, 1), (1, 2), (0, 3), (0, 4), (0, 5), (3, 5), (3, 6), (1, 6), (5, 7), (2, 7), (7, 8), (6, 9),
    (8, 10), (9, 11), (10, 12), (10, 13), (12, 13), (11, 14), (13, 15), (12, 15),
)  # fmt: skip
CARRIED = ((13, 6), (15, 8), (14, 9), (2, 0), (13, 10))
RAU, OPTIMUM = 30, 26


def mips_like() -> Loop:
    """The loop; a dependence takes the latency of its source."""
    units = {name: Unit(name, 1) for name in ("MEM", "ALU", "MUL", "FPA")}
    operations = []
    for number, kind in enumerate(LINES):
        unit, cycles, latency = KINDS[kind]
        operations.append(Operation(f"n{number}", (ReservationUse(unit, cycles),), latency))
    found = [Dependence(u, v, operations[u].latency_cycles) for u, v in NEXT]
    found += [Dependence(u, v, operations[u].latency_cycles, 1) for u, v in CARRIED]
    return Loop("mips_like", Machine("mips_like", "", units), tuple(operations), tuple(found))


def test_rau_alone_is_above_the_optimum() -> None:
    loop = mips_like()
    outcome = rau.solve(loop, rau.RauOptions())
    assert outcome.schedule is not None and check(loop, outcome.schedule) == []
    assert outcome.schedule.ii == RAU and bounds(loop).ii == OPTIMUM
    assert outcome.evidence.kind == "none", "what is above every bound is not called proved"


def test_titan_schedule_finds_and_proves_the_optimum() -> None:
    loop = mips_like()
    found = run(loop, Request())
    assert found.schedule is not None and check(loop, found.schedule) == []
    assert found.schedule.ii == OPTIMUM and found.produced_by == "joint"
    assert found.evidence.kind == "bound" and found.evidence.lower_bound == OPTIMUM


def test_another_solver_finds_the_same_optimum() -> None:
    pytest.importorskip("ortools")
    assert exact(mips_like(), RAU, OPTIMUM - 1, 20.0) == (OPTIMUM, True)
