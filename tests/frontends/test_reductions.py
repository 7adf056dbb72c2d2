"""Reductions by engines of several operations on the same bytes: undecided unless one is over."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, kernel, verified
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
            True,
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
        ((FIRST, reduced("add.u32"), SECOND, reduced("add.u32", form=BY_THREAD)), True),
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
