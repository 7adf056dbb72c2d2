"""Which lanes of tensor memory a warp names, reaches and touches."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import TENSOR_LANE_BYTES
from titan.isa.simt.outcome import Policy

BODY = """
.shared .align 4 .b32 place;
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 5;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra MEET;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 64;
MEET: bar.sync 0;
ld.shared.u32 %r3, [place];
{lane}
shl.b32 %r4, %r4, 16;
add.u32 %r4, %r4, %r3;
tcgen05.ld.sync.aligned.{shape}.b32 {{%r5}}, [%r4];
tcgen05.wait::ld.sync.aligned;
bar.sync 0;
@%p1 bra DONE;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64;
DONE: ret;
"""
OWN = "and.b32 %r2, %r1, 3; shl.b32 %r4, %r2, 5;"


@pytest.mark.parametrize(
    ("lane", "shape", "faulty", "assumed"),
    [
        (OWN, "32x32b.x1", set(), False),
        ("mov.u32 %r4, 0;", "32x32b.x1", set(), True),
        ("mov.u32 %r4, 16;", "16x64b.x1", set(), True),
        ("mov.u32 %r4, 16;", "32x32b.x1", {0, 1, 2, 3}, True),  # beyond the own quarter
        (OWN + "xor.b32 %r4, %r4, 64;", "32x32b.x1", {0, 1, 3}, True),  # warp 2 names its own
        ("mov.u32 %r4, 96;", "32x32b.x1", {0, 1, 2}, False),
        (OWN + "add.u32 %r4, %r4, 8;", "16x64b.x1", set(), False),
        (OWN + "add.u32 %r4, %r4, 24;", "16x64b.x1", {0, 1, 2, 3}, False),
    ],
)
def test_a_warp_reaches_the_lanes_of_its_quarter(lane, shape, faulty, assumed):
    made = ran(module_of(BODY.format(lane=lane, shape=shape)), launch_of(block=256))
    assert {event.warp for event in of(made, ev.MemoryFault)} == faulty | {n + 4 for n in faulty}
    uses = [item for item in of(made, ev.Assumption) if item.policy == Policy.QUARTER_LANES]
    assert bool(uses) is assumed
    for event in of(made, ev.AsynchronousEvent):
        if not faulty:
            (use,) = event.effects
            assert use.footprint.bounds[0] // TENSOR_LANE_BYTES // 32 == event.warp % 4
