"""activemask in an arm of a branch: right is what is right whichever lanes it finds."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, kernel, verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

LAUNCH = "{grid: 1, parameters: {out: pointer}}"
HEAD = """
	.reg .b64 %d<8>;
	ld.param.u64 %d0, [out];
	mul.wide.u32 %d1, %r0, 4;
	add.u64 %d1, %d1, %d0;
	mov.u32 %r2, s;
	mad.lo.u32 %r3, %r0, 4, %r2;
	setp.lt.u32 %p1, %r0, 16;
	{before}
	@!%p1 bra DONE;
	{arm}
	st.global.u32 [%d1], %r9;
DONE:
"""
ACTIVE = "activemask.b32 %r5;\n"
BALLOT = "vote.sync.ballot.b32 %r5, %p1, 0xffffffff;\n"
LEADER = "brev.b32 %r6, %r5; clz.b32 %r6, %r6;\n"  # the lowest lane of the mask
FROM_LEADER = "shfl.sync.idx.b32 %r9, %r0, %r6, 31, %r5;"
FROM_THREE = "shfl.sync.idx.b32 %r9, %r0, 3, 31, %r5;"
SUM = (
    "setp.ne.u32 %p2, %r6, %r0; @%p2 bra ADDED; popc.b32 %r7, %r5;\n"
    "atom.global.add.u32 %r8, [%d0+1024], %r7;\nADDED: shfl.sync.idx.b32 %r9, %r8, %r6, 31, %r5;"
)
NEXT = "xor.b32 %r7, %r3, 4;\n"  # the place of the neighbour
EXCHANGE = NEXT + "st.shared.u32 [%r3], %r0; bar.warp.sync %r5; ld.shared.u32 %r9, [%r7];"
OWN = "st.shared.u32 [%r3], %r0; bar.warp.sync %r5; ld.shared.u32 %r9, [%r3];"
COUNTED = "popc.b32 %r9, %r5;"


def judged(arm: str, before: str = "", **more):
    text = kernel(HEAD.format(arm=arm, before=before), 32)
    return verified(text.replace("k()", "k(.param .u64 out)"), LAUNCH, **more)


@pytest.mark.parametrize(
    ("before", "arm", "right"),
    [
        ("", ACTIVE + LEADER + FROM_LEADER, True),
        ("", ACTIVE + FROM_THREE, False),
        (BALLOT, FROM_THREE, True),
        (ACTIVE, "and.b32 %r5, %r5, 0xffff;" + FROM_THREE, True),  # where all lanes are together
        ("", ACTIVE + EXCHANGE, False),
        (BALLOT, EXCHANGE, True),
        ("", ACTIVE + OWN, True),
        ("", ACTIVE + COUNTED, True),
    ],
)
def test_a_mask_of_the_lanes_that_are_there(before, arm, right):
    finding = judged(arm, before)
    if right:
        assert (finding.verdict, codes(finding)) == (Verdict.VERIFIED, []), finding.notes
        return
    assert finding.verdict is Verdict.REFUTED and codes(finding), finding.notes
    helps = [line for item in finding.diagnostics for line in item.helps]
    assert any("activemask" in line for line in helps)


def test_the_sum_of_a_coalesced_group():
    """Each lane alone adds one; the old number is data, which the policy allows."""
    allowed = CodePolicies(unsettled="allow")
    right = judged(ACTIVE + LEADER + SUM, policies=allowed)
    assert right.verdict is Verdict.VERIFIED, right.notes
    wrong = SUM.replace("%r8, %r6, 31", "%r8, 0, 31")
    assert judged(ACTIVE + LEADER + wrong, policies=allowed).verdict is not Verdict.VERIFIED
    assert judged(LEADER + SUM, BALLOT, policies=allowed).verdict is Verdict.VERIFIED
