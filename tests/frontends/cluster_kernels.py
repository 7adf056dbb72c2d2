"""Gluon kernels of several CTAs for the tests; to be imported only where Triton is installed.

`two_cta_gemm` is a GEMM whose tensor cores work for pairs of CTAs; `multicast_rows` hands a tile to
all CTAs of a cluster, which meet before the next one.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
)
from triton.experimental.gluon.language.nvidia.hopper import (
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
)


@gluon.jit
def _load(a, b, full, free, a_tiles, b_tiles, tiles):
    depth: gl.constexpr = a_tiles.type.shape[0]
    inner: gl.constexpr = a.block_type.shape[1]
    for t in range(tiles):
        stage = t % depth
        mbarrier.wait(free.index(stage), (t // depth) & 1 ^ 1)
        ready = full.index(stage)
        mbarrier.expect(ready, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [0, t * inner], ready, a_tiles.index(stage), multicast=True)
        tma.async_load(b, [t * inner, 0], ready, b_tiles.index(stage), multicast=True)
    for t in range(tiles, tiles + depth):  # nobody leaves while a commit may still arrive here
        mbarrier.wait(free.index(t % depth), (t // depth) & 1 ^ 1)


@gluon.jit
def _multiply(full, free, done, a_tiles, b_tiles, total, tiles):
    depth: gl.constexpr = a_tiles.type.shape[0]
    use = False
    for t in range(tiles):
        stage = t % depth
        mbarrier.wait(full.index(stage), (t // depth) & 1)
        tcgen05_mma(
            a_tiles.index(stage),
            b_tiles.index(stage),
            total,
            use_acc=use,
            multicast=True,
            mbarriers=[free.index(stage)],
        )
        use = True
    tcgen05_commit(done, descs=[a_tiles.index(0), b_tiles.index(0)])


@gluon.jit
def _store(c, done, total):
    mbarrier.wait(done, 0)
    tile = gl.allocate_shared_memory(gl.float16, c.block_type.shape, c.layout)
    tile.store(total.load().to(gl.float16))
    fence_async_shared()
    tma.async_store(c, [0, 0], tile)
    tma.store_wait(0)


@gluon.jit
def two_cta_gemm(a, b, c, k, DEPTH: gl.constexpr, LAYOUT: gl.constexpr):
    """c = a @ b, one tile a cluster; `LAYOUT` says how CTAs share it."""
    # Gluon adds lists; it has no unpacking.
    a_shape: gl.constexpr = [DEPTH] + a.block_type.shape  # noqa: RUF005
    b_shape: gl.constexpr = [DEPTH] + b.block_type.shape  # noqa: RUF005
    a_tiles = gl.allocate_shared_memory(gl.float16, a_shape, a.layout)
    b_tiles = gl.allocate_shared_memory(gl.float16, b_shape, b.layout)
    free = mbarrier.allocate_mbarrier(batch=DEPTH)
    full = mbarrier.allocate_mbarrier(batch=DEPTH, two_ctas=True)
    commits: gl.constexpr = tcgen05_mma_barrier_count(
        [a_tiles.index(0), b_tiles.index(0)], multicast=True, two_ctas=True
    )
    for stage in gl.static_range(DEPTH):
        mbarrier.init(free.index(stage), count=commits)
        mbarrier.init(full.index(stage), count=1)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=commits)
    block: gl.constexpr = [128, c.block_type.shape[1]]
    layout: gl.constexpr = TensorMemoryLayout(block, col_stride=1, cga_layout=LAYOUT, two_ctas=True)
    total = allocate_tensor_memory(gl.float32, c.block_type.shape, layout)
    tiles = gl.cdiv(k, a.block_type.shape[1])
    gl.warp_specialize(
        [
            (_store, (c, done, total)),
            (_load, (a, b, full, free, a_tiles, b_tiles, tiles)),
            (_multiply, (full, free, done, a_tiles, b_tiles, total, tiles)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def routed_arrival(a, KEPT: gl.constexpr):
    """Every CTA waits for the arrival of the CTA whose rank has the same bits of `KEPT` alone."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.arrive(bar, count=1, from_cta=KEPT)
    mbarrier.wait(bar, 0)


@gluon.jit
def multicast_rows(a, c, k):
    """Every CTA adds the tiles of a row that one of them copies to all."""
    tile = gl.allocate_shared_memory(gl.float16, a.block_type.shape, a.layout)
    out = gl.allocate_shared_memory(gl.float16, c.block_type.shape, c.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 0]])
    total = gl.zeros(a.block_type.shape, gl.float32, layout)
    for t in range(gl.cdiv(k, a.block_type.shape[1])):
        mbarrier.expect(full, a.nbytes_per_cta)
        tma.async_load(a, [0, t * a.block_type.shape[1]], full, tile, multicast=True)
        mbarrier.wait(full, t & 1)
        total += tile.load(layout).to(gl.float32)
        cluster.barrier()
    out.store(total.to(gl.float16))
    fence_async_shared()
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)
