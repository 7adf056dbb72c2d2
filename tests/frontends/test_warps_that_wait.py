"""Several lanes or warps of one CTA that wait for words, and several words that decide together."""

from __future__ import annotations

import pytest

from tests.frontends.word_kernels import (
    BAR,
    SIGNAL,
    STORE,
    chain,
    found,
)
from titan.foundation.verdict import Verdict

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED


APART = """setp.eq.u32 %p3, %r1, {other}; @%p1 bra TWO;
{ask} @%p3 st.release.gpu.global.u32 [%d1+4], {number}; bra END;
TWO: @!%p0 bra END;
W: ld.acquire.gpu.global.u32 %r5, [%d1+4]; setp.eq.u32 %p2, %r5, 0; @%p2 bra W;
st.release.gpu.global.u32 [%d1], 1; END:"""
_ASK = """@!%p0 bra GO;
V: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.eq.u32 %p2, %r5, 0; @%p2 bra V; GO:"""


@pytest.mark.parametrize("other", [1, 32])
def test_others_of_a_cta_that_waits_go_on(other: int) -> None:
    def apart(number: int = 1, ask: str = _ASK) -> Verdict:
        text = APART.format(other=other, ask=ask, number=number)
        return found(text, 2, cooperative=True)[0]

    assert apart() is UNDECIDED  # it is right
    assert apart(number=0) is not VERIFIED
    assert apart(ask=_ASK + BAR) is REFUTED  # what the other one stores is behind the wait


TOGETHER = """setp.ge.u32 %p7, %r1, 32; @%p7 bra END;
W: ld.{form}.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, %r2; {vote} @%p2 bra W; {then}
@%p1 ld.global.u32 %r9, [%d3]; st.global.u32 [%d3], %r9; bar.warp.sync -1; {signal} END:"""
ACQUIRE, OWN, MEET = "acquire.gpu", "fence.acq_rel.gpu;", "bar.warp.sync -1;"
ALL_OF, ANY = "vote.sync.all.pred %p2, %p2, -1;", "vote.sync.any.pred %p2, %p2, -1;"
FIRST = """selp.u32 %r8, 1, 0, %p2; shfl.sync.idx.b32 %r8, %r8, 0, 31, -1;
setp.ne.u32 %p2, %r8, 0;"""
HALF = "setp.lt.u32 %p6, %r1, 16; @%p6 fence.acq_rel.gpu;"
LANES = {
    "each asks for itself": (ACQUIRE, "", "", VERIFIED),
    "as long as none has it": (ACQUIRE, ALL_OF, "", UNDECIDED),
    "as long as none has it, then they meet": (ACQUIRE, ALL_OF, MEET, VERIFIED),
    "until all have it, then they meet": (ACQUIRE, ANY, MEET, VERIFIED),
    "the first one decides": (ACQUIRE, FIRST, "", UNDECIDED),
    "the first one decides, then they meet": (ACQUIRE, FIRST, MEET, VERIFIED),
    "a fence by each": ("volatile", "", OWN, VERIFIED),
    "a fence by the first": ("volatile", "", "@%p0 " + OWN, UNDECIDED),
    "a fence by half of them": ("volatile", "", HALF, UNDECIDED),
    "a fence by the first, then they meet": ("volatile", "", "@%p0 " + OWN + MEET, VERIFIED),
    "none has it, and each fences": ("volatile", ALL_OF, OWN, UNDECIDED),
    "none has it, each fences, they meet": ("volatile", ALL_OF, OWN + MEET, VERIFIED),
    "none has it, the first fences, they meet": (
        "volatile", ALL_OF, "@%p0 " + OWN + MEET, UNDECIDED),
}  # fmt: skip


@pytest.mark.parametrize("name", LANES)
def test_lanes_that_ask_together_read_each_for_itself(name: str) -> None:
    form, vote, then, verdict = LANES[name]
    body = TOGETHER.format(form=form, vote=vote, then=then, signal=SIGNAL)
    got, text = found(body, 3)
    assert got is verdict, text


@pytest.mark.parametrize(
    ("fence", "verdict"), [(OWN, VERIFIED), (HALF, UNDECIDED), ("@%p0 " + OWN, UNDECIDED)]
)
def test_lanes_that_add_together_release_each_for_itself(fence: str, verdict: Verdict) -> None:
    body = f"""setp.ge.u32 %p7, %r1, 32; @%p7 bra END; @%p1 bra ASK;
    st.global.u32 [%d3], %r9; {fence} red.relaxed.gpu.global.add.u32 [%d1], 1; bra END;
    ASK: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, 32; @%p2 bra ASK;
    ld.global.u32 %r9, [%d3]; END:"""
    got, text = found(body, 2)
    assert got is verdict, text


