"""What the explorer follows of who knows what, against the clocks of the happens-before engine.

The explorer must not verify where an access rests on a completed copy for more than the copy; the
happens-before engine, whose own oracle is a search for paths, says where that is. And it should
verify wherever that engine does.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.engines.happens_before import engine_arrivals
from tests.engines.happens_before.test_weak_order import draw
from tests.sampling import part
from tests.strategies import FAMILIES, random_program
from titan.engines.explore import known
from titan.engines.explore.flatten import flatten
from titan.engines.explore.search import explore
from titan.engines.happens_before.engine import analyse
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync.fault import FaultKind
from titan.sync.program import SyncProgram
from titan.sync.relays import relays
from titan.sync.weak import may_be_weak

BUDGET = Budget(states_max=60_000, seconds_max=20.0)


def said(program: SyncProgram) -> tuple[str, str]:
    """What happens-before says, and what the explorer says that follows events."""
    ordered = analyse(program)
    if ordered.verdict is Verdict.REFUTED:
        assert ordered.fault is not None
        weak = ordered.fault.kind is FaultKind.WEAK_SYNCHRONISATION
        word = "weak" if weak else "refuted"
    else:
        word = str(ordered.verdict)
    return word, str(explore(program, None, BUDGET).verdict)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are followed in every program."""
    monkeypatch.setattr(known, "follows", lambda flat: True)


def compare(programs: list[tuple[str, SyncProgram]]) -> tuple[list[str], Counter[tuple[str, str]]]:
    wrong, tally = [], Counter[tuple[str, str]]()
    for name, program in programs:
        pair = said(program)
        tally[pair] += 1
        allowed = {
            "weak": (Verdict.UNDECIDED,),
            "refuted": (Verdict.REFUTED,),
            "verified": (Verdict.VERIFIED, Verdict.UNDECIDED),
        }
        if pair[1] not in allowed.get(pair[0], tuple(Verdict)):
            wrong.append(f"{name}: {pair}")
    return wrong, tally


def test_what_rests_on_a_copy_is_not_verified(always: None):
    programs = [(f"seed {n}", draw(Random(n), strong=True).program()) for n in range(part(1200, 3))]
    wrong, tally = compare(programs)
    assert not wrong, "\n".join(wrong)
    assert tally["weak", Verdict.UNDECIDED] > part(60), tally
    assert tally["verified", Verdict.VERIFIED] > part(200, 3), tally
    assert tally["verified", Verdict.UNDECIDED] == 0, tally


def test_what_rests_on_weak_synchronisation_is_not_verified():
    """Relaxed operations and narrow scopes: verified only where nothing rests on them."""
    programs = [(f"seed {n}", draw(Random(n)).program()) for n in range(400)]
    wrong, tally = compare(programs)
    assert not wrong, "\n".join(wrong)
    assert tally["weak", Verdict.UNDECIDED] > 12, tally
    assert tally["verified", Verdict.VERIFIED] > 100, tally
    assert tally["verified", Verdict.UNDECIDED] < 10, tally


def test_what_rests_on_an_arrival_of_an_engine_is_not_verified():
    """Not even where nothing says that events are to be followed: `relays` has to say so."""
    programs = [(f"seed {n}", engine_arrivals.draw(Random(n)).program()) for n in range(500)]
    wrong, tally = compare(programs)
    assert not wrong, "\n".join(wrong)
    assert tally["weak", Verdict.UNDECIDED] > 25, tally
    assert tally["verified", Verdict.VERIFIED] > 180, tally
    assert tally["verified", Verdict.UNDECIDED] == 0, tally


@pytest.mark.parametrize("family", sorted(set(FAMILIES)))
def test_following_changes_no_verdict_of_other_programs(always: None, family: str):
    programs = [
        (f"{family} {n}", program)
        for n in range(60)
        if not may_be_weak(program := random_program(Random(n), family, n % 3))
    ]
    wrong, tally = compare(programs)
    assert not wrong, "\n".join(wrong)
    if family in ("cached", "halves"):  # who knows of such a fence is not followed
        assert tally["verified", Verdict.UNDECIDED] > tally["verified", Verdict.VERIFIED], tally
        return
    assert tally["verified", Verdict.UNDECIDED] <= tally["verified", Verdict.VERIFIED] // 10, tally


def test_batches_of_events_decide_what_one_search_decides(
    always: None, monkeypatch: pytest.MonkeyPatch
):
    programs = [draw(Random(n), strong=True).program() for n in range(300)]
    programs += [random_program(Random(n), "ring", n % 3) for n in range(40)]
    whole = [explore(program, None, BUDGET).verdict for program in programs]
    monkeypatch.setattr(known, "EVENTS_MAX", 1)
    batches = [flatten(program).event_batches for program in programs]
    assert sum(count > 1 for count in batches) > 150
    assert [explore(program, None, BUDGET).verdict for program in programs] == whole
    assert min(Counter(whole)[verdict] for verdict in (Verdict.VERIFIED, Verdict.UNDECIDED)) > 10


def test_programs_that_relay_nothing_have_no_weak_order():
    found = Counter[tuple[bool, bool]]()
    drawn = [draw(Random(seed), strong=True).program() for seed in range(1500)]
    families = sorted(FAMILIES)
    others = [random_program(Random(n), families[n % len(families)], n % 3) for n in range(420)]
    drawn += [program for program in others if not may_be_weak(program)]
    for seed, program in enumerate(drawn):
        result = analyse(program)
        weak = result.fault is not None and result.fault.kind is FaultKind.WEAK_SYNCHRONISATION
        assert relays(program) or not weak, seed
        found[relays(program), weak] += 1
    assert min(found[True, True], found[False, False]) > 60, found
