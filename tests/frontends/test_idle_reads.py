"""Lanes that load what another lane of their warp stores, and use nothing of it."""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import chosen

# All lanes have the first number of x in %r10; lane 0 of the first warp stores it plus one.
COMMON = "sub.s64 %d4, %d1, %d3; setp.eq.u32 %p2, %r1, 0;"
LOAD = f"{COMMON} ld.global.u32 %r10, [%d4];"
RAISED = "add.u32 %r11, %r10, 1; @%p2 st.global.u32 [%d4], %r11;"
IDLE = {
    "a counter in place": LOAD + RAISED,
    "the guard of the store is that of the load": (
        f"{COMMON} mov.u32 %r10, 0; @%p1 ld.global.u32 %r10, [%d4]; {RAISED}"),
    "by way of a copy and a selection": (
        f"{LOAD} mov.u32 %r12, %r10; selp.b32 %r10, %r12, 5, %p2; {RAISED}"),
    "in a loop whose rounds are known": (
        f"mov.u32 %r13, 3; A: {LOAD} {RAISED} sub.u32 %r13, %r13, 1; bar.warp.sync -1;"
        "setp.gt.s32 %p3, %r13, 0; @%p3 bra A;"),
    "loaded behind the store": (
        f"{COMMON} ld.global.u32 %r10, [%d2]; @%p2 st.global.u32 [%d4], %r10;"
        "ld.global.u32 %r12, [%d4]; @%p2 st.shared.u32 [%r3], %r12;"),
    "the value of lane 0 goes to all": (
        f"{LOAD} shfl.sync.idx.b32 %r12, %r10, 0, 31, -1; {RAISED}"
        "@%p1 st.shared.u32 [%r4], %r12;"),
    "eight lanes add what they store over, the others do the same": (
        "and.b32 %r6, %r2, 7; mul.wide.u32 %d5, %r6, 4; sub.s64 %d4, %d1, %d3;"
        "add.s64 %d4, %d4, %d5; setp.lt.u32 %p2, %r1, 8; ld.global.u32 %r10, [%d4];"
        "shfl.sync.bfly.b32 %r11, %r10, 4, 31, -1; add.u32 %r11, %r10, %r11;"
        "shfl.sync.bfly.b32 %r12, %r11, 1, 31, -1; add.u32 %r11, %r11, %r12;"
        "@%p2 st.global.u32 [%d4], %r11;"),
}  # fmt: skip


def elements_behind_the_end() -> str:
    """A thread has four elements of a row of 100 in place, 64 apart; what would be behind the end
    is the last one, which other lanes load than the one that stores it, and do not store."""
    begin = "sub.s64 %d3, %d1, %d3;"
    loads = "".join(
        f"add.u32 %r6, %r1, {64 * u}; min.u32 %r6, %r6, 99; mul.wide.u32 %d5, %r6, 4;"
        f"add.s64 %d4, %d3, %d5; ld.global.u32 %r{10 + u}, [%d4];"
        for u in range(4)
    )
    stores = "".join(
        f"add.u32 %r6, %r1, {64 * u}; setp.ge.u32 %p4, %r6, 100; @%p4 bra E{u};"
        f"mul.wide.u32 %d5, %r6, 4; add.s64 %d4, %d3, %d5; st.global.u32 [%d4], %r{10 + u}; E{u}:"
        for u in range(4)
    )
    return begin + loads + stores


