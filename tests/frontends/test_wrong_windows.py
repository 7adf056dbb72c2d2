"""Addresses of one window that an instruction takes for those of another."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.foundation.verdict import Verdict

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.global .align 16 .b8 g[1024];
.visible .entry k(.param .u64 p, .param .u64 q)
.reqntid 32
{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.reg .b64 %d<16>;
	.shared .align 128 .b8 s[1024];
	.local .align 16 .b8 l[64];
	mov.u32 %r0, %tid.x;
	setp.eq.u32 %p1, %r0, 0;
	mov.u64 %d1, s;
	cvta.shared.u64 %d2, %d1;
	mov.u64 %d3, l;
	cvta.local.u64 %d4, %d3;
	mov.u64 %d5, p;
	cvta.param.u64 %d6, %d5;
	ld.param.u64 %d7, [p];
	cvt.u32.u64 %r1, %d2;
	cvt.u32.u64 %r2, %d7;
	cvt.u32.u64 %r3, %d1;
	mov.u64 %d8, 0;
	cvta.to.shared.u64 %d9, %d7;
	ld.param.u64 %d10, [q];
	@%p1 BODY
	cp.async.wait_all;
	ret;
}
"""
# s, generic s, l, generic l, generic parameters, a pointer
RIGHT = {
    "shared": "st.shared.u32 [%d1], %r0;",
    "shared of 32 bits": "st.shared.u32 [%r3], %r0;",
    "generic of shared": "st.u32 [%d2], %r0;",
    "local": "st.local.u32 [%d3], %r0;",
    "generic of local": "st.u32 [%d4], %r0;",
    "global": "st.global.u32 [%d7], %r0;",
    "generic of global": "st.u32 [%d7], %r0;",
    "parameters": "ld.u32 %r5, [%d6];",
    "the end of shared": "st.shared.u32 [%d1+1020], %r0;",
}
WRONG = {
    "a generic address as one of shared memory": "st.shared.u32 [%r1], %r0;",
    "the same, not cut": "st.shared.u32 [%d2], %r0;",
    "an atomic there": "red.shared.add.u32 [%r1], 1;",
    "an mbarrier there": "mbarrier.init.shared.b64 [%r1], 1;",
    "a copy to there": "cp.async.ca.shared.global [%r1], [%d7], 4;",
    "a pointer as an address of shared memory": "st.shared.u32 [%r2], %r0;",
    "a pointer brought to shared memory": "st.shared.u32 [%d9], %r0;",
    "an address of shared memory as generic": "st.u32 [%d1], %r0;",
    "a load from there": "ld.u32 %r5, [%d1];",
    "an address of shared memory as global": "st.global.u32 [%d1], %r0;",
    "a copy from there": "cp.async.ca.shared.global [%d1], [%d1], 4;",
    "a generic address of shared memory as global": "st.global.u32 [%d2], %r0;",
    "a load of it": "ld.global.u32 %r5, [%d2];",
    "local memory as global": "st.global.u32 [%d4], %r0;",
    "parameters as global": "ld.global.u32 %r5, [%d6];",
    "an address of local memory as generic": "st.u32 [%d3], %r0;",
    "nothing": "st.u32 [%d8], %r0;",
    "behind nothing": "ld.global.u32 %r5, [%d8+16];",
    "a parameter that leads nowhere": "ld.global.u32 %r5, [%d10];",
    "what the system keeps of shared memory": "st.shared.u32 [0], %r0;",
    "the end of that": "st.shared.u32 [%d1-4], %r0;",
}
LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: [pointer, 0]}"


@pytest.mark.parametrize("access", RIGHT)
def test_an_address_of_its_window(access):
    finding = verified(KERNEL.replace("BODY", RIGHT[access]), LAUNCH)
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)


@pytest.mark.parametrize("access", WRONG)
def test_an_address_of_another_window(access):
    finding = verified(KERNEL.replace("BODY", WRONG[access]), LAUNCH)
    assert finding.verdict is not Verdict.VERIFIED, finding.notes
    if finding.verdict is Verdict.REFUTED:
        assert set(codes(finding)) <= {"TTN218", "TTN219", "TTN208"}, codes(finding)


@pytest.mark.parametrize("width", ["st.shared.u32 [%r1], %r0;", "st.shared.u32 [%d2], %r0;"])
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_generic_address_lies_nowhere_in_a_cluster_either(width, cluster):
    launch = LAUNCH.replace("grid: 1", f"grid: {cluster}, cluster: {cluster}")
    finding = verified(KERNEL.replace("BODY", width), launch)
    assert codes(finding) == ["TTN218"]
