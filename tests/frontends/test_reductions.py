"""Reductions by engines of several operations on the same bytes: undecided unless one is over."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

LAUNCH = "{grid: 1, parameters: {out: pointer}}"
START = """
	.reg .b64 %d<4>;
	ld.param.u64 %d0, [out];
	mov.u32 %r2, s;
	mad.lo.u32 %r3, %r0, 4, %r2;
	st.shared.u32 [%r3], %r0;
	fence.proxy.async.shared::cta;
	bar.sync 0;
"""
FIRST, SECOND = "setp.ne.u32 %p1, %r0, 0;", "setp.ne.u32 %p1, %r0, 32;"
REDUCE = """
	@%p1 bra {label};
	cp.reduce.async.bulk.global.shared::cta.bulk_group.{word} [%d0+{at}], [s], 64;
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group{read} 0;
{label}:
"""
BY_THREAD = """
	@%p1 bra {label};
	red.global.{word} [%d0+{at}], %r0;
{label}:
"""
MEET = "\tbar.sync 0;\n"
FENCE = "\tfence.proxy.async;\n"


def reduced(word: str, *, at: int = 0, read: str = "", form: str = REDUCE) -> str:
    reduced.count += 1
    return form.format(word=word, at=at, read=read, label=f"DONE{reduced.count}")


reduced.count = 0


NOTED = "st.relaxed.cta.shared.u32 [s+1024], 1;", "ld.relaxed.cta.shared.u32 %r9, [s+1024];"


@pytest.mark.parametrize(
    ("parts", "settled"),
    [
        ((FIRST, reduced("add.u32"), SECOND, reduced("add.u32")), True),
        ((FIRST, reduced("add.u32"), SECOND, reduced("min.u32")), False),
        ((FIRST, reduced("add.u32"), SECOND, reduced("min.u32", at=64)), True),
        ((FIRST, reduced("add.u32"), SECOND, reduced("min.u32", at=48)), False),
        ((FIRST, reduced("add.u32"), MEET, SECOND, reduced("min.u32")), True),
        ((FIRST, reduced("add.u32", read=".read"), MEET, SECOND, reduced("min.u32")), False),
        ((FIRST, reduced("inc.u32"), SECOND, reduced("inc.u32")), False),
        ((FIRST, reduced("inc.u32"), SECOND, reduced("add.u32")), False),
        ((FIRST, reduced("inc.u32"), MEET, SECOND, reduced("dec.u32")), True),
        ((FIRST, reduced("inc.u32")), True),
        ((FIRST, reduced("add.u32"), SECOND, reduced("add.s32")), True),
        ((FIRST, reduced("max.u32"), SECOND, reduced("max.s32")), False),
        ((FIRST, reduced("add.u32"), SECOND, reduced("add.u64")), False),
        ((FIRST, reduced("add.u32"), SECOND, reduced("add.noftz.f16")), False),
        ((FIRST, reduced("max.u32"), SECOND, reduced("max.s32", form=BY_THREAD)), False),
        (
            (
                FIRST,
                reduced("add.u32"),
                SECOND,
                reduced("add.u32", form=BY_THREAD),
                "@!%p1 " + NOTED[0],
                MEET,
                NOTED[1],
            ),
            False,
        ),
        *(
            ((FIRST, reduced(one, form=BY_THREAD), SECOND, reduced(other, form=BY_THREAD)), same)
            for one, other, same in (
                ("add.u32", "add.s32", True),
                ("max.u32", "max.s32", False),
                ("max.u32", "min.u32", False),
                ("add.u32", "or.b32", False),
                ("or.b32", "or.b32", True),
            )
        ),
        ((FIRST, reduced("or.b32"), SECOND, reduced("add.u32", form=BY_THREAD)), False),
        # Of two proxies, which are not atomic towards each other.
        ((FIRST, reduced("add.u32"), SECOND, reduced("add.u32", form=BY_THREAD)), False),
        ((FIRST, reduced("add.u32"), SECOND, reduced("add.u32", at=64, form=BY_THREAD)), True),
        ((FIRST, reduced("add.u32"), MEET, SECOND, reduced("add.u32", form=BY_THREAD)), True),
        (
            (FIRST, reduced("add.u32", form=BY_THREAD), FENCE, MEET, SECOND, reduced("add.u32")),
            True,
        ),
        ((FIRST, reduced("add.u32", form=BY_THREAD), MEET, SECOND, reduced("add.u32")), False),
        ((FIRST, reduced("or.b32"), MEET, SECOND, reduced("add.u32", form=BY_THREAD)), True),
    ],
)
def test_reductions_of_different_operations_are_ordered_or_undecided(parts, settled):
    text = kernel(START + "\n".join(parts)).replace("k()", "k(.param .u64 out)")
    finding = verified(text, LAUNCH)
    wanted = Verdict.VERIFIED if settled else Verdict.UNDECIDED
    assert (finding.verdict, codes(finding)) == (wanted, []), finding.notes
    allowed = verified(text, LAUNCH, policies=CodePolicies(unsettled="allow"))
    assert allowed.verdict is Verdict.VERIFIED


BY_STORES = """
	mov.u32 %r2, s;
	setp.ne.u32 %p1, %r0, 0;
	@%p1 bra READY;
	mbarrier.init.shared.b64 [s+128], 1;
	fence.mbarrier_init.release.cluster;
	st.shared.u32 [s], 7;
	st.shared.u32 [s+4], 7;
	mbarrier.arrive.expect_tx.shared.b64 _, [s+128], 8;
READY:
	bar.sync 0;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{one}
		[%r2], %r0, [%r2+128];
	setp.eq.u32 %p1, %r0, 32;
	@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{other}
		[%r2+{at}], %r0, [%r2+128];
WAIT:
	mbarrier.try_wait.parity.shared.b64 %p1, [s+128], 0;
	@!%p1 bra WAIT;
"""


@pytest.mark.parametrize(
    ("one", "other", "at", "settled"),
    [
        ("add.u32", "add.u32", 0, True),
        ("add.u32", "min.u32", 0, False),
        ("max.s32", "max.u32", 0, False),
        ("add.u32", "min.u32", 4, True),
        ("inc.u32", "inc.u32", 0, False),
    ],
)
def test_asynchronous_reductions_of_different_operations_leave_a_kernel_undecided(
    one, other, at, settled
):
    finding = verified(kernel(BY_STORES.format(one=one, other=other, at=at)), NOTHING)
    wanted = Verdict.VERIFIED if settled else Verdict.UNDECIDED
    assert (finding.verdict, codes(finding)) == (wanted, []), finding.notes
