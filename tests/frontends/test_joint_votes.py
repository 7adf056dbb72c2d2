"""Warps of a CTA that poll a word and vote on it at a barrier in the loop."""

from __future__ import annotations

import pytest

from tests.frontends.word_kernels import BAR, FENCE, STORE, chain, found
from titan.foundation.verdict import Verdict

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED
POLL = """mov.u32 %r5, 0;
W: ld.{form}.global.u32 %r5, [%d1]; setp.ne.u32 %p4, %r5, %r2; {more}
{vote} @%p2 bra W; {then}"""
OR, AND = "bar.red.or.pred %p2, 0, %p4;", "bar.red.and.pred %p2, 0, %p4;"
COUNT = "bar.red.popc.u32 %r10, 0, %p4; setp.ne.u32 %p2, %r10, 0;"
ACQUIRE, EACH = "acquire.gpu", "fence.acq_rel.gpu;"
SLOW = "@%p0 " + EACH


def poll(vote: str = OR, form: str = ACQUIRE, more: str = "", then: str = "") -> str:
    return POLL.format(vote=vote, form=form, more=more, then=then)


VOTES = {
    "until all have it": (chain(at0=poll(), at1=""), VERIFIED),
    "until one has it": (chain(at0=poll(AND), at1=""), VERIFIED),
    "relaxed": (chain(at0=poll(form="relaxed.gpu"), at1=""), REFUTED),
    "a fence.sc by each, on both sides": (
        chain(at0=poll(form="volatile", then=FENCE), at1="", at3=FENCE + BAR, at4=STORE), VERIFIED),
    "a fence by each, which have all read it": (  # it is right
        chain(at0=poll(form="volatile", then=EACH), at1=""), UNDECIDED),
    "one has it, and each has a fence of its own": (
        chain(at0=poll(AND, "volatile", then=EACH), at1=""), UNDECIDED),
    "one has it, each has a fence, then they meet": (
        chain(at0=poll(AND, "volatile", then=EACH)), VERIFIED),
    "one has it, the first has a fence, they meet": (
        chain(at0=poll(AND, "volatile", then=SLOW)), UNDECIDED),
    "a store that does not release": (chain(at0=poll(), at1="", at4=STORE), REFUTED),
    "no barrier before the store": (chain(at0=poll(), at1="", at3=""), REFUTED),
    "an access before the vote": (
        chain(at0="ld.global.u32 %r9, [%d3]; st.global.u32 [%d3], %r9;" + poll(), at1=""), REFUTED),
    "half of the lanes wait": (
        chain(at0=poll(more="setp.lt.and.u32 %p4, %r1, 16, %p4;"), at1=""), VERIFIED),
    "one warp waits for no number": (
        chain(at0=poll(more="setp.ge.u32 %p3, %r1, 32; @%p3 setp.eq.u32 %p4, %r5, 7;"), at1=""),
        VERIFIED),
    "each warp with another number": (
        chain(at0=poll(more="setp.ge.u32 %p3, %r1, 32; @%p3 setp.eq.u32 %p4, %r5, 1;"), at1=""),
        UNDECIDED),
    "a count of lanes": (chain(at0=poll(COUNT), at1=""), UNDECIDED),
    "three ways to use what was read": (
        chain(at0=poll(more="setp.gt.u32 %p3, %r5, 5; @%p3 bra W;"), at1=""), UNDECIDED),
    "what was read is used behind": (
        chain(at0=poll(then="st.global.u32 [%d0+2048], %r5;"), at1=""), UNDECIDED),
    "another number": (chain(at0=poll(more="setp.ne.u32 %p4, %r5, %r4;"), at1=""), UNDECIDED),
    "two rounds": (
        chain(at0=poll(), at4=BAR + "@%p0 st.release.gpu.global.u32 [%d1], %r4;"), VERIFIED),
}  # fmt: skip


@pytest.mark.parametrize("name", VOTES)
def test_warps_that_vote_in_their_loop(name: str) -> None:
    body, verdict = VOTES[name]
    got, text = found(body, 3)
    assert got is verdict, text


WANTS = {
    "all want 2": ("setp.ne.u32 %p4, %r5, 2;", VERIFIED),
    "all want 1": ("setp.lt.u32 %p4, %r5, 1;", REFUTED),
    "one warp wants 1 or 2, the other one 0 or 2": (
        "setp.lt.u32 %p4, %r5, 1; setp.ge.u32 %p3, %r1, 32; @%p3 setp.eq.u32 %p4, %r5, 1;",
        UNDECIDED),
}  # fmt: skip


@pytest.mark.parametrize("name", WANTS)
def test_warps_that_vote_want_the_same_numbers(name: str) -> None:
    """One warp may find 1, the other one an older 0, so that both go on before 2 is there."""
    wants, verdict = WANTS[name]
    body = f"""@%p1 bra ONE; W: ld.acquire.gpu.global.u32 %r5, [%d1]; {wants} {OR} @%p2 bra W;
    ld.global.u32 %r9, [%d3]; bra END;
    ONE: @!%p0 bra END; st.release.gpu.global.u32 [%d1], 1; st.global.u32 [%d3], %r9;
    st.release.gpu.global.u32 [%d1], 2; END:"""
    got, text = found(body, 2, cooperative=True)
    assert got is verdict, text
