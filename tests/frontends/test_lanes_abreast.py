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


# Two parts of a warp with long loops of loads, between which the machine changes; then all meet.
LOADS = """
	setp.lt.u32 %p4, %r0, 16;
	mov.u32 %r4, 0;
	shl.b32 %r5, %r0, 2;
	mov.u32 %r6, s;
	add.u32 %r5, %r5, %r6;
	@%p4 bra LOW;
HIGH:
	ld.shared.u32 %r7, [%r5];
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p5, %r4, 200;
	@%p5 bra HIGH;
	bra MEET;
LOW:
	ld.shared.u32 %r7, [%r5+512];
	{low}
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p5, %r4, 200;
	@%p5 bra LOW;
MEET:
"""
STORES = """
	shl.b32 %r8, %r0, 2; mov.u32 %r9, s; add.u32 %r8, %r8, %r9;
	st.shared.u32 [%r8], %r0; st.shared.u32 [%r8+512], %r0;
	bar.sync 0;
"""
ARRIVES = "@%p1 mbarrier.arrive.shared.b64 _, [b];"


@pytest.mark.parametrize(
    ("low", "behind", "verdict"),
    [
        ("", "", Verdict.VERIFIED),
        ("", "bar.sync 0; st.shared.u32 [%r8], %r1;", Verdict.VERIFIED),
        ("", "@%p1 st.shared.u32 [s+96], %r1;", Verdict.REFUTED),
        (f"setp.eq.u32 %p6, %r4, 100; @%p6 {ARRIVES[5:]}", "", Verdict.UNDECIDED),
    ],
    ids=["loads", "loads, then stores", "stores before the others", "arrivals in between"],
)
def test_parts_that_only_load_may_run_side_by_side(low, behind, verdict):
    body = STORES + LOADS.replace("{low}", low) + behind
    begin = "@%p1 mbarrier.init.shared.b64 [b], 64;" if low else ""
    finding = verified(kernel(f"setp.eq.u32 %p1, %r0, 0;{begin} bar.sync 0;" + body, 32), LAUNCH)
    assert finding.verdict is verdict, (codes(finding), finding.notes)
