"""Block-scaled products of pairs of CTAs, hand-written, against sums of fractions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.isa.numbers.test_scaled_products import (
    ELEMENTS,
    SCALED_KINDS,
    Case,
    laid_out,
    units,
)
from titan.isa.numbers.device import EmulatedDevice, LaunchError, LaunchShape
from titan.isa.numbers.native import core

pytestmark = pytest.mark.skipif(core() is None, reason="the native core is not built")

ROWS, COLUMNS, CTAS = 128, 160, 2  # rows of a CTA, columns of both
HALF = COLUMNS // CTAS
TILES = 2  # of scales of the columns
LEFT, RIGHT = 32 * ROWS, 32 * HALF  # bytes
ATOM = 512
SCALES = (1 + TILES) * ATOM
# One tile of scales of the CTA's own rows, and two of all columns, side by side from column 168 on.
COPIES = "".join(
    f"tcgen05.cp.cta_group::2.32x128b.warpx4 [%r8+{160 + 4 * n}], %d5;\nadd.s64 %d5, %d5, 32;\n"
    for n in range(1 + TILES)
)
KERNEL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 s, .param .u64 out)
.reqnctapercluster 2
{
.reg .b32 %r<60>; .reg .b64 %d<20>; .reg .pred %p<9>;
.shared .align 128 .b8 left[BYTES_LEFT];
.shared .align 128 .b8 right[BYTES_RIGHT];
.shared .align 128 .b8 scales[BYTES_SCALES];
.shared .align 8 .b8 bars[16];
.shared .align 4 .b8 held[4];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.s32 %p1, %r1, 0; setp.eq.s32 %p2, %r2, 0;
mov.u32 %r13, %cluster_ctarank; setp.eq.s32 %p4, %r13, 0;
mov.u32 %r3, left; mov.u32 %r4, right; mov.u32 %r5, bars; mov.u32 %r6, held; mov.u32 %r7, scales;
@%p2 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r6], 256;
@!%p1 bra START;
mbarrier.init.shared::cta.b64 [%r5], 1;
mbarrier.init.shared::cta.b64 [%r5+8], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], BYTES_ALL;
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [s];
mad.wide.u32 %d1, %r13, BYTES_LEFT, %d1;
mad.wide.u32 %d2, %r13, BYTES_RIGHT, %d2;
mad.wide.u32 %d3, %r13, BYTES_SCALES, %d3;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d1], BYTES_LEFT, [%r5];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d2], BYTES_RIGHT, [%r5];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%d3], BYTES_SCALES, [%r5];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0;
@!%p3 bra WAIT;
START:
barrier.cluster.arrive;
barrier.cluster.wait;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %r8, [%r6];
and.pred %p5, %p1, %p4;
@!%p5 bra DONE;
cvt.u64.u32 %d5, %r7; shr.u64 %d5, %d5, 4; or.b64 %d5, %d5, PLAIN;
COPIES
cvt.u64.u32 %d1, %r3; shr.u64 %d1, %d1, 4; or.b64 %d1, %d1, OF_LEFT;
cvt.u64.u32 %d2, %r4; shr.u64 %d2, %d2, 4; or.b64 %d2, %d2, OF_RIGHT;
mov.u32 %r11, INSTRUCTION;
tcgen05.mma.cta_group::2.KIND [%r8], %d1, %d2, %r11, [%r8+160], [%r8+164], 0;
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5+8], 3;
DONE:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5+8], 0;
@!%p3 bra DONE;
tcgen05.fence::after_thread_sync;
shl.b32 %r12, %r2, 21; add.s32 %r8, %r8, %r12;
ld.param.u64 %d3, [out];
mad.lo.u32 %r14, %r13, 128, %r1; mad.wide.u32 %d3, %r14, BYTES_ROW, %d3;
FETCHES
barrier.cluster.arrive;
barrier.cluster.wait;
ret;
}
"""
FETCH = """tcgen05.ld.sync.aligned.32x32b.x16.b32 REGISTERS, [%r8+FIRST];
tcgen05.wait::ld.sync.aligned;
"""


