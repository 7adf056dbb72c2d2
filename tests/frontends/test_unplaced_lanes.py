"""Lanes of one warp, some of whose addresses are data: what a barrier orders is right.

That it is open elsewhere is compared with numbers: where the launch gives the index, two lanes that
come to one place race.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import kernel, verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

UNKNOWN = "{grid: 1, parameters: {x: pointer, y: pointer}}"
SHIFTED = ", ".join(str((lane + 1) % 32) for lane in range(32))
KNOWN = f"{{grid: 1, parameters: {{x: {{pointer: {{u32: [{SHIFTED}]}}}}, y: pointer}}}}"
SAME = KNOWN.replace(SHIFTED, ", ".join(["5"] * 32))
HEAD = """
	.reg .b64 %d<8>;
	ld.param.u64 %d0, [x];
	ld.param.u64 %d1, [y];
	mul.wide.u32 %d2, %r0, 4;
	add.u64 %d3, %d0, %d2;
	add.u64 %d4, %d1, %d2;
	mov.u32 %r2, s;
	mad.lo.u32 %r3, %r0, 4, %r2;      // the place of the lane
	ld.global.u32 %r4, [%d3];
	and.b32 %r4, %r4, 31;
	mad.lo.u32 %r4, %r4, 4, %r2;      // a place that data choose
"""
MEET, TAIL = "bar.warp.sync 0xffffffff;\n", "st.global.u32 [%d4], %r9;"
OWN, ZERO = "st.shared.u32 [%r3], %r0;\n", "st.shared.u32 [%r3], 0;\n"
CHOSEN = "ld.shared.u32 %r9, [%r4];\n"
BACK = "ld.shared.u32 %r9, [%r3];\n"


def judged(body: str, launch: str = UNKNOWN, threads: int = 32, **more):
    text = kernel(HEAD + body + TAIL, threads)
    return verified(text.replace("k()", "k(.param .u64 x, .param .u64 y)"), launch, **more)


RIGHT = {
    "read behind a meeting": OWN + MEET + CHOSEN,
    "stored behind a meeting, one number": ZERO + MEET + "st.shared.u32 [%r4], 7;\n" + MEET + BACK,
    "added behind a meeting": ZERO + MEET + "red.shared.add.u32 [%r4], 1;\n" + MEET + BACK,
    "read, and overwritten behind a meeting": OWN + MEET + CHOSEN + MEET + ZERO,
    "read where nobody writes": OWN + "bar.sync 0;" + CHOSEN + CHOSEN,
    "by one lane": OWN + MEET + "setp.ne.u32 %p1, %r0, 3; mov.u32 %r9, 0; @%p1 bra E;"
                   "st.shared.u32 [%r4], %r0;" + CHOSEN + "E:",
    "in the memory of another pointer": "st.global.u32 [%d4], %r0; sub.u32 %r5, %r4, %r2;"
                                        "cvt.u64.u32 %d5, %r5; add.u64 %d5, %d5, %d0;"
                                        "ld.global.u32 %r9, [%d5];",
}  # fmt: skip
WRONG = {
    "read without a meeting": OWN + CHOSEN,
    "overwritten without a meeting": OWN + MEET + CHOSEN + ZERO,
    "stored, and read without a meeting": ZERO + MEET + "st.shared.u32 [%r4], 7;\n" + BACK,
    "added without a meeting": ZERO + "red.shared.add.u32 [%r4], 1;\n" + MEET + BACK,
    "added, and read without a meeting": ZERO + MEET + "red.shared.add.u32 [%r4], 1;\n" + BACK,
    "half of the lanes meet": OWN + "setp.lt.u32 %p1, %r0, 16; @!%p1 bra H;"
                              "bar.warp.sync 0xffff;\nH:" + CHOSEN,
}  # fmt: skip
SCATTERED = ZERO + MEET + "st.shared.u32 [%r4], %r0;\n" + MEET + BACK


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_a_meeting_orders_is_right_wherever_the_places_are(body):
    assert judged(body).verdict is Verdict.VERIFIED
    if "%d5" not in body:
        assert judged(body, KNOWN).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_may_meet_is_open_and_with_numbers_a_race(body):
    finding = judged(body)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("have not met" in note for note in finding.notes)
    assert judged(body, KNOWN).verdict is Verdict.REFUTED
    assert judged(body, policies=CodePolicies(lanes="ordered")).verdict is Verdict.VERIFIED


def test_lanes_of_one_store_may_come_to_one_place():
    assert judged(SCATTERED).verdict is Verdict.UNDECIDED
    assert judged(SCATTERED, KNOWN).verdict is Verdict.VERIFIED
    assert judged(SCATTERED, SAME).verdict is Verdict.REFUTED
