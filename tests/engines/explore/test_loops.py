"""A prologue and a main loop over one variable: told apart, with the same verdicts and traces."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.building import access, at, e, loop, program, read, write
from tests.edits import perturb
from tests.engines.explore.prologues import prologued
from titan.engines.explore.loops import names_in, renamed, separate_loops
from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.search import Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.expression import Binary, Constant, Expression, Name

BUDGET = Budget(states_max=12_000)
PLAIN = Reductions(partial_order=False)


def one_variable(given: ir.SyncProgram) -> ir.SyncProgram:
    """The program with `s`, the variable of its prologues, called `t` as in its main loops."""
    roles = tuple(replace(r, body=renamed(r.body, "s", "t")) for r in given.roles)
    return replace(given, roles=roles)


def drawn(seed: int) -> ir.SyncProgram:
    random = Random(seed)
    given = perturb(prologued(random), random, (0, 1, 1, 2)[seed % 4])
    return replace(given, parameters=tuple(replace(p, value=None) for p in given.parameters))


def refuted_at(given: ir.SyncProgram) -> int | None:
    for tiles in range(given.parameters[0].minimum, 9):
        if explore(given, {"tiles": tiles}, BUDGET, PLAIN).verdict is Verdict.REFUTED:
            return tiles
    return None


def test_random_prologues_of_one_variable() -> None:
    separated, tally = 0, Counter[Verdict]()
    for seed in range(160):
        given = one_variable(drawn(seed))
        separated += separate_loops(given, {}) is not given
        try:
            result = explore(given, None, BUDGET)
        except NotApplicableError:
            continue
        tally[result.verdict] += 1
        if result.verdict is Verdict.VERIFIED:
            assert refuted_at(given) is None, seed
        elif result.verdict is Verdict.REFUTED:
            assert result.trace is not None
            sizes = dict(result.trace.parameters)
            assert explore(given, sizes, BUDGET, PLAIN).verdict is Verdict.REFUTED, seed
    assert separated > 20 and min(tally[Verdict.VERIFIED], tally[Verdict.REFUTED]) > 30, tally


def plain_prologue(stage: str, first: int | None = None) -> ir.SyncProgram:
    """Fills two stages, then reads one and fills the next; `first` replaces the first tile."""
    tile = "t" if first is None else first

    def fill(place: str, what: str | int) -> list[ir.Operation]:
        return [access(write("S", place, what)), ir.Arrive(at("full", place))]

    before = loop("t", 2, [ir.Branch(e("t < tiles"), tuple(fill(stage, tile)))])
    turn = [
        ir.Wait(at("full", "t % 2"), e("t // 2 % 2"), e("t // 2")),
        access(read("S", "t % 2", "t")),
        ir.Branch(e("t + 2 < tiles"), tuple(fill("t % 2", "t + 2"))),
    ]
    return program(
        "prologue",
        [ir.Role("warp", (before, loop("t", "tiles", turn)), 1, 32)],
        parameters=[ir.Parameter("tiles")],
        barriers=[ir.Barrier("full", 1, 2)],
        buffers=[ir.Buffer("S", 2)],
        policies=ir.Policies(barrier_init="assumed"),
    )


@pytest.mark.parametrize("stage", ["t", "t % 2"])
def test_a_prologue_with_a_plain_index_is_verified_for_any_number(stage: str) -> None:
    assert explore(plain_prologue(stage)).verdict is Verdict.VERIFIED


def test_a_fault_of_the_prologue_is_found_in_the_program_as_written() -> None:
    given = plain_prologue("t", first=7)
    result = explore(given)
    assert result.verdict is Verdict.REFUTED and result.trace is not None
    operations = list(ir.walk(given.roles[0].body))
    assert any(item is result.trace.fault.operations[0] for item in operations)


T = Name("t")


@pytest.mark.parametrize(
    "after",
    [
        [access(read("S", "t % 2"))],  # the variable is read behind the loops
        [ir.Assign("n", e("t"))],
        [loop("n", "t", [access(read("S"))])],
        [loop("t", 2, [loop("t", "tiles", [access(read("S"))])])],
        [loop("t", "tiles", [access(read("S"))], "t + 1")],  # the start goes on from the last
        [loop("t", 3, [ir.Assign("t", e("t + 1")), access(read("S"))])],
    ],
)
def test_a_variable_that_is_seen_outside_of_its_loops_is_kept(after: list[ir.Operation]) -> None:
    given = plain_prologue("t")
    roles = (replace(given.roles[0], body=(*given.roles[0].body, *after)),)
    assert separate_loops(replace(given, roles=roles), {}).roles == roles


def test_the_outer_variable_of_a_size_is_kept() -> None:
    given = plain_prologue("t")
    inner = ir.Parameter("inner", per="t")
    kept = replace(given, parameters=(*given.parameters, inner))
    assert separate_loops(kept, {}) is kept
    assert separate_loops(given, {}) != given


def test_every_name_is_replaced() -> None:
    whole: Expression = Binary("+", T, Binary("min", T, Constant(1)))
    assert renamed(whole, "t", "u") == Binary("+", Name("u"), Binary("min", Name("u"), Constant(1)))


def test_the_place_of_an_operation_holds_none_of_its_names():
    """It holds the whole source: looking through it took a minute for 2,000 operations."""
    operation = replace(access(read("x", stage="s + t")), span=Name("place"))
    assert names_in((operation,)) == {"s", "t"}
