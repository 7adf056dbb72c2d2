"""Lanes of a warp that have not met, against the same code with a warp in place of each lane.

What is refuted of lanes must be refuted of warps, which nothing but barriers orders. The other way
round one lane at a time is compared: a fault that needs two lanes to be out of step may be missed.
"""

from __future__ import annotations

import random

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

STRICT = CodePolicies(unused_reads="refuse")
ACTORS = 3
KERNEL = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid {threads}
{{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.reg .b64 %d<4>;
	.shared .align 128 .b8 s[64];
	.shared .align 8 .b8 b[32];
	mov.u32 %r0, %tid.x;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 mbarrier.init.shared.b64 [b], 1;
	@%p1 mbarrier.init.shared.b64 [b+8], 1;
	@%p1 mbarrier.init.shared.b64 [b+16], 1;
	@%p1 mbarrier.init.shared.b64 [b+24], 1;
	bar.sync 0;
	{actor}
	{steps}
	ret;
}}
"""
LANES = f"setp.lt.u32 %p2, %r0, {ACTORS}; selp.u32 %r1, %r0, 99, %p2; setp.eq.u32 %p3, %r0, 32;"
LANES += f"selp.u32 %r1, {ACTORS}, %r1, %p3;"
WARPS = "and.b32 %r2, %r0, 31; shr.u32 %r1, %r0, 5; setp.ne.u32 %p2, %r2, 0;"
WARPS += "selp.u32 %r1, 99, %r1, %p2;"


COPY = """{guard} mbarrier.arrive.expect_tx.shared.b64 _, [b+24], 16;
    {guard} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [g], 16, [b+24];
