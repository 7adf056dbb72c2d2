"""Folding recordings into loops: found again, verified for any number, refused otherwise."""

from __future__ import annotations

import pytest

from tests.frontends.story import TILE, Story, ring
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.frontends.fold import Recorded, fold, folded_equals
from titan.frontends.rings import NotFoldedError, cycle_of
from titan.sync import program as ir
from titan.verify.engines import VerifyBudget, run_explorer


def recorded(trips: int, depth: int, **more) -> Recorded:
    return Recorded(trips, ring(trips, depth, **more).recording().program)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_ring_folds_and_holds_for_any_number(depth):
    used = [recorded(t, depth) for t in (depth + 1, 2 * depth + 1, 4 * depth + 3)]
    folded = fold(used)
    held_out = [recorded(t, depth) for t in (depth + 2, 3 * depth + 2, 5 * depth)]
    assert all(folded_equals(folded, item) for item in (*used, *held_out))
    assert not folded_equals(folded, Recorded(7 * depth, held_out[0].program))
    loops = [op for role in folded.roles for op in role.body if isinstance(op, ir.Loop)]
    assert len(loops) == 2
    pytest.importorskip("titan.engines.explore._core")
    report = run_explorer(folded, VerifyBudget(1_000_000))
    assert report.verdict is Verdict.VERIFIED
    assert report.sizes == (("trips", None),)


def test_a_fault_of_late_rounds_is_found_for_any_number():
    """The last stage is never waited for: seen only by who looks at every number."""
    folded = fold([recorded(t, 2, drain=False) for t in (3, 5, 11)])
    pytest.importorskip("titan.engines.explore._core")
    assert run_explorer(folded, VerifyBudget(1_000_000)).verdict is Verdict.REFUTED


def test_what_does_not_repeat_is_refused():
    with pytest.raises(NotFoldedError, match="fewer than three"):
        fold([recorded(3, 2), recorded(4, 2)])
    odd = ring(11, 2)
    odd.access(1, 3 * TILE, 8)
    odd.access(0, 3 * TILE, 8)
    programs = [recorded(3, 2), recorded(5, 2), Recorded(11, odd.recording().program)]
    with pytest.raises(NotFoldedError):
        fold(programs)


def test_a_straight_line_stays_as_it_is():
    story = Story()
    story.access(0, 0, 8)
    story.sync([0, 1])
    story.access(1, 0, 8)
    program = story.recording().program
    folded = fold([Recorded(t, program) for t in (1, 2, 3)])
    assert [role.body for role in folded.roles] == [role.body for role in program.roles]
    assert analyse(folded, {"trips": 1}).verdict is Verdict.VERIFIED


def test_cycles():
    assert cycle_of(list("abcabca")) == tuple("abc")
    assert cycle_of(list("aaaa")) == ("a",)
    with pytest.raises(NotFoldedError):
        cycle_of(list("abcab"))