IDLE["elements behind the end of a row, by several loads"] = elements_behind_the_end()
# A matrix is loaded ahead for a next round, which is not made; then its place is stored over.
AHEAD = """@!%p1 bra.uni END; st.shared.u32 [%r4], %r1; bar.warp.sync -1;
mov.u32 %r13, 0; xor.b32 %r6, %r4, 4;  // the word of another lane
A: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r5];
add.u32 %r13, %r13, 1; setp.ge.u32 %p3, %r13, ROUNDS; @%p3 bra.uni B;
st.shared.u32 [%r4+256], %r10; bra.uni A;
B: st.shared.u32 [%r6], %r1; END:
"""
IDLE["a matrix that is loaded ahead"] = AHEAD.replace("ROUNDS", "1")
USED = {
    "a matrix that is stored": AHEAD.replace("ROUNDS", "1").replace(
        "B: st", "B: st.shared.u32 [%r4+256], %r10; st"),
    "a matrix of which one lane uses a word": AHEAD.replace("ROUNDS", "1").replace(
        "B: st", "B: setp.eq.u32 %p4, %r2, 3; @%p4 st.shared.u32 [%r4+256], %r10; st"),
    "what is behind the end is used": (
        elements_behind_the_end() + "@!%p1 st.shared.u32 [%r4], %r13;"),
    "all lanes load it and then store over it": (
        "ld.shared.u32 %r10, [%r3]; add.u32 %r10, %r10, 1; st.shared.u32 [%r3], %r10;"),
    "each lane loads its own, and all store over one": (
        "ld.shared.u32 %r10, [%r4]; st.shared.u32 [%r3], %r1; st.shared.u32 [%r4+256], %r10;"),
    "no lane uses it": f"{LOAD} @%p2 st.global.u32 [%d4], %r2;",
    "another lane stores what it has loaded": f"{LOAD} {RAISED} @%p1 st.shared.u32 [%r4], %r10;",
    "it stores what it computes": (
        f"{LOAD} {RAISED} add.u32 %r12, %r10, 7; @%p1 st.shared.u32 [%r4], %r12;"),
    "it is the address of an access": (
        f"{LOAD} {RAISED} and.b32 %r12, %r10, 28; add.u32 %r12, %r12, %r3;"
        "ld.shared.u32 %r13, [%r12];"),
    "another lane's value goes to lane 0": (
        f"{LOAD} {RAISED} shfl.sync.idx.b32 %r12, %r10, 5, 31, -1;"
        "@%p2 st.shared.u32 [%r3], %r12;"),
    "all lanes vote on it": (
        f"{LOAD} {RAISED} setp.eq.u32 %p4, %r10, 0; vote.sync.ballot.b32 %r12, %p4, -1;"
        "@%p2 st.shared.u32 [%r3], %r12;"),
    "it decides a guard": (
        f"{LOAD} {RAISED} setp.eq.u32 %p4, %r10, 0; mov.u32 %r12, 1; @%p4 mov.u32 %r12, 2;"
        "@%p1 st.shared.u32 [%r4], %r12;"),
    "it decides a branch": (
        f"{LOAD} {RAISED} mov.u32 %r12, 1; setp.eq.u32 %p4, %r10, 0; @%p4 bra L;"
        "mov.u32 %r12, 2; L: @%p1 st.shared.u32 [%r4], %r12;"),
    "the old value stays where a guard is off": (
        f"{LOAD} {RAISED} @%p2 mov.u32 %r10, 0; @%p1 st.shared.u32 [%r4], %r10;"),
    "another number at the place of a second store": (
        f"{LOAD} {RAISED} setp.eq.u32 %p5, %r1, 1; @%p5 st.global.u32 [%d2], %r10;"),
    "one of two loads": (
        f"{LOAD} ld.global.u32 %r12, [%d4+4]; setp.eq.u32 %p5, %r1, 3;"
        "@%p5 st.shared.u32 [%r3], %r12; mov.b64 %d5, {%r10, %r11};"
        "@%p2 st.global.u64 [%d4], %d5;"),
}  # fmt: skip

# Lanes 0 to 7 have parts in shared memory; all lanes load them, add them up, and store the sum.
FIRST = "and.b32 %r6, %r2, 7; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r3;"
PART = f"@!%p1 bra.uni END; st.shared.u32 [%r4], %r1; bar.warp.sync -1; {FIRST}"
SUM = "".join(
    f"shfl.sync.bfly.b32 %r11, %r10, {step}, 31, -1; add.u32 %r10, %r10, %r11;"
    for step in (16, 8, 4, 2, 1)
)
OVER = "st.shared.u32 [%r3], %r10;"
SPENT = {
    "all lanes store the sum over the first part": PART + f"ld.shared.u32 %r10, [%r6];{SUM}{OVER}",
    "some lanes do": (
        PART + f"ld.shared.u32 %r10, [%r6];{SUM} setp.gt.u32 %p4, %r2, 20; @%p4 {OVER}"),
    "in two rounds, with a meeting between them": (
        PART + "mov.u32 %r13, 2; A:" + f"ld.shared.u32 %r10, [%r6];{SUM}{OVER} bar.warp.sync -1;"
        "sub.u32 %r13, %r13, 1; setp.gt.s32 %p4, %r13, 0; @%p4 bra.uni A;"),
    "it is loaded twice": (
        PART + f"ld.shared.u32 %r12, [%r6]; ld.shared.u32 %r10, [%r6]; {SUM}{OVER}"
        "st.shared.u32 [%r4+256], %r12;"),
    "a lane of the other eight adds to it": (
        "and.b32 %r6, %r2, 7; mul.wide.u32 %d5, %r6, 4; sub.s64 %d4, %d1, %d3;"
        "add.s64 %d4, %d4, %d5; setp.lt.u32 %p2, %r1, 8; ld.global.u32 %r10, [%d4];"
        "shfl.sync.bfly.b32 %r11, %r10, 8, 31, -1; add.u32 %r11, %r10, %r11;"
        "@%p2 st.global.u32 [%d4], %r11;"),
}  # fmt: skip
NOT_SPENT = {
    "a lane of the other eight adds to it, as does one behind its store": (
        SPENT["a lane of the other eight adds to it"]
        + "shfl.sync.bfly.b32 %r12, %r10, 16, 31, -1; @%p2 st.global.u32 [%d2+512], %r12;"),
    "the last step is left out": SPENT["all lanes store the sum over the first part"].replace(
        "shfl.sync.bfly.b32 %r11, %r10, 1, 31, -1; add.u32 %r10, %r10, %r11;", ""),
    "another number is stored": (
        PART + f"ld.shared.u32 %r10, [%r6];{SUM} st.shared.u32 [%r3], %r1;"
        "st.shared.u32 [%r4+256], %r10;"),
    "the next round begins at once": SPENT["in two rounds, with a meeting between them"].replace(
        f"{OVER} bar.warp.sync -1;", OVER),
    "the parts were stored without a meeting": (
        SPENT["all lanes store the sum over the first part"].replace("bar.warp.sync -1;", "")),
    "the part is loaded again": (
        PART + f"ld.shared.u32 %r10, [%r6];{SUM} ld.shared.u32 %r12, [%r6]; {OVER}"
        "st.shared.u32 [%r4+256], %r12;"),
    "the sum is read back without a meeting": (
        SPENT["some lanes do"] + "ld.shared.u32 %r12, [%r3]; st.shared.u32 [%r4+256], %r12;"),
    "a word beside it is stored, too": (
        PART + f"ld.shared.u32 %r10, [%r6];{SUM} st.shared.v2.u32 [%r3], {{%r10, %r1}};"),
    "an atomic adds to it": (
        PART + f"ld.shared.u32 %r10, [%r6];{SUM} red.shared.add.u32 [%r3], %r10;"),
}  # fmt: skip