"""


def step(number: int, actor: int, what: str, at: int) -> str:
    """One step of one actor; actor ACTORS is in another warp than the others."""
    guard = f"setp.eq.u32 %p4, %r1, {actor};"
    if what == "store":
        return f"{guard} @%p4 st.shared.u32 [s+{4 * at}], %r0;"
    if what == "load":
        return f"{guard} @%p4 ld.shared.u32 %r9, [s+{4 * at}];"
    if what == "arrive":
        return f"{guard} @%p4 mbarrier.arrive.shared.b64 _, [b+{8 * at}];"
    if what == "copy":
        return f"{guard} {COPY.format(guard='@%p4')}"
    loop = f"W{number}: mbarrier.try_wait.parity.shared.b64 %p5, [b+{8 * at}], 0;"
    return f"{guard} @!%p4 bra S{number}; {loop} @!%p5 bra W{number}; S{number}:"


def story(seed: int) -> list[tuple[int, str, int]]:
    """Actors store and load; each barrier gets one arrival, and is waited for after it.

    The order of the text is a run that comes through.
    """
    draw = random.Random(seed)
    found: list[tuple[int, str, int]] = []
    for barrier in range(draw.choice((1, 2))):
        for _ in range(draw.choice((1, 2, 3))):
            at = draw.randrange(4)
            found.append((draw.randrange(ACTORS + 1), draw.choice(("store", "load")), at))
        if draw.random() < 0.5:
            found.append((-1, "meet", 0))
        first = draw.randrange(ACTORS + 1)
        second = ACTORS if first < ACTORS else draw.randrange(ACTORS)
        found += [(first, "arrive", barrier), (second, "wait", barrier)]
        if draw.random() < 0.5:
            found.append((-1, "meet", 0))
    for _ in range(2):
        found.append(
            (draw.randrange(ACTORS + 1), draw.choice(("store", "load")), draw.randrange(4))
        )
    if draw.random() < 0.5:
        first = draw.randrange(len(found) + 1)
        last = draw.randrange(first, len(found) + 1)
        copier = draw.randrange(ACTORS + 1)
        found.insert(last, (copier, "wait", 3))
        found.insert(first, (copier, "copy", 0))
    return found


def with_global(text: str) -> str:
    return text.replace(".visible .entry", ".global .align 16 .b8 g[1024];\n.visible .entry")


def texts(steps: list[tuple[int, str, int]]) -> tuple[str, str]:
    """The kernel with the actors as lanes, and as warps."""
    made = []
    for actor, meet, threads in (
        (LANES, "bar.warp.sync -1;", 64),
        (WARPS, "setp.lt.u32 %p6, %r0, 96; @%p6 bar.sync 1, 96;", 32 * (ACTORS + 1)),
    ):
        lines = [
            meet if what == "meet" else step(number, who, what, at)
            for number, (who, what, at) in enumerate(steps)
        ]
        text = "\n\t".join(lines)
        made.append(with_global(KERNEL.format(threads=threads, actor=actor, steps=text)))
    return made[0], made[1]


def compare(seed: int) -> Verdict:
    """The verdict of lanes, after it is compared."""
    lanes, warps = (verified(text, NOTHING, policies=STRICT) for text in texts(story(seed)))
    if lanes.verdict is Verdict.REFUTED:
        assert warps.verdict is Verdict.REFUTED, story(seed)
    return lanes.verdict


def test_what_is_refuted_of_lanes_is_refuted_of_warps():
    found = [compare(seed) for seed in range(16)]
    assert found.count(Verdict.REFUTED) >= 4 and found.count(Verdict.VERIFIED) >= 4


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(16, 400))
def test_what_is_refuted_of_more_lanes_is_refuted_of_warps(seed):
    compare(seed)


# ------------------------------------------------------------------------ one pattern each

MINE = "shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2;"
TO_WAIT = "A: mbarrier.try_wait.parity.shared.b64 %p5, [b], 0; @!%p5 bra A;"
PATTERNS = {
    "a lane arrives for the stores of all": f"""
        setp.lt.u32 %p2, %r0, 32; @!%p2 bra READS;
        {MINE} st.shared.u32 [%r4], %r0; {{sync}} @%p1 mbarrier.arrive.shared.b64 _, [b]; ret;
        READS: {TO_WAIT} {MINE} ld.shared.u32 %r5, [%r4+-128];""",
    "a lane arrives for the loads of all": f"""
        setp.lt.u32 %p2, %r0, 32; @!%p2 bra WRITES;
        {MINE} ld.shared.u32 %r5, [%r4]; {{sync}} @%p1 mbarrier.arrive.shared.b64 _, [b]; ret;
        WRITES: {TO_WAIT} {MINE} st.shared.u32 [%r4+-128], %r5;""",
    "a lane waits for all": f"""
        setp.eq.u32 %p2, %r0, 32; @%p2 st.shared.u32 [s], 1;
        @%p2 mbarrier.arrive.shared.b64 _, [b]; setp.ge.u32 %p2, %r0, 32; @%p2 ret;
        @!%p1 bra B; {TO_WAIT} B: {{sync}} ld.shared.u32 %r5, [s];""",
    "a lane waits for what it has copied": f"""
        setp.ge.u32 %p2, %r0, 32; @%p2 ret; @!%p1 bra B; {COPY.format(guard="")}
        {TO_WAIT.replace("[b]", "[b+24]")} B: {{sync}} ld.shared.u32 %r5, [s];""",
    "a lane waits for the bulk store": """
        setp.ge.u32 %p2, %r0, 32; @%p2 ret; @%p1 st.shared.v4.u32 [s], {%r0, %r0, %r0, %r0};
        @%p1 fence.proxy.async.shared::cta;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [g], [s], 16;
        @%p1 cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
        {sync} setp.eq.u32 %p3, %r0, 1; @%p3 st.shared.u32 [s+4], %r0;""",
}
COPIES = """
    setp.lt.u32 %p2, %r0, 32; @!%p2 bra READS; {MINE} mov.u64 %d1, g;
    mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
    cp.async.ca.shared.global [%r4], [%d1], 4; {WAIT}
    {sync} @%p1 mbarrier.arrive.shared.b64 _, [b]; ret;
    READS: {TO_WAIT} {MINE} ld.shared.u32 %r5, [%r4+-128];"""
COPIES = COPIES.replace("{MINE}", MINE).replace("{TO_WAIT}", TO_WAIT)
for waits in ("cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"):
    PATTERNS[f"a lane arrives for copies of all, {waits}"] = COPIES.replace("{WAIT}", waits)
for fence in ("fence.proxy.async.shared::cta;", "fence.acq_rel.cta; fence.proxy.async;"):
    PATTERNS[f"a lane stores what all have written, {fence}"] = f"""
        setp.ge.u32 %p2, %r0, 32; @%p2 ret; {MINE} st.shared.u32 [%r4], %r0; {fence} {{sync}}
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [g], [s], 64;
        @%p1 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
PATTERNS["a lane arrives for the fenced stores of all"] = f"""
    setp.lt.u32 %p2, %r0, 32; @!%p2 bra READS; {MINE} st.shared.u32 [%r4], %r0;
    fence.acq_rel.cta; {{sync}} @%p1 mbarrier.arrive.shared.b64 _, [b]; ret;
    READS: {TO_WAIT} {MINE} ld.shared.u32 %r5, [%r4+-128];"""
SYNCS = {"bar.warp.sync -1;": [], "": ["TTN201", "TTN202", "TTN203", "TTN301"]}


