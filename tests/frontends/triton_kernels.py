"""Kernels for the tests of what Triton writes; to be imported only where Triton is installed.

`ring_gemm` is a warp-specialised GEMM for Hopper by hand, with faults to be planted by number.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import tma as tma_blackwell
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

FAULTS = {
    0: "none",
    1: "the producer does not wait for a free stage",
    2: "the producer waits for the other phase",
    3: "the stage is given back before the product is done",
    4: "half of the bytes are expected",
    5: "the consumer leaves a tile out",
    6: "nobody gives stages back",
}


@gluon.jit
def _produce(a, b, full, free, a_tiles, b_tiles, row, column, tiles, FAULT: gl.constexpr):
    depth: gl.constexpr = a_tiles.type.shape[0]
    for t in range(tiles):
        stage = t % depth
        turn = (t // depth) & 1
        if FAULT == 2:
            mbarrier.wait(free.index(stage), turn)
        elif FAULT != 1:
            mbarrier.wait(free.index(stage), turn ^ 1)
        ready = full.index(stage)
        whole: gl.constexpr = a.nbytes_per_cta + b.nbytes_per_cta
        mbarrier.expect(ready, whole // 2 if FAULT == 4 else whole)
        tma.async_load(a, [row, t * a.block_type.shape[1]], ready, a_tiles.index(stage))
        tma.async_load(b, [column, t * b.block_type.shape[1]], ready, b_tiles.index(stage))


@gluon.jit
def _consume(c, full, free, a_tiles, b_tiles, c_tile, row, column, tiles, FAULT: gl.constexpr):
    depth: gl.constexpr = a_tiles.type.shape[0]
    rows: gl.constexpr = c_tile.type.shape[0]
    columns: gl.constexpr = c_tile.type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 16]
    )
    total = gl.zeros((rows, columns), dtype=gl.float32, layout=layout)
    if FAULT == 5:
        tiles = tiles - 1
    for t in range(tiles):
        stage = t % depth
        mbarrier.wait(full.index(stage), (t // depth) & 1)
        right = b_tiles.index(stage).permute((1, 0))
        total = warpgroup_mma(a_tiles.index(stage), right, total, is_async=True)
        if FAULT == 3:
            mbarrier.arrive(free.index(stage), count=1)
        total = warpgroup_mma_wait(0, deps=(total,))
        if FAULT != 3 and FAULT != 6:  # noqa: PLR1714
            mbarrier.arrive(free.index(stage), count=1)
    c_tile.store(total.to(gl.float16))
    fence_async_shared()
    tma.async_store(c, [row, column], c_tile)
    tma.store_wait(0)


@gluon.jit
def ring_gemm(a, b, c, n, k, DEPTH: gl.constexpr, FAULT: gl.constexpr):
    """c = a @ b.T, one tile a CTA."""
    rows: gl.constexpr = a.block_type.shape[0]
    inner: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[0]
    a_tiles = gl.allocate_shared_memory(gl.float16, [DEPTH, rows, inner], a.layout)
    b_tiles = gl.allocate_shared_memory(gl.float16, [DEPTH, columns, inner], b.layout)
    c_tile = gl.allocate_shared_memory(gl.float16, [rows, columns], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(DEPTH):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(free.index(stage), count=1)
    across = gl.cdiv(n, columns)
    place = gl.program_id(0)
    row = place // across * rows
    column = place % across * columns
    tiles = gl.cdiv(k, inner)
    gl.warp_specialize(
        [
            (_consume, (c, full, free, a_tiles, b_tiles, c_tile, row, column, tiles, FAULT)),
            (_produce, (a, b, full, free, a_tiles, b_tiles, row, column, tiles, FAULT)),
        ],
        [1],
        [24],
    )


@triton.jit
def pipelined_gemm(
    a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
    SPECIALISED: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """c = a @ b.T by tensor descriptors; Triton makes the pipeline."""
    across = tl.cdiv(n, COLUMNS)
    place = tl.program_id(0)
    row = place // across * ROWS
    column = place % across * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for at in tl.range(0, k, INNER, warp_specialize=SPECIALISED, num_stages=STAGES):
        total = tl.dot(a.load([row, at]), b.load([column, at]).T, total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def attention(
    q, k, v, o, keys, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    SPECIALISED: tl.constexpr,
):  # fmt: skip
    """Softmax of q @ k.T, times v, over one block of queries."""
    row = tl.program_id(0) * ROWS
    queries = q.load([row, 0])
    largest = tl.full([ROWS], float("-inf"), dtype=tl.float32)
    weight = tl.zeros([ROWS], dtype=tl.float32)
    total = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    for at in tl.range(0, keys, COLUMNS, warp_specialize=SPECIALISED):
        scores = tl.dot(queries, k.load([at, 0]).T) * scale
        new = tl.maximum(largest, tl.max(scores, 1))
        parts = tl.math.exp2(scores - new[:, None])
        shrink = tl.math.exp2(largest - new)
        weight = weight * shrink + tl.sum(parts, 1)
        total = tl.dot(parts.to(tl.float16), v.load([at, 0]), total * shrink[:, None])
        largest = new
    o.store([row, 0], (total / weight[:, None]).to(tl.float16))


@triton.jit
def described_copy(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A copy by descriptors that the kernel makes."""
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        target.store([first, 0], source.load([first, 0]) * 2)


@gluon.jit
def load_pixels(x, out, down: gl.constexpr, right: gl.constexpr):
    """An im2col copy of one filter offset."""
    tile = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    ready = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    mbarrier.expect(ready, x.block_type.nbytes)
    tma.async_load_im2col(x, [0, -1, -1, 0], [down, right], ready, tile)
    mbarrier.wait(ready, phase=0)
    mbarrier.invalidate(ready)
    tma.async_store(out, [0, 0], tile)
    tma.store_wait(pendings=0)


@gluon.jit
def gather_rows(x, numbers, out, ROWS: gl.constexpr):
    """Rows whose numbers lie in memory, by a gathering copy."""
    columns: gl.constexpr = x.block_type.shape[1]
    coalesced: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    wanted: gl.constexpr = gl.SliceLayout(
        0, gl.BlockedLayout([1, 4], [32, 1], [1, gl.num_warps()], [1, 0])
    )
    rows = gl.convert_layout(gl.load(numbers + gl.arange(0, ROWS, coalesced)), wanted)
    tile = gl.allocate_shared_memory(x.dtype, [ROWS, columns], x.layout)
    ready = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    mbarrier.expect(ready, ROWS * x.block_type.nbytes)
    tma_blackwell.async_gather(x, rows, 0, barrier=ready, result=tile)
    mbarrier.wait(ready, phase=0)
    mbarrier.invalidate(ready)
    tma.async_store(out, [0, 0], tile)
    tma.store_wait(pendings=0)


@triton.jit
def same_place(out, BLOCK: tl.constexpr):
    """Each program stores its number to the same places."""
    tl.store(out + tl.arange(0, BLOCK), tl.program_id(0).to(tl.float32))
