"""Small kernels in PTX with numbers: fragments, copies, atomics, what stays unknown."""

from __future__ import annotations

import numpy as np
import pytest

from tests.isa.simt.running import REGISTERS
from titan.isa.numbers.device import EmulatedDevice, LaunchError, LaunchShape, TiledMap

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str) -> str:
    given = ", ".join(f".param {item}" for item in parameters.split(", "))
    return f"{HEAD}.visible .entry k({given})\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"


def one(body: str, parameters: str, arguments, *, block: int = 32, shared: int = 0, device=None):
    device = device or EmulatedDevice()
    shape = LaunchShape((1, 1, 1), (block, 1, 1), dynamic_shared_bytes=shared)
    return device.launch(kernel(body, parameters), shape, arguments)


def test_vectors_are_added():
    device, random = EmulatedDevice(), np.random.default_rng(0)
    x, y = (random.standard_normal(64).astype(np.float32) for _ in range(2))
    a, b, c = device.array(x), device.array(y), device.array(np.zeros(64, np.float32))
    body = """
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [z];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 4;
    add.s64 %d1, %d1, %d4; add.s64 %d2, %d2, %d4; add.s64 %d3, %d3, %d4;
    ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2];
    fma.rn.f32 %f3, %f1, %f2, %f1; st.global.f32 [%d3], %f3;
    """
    device.launch(
        kernel(body, ".u64 x, .u64 y, .u64 z"), LaunchShape((1, 1, 1), (64, 1, 1)), [a, b, c]
    )
    assert np.array_equal(c.values, (x.astype(np.float64) * y + x).astype(np.float32))


MMA = """
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
mov.u32 %r1, %tid.x;
mov.u32 %r20, tile;
shl.b32 %r2, %r1, 4; add.s32 %r2, %r2, %r20; mul.wide.u32 %d4, %r1, 16;
add.s64 %d5, %d1, %d4; ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%d5];
st.shared.v4.b32 [%r2], {%r3, %r4, %r5, %r6};
add.s64 %d6, %d2, %d4; setp.lt.u32 %p1, %r1, 16;
@%p1 ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%d6];
@%p1 st.shared.v4.b32 [%r2+512], {%r3, %r4, %r5, %r6};
bar.warp.sync -1;
and.b32 %r7, %r1, 15; shl.b32 %r7, %r7, 5; shr.u32 %r8, %r1, 4; shl.b32 %r8, %r8, 4;
add.s32 %r7, %r7, %r8; add.s32 %r7, %r7, %r20;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];
and.b32 %r9, %r1, 7; shl.b32 %r9, %r9, 5; shr.u32 %r8, %r1, 3; and.b32 %r8, %r8, 1;
shl.b32 %r8, %r8, 4; add.s32 %r9, %r9, %r8; add.s32 %r9, %r9, %r20;
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r14, %r15}, [%r9+512];
mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000; mov.f32 %f3, 0f3F800000; mov.f32 %f4, 0f3F800000;
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f5, %f6, %f7, %f8},
    {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f1, %f2, %f3, %f4};
shr.u32 %r16, %r1, 2; and.b32 %r17, %r1, 3; shl.b32 %r16, %r16, 5; shl.b32 %r17, %r17, 3;
add.s32 %r16, %r16, %r17; cvt.u64.u32 %d7, %r16; add.s64 %d7, %d7, %d3;
st.global.v2.f32 [%d7], {%f5, %f6}; st.global.v2.f32 [%d7+256], {%f7, %f8};
"""


