"""Any number of tiles where something is fixed: prologues, peeled iterations, one-off phases.

The explorer's verdict for every number against its verdicts for single numbers without partial
order, on random pipelines with and without mistakes, and on small programs made to deceive it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.building import access, at, e, loop, program, read, write
from tests.edits import perturb
from tests.engines.explore.prologues import prologued, prologued_work
from tests.sampling import part
from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.search import ExplorationError, Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.interpreter import Sizes

BUDGET = Budget(states_max=12_000, seconds_max=5)
PLAIN = Reductions(partial_order=False)
SETTINGS = (None, PLAIN, Reductions(symmetry=False, partial_order=False))


def drawn(seed: int, edits: int) -> ir.SyncProgram:
    random = Random(seed)
    given = (prologued if random.random() < 0.75 else prologued_work)(random)
    given = perturb(given, random, edits)
    return replace(given, parameters=tuple(replace(p, value=None) for p in given.parameters))


def sizes_of(given: ir.SyncProgram) -> Iterator[Sizes]:
    """Every number up to three turns of the ring and two; few for every one of few output tiles."""
    turns = 3 * max(barrier.stages for barrier in given.barriers) + 2
    first, *others = given.parameters
    if not others:
        yield from ({first.name: number} for number in range(first.minimum, turns + 1))
        return
    inner = others[0]
    for work in range(4):
        if inner.per is None:
            numbers = range(inner.minimum, turns if work == 1 else 4)
            yield from ({first.name: work, inner.name: number} for number in numbers)
            continue
        choices = range(inner.minimum, (5, turns, 4, 3)[work])
        for each in product(choices, repeat=max(work, 1)):
            yield {first.name: work, inner.name: each}


def refuted_by(given: ir.SyncProgram) -> Sizes | None:
    for sizes in sizes_of(given):
        if explore(given, sizes, BUDGET, PLAIN).verdict is Verdict.REFUTED:
            return sizes
    return None


def compare(seeds: range) -> tuple[list[str], Counter[str]]:
    wrong, tally = [], Counter[str]()
    for seed in seeds:
        edits = (0, 0, 1, 1, 1, 2)[seed % 6]
        given = drawn(seed, edits)
        try:
            every = [explore(given, None, BUDGET, reductions) for reductions in SETTINGS]
        except (NotApplicableError, ExplorationError):
            tally["not applicable"] += 1
            continue
        tally.update(result.verdict for result in every)
        verified = any(result.verdict is Verdict.VERIFIED for result in every)
        if verified:
            found = refuted_by(given)
            if found is not None:
                wrong.append(f"seed {seed}: verified for every number, refuted for {found}")
        for result in every:
            if result.verdict is not Verdict.REFUTED:
                continue
            assert result.trace is not None
            numbers = dict(result.trace.parameters)
            if edits == 0 or verified:
                wrong.append(f"seed {seed}: refuted for {numbers}, though nothing is wrong")
            if explore(given, numbers, BUDGET, PLAIN).verdict is Verdict.VERIFIED:
                wrong.append(f"seed {seed}: refuted for {numbers}, which alone verifies")
    return wrong, tally


def test_every_number_of_a_pipeline_with_a_prologue():
    wrong, tally = compare(range(part(150, 3)))
    assert not wrong, "\n".join(wrong)
    assert tally[Verdict.VERIFIED] > part(150, 3) and tally[Verdict.REFUTED] > part(80, 3), tally
    assert tally["not applicable"] < part(15, 3), tally


@pytest.mark.heavy
@pytest.mark.timeout(7200)
def test_every_number_of_many_pipelines_with_a_prologue():
    wrong, _ = compare(range(1_000, 6_000))
    assert not wrong, "\n".join(wrong)


# ------------------------------------------------------------------------------ made to deceive

STORE = access(write("memory", 0, 0))
LOAD = access(read("memory", 0, 0))
STALE = access(read("memory", 0, 9))


def one_role(*body: ir.Operation, **variables: int) -> ir.SyncProgram:
    return program(
        "small",
        [ir.Role("warp", body, 1, 1, variables=tuple(variables.items()))],
        parameters=[ir.Parameter("tiles")],
        barriers=[ir.Barrier("b", 1)],
        buffers=[ir.Buffer("memory")],
        policies=ir.Policies(barrier_init="assumed"),
    )


def per_tile(*body: ir.Operation, **variables: int) -> ir.SyncProgram:
    given = one_role(STORE, loop("w", "work", list(body)), **variables)
    parameters = (ir.Parameter("work"), ir.Parameter("k_tiles", minimum=1, per="w"))
    return replace(given, parameters=parameters)


def test_an_initialisation_sets_the_phase_back():
    turn: list[ir.Operation] = [
        ir.Arrive(at("b")),
        ir.Wait(at("b"), e("v % 2"), e("v")),
        ir.Assign("v", e("v + 1")),
    ]
    again = [ir.Invalidate(at("b")), ir.Init(at("b"), e(1)), *turn]
    given = one_role(loop("t", "tiles", turn + turn), *again, v=0)
    assert explore(given, {"tiles": 0}).verdict is Verdict.VERIFIED
    result = explore(given)
    assert result.verdict is Verdict.REFUTED
    assert result.trace is not None and dict(result.trace.parameters) == {"tiles": 1}
    with pytest.raises(NotApplicableError, match="initialises b, whose phases are counted"):
        explore(one_role(loop("t", "tiles", again), v=0))


def test_a_counter_is_not_compared_with_the_size_of_another_tile():
    late = [ir.Branch(e("k > k_tiles + 5"), (STALE,)), loop("k", "k_tiles", [LOAD])]
    given = per_tile(*late)
    sizes: Sizes = {"work": 2, "k_tiles": (7, 1)}
    assert explore(given, sizes).verdict is Verdict.REFUTED
    with pytest.raises(NotApplicableError, match="k counts up to k_tiles and is kept where w"):
        explore(given)
    kept = [
        loop("k", "k_tiles", [LOAD]),
        ir.Branch(e("w == 1 and m == k_tiles + 6"), (STALE,)),
        ir.Assign("m", e("k")),
        LOAD,
    ]
    assert explore(per_tile(*kept, m=0), sizes).verdict is Verdict.REFUTED
    with pytest.raises(NotApplicableError, match="m counts up to k_tiles and is kept where w"):
        explore(per_tile(*kept, m=0))


def test_a_loop_variable_with_a_first_value():
    compare_first = loop("t", "tiles", [ir.Branch(e("t == s"), (STALE,)), LOAD])
    given = one_role(STORE, compare_first, loop("s", 2, [LOAD]), s=20)
    result = explore(given)
    assert result.verdict is Verdict.REFUTED
    assert "from 22 on" in result.scope


def test_a_trace_past_sizes_that_were_given_up():
    # Without k-tiles the loop over work has no operation: each number of work is a state of its
    # own, and the search gives up on them. The fault of the other sizes has its trace still.
    given = one_role(STORE, loop("w", "work", [ir.Branch(e("k_tiles > 0"), (STALE,))]))
    waits = one_role(loop("w", "work", [ir.Branch(e("k_tiles > 0"), (STALE,))]))
    open_sizes = (ir.Parameter("work"), ir.Parameter("k_tiles"))
    for example in (given, waits):
        result = explore(replace(example, parameters=open_sizes))
        assert result.verdict is Verdict.REFUTED
        assert result.trace is not None
        assert dict(result.trace.parameters) == {"work": 1, "k_tiles": 1}
