"""Copies of packed 4-bit and 6-bit elements: a barrier counts their bits, not their places.

CUTLASS counts so in its collectives (the bits of the element, whatever its place in shared memory).
"""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.foundation.verdict import Verdict

COPY = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
.reqntid 32
{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .b64 %d<4>;
	.shared .align 1024 .b8 data[4096];
	.shared .align 8 .b8 full[8];
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p1, %r0, 0;
	mov.b64 %d1, map;
	cvta.param.u64 %d1, %d1;
	@%p1 bra STARTED;
	mbarrier.init.shared.b64 [full], 1;
	fence.mbarrier_init.release.cluster;
	fence.proxy.async.shared::cta;
	mbarrier.arrive.expect_tx.shared.b64 _, [full], {bytes};
	cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes\
 [data], [%d1, {0, 0}], [full];
	{early}
STARTED:
	bar.sync 0;
FULL:	mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;
	@!%p2 bra FULL;
	ld.shared.u32 %r1, [data+{last}];
	ret;
}
"""
BOX = 128 * 16  # elements


LAUNCH = "grid: [1]\nparameters: [{map: {data_type: NAME, dimensions: [256, 64], box: [128, 16]}}]"
TYPES = [  # bytes that a barrier counts, bytes in shared memory
    ("u8", BOX, BOX),
    ("16u4_align8b", BOX // 2, BOX // 2),
    ("16u4_align16b", BOX // 2, BOX),
    ("16u6_align16b", BOX * 3 // 4, BOX),
]


@pytest.mark.parametrize(("name", "counted", "held"), TYPES)
def test_a_barrier_counts_packed_bytes(name, counted, held):
    launch = LAUNCH.replace("NAME", name)
    text = COPY.replace("{last}", str(held - 4)).replace("{early}", "")
    right = verified(text.replace("{bytes}", str(counted)), launch)
    assert right.verdict is Verdict.VERIFIED, (codes(right), right.notes)
    for wrong in {BOX, BOX // 2, BOX * 3 // 4} - {counted}:
        found = verified(text.replace("{bytes}", str(wrong)), launch)
        assert found.verdict is Verdict.REFUTED, (wrong, found.notes)
        assert {"TTN205", "TTN207", "TTN203"} & set(codes(found)), (wrong, codes(found))


@pytest.mark.parametrize(("name", "counted", "held"), TYPES)
def test_a_copy_fills_the_places_of_its_elements(name, counted, held):
    launch = LAUNCH.replace("NAME", name)
    text = COPY.replace("{last}", "0").replace("{bytes}", str(counted))
    for at, verdict in ((held - 4, Verdict.REFUTED), (held, Verdict.VERIFIED)):
        early = text.replace("{early}", f"st.shared.u32 [data+{at}], %r0;")
        found = verified(early, launch)
        assert found.verdict is verdict, (at, codes(found), found.notes)