def bf16(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_ldmatrix_and_mma_multiply_matrices():
    device, random = EmulatedDevice(), np.random.default_rng(1)
    x, y = (random.integers(-8, 9, size=size) / 4 for size in ((16, 16), (8, 16)))
    a, b = device.array(bf16(x)), device.array(bf16(y))
    c = device.array(np.full((16, 8), np.nan, np.float32))
    body = ".shared .align 16 .b8 tile[768];\n" + MMA
    one(body, ".u64 a, .u64 b, .u64 c", [a, b, c], device=device)
    assert np.array_equal(c.values, (x @ y.T + 1).astype(np.float32))


@pytest.mark.parametrize("transposed", [False, True], ids=["as it is", "transposed"])
def test_stmatrix_stores_what_ldmatrix_loads(transposed):
    device = EmulatedDevice()
    x = np.arange(64, dtype=np.uint16).reshape(8, 8)
    a, b = device.array(x), device.array(np.zeros((8, 8), np.uint16))
    word = ".trans" if transposed else ""
    body = f"""
    .shared .align 16 .b8 tile[256];
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];
    mov.u32 %r1, %tid.x; mov.u32 %r20, tile; and.b32 %r2, %r1, 7; shl.b32 %r2, %r2, 4;
    cvt.u64.u32 %d3, %r2; add.s64 %d4, %d1, %d3; add.s32 %r2, %r2, %r20; setp.lt.u32 %p1, %r1, 8;
    @%p1 ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%d4];
    @%p1 st.shared.v4.b32 [%r2], {{%r3, %r4, %r5, %r6}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x1{word}.shared.b16 {{%r7}}, [%r2];
    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2+128], {{%r7}};
    bar.warp.sync -1;
    @%p1 ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2+128];
    add.s64 %d5, %d2, %d3;
    @%p1 st.global.v4.b32 [%d5], {{%r3, %r4, %r5, %r6}};
    """
    one(body, ".u64 a, .u64 b", [a, b], device=device)
    assert np.array_equal(b.values, x.T if transposed else x)


def test_copies_of_lanes_fill_with_zeros_what_they_do_not_read():
    device = EmulatedDevice()
    a = device.array(np.arange(1, 129, dtype=np.uint32))
    b = device.array(np.zeros(128, np.uint32))
    body = """
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];
    mov.u32 %r1, %tid.x; mov.u32 %r20, tile; shl.b32 %r2, %r1, 4; cvt.u64.u32 %d3, %r2;
    add.s64 %d4, %d1, %d3; add.s32 %r2, %r2, %r20; and.b32 %r3, %r1, 3; shl.b32 %r3, %r3, 2;
    cp.async.cg.shared.global [%r2], [%d4], 16, %r3;
    cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
    ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2]; add.s64 %d5, %d2, %d3;
    st.global.v4.b32 [%d5], {%r4, %r5, %r6, %r7};
    """
    one(body, ".u64 a, .u64 b", [a, b], device=device)
    wanted = np.arange(1, 129, dtype=np.uint32).reshape(32, 4)
    for lane in range(32):
        wanted[lane, lane % 4 :] = 0
    assert np.array_equal(b.values, wanted.ravel())


def test_sums_of_atomics_count_every_lane():
    device = EmulatedDevice()
    total = device.array(np.array([0.5], np.float32))
    body = """
    ld.param.u64 %d1, [x]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1;
    red.global.add.f32 [%d1], %f1;
    """
    one(body, ".u64 x", [total], block=64, device=device)
    assert total.values[0] == 0.5 + sum(range(64))


TILE = """
.shared .align 1024 .b8 tile[4096];
.shared .align 8 .b8 full[8];
mov.u32 %r20, tile; mov.u32 %r21, full; mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 0;
@!%p1 bra DONE;
mbarrier.init.shared::cta.b64 [%r21], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 2048;
ld.param.u32 %r2, [x]; ld.param.u32 %r3, [y];
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
    [%r20], [a, {%r2, %r3}], [%r21];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r21], 0;
@!%p2 bra WAIT;
max.s32 %r2, %r2, 0; max.s32 %r3, %r3, 0;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [b, {%r2, %r3}], [%r20];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:
"""


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("place", [(0, 0), (16, 8), (40, 30), (-8, -3)])
def test_boxes_go_round_and_stop_at_the_edge_of_the_tensor(swizzle, place):
    device = EmulatedDevice()
    rows, columns, wide = 40, 64, {"none": 64, "32B": 16, "64B": 32, "128B": 64}[swizzle]
    x = np.arange(rows * columns, dtype=np.uint16).reshape(rows, columns)
    a, b = device.array(x), device.array(np.full_like(x, 7))
    box = (wide, 1024 // wide)
    maps = [TiledMap(item, "u16", (columns, rows), (2 * columns,), box, swizzle) for item in (a, b)]
    parameters = ".align 64 .b8 a[128], .align 64 .b8 b[128], .u32 x, .u32 y"
    device.launch(kernel(TILE, parameters), LaunchShape((1, 1, 1), (32, 1, 1)), [*maps, *place])
    around = np.zeros((rows + 2 * box[1], columns + 2 * wide), np.uint16)  # zeros outside
    around[box[1] : box[1] + rows, wide : wide + columns] = x
    loaded = around[place[1] + box[1] :, place[0] + wide :][: box[1], :wide]
    wanted = np.full_like(x, 7)
    inside = wanted[max(place[1], 0) :, max(place[0], 0) :][: box[1], :wide]
    inside[...] = loaded[: inside.shape[0], : inside.shape[1]]
    assert np.array_equal(b.values, wanted)


def test_a_box_is_stored_within_its_tensor():
    device = EmulatedDevice()
    x = np.zeros((40, 64), np.uint16)
    a, b = device.array(x), device.array(x)
    maps = [TiledMap(item, "u16", (64, 40), (128,), (64, 16), "none") for item in (a, b)]
    parameters = ".align 64 .b8 a[128], .align 64 .b8 b[128], .u32 x, .u32 y"
    body = TILE.replace("max.s32 %r2, %r2, 0;", "")
    with pytest.raises(LaunchError, match="memory that it must not"):
        shape = LaunchShape((1, 1, 1), (32, 1, 1))
        device.launch(kernel(body, parameters), shape, [*maps, -8, 0])


def test_what_is_not_computed_is_said_and_not_made_up():
    device = EmulatedDevice()
    out = device.array(np.zeros(32, np.uint32))
    body = """
    ld.param.u64 %d1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
    mov.u32 %r2, %smid; st.global.u32 [%d1], %r2;
    """
    with pytest.raises(LaunchError, match=r"128 of 128 bytes .* are not known"):
        one(body, ".u64 x", [out], device=device)


def test_a_hang_and_wrong_arguments_are_told():
    with pytest.raises(LaunchError, match="1 arguments for 2 parameters"):
        one("", ".u64 x, .u64 y", [1])
    body = """
    .shared .align 8 .b8 full[8];
    mov.u32 %r21, full; mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r21], 2;
    bar.warp.sync -1;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r21], 0;
    @!%p2 bra WAIT;
    """
    with pytest.raises(LaunchError, match="no warp can proceed"):
        one(body, ".u64 x", [1])


def test_the_half_that_nothing_writes_does_not_spoil_the_other():
    """As compilers emit it: %f9 is written by no instruction."""
    device = EmulatedDevice()
    out = device.array(np.zeros(32, np.uint32))
    body = """
    ld.param.u64 %d1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
    cvt.rn.f32.u32 %f1, %r1; cvt.rn.f16x2.f32 %r2, %f9, %f1; and.b32 %r2, %r2, 0xFFFF;
    st.global.u32 [%d1], %r2;
    """
    one(body, ".u64 x", [out], device=device)
    assert np.array_equal(out.values.view(np.float16)[::2], np.arange(32, dtype=np.float16))
