"""Reductions at hardware barriers meet reductions alone."""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict

RED = "bar.red.or.pred %p4, {n}, 64, %p1;"
POPC = "bar.red.popc.u32 %r10, {n}, 64, %p1;"
SYNC = "bar.sync {n}, 64;"
ARRIVE = "bar.arrive {n}, 64;"
TWO = "@%p1 bra A; {one} bra B; A: {other} B:"  # each warp its own instruction


@pytest.mark.parametrize(
    ("one", "other", "right"),
    [
        (RED, RED, True), (RED, POPC, True), (SYNC, SYNC, True), (SYNC, ARRIVE, True),
        (RED, SYNC, False), (SYNC, RED, False), (POPC, ARRIVE, False), (ARRIVE, RED, False),
        (SYNC + RED, SYNC + RED, True), (RED + SYNC, RED + SYNC, True),
        (SYNC + RED, SYNC + SYNC, False),
        (RED + SYNC.replace("{n}", "2"), SYNC.replace("{n}", "2") + RED, None),
    ],
)  # fmt: skip
def test_what_meets_at_a_barrier(one, other, right):
    finding = verified(TWO.format(one=one, other=other).format(n=1))
    codes = [item.code for item in finding.diagnostics]
    if right is None:
        assert finding.verdict is not Verdict.VERIFIED  # they wait for each other
        return
    assert (finding.verdict is Verdict.VERIFIED) is right, (codes, finding.notes)
    assert right or "TTN210" in codes