def whole(steps: str) -> str:
    return with_global(KERNEL.format(threads=64, actor="", steps=steps).replace("s[64]", "s[256]"))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("sync", SYNCS)
def test_lanes_that_have_not_met(pattern, sync):
    text = whole(PATTERNS[pattern].replace("{sync}", sync))
    finding = verified(text, NOTHING, policies=STRICT)
    wanted = Verdict.REFUTED if SYNCS[sync] else Verdict.VERIFIED
    assert finding.verdict is wanted, (finding.notes, codes(finding))
    assert set(codes(finding)) <= set(SYNCS[sync])
    in_step = CodePolicies(unused_reads="refuse", lanes="ordered")
    assert verified(text, NOTHING, policies=in_step).verdict is Verdict.VERIFIED


def test_a_lane_may_arrive_for_what_it_has_stored():
    steps = f"""
        setp.lt.u32 %p2, %r0, 32; @!%p2 bra READS;
        {MINE} st.shared.u32 [%r4], %r0; @%p1 mbarrier.arrive.shared.b64 _, [b]; ret;
        READS: {TO_WAIT} ld.shared.u32 %r5, [s];"""
    finding = verified(whole(steps), NOTHING, policies=STRICT)
    assert finding.verdict is Verdict.VERIFIED, (finding.notes, codes(finding))


@pytest.mark.parametrize(("mask", "expected"), [("-1", []), ("1", ["TTN210"])])
def test_a_lane_meets_only_under_a_mask_that_holds_it(mask, expected):
    assert codes(verified(whole(f"bar.warp.sync {mask};"), NOTHING)) == expected


# ------------------------------------------------------------- what one lane does for the others

FENCE = "@%p1 fence.acq_rel.cta;"
EXPECTS = "setp.eq.u32 %p6, %r0, 32; @%p6 mbarrier.arrive.expect_tx.shared.b64 _, [b], 8;"
EXPECTS += "bar.sync 0;"
COMPLETES = "@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [b], 8;"
HAND_OVERS = {  # what is before the stores, and how the first lane hands them over
    "arrive": ("", "@%p1 mbarrier.arrive.shared.b64 _, [b];"),
    "arrive_drop": ("", "@%p1 mbarrier.arrive_drop.shared.b64 _, [b];"),
    "relaxed": ("", FENCE + "@%p1 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [b];"),
    "expect_tx": ("", "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 8;" + COMPLETES),
    "complete_tx": (EXPECTS, FENCE + COMPLETES),
    "expect, complete": (
        "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 8;",
        "@%p1 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [b];" + FENCE + COMPLETES,
    ),
}


@pytest.mark.parametrize("sync", ["", "bar.warp.sync -1;"])
@pytest.mark.parametrize("way", HAND_OVERS)
def test_a_lane_hands_over_what_others_have_stored(way, sync):
    before, hands = HAND_OVERS[way]
    steps = f"""
        {before} setp.lt.u32 %p2, %r0, 32; @!%p2 bra READS;
        {MINE} st.shared.u32 [%r4], %r0; {sync} {hands} ret;
        READS: {TO_WAIT} {MINE} ld.shared.u32 %r5, [%r4+-128];"""
    finding = verified(whole(steps), NOTHING)
    expected = Verdict.VERIFIED if sync else Verdict.REFUTED
    assert finding.verdict is expected, (codes(finding), finding.notes)


SHARED_READS = """
	.reg .b64 %rd<4>;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 mbarrier.init.shared.b64 [b], 64;
	bar.sync 0;
	mov.u32 %r2, s; shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r2; xor.b32 %r4, %r3, 128;
	mov.u32 %r9, %clock;
	st.shared.u32 [%r3], %r9;
	mbarrier.arrive.shared.b64 _, [b];
	and.b32 %r5, %r0, 31; setp.ne.u32 %p2, %r5, 0;
	@%p2 bra N;
	W: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra W;
N:
	{meeting}
	ld.shared.u32 %r6, [%r4];
	{own}
	st.shared.u32 [%r3+1024], %r6;
"""


@pytest.mark.parametrize("own", ["", "ld.shared.u32 %r7, [%r3]; add.u32 %r6, %r6, %r7;"])
@pytest.mark.parametrize("meeting", ["", "bar.warp.sync -1;"])
def test_a_warp_may_read_its_own_bytes_beside_those_that_a_lane_waits_for(own, meeting):
    """Two warps load each byte, and one of them has written it: no work of the other repeated."""
    finding = verified(kernel(SHARED_READS.format(own=own, meeting=meeting), 64), NOTHING)
    if meeting:
        assert finding.verdict is Verdict.VERIFIED, finding.notes
    else:
        assert codes(finding) == ["TTN201"], finding.notes