def drawn(seed: int, kind: str) -> Case:
    """Random bits, with scales of about one."""
    random = np.random.default_rng(seed)
    depth, blocks, _ = SCALED_KINDS[kind]
    form = ELEMENTS["e2m1" if kind.startswith("mxf4") else "e4m3"]
    a, b = (random.integers(0, 2**form.bits - (form.bits == 8), size=(count, depth))
            for count in (CTAS * ROWS, COLUMNS))  # fmt: skip
    power = "nvf4 of 16" not in kind
    low, high = (120, 136) if power else (40, 80)
    scales = tuple(
        random.integers(low, high, size=(count, 4)).astype(np.uint8)
        for count in (CTAS * ROWS, COLUMNS)
    )
    first = tuple(int(n) * blocks for n in random.integers(0, 4 // blocks, size=2))
    return Case(a, b, form, form, kind, (scales[0], scales[1]), power, (first[0], first[1]))


def computed(case: Case, copies: str = COPIES) -> np.ndarray:
    """What the emulated device makes of the product."""
    packed = case.kind.startswith("mxf4")
    code = 1 if packed else case.left.code
    fields = COLUMNS >> 3 << 17 | CTAS * ROWS >> 4 << 24 | code << 7 | code << 10
    fields |= case.power << 23 | case.first[0] << 29 | case.first[1] << 4
    plain = 1 << 46 | (128 >> 4) << 32
    fetches = ""
    for first in range(0, COLUMNS, 16):
        fetches += FETCH.replace("FIRST", str(first))
        fetches += "".join(
            f"st.global.b32 [%d3+{4 * (first + n)}], %r{20 + n};\n" for n in range(16)
        )
    text = KERNEL
    for name, value in (
        ("COPIES", copies), ("KIND", SCALED_KINDS[case.kind][2]), ("INSTRUCTION", fields),
        ("PLAIN", plain), ("OF_LEFT", plain | (16 * ROWS >> 4) << 16),
        ("OF_RIGHT", plain | (16 * HALF >> 4) << 16), ("FETCHES", fetches),
        ("REGISTERS", "{" + ", ".join(f"%r{20 + n}" for n in range(16)) + "}"),
        ("BYTES_ALL", LEFT + RIGHT + SCALES), ("BYTES_LEFT", LEFT), ("BYTES_RIGHT", RIGHT),
        ("BYTES_SCALES", SCALES), ("BYTES_ROW", 4 * COLUMNS),
    ):  # fmt: skip
        text = text.replace(name, str(value))
    assert case.scales is not None
    of_rows, of_columns = case.scales
    given: list[list[np.ndarray]] = [[], [], []]
    for cta in range(CTAS):
        rows, half = slice(cta * ROWS, (cta + 1) * ROWS), slice(cta * HALF, (cta + 1) * HALF)
        given[0].append(units(case.a[rows], case.left.bits, packed))
        given[1].append(units(case.b[half], case.right.bits, packed))
        tiles = [of_rows[rows], of_columns[:128], of_columns[128:]]
        given[2] += [laid_out(tile) for tile in tiles]
    device = EmulatedDevice(exact=True)
    out = device.array(np.full((CTAS * ROWS, COLUMNS), np.nan, np.float32))
    arguments = [device.array(np.concatenate(parts)) for parts in given]
    shape = LaunchShape((CTAS, 1, 1), (128, 1, 1), (CTAS, 1, 1))
    device.launch(text, shape, [*arguments, out])
    return out.values


@pytest.mark.parametrize("kind", SCALED_KINDS)
def test_a_pair_scales_the_own_rows_and_all_columns(kind):
    case = drawn(1, kind)
    found = computed(case)
    for row in (0, 33, 127, 128, 170, 255):
        for column in (0, 40, 79, 80, 127, 128, 159):
            wanted = np.float32(case.once(row, column, 0.0))
            assert np.array_equal(found[row, column], wanted, equal_nan=True), (row, column)


OTHER = COPIES.splitlines(keepends=True)


@pytest.mark.parametrize(
    "copies",
    [
        COPIES.replace("cta_group::2", "cta_group::1"),  # those of the peer are left out
        "".join([*OTHER[:4], OTHER[5]]),  # those of the columns from 128 on
        "".join([OTHER[1], *OTHER[2:]]),  # those of the rows
    ],
)
def test_scales_that_a_cta_lacks_are_unknown(copies):
    with pytest.raises(LaunchError, match="are not known"):
        computed(drawn(2, "mxf8f6f4"), copies)
