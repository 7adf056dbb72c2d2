"""Schedules that are not modulo, the Pareto table, and instances whose optimum is known."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from click.testing import CliRunner

from titan.cli.schedule import schedule
from titan.foundation.resources import root
from titan.scheduling import rau
from titan.scheduling.check import check
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.generate import gapped_loop, random_dag
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.scheduling.problem import compile_problem
from titan.scheduling.regular import pareto, topological_pass, widened
from titan.target.model import Machine, Unit


def three() -> Loop:
    """Three operations of one unit that are independent, and one that needs them all."""
    machine = Machine("m", "", {"A": Unit("A", 1), "B": Unit("B", 1)})
    operations = (
        *(Operation(f"o{i}", (ReservationUse("A", 1),), 1, registers=4) for i in range(3)),
        Operation("last", (ReservationUse("B", 1),), 1),
    )
    edges = (*(Dependence(i, 3, 1) for i in range(3)), Dependence(3, 0, 1, 1))
    return Loop("three", machine, operations, edges)


def test_the_topological_pass_is_legal_and_not_before_the_wishes() -> None:
    problem = compile_problem(three())
    starts = topological_pass(problem, [0, 0, 2, 0], 20)
    assert starts == [0, 1, 2, 3]
    assert topological_pass(problem, [0, 0, 0, 0], 3) is None


def test_more_units_give_a_shorter_latency_and_both_are_on_the_front() -> None:
    points = pareto(three())
    assert min(p.latency_cycles for p in points) == 2
    front = {(p.latency_cycles, p.units) for p in points if p.front}
    assert {(4, 2), (3, 3), (2, 4)} == front
    for point in points:
        assert check(widened(three(), point.copies), point.schedule) == []


def test_the_front_is_what_nothing_beats() -> None:
    points = pareto(load_loop(root("protocols") / "loops" / "linear_attention.yaml"))
    keys = {(p.latency_cycles, p.units, p.registers): p.front for p in points}
    assert len(keys) == len(points) > 2 and any(keys.values())
    for one, front in keys.items():
        better = [o for o in keys if o != one and all(a <= b for a, b in zip(o, one, strict=True))]
        assert front == (not better)


def test_the_command_prints_the_table() -> None:
    path = str(root("protocols") / "loops" / "fa_simplified.yaml")
    text = CliRunner().invoke(schedule, [path, "--pareto"], standalone_mode=False)
    assert "on the Pareto front" in text.output and "latency, cycles" in text.output
    said = CliRunner().invoke(schedule, [path, "--pareto", "--format", "json"])
    points = json.loads(said.output)["regular_schedules"]
    assert any(point["front"] for point in points)
    assert {"latency_cycles", "registers_words", "starts_cycles"} <= set(points[0])


def test_the_edge_density_of_a_random_graph_is_an_option() -> None:
    n = 400
    for density in (0.0, 0.01, 0.1):
        loop = random_dag(n, density, back_edges=7, seed=3)
        forward = [(e.source, e.sink) for e in loop.dependences if not e.distance]
        assert len(set(forward)) == len(forward) and all(u < v for u, v in forward)
        assert len(loop.dependences) - len(forward) == 7
        expected = density * n * (n - 1) / 2
        assert abs(len(forward) - expected) <= 5 * expected**0.5
    full = random_dag(12, 1.0)
    assert len(full.dependences) == 66
    with pytest.raises(ValueError, match="from 0 to 1"):
        random_dag(3, 1.5)


@pytest.mark.parametrize("n", [3, 6, 9, 10])
def test_the_optimum_of_gapped_loops_is_above_the_bound(n: int) -> None:
    """Brute force over the rows of every operation: rows decide, for dependences bind none."""
    loop, optimum = gapped_loop(n, 0.2, seed=n, units=2)
    assert bounds(loop).ii == optimum - 1
    assert not _fits(loop, optimum - 1) and _fits(loop, optimum)
    found = rau.solve(loop).schedule
    assert found is not None and found.ii >= optimum and check(loop, found) == []


def _fits(loop: Loop, ii: int) -> bool:
    """Whether there are rows for all operations of every unit."""
    for unit in loop.machine.units:
        count = sum(op.uses[0].unit == unit for op in loop.operations)
        for rows in product(range(ii), repeat=count):
            taken = [row % ii for row in rows] + [(row + 2) % ii for row in rows]
            if len(set(taken)) == 2 * count:
                break
        else:
            return False
    return True


def test_widened_loops_keep_their_operations() -> None:
    wide = widened(three(), 3)
    assert wide.units["A"].capacity == 3
    assert replace(wide, machine=three().machine) == three()
