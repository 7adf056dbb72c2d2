"""Lanes that store twice to one place, against a reading that compares each two lanes by itself.

The reference knows neither groups of lanes nor tables of bytes: of each two stores to one place by
different lanes, which no chain of `bar.warp.sync` orders, the later may come first.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from tests.sampling import part
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

LANES, ALL = 32, 0xFFFFFFFF
POINTED = "{grid: 1, parameters: {out: pointer, other: pointer}}"
ADDRESSES = """
	.reg .b64 %d<4>; .reg .f32 %f<4>;
	ld.param.u64 %d0, [out];
	ld.param.u64 %d1, [other];
	and.b32 %r4, %r0, 0x38;
	mov.u32 %r2, s;
	add.u32 %r4, %r4, %r2;
"""


def judged(body: str, threads: int = 32, **more):
    text = kernel(ADDRESSES + body, threads)
    return verified(text.replace("k()", "k(.param .u64 out, .param .u64 other)"), POINTED, **more)


MEET, READ = "bar.warp.sync 0xffffffff;\n", "bar.sync 0; ld.shared.u32 %r9, [s];"
COPY, DONE = "cp.async.ca.shared.global [s], [%d1+{}], 4;", "cp.async.wait_all;\n"
LOADED = "ld.global.u32 %r8, [%d1];\n"


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("st.shared.u32 [s], 1; st.shared.u32 [s], 2;", False),
        ("st.shared.u32 [s], 1;" + MEET + "st.shared.u32 [s], 2;", True),
        ("st.shared.u32 [s], 1; st.shared.u32 [s], 1;", True),
        ("st.shared.u32 [s], 1; bar.sync 0; st.shared.u32 [s], 2;", True),
        ("st.shared.u32 [s], 1; bar.warp.sync 1; st.shared.u32 [s], 2;", None),
        ("st.shared.u32 [s], 0x101; st.shared.u8 [s+1], 1;", True),
        ("st.shared.u32 [s], 0x101; st.shared.u8 [s+1], 2;", False),
        ("st.shared.v2.u32 [s], {1, 2}; st.shared.v2.u32 [s], {1, 3};", False),
        ("st.shared.u32 [%r4], 1; st.shared.u32 [%r4], 2;", False),  # two lanes each
        ("st.shared.u32 [%r4], %r4; st.shared.u32 [%r4], %r4;", True),
        ("st.global.u32 [%d0], 1; st.global.u32 [%d0], 2;", False),
        ("st.global.u32 [%d0], 1;" + MEET + "st.global.u32 [%d0], 2;", True),
        # Numbers that are not known: of one load, of two, of a computation made twice.
        (LOADED + "st.shared.u32 [s], %r8; st.shared.u32 [s], %r8;", True),
        (LOADED + "st.shared.u32 [s], %r8; st.shared.u32 [s], 5;", False),
        (LOADED + "st.shared.u32 [s], %r8; ld.global.u32 %r9, [%d1];"
         "st.shared.u32 [s], %r9;", True),
        (LOADED + "st.shared.u32 [s], %r8; ld.global.u32 %r9, [%d1+4];"
         "st.shared.u32 [s], %r9;", False),
        (LOADED + "add.u32 %r9, %r8, 1; st.shared.u32 [s], %r9; add.u32 %r10, %r8, 1;"
         "st.shared.u32 [s], %r10;", True),
        # A loop in which all lanes count.
        ("mov.u32 %r9, 0;\nL: st.shared.u32 [s], %r9; add.u32 %r9, %r9, 1;"
         "setp.lt.u32 %p1, %r9, 3; @%p1 bra L;", False),
        ("mov.u32 %r9, 0;\nL: st.shared.u32 [s], %r9; add.u32 %r9, %r9, 1;" + MEET +
         "setp.lt.u32 %p1, %r9, 3; @%p1 bra L;", True),
        # Copies write, too, until each lane has waited.
        (COPY.format(0) + DONE + COPY.format(4) + DONE, False),
        (COPY.format(0) + DONE + MEET + COPY.format(4) + DONE, True),
        (COPY.format(0) + DONE + "st.shared.u32 [s], 5;", False),
        (COPY.format(0) + DONE + MEET + "st.shared.u32 [s], 5;", True),
        ("st.shared.u32 [s], 5;" + COPY.format(0) + DONE, False),
        ("st.shared.u32 [s], 5;" + MEET + COPY.format(0) + DONE, True),
        # One lane alone, or those of a warp that meet at a barrier of the CTA.
        ("setp.ne.u32 %p1, %r0, 3; @%p1 bra E; st.shared.u32 [s], 1; st.shared.u32 [s], 2;\nE:",
         True),
    ],
)  # fmt: skip
def test_what_lanes_store_again_has_to_be_the_same(body, right):
    if right is None:
        assert judged(body).verdict is not Verdict.VERIFIED
        return
    finding = judged(body)
    assert (finding.verdict, codes(finding)) == (
        (Verdict.VERIFIED, []) if right else (Verdict.REFUTED, ["TTN201"])
    ), finding.notes


IN_AN_ARM = """
	mov.u32 %r9, 0;
	setp.lt.s32 %p3, %r8, 5;
	vote.sync.any.pred %p4, %p3, -1;
