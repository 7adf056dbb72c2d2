"""Numbers that a CTA finds in several words, and what several of them decide together."""

from __future__ import annotations

from itertools import product

import pytest

from tests.frontends.word_kernels import found
from titan.foundation.verdict import Verdict

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED
REGISTERS = ("%r5", "%r7", "%r8")
WRITERS = """@!%p0 bra END; @!%p1 bra ASK; add.u32 %r12, %r2, -1; mul.wide.u32 %d5, %r12, 4;
add.u64 %d5, %d1, %d5; setp.eq.u32 %p3, %r2, 1; @%p3 st.global.u32 [%d3+4], %r9;
st.release.gpu.global.u32 [%d5], 1; st.release.gpu.global.u32 [%d5], 2; bra END;
ASK: {ask} END:"""


def three_waits(numbers: tuple[int, ...], then: str) -> str:
    """CTA 0 waits for the words of three others, each 1 or 2 by then, and asks for a combination
    of them; then it does something if it is there."""
    lines = []
    for at, register in enumerate(REGISTERS):
        lines.append(f"W{at}: ld.acquire.gpu.global.u32 {register}, [%d1+{4 * at}];")
        lines.append(f"setp.eq.u32 %p2, {register}, 0; @%p2 bra W{at};")
    lines.append(f"setp.eq.u32 %p2, %r5, {numbers[0]};")
    for register, number in list(zip(REGISTERS, numbers, strict=True))[1:]:
        lines.append(f"setp.eq.and.u32 %p2, {register}, {number}, %p2;")
    return WRITERS.format(ask="\n".join([*lines, then]))


@pytest.mark.parametrize("numbers", [*product((1, 2), repeat=3)])
def test_a_combination_of_numbers_decides(numbers: tuple[int, ...]) -> None:
    """Any of the eight may come about, as three CTAs write the words."""
    got, text = found(three_waits(numbers, ""), 4, cooperative=True)
    assert got is VERIFIED, text
    got, text = found(three_waits(numbers, "@%p2 st.global.u32 [%d0], %r9;"), 4, cooperative=True)
    assert got is UNDECIDED, text
    assert "decide" in text


LANES = """setp.ge.u32 %p7, %r1, 32; @%p7 bra END; @%p1 bra ONE;
and.b32 %r10, %r1, 1; setp.eq.u32 %p3, %r10, 0;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; {wants} {vote} @%p2 bra W;
bar.warp.sync -1; ld.global.u32 %r9, [%d3]; bra END;
ONE: @!%p0 bra END; st.release.gpu.global.u32 [%d1], 1; st.global.u32 [%d3], %r9;
st.release.gpu.global.u32 [%d1], 2; END:"""
APART = """setp.lt.u32 %p2, %r5, 1; setp.eq.u32 %p4, %r5, 1; selp.u32 %r6, 1, 0, %p2;
selp.u32 %r7, 1, 0, %p4; selp.u32 %r6, %r6, %r7, %p3; setp.ne.u32 %p2, %r6, 0;"""
WANTS = {
    "all want 2": ("setp.ne.u32 %p2, %r5, 2;", VERIFIED),
    "half of them want 2, others nothing": ("setp.ne.and.u32 %p2, %r5, 2, %p3;", VERIFIED),
    "all want 1": ("setp.lt.u32 %p2, %r5, 1;", REFUTED),
    "half of them want 1 or 2, others 0 or 2": (APART, UNDECIDED),
}


@pytest.mark.parametrize("name", WANTS)
def test_lanes_that_vote_want_the_same_numbers(name: str) -> None:
    """Half of the lanes may find 1, others an older 0, so that all go on before 2 is there."""
    wants, verdict = WANTS[name]
    vote = "vote.sync.any.pred %p2, %p2, -1;"
    got, text = found(LANES.format(wants=wants, vote=vote), 2, cooperative=True)
    assert got is verdict, text


MANY = """@!%p1 bra LAST; red.relaxed.gpu.global.add.u32 [%d3], 1; {before}
@%p0 red.release.gpu.global.add.u32 [%d1], 1; bra END;
LAST: @!%p0 bra GO;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, {count}; @%p2 bra W;
GO: {behind} ld.global.u32 %r9, [%d3]; END:"""


@pytest.mark.parametrize(
    ("edits", "verdict"),
    [
        ({}, VERIFIED),
        ({"count": 198}, REFUTED),
        ({"count": 200}, REFUTED),
        ({"before": ""}, REFUTED),
        ({"behind": ""}, REFUTED),
    ],
)
def test_more_ctas_than_a_gpu_has_multiprocessors(
    edits: dict[str, object], verdict: Verdict
) -> None:
    body = MANY.format(**{"before": "bar.sync 0;", "behind": "bar.sync 0;", "count": 199, **edits})
    got, text = found(body, 200, cooperative=True)
    assert got is verdict, text