BOTH = """setp.eq.u32 %p3, %r2, 1; setp.eq.u32 %p4, %r2, 2; setp.eq.u32 %p5, %r2, 3;
mul.wide.u32 %d5, 4, %r2; @!%p1 bra ASK; @!%p0 bra END; @%p4 bra TWO;
add.u64 %d5, %d1, 4; selp.b64 %d5, %d1, %d5, %p3; st.release.gpu.global.u32 [%d5], 1;
V: ld.acquire.gpu.global.u32 %r7, [%d1+8]; setp.ne.u32 %p6, %r7, 1; @%p6 bra V;
{then} bra END;
TWO: st.release.gpu.global.u32 [%d1+8], 1; bra END;
ASK: {ask} END:"""
AGAIN = "st.release.gpu.global.u32 [%d5], 2;"  # the CTA that asks may find this number only
ONE_OF = """@!%p0 bra END;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; ld.acquire.gpu.global.u32 %r6, [%d1+4];
setp.ne.u32 %p7, %r5, 1; setp.ne.and.u32 %p7, %r6, 1, %p7; @%p7 bra W;"""
IN_TURN = """@!%p0 bra END;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p7, %r5, 1; @%p7 bra W;
U: ld.acquire.gpu.global.u32 %r6, [%d1+4]; setp.ne.u32 %p7, %r6, 1; @%p7 bra U;"""
BY_WARPS = """shr.u32 %r10, %r1, 5; mul.wide.u32 %d5, %r10, 4; add.u64 %d5, %d1, %d5;
and.b32 %r11, %r1, 31; setp.eq.u32 %p6, %r11, 0; mov.u32 %r5, 0;
W: @%p6 ld.acquire.gpu.global.u32 %r5, [%d5]; setp.ne.u32 %p7, %r5, 1;
bar.red.and.pred %p7, 0, %p7; @%p7 bra W;"""
BY_LOOPS = """shr.u32 %r10, %r1, 5; mul.wide.u32 %d5, %r10, 4; add.u64 %d5, %d1, %d5;
and.b32 %r11, %r1, 31; setp.ne.u32 %p6, %r11, 0; @%p6 bra GO;
W: ld.acquire.gpu.global.u32 %r5, [%d5]; setp.ne.u32 %p7, %r5, 1; @%p7 bra W; GO: bar.sync 0;"""


@pytest.mark.parametrize(
    ("ask", "stays"),
    [(ONE_OF, UNDECIDED), (IN_TURN, VERIFIED), (BY_WARPS, UNDECIDED), (BY_LOOPS, VERIFIED)],
    ids=("one of two", "in turn", "two warps vote", "two warps by themselves"),
)
def test_numbers_that_decide_together(ask: str, stays: Verdict) -> None:
    """Where words take a second number, the CTA may miss the first one: a hang in all forms."""
    got, text = found(BOTH.format(ask=ask, then=""), 4, cooperative=True)
    assert got is stays, text
    got, text = found(BOTH.format(ask=ask, then=AGAIN), 4, cooperative=True)
    assert got is not VERIFIED, text


EACH_WARP = """and.b32 %r11, %r1, 31; setp.ne.u32 %p6, %r11, 0; @%p6 bra GO;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, %r2; @%p2 bra W; GO:
bar.warp.sync -1;"""
EACH_THREAD = """W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, %r2;
@%p2 bra W;"""
WARPS = {
    "each warp": (chain(at0=EACH_WARP, at1=""), VERIFIED),
    "each thread": (chain(at0=EACH_THREAD, at1=""), VERIFIED),
    "each warp, relaxed": (chain(at0=EACH_WARP.replace("acquire", "relaxed"), at1=""), REFUTED),
    "each thread, and no release": (chain(at0=EACH_THREAD, at1="", at4=STORE), REFUTED),
    "one of two warps": (
        chain(at0="setp.ge.u32 %p7, %r1, 32; @%p7 bra ON;" + EACH_WARP + "ON:", at1=""), REFUTED),
    "each thread, before a store": (chain(at0=EACH_THREAD, at1="", at3=""), REFUTED),
}  # fmt: skip


@pytest.mark.parametrize("name", WARPS)
def test_several_warps_that_ask(name: str) -> None:
    body, verdict = WARPS[name]
    got, text = found(body, 3)
    assert got is verdict, text


POLL = "W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.{until}.u32 %p2, %r5, 0; @%p2 bra W;"
SET = "@%p0 st.release.gpu.global.u32 [%d1], 1;"
ALONE = {
    "nobody writes it": ("@!%p0 bra END;" + POLL.format(until="eq") + "END:", REFUTED),
    "all threads wait": (POLL.format(until="eq"), UNDECIDED),
    "the number is there": (POLL.format(until="ne"), UNDECIDED),  # as others may change it
    "its own warp writes it before": (SET + POLL.format(until="eq"), UNDECIDED),
    "it writes another word": (
        SET.replace("[%d1]", "[%d1+4]") + "@!%p0 bra END;" + POLL.format(until="eq") + "END:",
        REFUTED,
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_the_only_block_of_a_grid_is_asked_too(name: str) -> None:
    """It is no run to the end of a budget of 20 million instructions."""
    body, verdict = ALONE[name]
    got, text = found(body, 1)
    assert got is verdict, text
