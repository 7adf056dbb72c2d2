"""A comparison that is combined with a predicate which is not known may decide the result alone."""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict

DATA = "ld.global.u32 %r11, [%d2+256]; setp.gt.s32 %p3, %r11, 0;"
# Words by lane, the same in both warps; each thread may write another number.
STORE = "{} @{}%p5 st.shared.u32 [%r3], %r1; bar.sync 0;"


@pytest.mark.parametrize(
    ("guard", "negated", "right"),
    [
        ("setp.eq.and.u32 %p5, %r1, 0, %p3;", "", True),
        ("setp.eq.and.u32 %p5, %r1, 0, !%p3;", "", True),
        ("setp.eq.and.u32 %p5, %r2, 0, %p3;", "", False),  # a lane of each warp
        ("setp.ne.or.u32 %p5, %r1, 0, %p3;", "!", True),
        ("setp.ne.or.u32 %p5, %r2, 0, %p3;", "!", False),
        ("setp.eq.xor.u32 %p5, %r1, 0, %p3;", "", False),
        ("setp.eq.and.u32 %p5|%p6, %r1, 0, %p3;", "", None),  # of two results neither is sought
    ],
)
def test_who_stores_where_data_decide_besides(guard, negated, right):
    finding = verified(DATA + STORE.format(guard, negated))
    assert (finding.verdict is Verdict.VERIFIED) is bool(right), finding.notes
    codes = {item.code for item in finding.diagnostics}
    assert right is not False or "TTN201" in codes
