"""Asynchronous operations that several lanes execute: PTX has each thread start one of its own."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from tests.isa.simt.running import REGISTERS, ran
from tests.isa.simt.running import of as events_of
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.isa.ptx.parse import parse_source
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Launch, LaunchParameter, LaunchTensorMap
from titan.isa.simt.outcome import Policy

BYTES = "mbarrier::complete_tx::bytes"
# Everything that completes bytes: the instruction, and how many it completes for each lane.
COMPLETING = {
    "bulk": (f"cp.async.bulk.shared::cta.global.{BYTES} [tile], [%d0], 256, [full];", 256),
    "bulk, into the cluster": (
        f"cp.async.bulk.shared::cluster.global.{BYTES} [%r2], [%d0], 256, [%r3];", 256),
    "bulk, to several CTAs": (
        f"cp.async.bulk.shared::cluster.global.{BYTES}.multicast::cluster"
        " [%r2], [%d0], 256, [%r3], %h1;", 256),
    "bulk, between CTAs": (
        f"cp.async.bulk.shared::cluster.shared::cta.{BYTES} [%r2], [%r4], 256, [%r3];", 256),
    "sum": (
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{BYTES}.add.u32"
        " [%r2], [%r4], 256, [%r3];", 256),
    "tensor": (
        f"cp.async.bulk.tensor.2d.shared::cta.global.tile.{BYTES} [tile], [%d1, {{%r5, %r5}}],"
        " [full];", 4096),
    "tensor, to several CTAs": (
        f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{BYTES}.multicast::cluster"
        " [%r2], [%d1, {%r5, %r5}], [%r3], %h1;", 4096),
    "store": (f"st.async.weak.shared::cluster.{BYTES}.u32 [%r6], 7, [%r3];", 4),
    "launch control": (
        f"clusterlaunchcontrol.try_cancel.async.shared::cta.{BYTES}.b128 [tile], [full];", 16),
}  # fmt: skip
TEXT = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .align 64 .b8 tensor[128])
.reqntid 32
{{
	{registers}
	.shared .align 1024 .b8 tile[4096];
	.shared .align 128 .b8 source[256];
	.shared .align 8 .b8 full[8];
	ld.param.u64 %d0, [in]; mov.b64 %d1, tensor; cvta.param.u64 %d1, %d1;
	mov.u32 %r5, 0; mov.b16 %h1, 1;
	mov.u32 %r2, tile; mov.u32 %r3, full; mov.u32 %r4, source;
	mov.u32 %r1, %tid.x; shl.b32 %r6, %r1, 2; add.u32 %r7, %r6, %r4; add.u32 %r6, %r6, %r2;
	setp.ne.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, {lanes}; setp.lt.u32 %p3, %r1, {expecting};
	st.shared.u32 [%r7], 0; st.shared.u32 [%r7+128], 0;
	st.shared.u32 [%r6], 0; st.shared.u32 [%r6+128], 0;
	fence.proxy.async.shared::cta;
	@%p1 bra MADE;
	mbarrier.init.shared.b64 [full], {expecting};
	fence.mbarrier_init.release.cluster;
MADE:	bar.sync 0;
	@%p3 mbarrier.arrive.expect_tx.shared.b64 _, [full], {bytes};
	bar.warp.sync -1;
	@%p2 {instruction}
WAIT:	mbarrier.try_wait.parity.shared.b64 %p4, [full], 0;
	@!%p4 bra WAIT;
	ret;
}}
"""
LAUNCH = (
    "{grid: 1, parameters: [pointer, {map: {data_type: f16, dimensions: [64, 32], box: [64, 32],"
    " swizzle: 128B}}]}"
)
MAP = LaunchTensorMap(6, 0x100000, (64, 32), (128,), (64, 32), (1, 1), swizzle=3)
WORDS = "identical bulk or tensor-core operations of several lanes"


def _text(name: str, lanes: int, expecting: int, times: int = 1) -> str:
    instruction, count = COMPLETING[name]
    return TEXT.format(
        registers=REGISTERS, lanes=lanes, expecting=expecting, bytes=count * times,
        instruction=instruction,
    )  # fmt: skip


@pytest.mark.parametrize("name", COMPLETING)
def test_bytes_are_completed_for_each_lane(name):
    assert verified(_text(name, 1, 1), LAUNCH).verdict is Verdict.VERIFIED
    forgotten = verified(_text(name, 4, 1), LAUNCH)  # all lanes copy where one was elected
    assert forgotten.verdict is Verdict.REFUTED, forgotten.notes
    alike = name not in ("store", "launch control")  # lanes that do the same
    for expecting, times in ((4, 1), (1, 4)):
        counted = verified(_text(name, 4, expecting, times), LAUNCH)
        # answers of several requests in one place are a race
        right = Verdict.REFUTED if name == "launch control" else Verdict.VERIFIED
        assert counted.verdict is right, (codes(counted), counted.notes)
        assert any(WORDS in note for note in counted.notes) is alike


@pytest.mark.parametrize("name", COMPLETING)
def test_both_machines_count_lanes(name):
    module, findings = parse_source(Source("k.ptx", _text(name, 4, 4)))
    assert module is not None, findings
    data = bytes(range(128))
    parameters = LaunchParameter((1 << 20).to_bytes(8, "little")), LaunchParameter(data)
    launch = Launch("k", (1, 1, 1), (32, 1, 1), parameters=parameters, tensor_maps={data: MAP})
    started = events_of(ran(module, launch), ev.AsynchronousEvent)
    assert sum(item.bytes for one in started for item in one.completes) == 4 * COMPLETING[name][1]
    assert len(started) == (4 if name == "launch control" else 1)


@pytest.mark.parametrize(
    "instruction",
    [
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d1, %r2, %p1;",
        "tcgen05.cp.cta_group::1.128x256b [%r1], %d1;",
        "tcgen05.shift.cta_group::1.down [%r1];",
    ],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_operations_of_tensor_cores_by_several_lanes_are_named(instruction, lanes):
    text = f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
.reqntid 32
{{
	{REGISTERS}
	.shared .align 1024 .b8 tile[32768];
	.shared .align 4 .b8 columns[4];
	tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [columns], 256;
	ld.shared.u32 %r1, [columns];
	mov.u32 %r3, tile; shr.u32 %r3, %r3, 4; cvt.u64.u32 %d1, %r3;
	or.b64 %d1, %d1, 0x4000404000000000;
	mov.u32 %r2, 0x8100490; mov.u32 %r4, %tid.x; setp.eq.u32 %p1, %r4, 99;
	setp.lt.u32 %p2, %r4, {lanes};
	@%p2 {instruction}
	ret;
}}
"""
    module, findings = parse_source(Source("k.ptx", text))
    assert module is not None, findings
    found = ran(module, Launch("k", (1, 1, 1), (32, 1, 1)))
    assert len(events_of(found, ev.AsynchronousEvent)) == 1, found.outcome
    named = {e.policy for e in events_of(found, ev.Assumption)}
    assert (Policy.WHOLE_WARP_BULK in named) is (lanes > 1)
