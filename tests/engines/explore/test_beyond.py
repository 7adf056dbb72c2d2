"""Partial order where a closure goes on without numbers, against engines that have none.

`CLOSURE_OPERATIONS` is set so low that every closure is left soon, at each place where it can be:
what an agent may do after that is only what control flow leads to (native/beyond.c).
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.agreement.test_any_number import open_ring
from tests.edits import perturb
from tests.engines.explore.test_known import said
from tests.engines.happens_before.test_weak_order import draw
from tests.rings import persistent_ring
from tests.sampling import part
from tests.strategies import program_of_seed
from titan.engines.explore import known, search
from titan.engines.explore.quotient import NotApplicableError
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import ExplorationError, Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync.interpreter import LocalLoopError
from titan.sync.program import SyncProgram

PARTIAL_ORDER = Reductions(symmetry=False, partial_order=True)
BOTH = Reductions()
NONE = Reductions(symmetry=False, partial_order=False)
LIMITS = (0, 1, 2, 4, 7)
STATES_MAX = 2500


def disagreements(seeds: range, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Counter[str]]:
    wrong, tally = [], Counter[str]()
    for seed in seeds:
        monkeypatch.setattr(search, "CLOSURE_OPERATIONS", LIMITS[seed % len(LIMITS)])
        program = program_of_seed(seed)
        try:
            expected = explore_reference(program, budget=Budget(states_max=STATES_MAX)).verdict
        except (ZeroDivisionError, LocalLoopError):
            continue
        if expected is Verdict.UNDECIDED:
            continue
        tally[expected] += 1
        for reductions in (PARTIAL_ORDER, BOTH):
            try:
                found = explore(program, reductions=reductions).verdict
            except ExplorationError:
                continue
            if found != expected:
                wrong.append(f"seed {seed}: {found}, not {expected}")
    return wrong, tally


def test_short_closures_on_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, tally = disagreements(range(20_000, 20_000 + part(300, 3)), monkeypatch)
    assert not wrong, "\n".join(wrong)
    assert min(tally[Verdict.VERIFIED], tally[Verdict.REFUTED]) > part(50, 3), tally


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_short_closures_on_many_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, _ = disagreements(range(30_000, 36_000), monkeypatch)
    assert not wrong, "\n".join(wrong)


def compare_orders(programs: list[tuple[str, SyncProgram]]) -> tuple[list[str], Counter[str]]:
    """For every number, with partial order and without."""
    wrong, tally = [], Counter[str]()
    for name, program in programs:
        try:
            plain = explore(program, None, Budget(60_000, 10.0), NONE).verdict
            reduced = explore(program, None, Budget(60_000, 10.0), BOTH).verdict
        except NotApplicableError:
            tally["not applicable"] += 1
            continue
        tally[plain] += 1
        tally[f"{reduced} with partial order"] += 1
        if Verdict.UNDECIDED not in (plain, reduced) and plain != reduced:
            wrong.append(f"{name}: {reduced}, not {plain}")
    return wrong, tally


def open_programs(seeds: range) -> list[tuple[str, SyncProgram]]:
    drawn = []
    for seed in seeds:
        random = Random(seed)
        drawn.append((f"ring {seed}", open_ring(seed)))
        nested = perturb(persistent_ring(random), random, random.choice((0, 1, 1, 2)))
        drawn.append((f"persistent ring {seed}", nested))
    return drawn


@pytest.mark.parametrize("limit", (0, 3, 3000))
def test_every_number_with_partial_order_and_without(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "CLOSURE_OPERATIONS", limit)
    wrong, tally = compare_orders(open_programs(range(8_000 + limit, 8_040 + limit)))
    assert not wrong, "\n".join(wrong)
    assert min(tally[Verdict.VERIFIED], tally[Verdict.REFUTED]) > 8, tally


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("limit", (0, 2, 5, 3000))
def test_every_number_with_partial_order_and_without_on_many_rings(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "CLOSURE_OPERATIONS", limit)
    wrong, _ = compare_orders(open_programs(range(10_000 + 400 * limit, 10_400 + 400 * limit)))
    assert not wrong, "\n".join(wrong)


def test_what_rests_on_a_copy_is_not_verified_with_short_closures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "follows", lambda flat: True)
    tally = Counter[tuple[str, str]]()
    for seed in range(5_000, 5_000 + part(900, 3)):
        monkeypatch.setattr(search, "CLOSURE_OPERATIONS", LIMITS[seed % len(LIMITS)])
        pair = said(draw(Random(seed), strong=True).program())
        tally[pair] += 1
        assert pair[0] != "weak" or pair[1] != Verdict.VERIFIED, seed
        assert pair[0] != "refuted" or pair[1] == Verdict.REFUTED, seed
        assert pair[0] != "verified" or pair[1] == Verdict.VERIFIED, seed
    assert tally["weak", Verdict.UNDECIDED] > part(15, 3), tally
