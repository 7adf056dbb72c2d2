"""mbarriers that one lane of a warp initialises and another uses, against clocks of lanes.

The reference has a vector clock for each lane: lanes that meet join theirs, an arrival with release
leaves its lane's clock for whoever waits.
"""

from __future__ import annotations

import random

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from tests.sampling import part
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

LANES = "setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 1; setp.gt.u32 %p3, %r0, 0;"
INIT = "@%p1 mbarrier.init.shared.b64 [b], {count};"
SYNC = "bar.warp.sync -1;"
ARRIVE = "@%p2 mbarrier.arrive.shared.b64 _, [b];"
EXPECT = "@%p2 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 0;"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p4, [b], {parity}; @!%p4 bra W;"
COPY = """
	@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 128;
	@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 128, [b];
"""
END = "@%p2 mbarrier.inval.shared.b64 [b];"


def program(*steps: str, count: int = 1) -> str:
    body = "".join((LANES, ".reg .b64 %rd<2>; ld.param.u64 %rd1, [g];", *steps))
    text = kernel(body.replace("{count}", str(count)), 32)
    return text.replace(".entry k()", ".entry k(.param .u64 g)")


LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: [pointer]}"


@pytest.mark.parametrize(
    "uses",
    [
        ARRIVE + WAIT.format(parity=0),
        EXPECT,
        WAIT.format(parity=1),
        "mbarrier.test_wait.parity.shared.b64 %p4, [b], 0;",
        COPY + WAIT.format(parity=0),
        "cp.async.mbarrier.arrive.noinc.shared.b64 [b];",
        "@%p3 mbarrier.arrive.noComplete.release.cta.shared.b64 %rd1, [b], 1;",
    ],
)
@pytest.mark.parametrize(
    ("between", "ordered"),
    [
        ("", False),
        (SYNC, True),
        ("bar.sync 0;", True),
        ("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", True),
        ("@%p1 fence.mbarrier_init.release.cluster;", False),
        ("fence.acq_rel.cta;", False),
        ("elect.sync %r2|%p5, -1;", False),
        ("@%p1 st.release.cta.shared.u32 [s+512], 1; @%p3 ld.acquire.cta.shared.u32 %r5, [s+512];",
         True),
    ],
)  # fmt: skip
def test_what_one_lane_initialises_another_uses_behind_a_meeting(uses, between, ordered):
    count = 32 if "noinc" in uses else 64 if "noComplete" in uses else 1
    finding = verified(program(INIT, between, uses, count=count), LAUNCH)
    found = [item for item in finding.diagnostics if "mbarrier+" in item.headline]
    assert (not found) is ordered, (codes(finding), finding.notes)
    if not ordered:
        assert finding.verdict is Verdict.REFUTED and found[0].code == "TTN201"
        assert "mbarrier+" in found[0].headline


@pytest.mark.parametrize("by", ["@%p1", ""])
def test_lanes_that_initialise_may_use(by):
    """Each of all lanes an object of its own, or one lane its own."""
    make = "shl.b32 %r2, %r0, 3; mov.u32 %r3, s; add.u32 %r2, %r2, %r3;"
    use = f"{by} mbarrier.init.shared.b64 [%r2], 1; {by} mbarrier.arrive.shared.b64 _, [%r2];"
    assert verified(program(make, use), LAUNCH).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(("between", "ordered"), [("", False), (SYNC, True)])
def test_an_object_ends_behind_its_uses(between, ordered):
    use = "@%p1 mbarrier.arrive.shared.b64 _, [b];"
    finding = verified(program(INIT, SYNC, use, between, END), LAUNCH)
    found = [item for item in finding.diagnostics if "invalidates" in item.headline]
    assert (not found) is ordered, codes(finding)


def test_the_policy_takes_lanes_in_step():
    text = program(INIT, ARRIVE, WAIT.format(parity=0))
    finding = verified(text, LAUNCH, policies=CodePolicies(lanes="ordered"))
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)


def test_lanes_of_other_warps_are_not_its_own():
    """Between warps the order engine decides, with the barrier of the CTA."""
    text = kernel(LANES + INIT.replace("{count}", "64") + "bar.sync 0; mbarrier.arrive.shared.b64"
                  " _, [b];" + WAIT.format(parity=0))  # fmt: skip
    assert verified(text, NOTHING).verdict is Verdict.VERIFIED


def _ordered(steps: list[tuple[str, int]]) -> bool:
    clocks = [[0] * 4 for _ in range(4)]
    handed = [0] * 4
    wrote: tuple[int, int] | None = None  # lane and time of the initialisation
    for time, (what, who) in enumerate(steps, 1):
        lanes = [lane for lane in range(4) if who >> lane & 1]
        if what == "sync":
            joined = [max(clocks[lane][n] for lane in lanes) for n in range(4)]
            for lane in lanes:
                clocks[lane] = list(joined)
            continue
        (lane,) = lanes
        if what == "init":
            wrote = lane, time
        elif wrote is not None and lane != wrote[0] and clocks[lane][wrote[0]] < wrote[1]:
            return False
        if what == "wait":
            clocks[lane] = [max(a, b) for a, b in zip(clocks[lane], handed, strict=True)]
        clocks[lane][lane] = time
        if what == "arrive":
            handed = [max(a, b) for a, b in zip(clocks[lane], handed, strict=True)]
    return True


def _text(steps: list[tuple[str, int]]) -> str:
    lines = ["setp.lt.u32 %p5, %r0, 4; @!%p5 bra END;"]
    for number, (what, who) in enumerate(steps):
        if what == "sync":
            run = f"bar.warp.sync {who};"
        else:
            run = {
                "init": "mbarrier.init.shared.b64 [b], 1000;",
                "arrive": "mbarrier.arrive.shared.b64 _, [b];",
                "expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 8;",
                "wait": "mbarrier.try_wait.parity.shared.b64 %p4, [b], 1;",
            }[what]
        lines.append(
            f"shr.u32 %r5, {who}, %r0; and.b32 %r5, %r5, 1; setp.eq.u32 %p6, %r5, 0;"
            f"@%p6 bra S{number}; {run} S{number}:"
        )
    return kernel("".join([*lines, "END:"]), 32)


def test_random_programs():
    """What is reported is a race by the clocks, and each race by the clocks is reported."""
    draw = random.Random(11)
    seen = set()
    for _ in range(part(240, 8)):
        steps = [("init", 1 << draw.randrange(4))]
        for _ in range(draw.randint(1, 5)):
            what = draw.choice(("arrive", "expect", "wait", "sync", "sync"))
            several = (0b1111, 0b0011, 0b1100, 0b0110, 0b1001)
            steps.append((what, draw.choice(several) if what == "sync" else 1 << draw.randrange(4)))
        finding = verified(_text(steps), NOTHING)
        found = [item for item in finding.diagnostics if "mbarrier+" in item.headline
                 and item.code == "TTN201"]  # fmt: skip
        ordered = _ordered(steps)
        seen.add(ordered)
        assert (not found) is ordered, (steps, codes(finding))
    assert seen == {True, False}