L:
	@%p4 bra J;
	st.shared.u32 [s], {value};
J:
	add.u32 %r9, %r9, 1;
	setp.lt.u32 %p1, %r9, 3;
	@%p1 bra L;
"""


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("5", Verdict.VERIFIED),
        ("%r8", Verdict.VERIFIED),  # as it was loaded
        ("%r9", Verdict.UNDECIDED),  # the branch may be taken once
    ],
)
def test_in_an_arm_that_data_leave_out(value, verdict):
    finding = judged(LOADED + IN_AN_ARM.format(value=value))
    assert (finding.verdict, codes(finding)) == (verdict, []), finding.notes


def test_policies_that_leave_it_out():
    body = "st.shared.u32 [s], 1; st.shared.u32 [s], 2;"
    for policies in (CodePolicies(lanes="ordered"), CodePolicies(equal_writes="assumed")):
        assert judged(body, policies=policies).verdict is Verdict.VERIFIED


def test_warps_are_judged_each_by_itself():
    body = "st.shared.u32 [s], 1; st.shared.u32 [s], 2;"
    assert judged("shl.b32 %r9, %r1, 2; add.u32 %r4, %r9, %r2;" + body.replace("[s]", "[%r4]"),
                  64).verdict is Verdict.REFUTED  # fmt: skip
    assert judged("mov.u32 %r4, %laneid; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2;"
                  + body.replace("[s]", "[%r4]")).verdict is Verdict.VERIFIED  # fmt: skip


def test_strong_stores_of_several_values_are_not_settled():
    """They do not race; which of them stays is open."""
    store = "st.relaxed.cta.shared.u32 [s], {};"
    read = "bar.sync 0; ld.relaxed.cta.shared.u32 %r9, [s]; st.global.u32 [%d0], %r9;"
    assert judged(store.format(1) + store.format(2) + read).verdict is Verdict.UNDECIDED
    assert judged(store.format(1) + store.format(1) + read).verdict is Verdict.VERIFIED


# A store of a value to a place by some lanes, or (place < 0) a meeting of some.
Operation = tuple[int, int, int]


def text(program: list[Operation]) -> str:
    lines = []
    for number, (place, lanes, value) in enumerate(program):
        what = f"st.shared.u32 [s+{place}], {value};" if place >= 0 else f"bar.warp.sync {lanes};"
        if lanes == ALL:
            lines.append(what)
            continue
        lines.append(f"shr.u32 %r5, {lanes:#x}, %r0; and.b32 %r5, %r5, 1;")
        lines.append(f"setp.eq.u32 %p1, %r5, 0; @%p1 bra S{number}; {what}\nS{number}:")
    return "\n".join(lines)


def races(program: list[Operation]) -> bool:
    """Whether two lanes store to a place so that it is open which comes first, and it matters: the
    values differ."""
    for first, (place, lanes, value) in enumerate(program):
        for lane in range(LANES) if place >= 0 else ():
            if not lanes >> lane & 1:
                continue
            after = 1 << lane  # the lanes that come after the store of this one
            for place_then, lanes_then, value_then in program[first + 1 :]:
                if place_then < 0:
                    after |= lanes_then if after & lanes_then else 0
                elif place_then == place and lanes_then & ~after and value_then != value:
                    return True
    return False


def test_the_reference_tells_what_is_right_from_what_is_not():
    assert races([(0, ALL, 1), (0, ALL, 2)])
    assert not races([(0, ALL, 1), (-1, ALL, 0), (0, ALL, 2)])
    assert not races([(0, ALL, 1), (0, ALL, 1)]) and not races([(0, 1, 1), (0, 1, 2)])
    assert races([(0, 3, 1), (-1, 1, 0), (0, 3, 2)])
    assert not races([(0, 3, 1), (-1, 3, 0), (0, 3, 2)])
    assert races([(0, 1, 1), (0, 3, 2)]) and not races([(0, 1, 1), (0, 3, 1)])


OPERATIONS = st.tuples(
    st.sampled_from((0, 0, 4, -1)), st.sampled_from((ALL, ALL, 0xF, 0xF, 3, 1)), st.integers(1, 2)
)


@settings(max_examples=part(160), deadline=None)
@given(st.lists(OPERATIONS, min_size=1, max_size=5))
def test_it_agrees_with_each_two_lanes(program):
    finding = verified(kernel(text(program), 32), NOTHING)
    wanted = Verdict.REFUTED if races(program) else Verdict.VERIFIED
    assert finding.verdict is wanted, (text(program), finding.notes)
