"""Boxes of tensor copies that begin before their tensor: loads may, stores may not."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, kernel, verified
from titan.foundation.verdict import Verdict

LAUNCH = """{grid: 1, dynamic_shared: 0, parameters: [{map: {data_type: f16,
    dimensions: [64, 32], box: [32, 8], swizzle: none}}]}"""
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {{{x}, {y}}}], [s];"
REDUCE = STORE.replace("cp.async", "cp.reduce.async").replace("cta.bulk", "cta.add.bulk")
LOAD = """mbarrier.arrive.expect_tx.shared.b64 _, [b], 512;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [s], [%rd1, {{{x}, {y}}}], [b];
    W: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra W;"""
PREFETCH = "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {{{x}, {y}}}];"
BEGIN = """.reg .b64 %rd<2>; mov.b64 %rd1, m; cvta.param.u64 %rd1, %rd1;
    shl.b32 %r2, %r0, 4; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; mov.u32 %r4, 0;
    st.shared.v4.u32 [%r2], {%r4, %r4, %r4, %r4}; fence.proxy.async.shared::cta;
    setp.ne.u32 %p1, %r0, 0; @!%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0; @%p1 bra E;"""
END = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:"


@pytest.mark.parametrize(
    ("copy", "x", "y", "right"),
    [
        (STORE, 0, 0, True), (STORE, 40, 28, True), (STORE, 64, 0, True),
        (STORE, -8, 0, False), (STORE, 0, -1, False), (STORE, 0, -8, False),
        (STORE, -64, 99, False),
        (REDUCE, 8, 30, True), (REDUCE, 0, -4, False),
        (LOAD, -8, 0, True), (LOAD, 0, -8, True), (LOAD, 40, 28, True),
        (PREFETCH, -8, -1, True),
    ],
)  # fmt: skip
def test_a_store_begins_within_its_tensor(copy, x, y, right):
    body = f"{BEGIN} mov.s32 %r5, {x}; mov.s32 %r6, {y}; {copy.format(x='%r5', y='%r6')} {END}"
    text = kernel(body, 32).replace(".entry k()", ".entry k(.param .align 64 .b8 m[128])")
    finding = verified(text, LAUNCH)
    assert finding.verdict is (Verdict.VERIFIED if right else Verdict.REFUTED), finding.notes
    assert right or codes(finding) == ["TTN219"]
