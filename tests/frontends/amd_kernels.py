"""Triton and Gluon kernels for AMD GPUs; to be imported only where Triton is installed."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def pointer_gemm(
    a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr
):  # fmt: skip
    """c = a @ b by pointers; Triton makes the pipeline, and the halves that alternate."""
    across = tl.cdiv(n, COLUMNS)
    place = tl.program_id(0)
    rows = place // across * ROWS + tl.arange(0, ROWS)
    columns = place % across * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, INNER)
    left = a + (rows % m)[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + (columns % n)[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, k, INNER):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += INNER
        right += INNER * n
    whole = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=whole)


@gluon.jit
def staged_sum(a, c, k, STAGES: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Sums the tiles of a row in two stages of a warp pipeline.

    With three stages of memory no half of the waves stores what the other half reads.
    """
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [8, 8], [8, 1], [1, 0])
    other: gl.constexpr = gl.BlockedLayout([1, 8], [8, 8], [1, 8], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    columns = gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))
    place = a + rows[:, None] * k + columns[None, :]
    ring = gl.allocate_shared_memory(gl.float16, [STAGES, ROWS, COLUMNS], shared)
    total = gl.zeros((ROWS, COLUMNS), gl.float32, other)
    for t in gl.static_range(STAGES - 1):
        ring.index(t).store(gl.load(place + t * COLUMNS))
    for t in range(gl.cdiv(k, COLUMNS)):
        with gl.amd.warp_pipeline_stage("load"):
            tile = gl.load(place + (t + STAGES - 1) * COLUMNS)
            part = ring.index(t % STAGES).load(other)
        with gl.amd.warp_pipeline_stage("store"):
            total += part.to(gl.float32)
            ring.index((t + STAGES - 1) % STAGES).store(tile)
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, other))
    columns = gl.arange(0, COLUMNS, gl.SliceLayout(0, other))
    gl.store(c + rows[:, None] * COLUMNS + columns[None, :], total.to(gl.float16))