# Between the sum and its store. Of the first nothing is needed of the sum, whatever it is.
NEEDS_NOTHING = (
    "and.b32 %r10, %r10, 0;",
    "mul.lo.u32 %r10, %r10, 0;",
    "mad.lo.u32 %r10, %r10, 0, 5;",
    "xor.b32 %r10, %r10, %r10;",
    "mov.u32 %r12, %r10; sub.u32 %r10, %r10, %r12;",
    "min.u32 %r10, %r10, 0;",
    "or.b32 %r10, %r10, -1;",
    "shl.b32 %r10, %r10, 31; shl.b32 %r10, %r10, 1;",
    "bfe.u32 %r10, %r10, 0, 0;",
    "prmt.b32 %r10, %r1, %r10, 0;",
    "setp.gt.u32 %p4, %r2, 64; selp.b32 %r10, %r10, 7, %p4;",
    "setp.eq.u32 %p4, %r10, %r10; selp.b32 %r10, 1, 0, %p4;",
    "and.b32 %r10, %r10, 0xff00; cvt.u32.u8 %r10, %r10;",
    "mov.u32 %r12, %r10; mov.b64 %d5, {%r1, %r12}; mov.b64 {%r10, %r12}, %d5;",
)
NEEDS_IT = (
    "mov.b32 %r12, %r10; mov.b32 %r10, %r12;",
    "add.u32 %r10, %r10, 1;",
    "cvt.rn.f32.u32 %r10, %r10; mul.f32 %r10, %r10, 0f40000000;",
    "mov.u32 %r12, %r10; max.u32 %r10, %r10, %r12;",
    "sub.f32 %r10, %r10, %r10;",
    "shfl.sync.idx.b32 %r10, %r10, 3, 31, -1;",
)
DATA = PART.replace("st.", "ld.global.u32 %r12, [%d2]; st.").replace("], %r1;", "], %r12;")
TWO = "ld.shared.v2.u32 {%r10, %r13}, [%r3];"
NOT_SPENT |= {
    "its second part goes over the first": (
        f"{PART}{TWO}{SUM.replace('%r10', '%r13')} st.shared.u32 [%r3], %r13;"
        "st.shared.u32 [%r4+256], %r10;"),
}  # fmt: skip


@pytest.mark.parametrize("body", IDLE.values(), ids=IDLE)
def test_lanes_may_load_what_they_do_not_use(body):
    finding = verified(body)
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert any("the value shown to be unused" in note for note in finding.notes)
    refused = verified(body, policies=chosen((("unused_reads", "refuse"),)))
    assert refused.verdict is Verdict.REFUTED


@pytest.mark.parametrize("body", USED.values(), ids=USED)
def test_lanes_that_use_it_race(body):
    finding = verified(body)
    assert finding.verdict is Verdict.REFUTED
    assert "TTN201" in {item.code for item in finding.diagnostics}


@pytest.mark.parametrize("body", SPENT.values(), ids=SPENT)
def test_what_is_stored_is_made_of_what_was_loaded(body):
    finding = verified(f"{body} END:")
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    refused = verified(f"{body} END:", policies=chosen((("unused_reads", "refuse"),)))
    assert refused.verdict is Verdict.REFUTED


@pytest.mark.parametrize("body", NOT_SPENT.values(), ids=NOT_SPENT)
def test_what_is_stored_is_not_made_of_it(body):
    finding = verified(f"{body} END:")
    assert finding.verdict is Verdict.REFUTED, finding.notes
    assert "TTN201" in {item.code for item in finding.diagnostics}


@pytest.mark.parametrize("spent", [True, False])
def test_what_an_operation_needs(spent):
    """Where it needs nothing of the sum, a compiler may store before the load."""
    for operation in NEEDS_IT if spent else NEEDS_NOTHING:
        body = f"{DATA}ld.shared.u32 %r10, [%r6];{SUM}{operation}{OVER}"
        finding = verified(f"{body} END:")
        expected = Verdict.VERIFIED if spent else Verdict.REFUTED
        assert finding.verdict is expected, operation
