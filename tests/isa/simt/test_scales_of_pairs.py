"""What copies of block scales, and products that take them, touch in a pair of CTAs, on both
machines."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import TENSOR_LANE_BYTES, MemorySpace

PLAIN = 1 << 46 | 8 << 32  # descriptors: rows of 16 bytes, eight of them one after the other
BODY = """
.shared .align 128 .b8 tiles[16384];
.shared .align 4 .b32 place;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %cluster_ctarank;
tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [place], 512;
barrier.cluster.arrive;
barrier.cluster.wait;
ld.shared.u32 %r3, [place];
add.u32 %r2, %r0, %r1;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra DONE;
mov.u32 %r5, tiles;
cvt.u64.u32 %d0, %r5;
shr.u64 %d0, %d0, 4;
or.b64 %d0, %d0, {plain};
tcgen05.cp.cta_group::{group}.32x128b.warpx4 [%r3+256], %d0;
mov.u32 %r6, {instruction};
tcgen05.mma.cta_group::{group}.kind::mxf8f6f4.block_scale.scale_vec::1X [%r3], %d0, %d0, %r6,
  [%r3+256], [%r3+260], 0;
DONE:
barrier.cluster.arrive;
barrier.cluster.wait;
tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r3, 512;
ret;
"""


def tensor_columns(effect: ev.RecordedEffect) -> tuple[int, int, int, int]:
    """CTA, lanes, first column from the first one of the allocation, columns."""
    first, *others = effect.footprint.ranges()
    lanes = len(others) + 1
    column = first[0] % TENSOR_LANE_BYTES // 4
    return effect.footprint.cta, lanes, column, (first[1] - first[0]) // 4


@pytest.mark.parametrize(("group", "columns"), [(1, 256), (2, 256), (2, 96)])
def test_each_cta_has_scales_of_its_rows_and_of_all_columns(group, columns):
    instruction = columns >> 3 << 17 | 1 << 23 | group << 27
    body = BODY.format(group=group, plain=PLAIN, instruction=instruction)
    made = ran(module_of(body), launch_of(grid=2, cluster=2))
    assert not of(made, ev.MemoryFault)
    copy, product = (
        event for event in of(made, ev.AsynchronousEvent)
        if event.kind in (ev.RecordedOperation.TENSOR_MEMORY_COPY,
                          ev.RecordedOperation.TENSOR_MULTIPLY)
    )  # fmt: skip
    ctas = list(range(group))
    found = {MemorySpace.SHARED: [], MemorySpace.TENSOR: []}
    for effect in copy.effects:
        found[effect.footprint.space].append(effect)
    assert [effect.footprint.cta for effect in found[MemorySpace.SHARED]] == ctas
    for effect in found[MemorySpace.SHARED]:
        low, high = effect.footprint.bounds
        assert effect.mode is ev.Mode.READ and high - low == 512
    base = tensor_columns(found[MemorySpace.TENSOR][0])[2] - 256
    assert [tensor_columns(effect) for effect in found[MemorySpace.TENSOR]] == [
        (cta, 128, base + 256, 4) for cta in ctas
    ]
    read = [
        tensor_columns(effect) for effect in product.effects
        if effect.footprint.space is MemorySpace.TENSOR and effect.mode is ev.Mode.READ
    ]  # fmt: skip
    assert read == [
        *((cta, 128, base + 256, 4) for cta in ctas),
        *((cta, 128, base + 260, columns // 32) for cta in ctas),
    ]
    halves = [
        sum(high - low for low, high in effect.footprint.ranges()) for effect in product.effects
        if effect.footprint.space is MemorySpace.SHARED
    ]  # fmt: skip
    # both units of 16 bytes of a row lie at one place
    assert halves == [128 * 16] * group + [columns // group * 16] * group
