"""Lanes of a warp that part: in the order of the run, or side by side."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, kernel, verified
from titan.foundation.verdict import Verdict

BEGIN = """
	setp.eq.u32 %p1, %r0, 0;
	@%p1 mbarrier.init.shared.b64 [b], 2;
	@%p1 mbarrier.init.shared.b64 [b+8], 2;
	bar.sync 0;
	setp.lt.u32 %p2, %r0, 2;
	mov.u32 %r2, b;
"""
BOTH = "shl.b32 %r3, %r0, 3; add.u32 %r3, %r3, %r2; @%p2 mbarrier.arrive.shared.b64 _, [%r3];"
APART = """
	setp.eq.u32 %p3, %r0, 1;
	@%p1 mbarrier.arrive.shared.b64 _, [b];
	@%p3 mbarrier.arrive.shared.b64 _, [b+8];
"""
FIRST_AGAIN = "@%p1 mbarrier.arrive.shared.b64 _, [b];"
LAUNCH = "{grid: 1, dynamic_shared: 0}"


@pytest.mark.parametrize(
    ("arrivals", "verdict"), [(BOTH, Verdict.VERIFIED), (APART, Verdict.UNDECIDED)]
)
def test_lanes_that_arrive_at_several_barriers_with_one_instruction_stay_abreast(arrivals, verdict):
    """Lane n arrives at barrier n, as consumers do that release a stage in each CTA of a pair."""
    finding = verified(kernel(BEGIN + arrivals + FIRST_AGAIN, 32), LAUNCH)
    assert finding.verdict is verdict, (codes(finding), finding.notes)
