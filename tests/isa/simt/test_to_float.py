"""Integers that become binary32 and binary64 numbers, as `threadIdx.x < blockDim.x / 32.f` has."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.frontends.test_verify_code import kernel, verified
from tests.isa.simt.running import launch_of, module_of, results
from titan.foundation.verdict import Verdict
from titan.isa.simt.floats import of_integer

LAUNCH = "{grid: 1, dynamic_shared: 0}"
# Each of 8 warps stores a sum; the first threads, one a warp, read them.
REDUCTION = """
	and.b32 %r2, %r0, 31;
	mov.u32 %r3, s;
	shl.b32 %r4, %r1, 2;
	add.u32 %r4, %r3, %r4;
	setp.eq.u32 %p1, %r2, 0;
	@%p1 st.shared.u32 [%r4], %r0;
	bar.sync 0;
	mov.u32 %r5, %ntid.x;
	cvt.rn.f32.u32 %r6, %r5;
	mul.f32 %r6, %r6, {factor};
	cvt.rn.f32.u32 %r7, %r0;
	shl.b32 %r8, %r2, 2;
	add.u32 %r8, %r3, %r8;
	mov.u32 %r9, 0;
	setp.leu.f32 %p2, %r6, %r7;
	@%p2 bra NONE;
	ld.shared.u32 %r9, [%r8];
NONE:
	shfl.sync.bfly.b32 %r9, %r9, 16, 31, -1;
	shl.b32 %r10, %r0, 2;
	add.u32 %r10, %r3, %r10;
	setp.ne.u32 %p3, %r9, 5;
	@%p3 st.shared.u32 [%r10+1024], %r9;
"""


@pytest.mark.parametrize("bits", [32, 64])
def test_integers_are_rounded_once(bits):
    random = Random(bits)
    kind, word = (np.float32, np.uint32) if bits == 32 else (np.float64, np.uint64)
    near = [(1 << 24) + 1, (1 << 53) + 1, (1 << 54) + (1 << 30) + 1, (1 << 63) - 1, (1 << 64) - 1]
    for value in [*near, *(random.getrandbits(random.randint(1, 64)) for _ in range(2000))]:
        assert of_integer(value, bits) == int(np.uint64(value).astype(kind).view(word)), value
        if value < 1 << 63:
            assert of_integer(-value, bits) == int(np.int64(-value).astype(kind).view(word))


@pytest.mark.parametrize(
    ("source", "factor", "kind"),
    [("u64", (1 << 58) + (1 << 34) + 1, np.uint64), ("s64", -(1 << 57) - 12345, np.int64)],
)
def test_both_machines_round_wide_integers(source, factor, kind):
    body = f"""mov.u32 %r1, %tid.x; cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, 1;
    mul.lo.u64 %d1, %d1, {factor}; cvt.rn.f32.{source} %f1, %d1; cvt.rn.f64.{source} %d3, %d1;
    cvt.u32.u64 %r3, %d3; shr.u64 %d3, %d3, 32; cvt.u32.u64 %r4, %d3; ld.param.u64 %d4, [out];
    mul.wide.u32 %d5, %r1, 12; add.u64 %d4, %d4, %d5; st.global.f32 [%d4], %f1;
    st.global.u32 [%d4+4], %r3; st.global.u32 [%d4+8], %r4; ret;"""
    found = results(module_of(body), launch_of(), 96)
    for lane in range(32):
        value = (lane + 1) * factor % (1 << 64)
        number = np.uint64(value).view(kind)
        assert found[3 * lane] == int(number.astype(np.float32).view(np.uint32))
        wide = int(number.astype(np.float64).view(np.uint64))
        assert found[3 * lane + 1 : 3 * lane + 3] == [wide & 0xFFFFFFFF, wide >> 32]


@pytest.mark.parametrize(
    ("factor", "verdict"), [("0f3D000000", Verdict.VERIFIED), ("0f3D800000", Verdict.UNDECIDED)]
)
def test_who_reads_the_sums_of_the_warps_is_known(factor, verdict):
    """By 1/16 twice as many threads read as there are sums."""
    finding = verified(kernel(REDUCTION.replace("{factor}", factor), 256), LAUNCH)
    assert finding.verdict is verdict, (finding.diagnostics, finding.notes)
