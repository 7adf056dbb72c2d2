"""Instructions of a whole warp or warpgroup, against a reading of who executes them lane by lane.

The reference follows each lane of a program of branches and predicates by itself and knows neither
fragments of a warp nor joins.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from tests.sampling import part
from titan.foundation.verdict import Verdict

LANES = 32
FULL = 0xFFFFFFFF
HEAD = "mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; shr.u32 %r2, %r0, 5; mov.u32 %r9, s;"
WITH_MEMBERS = (
    "shfl.sync.bfly.b32 %r3, %r1, 1, 31, {members:#x};",
    "vote.sync.ballot.b32 %r3, %p7, {members:#x};",
    "match.any.sync.b32 %r3, %r1, {members:#x};",
    "redux.sync.add.u32 %r3, %r1, {members:#x};",
    "elect.sync %r3|%p6, {members:#x};",
    "bar.warp.sync {members:#x};",
)
ALIGNED = (
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r3}}, [%r9];",
    "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;",
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {{%r3,%r4}}, {{%r1}}, {{%r1}}, {{%r3,%r4}};",
)


def chosen(lanes: int, what: str) -> str:
    """`what` by the lanes of each warp whose bits are set."""
    return f"shr.u32 %r5, {lanes:#x}, %r1; and.b32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0; {what}"


Program = list[tuple[str, int, int, int]]  # (form, how it is guarded, lanes, members)


def text(program: Program) -> str:
    """PTX of operations, each of them by some lanes: by a branch (0), a predicate (1)."""
    lines = [HEAD]
    for number, (form, guard, lanes, members) in enumerate(program):
        operation = form.format(members=members)
        if guard:
            lines.append(chosen(lanes, f"@%p1 {operation}"))
        else:
            lines.append(chosen(lanes, f"@!%p1 bra S{number}; {operation} S{number}:"))
    return kernel("\n".join(lines), 32)


def expectation(program: Program) -> bool | None:
    """Whether each operation is executed as it has to be; None: that depends on whether members
    have ended when those that name them wait.
    """
    open_ = False
    for form, guard, lanes, members in program:
        here = {lane for lane in range(LANES) if lanes >> lane & 1}
        named = {lane for lane in range(LANES) if members >> lane & 1}
        if form in ALIGNED:
            if here and len(here) < LANES:
                return False
        elif here - named:
            return False
        elif here and named - here:
            if guard:
                return False
            open_ = True
    return None if open_ else True


def lane_sets() -> st.SearchStrategy[int]:
    return st.sampled_from((FULL, FULL, 0, 0xFFFF, 0xFFFF0000, 0xFF, 0x55555555, 1, FULL ^ 1))


def operations() -> st.SearchStrategy[tuple[str, int, int, int]]:
    forms = st.sampled_from(WITH_MEMBERS + ALIGNED)
    same = st.tuples(forms, st.integers(0, 1), lane_sets()).map(lambda three: (*three, three[2]))
    return same | st.tuples(forms, st.integers(0, 1), lane_sets(), lane_sets())


@settings(max_examples=part(240), deadline=None, derandomize=True)
@given(st.lists(operations(), min_size=1, max_size=4))
def test_random_programs_against_a_reading_by_lanes(program):
    finding = verified(text(program), NOTHING)
    expected = expectation(program)
    if expected:
        assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    elif expected is False:
        assert finding.verdict is not Verdict.VERIFIED


def stored_and_read(meeting: str) -> str:
    """The lower half of a warp stores, the upper half reads behind a meeting of lanes."""
    return kernel(
        "shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2; setp.lt.u32 %p1, %r0, 16;"
        f"@%p1 st.shared.u32 [%r4], %r0; {meeting} xor.b32 %r5, %r2, 64; add.u32 %r5, %r3, %r5;"
        "@!%p1 ld.shared.u32 %r6, [%r5];",
        32,
    )


@pytest.mark.parametrize(
    ("meeting", "expected"),
    [
        ("bar.warp.sync 0xffffffff;", []),
        ("@%p1 bar.warp.sync 0xffffffff;", ["TTN220"]),
        ("@!%p1 bra S; bar.warp.sync 0xffffffff; S:", ["TTN201"]),
        ("bar.sync 0;", []),
        ("@%p1 bar.sync 0;", ["TTN220"]),
        ("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", []),
        ("barrier.cluster.arrive.aligned; @%p1 barrier.cluster.wait.aligned;", ["TTN220"]),
    ],
)
def test_a_meeting_that_some_lanes_leave_out_by_a_predicate(meeting, expected):
    assert codes(verified(stored_and_read(meeting), NOTHING)) == expected


GROUP = "mov.u64 %rd1, 0x4000000000010000; mov.f32 %f1, 0f00000000; wgmma.fence.sync.aligned;"
PRODUCT = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f1,%f2,%f3,%f4}}, {a}, %rd1, 1,1,1,0,0;"
)
END = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
TWICE = (
    "setp.eq.u32 %p2, %r0, 0; @%p2 mbarrier.init.shared.b64 [b], 128; bar.sync 0;"
    "setmaxnreg.dec.sync.aligned.u32 40; {meeting} setmaxnreg.inc.sync.aligned.u32 48;"
)
MBARRIER = (
    "mbarrier.arrive.shared.b64 _, [b];"
    "W: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra W;"
)


@pytest.mark.parametrize(
    ("body", "threads", "expected"),
    [
        (GROUP + PRODUCT.format(a="%rd1") + END, 128, []),
        (GROUP + PRODUCT.format(a="%rd1"), 96, ["TTN220"]),
        ("setmaxnreg.dec.sync.aligned.u32 40;", 128, []),
        ("setp.lt.u32 %p1, %r1, 2; @%p1 setmaxnreg.dec.sync.aligned.u32 40;", 128, ["TTN220"]),
        (
            "setp.lt.u32 %p1, %r1, 2; @%p1 bra A; setmaxnreg.dec.sync.aligned.u32 40; bra E;"
            "A: setmaxnreg.dec.sync.aligned.u32 48; E:",
            128,
            ["TTN220"],
        ),
        (
            "setp.lt.u32 %p1, %r1, 2; @%p1 bra A; setmaxnreg.dec.sync.aligned.u32 40; bra E;"
            "A: setmaxnreg.dec.sync.aligned.u32 40; E:",
            128,
            [],
        ),
        (TWICE.format(meeting=""), 128, ["TTN220"]),
        (TWICE.format(meeting="bar.warp.sync -1;"), 128, ["TTN220"]),
        (TWICE.format(meeting=GROUP + PRODUCT.format(a="%rd1") + END), 128, ["TTN220"]),
        (TWICE.format(meeting="setp.lt.u32 %p1, %r1, 1; @%p1 bar.arrive 1, 128;"
         "@!%p1 bar.sync 1, 128;"), 128, ["TTN220"]),
        (TWICE.format(meeting="bar.sync 0;"), 128, []),
        (TWICE.format(meeting="").replace("inc.sync.aligned.u32 48", "dec.sync.aligned.u32 40"),
         128, []),
        (TWICE.format(meeting="setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r3, 1, 128, %p1;"), 128,
         []),
        (TWICE.format(meeting="barrier.cluster.arrive; barrier.cluster.wait;"), 128, []),
        (TWICE.format(meeting=MBARRIER), 128, []),
        (
            GROUP + "setp.lt.u32 %p1, %r1, 2; @%p1 bra A;" + PRODUCT.format(a="%rd1") + "bra E; A:"
            "add.u64 %rd2, %rd1, 64;" + PRODUCT.format(a="%rd2") + "E:" + END,
            128,
            ["TTN220"],
        ),
        (
            GROUP + "cvt.u64.u32 %rd3, %r1; mad.lo.u64 %rd2, %rd3, 8, %rd1;"
            + PRODUCT.format(a="%rd2") + END,
            128,
            ["TTN220"],
        ),
    ],
)  # fmt: skip
def test_the_warps_of_a_warpgroup_do_the_same(body, threads, expected):
    declared = ".reg .b64 %rd<8>; .reg .f32 %f<8>;"
    finding = verified(kernel(declared + body, threads), NOTHING)
    assert sorted(set(codes(finding))) == expected, finding.diagnostics


def test_a_run_in_which_nothing_happens_before_it_hangs():
    """Halves of a warp wait for each other at two instructions."""
    wait = WITH_MEMBERS[0].format(members=FULL)
    body = chosen(0xFFFF, f"@!%p1 bra S; {wait} bra E; S: {wait} E:")
    launch = "{grid: 2, dynamic_shared: 0}"
    assert verified(kernel(HEAD + body, 32), launch).verdict is Verdict.UNDECIDED
