"""Proxy fences of some lanes of a warp, against a reading that follows each lane by itself."""

from __future__ import annotations

import random

import pytest

from tests.frontends.test_verify_code import codes, kernel, verified
from tests.sampling import part
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.lane_fences import SPACES, LaneFences
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.simt.footprints import MemorySpace
from titan.sync.program import Space

LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: [pointer]}"
BEGIN = """
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [g];
	mul.wide.u32 %rd2, %r0, 4;
	add.u64 %rd3, %rd1, %rd2;
	shl.b32 %r2, %r0, 2;
	mov.u32 %r3, s;
	add.u32 %r4, %r3, %r2;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 mbarrier.init.shared.b64 [b], 1;
	bar.sync 0;
	st.shared.u32 [%r4], %r0;
	st.global.u32 [%rd3], %r0;
"""
LOAD = """
	bar.sync 0;
	@!%p1 bra WAIT;
	mbarrier.arrive.expect_tx.shared.b64 _, [b], 128;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+1024], [%rd1], 128, [b];
WAIT:
	mbarrier.try_wait.parity.shared.b64 %p2, [b], 0;
	@!%p2 bra WAIT;
"""
STORE = """
	bar.sync 0;
	@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1+1024], [%r3], 128;
	@%p1 cp.async.bulk.commit_group;
	@%p1 cp.async.bulk.wait_group 0;
"""
FENCES = {"": SPACES, ".shared::cta": (Space.SHARED,), ".global": (Space.GLOBAL,)}


def text(fences: list[tuple[str, int]], use: str) -> str:
    lines = [BEGIN]
    for number, (space, lanes) in enumerate(fences):
        lines.append(
            f"shr.u32 %r5, {lanes:#x}, %r0; and.b32 %r5, %r5, 1; setp.eq.u32 %p3, %r5, 0;"
            f"@%p3 bra S{number}; fence.proxy.async{space}; S{number}:"
        )
    body = kernel("\n".join([*lines, use]), 32)
    return body.replace(".entry k()", ".entry k(.param .u64 g)")


@pytest.mark.parametrize("use", [LOAD, STORE])
@pytest.mark.parametrize(
    ("fences", "covered"),
    [
        ([("", 0xFFFFFFFF)], {Space.SHARED, Space.GLOBAL}),
        ([("", 1)], set()),
        ([("", 0xFFFF), ("", 0xFFFF0000)], {Space.SHARED, Space.GLOBAL}),
        ([("", 0xFFFF), (".global", 0xFFFF0000)], {Space.GLOBAL}),
        ([(".shared::cta", 0xFFFFFFFF), (".global", 1)], {Space.SHARED}),
        ([(".global", 0xFFFFFFFF), ("", 1)], {Space.GLOBAL}),
    ],
)
def test_fences_of_some_lanes(fences, covered, use):
    finding = verified(text(fences, use), LAUNCH)
    needed = Space.GLOBAL if use is LOAD else Space.SHARED
    assert codes(finding)[:1] == ([] if needed in covered else ["TTN301"]), finding.diagnostics


def test_random_fences():
    """What is verified has each lane's fence of the space; what has it is verified."""
    draw = random.Random(7)
    for _ in range(part(60, 4)):
        masks = [0xFFFFFFFF, 0xFFFF, 0xFFFF0000, 0x55555555, 0xAAAAAAAA, 1, 0xFFFFFFFE]
        fences = [
            (draw.choice(list(FENCES)), draw.choice(masks)) for _ in range(draw.randint(1, 4))
        ]
        for use, space in ((LOAD, Space.GLOBAL), (STORE, Space.SHARED)):
            lanes = {
                n
                for name, mask in fences
                if space in FENCES[name]
                for n in range(32)
                if mask >> n & 1
            }
            verdict = verified(text(fences, use), LAUNCH).verdict
            assert (verdict is Verdict.VERIFIED) is (len(lanes) == 32), (fences, use)


def test_a_lane_that_writes_again_has_to_fence_again():
    lanes = LaneFences()
    lanes.access(0b11, MemorySpace.SHARED)
    assert lanes.fence(0b01, SPACES) == (Space.GLOBAL,)
    lanes.access(0b01, MemorySpace.SHARED)
    assert lanes.fence(0b10, SPACES) == (Space.GLOBAL,)
    assert lanes.fence(0b01, SPACES) == SPACES
    lanes.access(0b10, MemorySpace.GENERIC)
    assert lanes.fence(0b01, SPACES) == ()


ONE_LANE = "setp.eq.u32 %p3, %r0, 1; @%p1 st.shared.v4.u32 [s], {%r0, %r0, %r0, %r0};"
FENCE, SYNC = "fence.proxy.async.shared::cta;", "bar.warp.sync -1;"
COPIES = """
	@{by} cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16;
	@{by} cp.async.bulk.commit_group;
	@{by} cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize("by", ["%p1", "%p3"])
@pytest.mark.parametrize(
    ("steps", "writer", "path"),
    [
        ((SYNC, FENCE), True, True),
        ((f"@%p1 {FENCE}", SYNC), True, True),
        ((SYNC, f"@%p3 {FENCE}", SYNC), False, True),
        ((f"@%p3 {FENCE}", SYNC), False, False),  # of a lane that is perhaps ahead of the store
        ((SYNC,), False, False),
    ],
)
def test_a_fence_on_the_way_is_behind_the_store_by_what_orders_lanes(steps, writer, path, by):
    """Lane 0 stores, lane 0 or 1 starts the copy; who fences, and where."""
    begin = ".reg .b64 %rd<2>; ld.param.u64 %rd1, [g]; setp.eq.u32 %p1, %r0, 0; mov.u32 %r3, s;"
    body = kernel(begin + ONE_LANE + "".join(steps) + COPIES.replace("{by}", by), 32)
    body = body.replace(".entry k()", ".entry k(.param .u64 g)")
    for rule, right in (("writer", writer), ("path", path)):
        finding = verified(body, LAUNCH, policies=CodePolicies(fence_rule=rule))
        assert codes(finding) == ([] if right else ["TTN301"]), (rule, finding.notes)
        assert (finding.verdict is Verdict.VERIFIED) is right
