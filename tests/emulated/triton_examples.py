"""Kernels of the kinds that Triton's tutorials have, written anew, with what is right in NumPy.

Each example takes a random generator and gives (got, right). Small: some CTAs of a few warps.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(x, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, stride_a, stride_b, stride_c,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, INNER)
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, k, INNER):
        at = first + inner
        left = tl.load(
            a + rows[:, None] * stride_a + at[None, :],
            mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0,
        )  # fmt: skip
        right = tl.load(
            b + at[:, None] * stride_b + columns[None, :],
            mask=(at[:, None] < k) & (columns[None, :] < n), other=0.0,
        )  # fmt: skip
        sums = tl.dot(left, right, sums)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * stride_c + columns[None, :], sums.to(tl.float16), mask=inside)


@triton.jit
def layer_norm_kernel(x, out, weight, bias, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    away = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(away * away, axis=0) / columns + epsilon)
    scaled = away * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, scaled, mask=inside)


@triton.jit
def attention_kernel(
    q, k, v, out, queries, keys, scale,
    HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    head = tl.arange(0, HEAD)
    left = tl.load(
        q + rows[:, None] * HEAD + head[None, :], mask=rows[:, None] < queries, other=0.0
    )
    largest = tl.full((ROWS,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    sums = tl.zeros((ROWS, HEAD), dtype=tl.float32)
    for first in range(0, keys, COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        inside = at[:, None] < keys
        right = tl.load(k + at[:, None] * HEAD + head[None, :], mask=inside, other=0.0)
        scores = tl.dot(left, tl.trans(right)) * scale
        scores = tl.where(at[None, :] < keys, scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        powers = tl.exp(scores - larger[:, None])
        shrink = tl.exp(largest - larger)
        total = total * shrink + tl.sum(powers, axis=1)
        values = tl.load(v + at[:, None] * HEAD + head[None, :], mask=inside, other=0.0)
        sums = tl.dot(powers.to(tl.float16), values, sums * shrink[:, None])
        largest = larger
    tl.store(
        out + rows[:, None] * HEAD + head[None, :], (sums / total[:, None]).to(tl.float16),
        mask=rows[:, None] < queries,
    )  # fmt: skip


@triton.jit
def persistent_matmul_kernel(
    a, b, c, m, n, k,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Full tiles only; each program takes every PROGRAMS-th tile."""
    across = n // COLUMNS
    for tile in tl.range(tl.program_id(0), (m // ROWS) * across, PROGRAMS):
        rows = tile // across * ROWS + tl.arange(0, ROWS)
        columns = tile % across * COLUMNS + tl.arange(0, COLUMNS)
        sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for first in range(0, k, INNER):
            inner = first + tl.arange(0, INNER)
            left = tl.load(a + rows[:, None] * k + inner[None, :])
            right = tl.load(b + inner[:, None] * n + columns[None, :])
            sums = tl.dot(left, right, sums)
        tl.store(c + rows[:, None] * n + columns[None, :], sums.to(tl.float16))


@triton.jit
def attention_backward_kernel(
    q, k, v, grad, norms, deltas, dq, dk, dv, queries, scale,
    HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One block of keys: its dk and dv whole; its part of dq is added. `norms`: log of the sums."""
    head = tl.arange(0, HEAD)
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    keys = tl.load(k + at[:, None] * HEAD + head[None, :])
    values = tl.load(v + at[:, None] * HEAD + head[None, :])
    sum_k = tl.zeros((COLUMNS, HEAD), dtype=tl.float32)
    sum_v = tl.zeros((COLUMNS, HEAD), dtype=tl.float32)
    for first in range(0, queries, ROWS):
        rows = first + tl.arange(0, ROWS)
        place = rows[:, None] * HEAD + head[None, :]
        left = tl.load(q + place)
        upper = tl.load(grad + place)
        scores = tl.dot(left, tl.trans(keys)) * scale
        weights = tl.exp(scores - tl.load(norms + rows)[:, None])
        sum_v = tl.dot(tl.trans(weights.to(tl.float16)), upper, sum_v)
        changes = tl.dot(upper, tl.trans(values)) - tl.load(deltas + rows)[:, None]
        changes = (weights * changes * scale).to(tl.float16)
        sum_k = tl.dot(tl.trans(changes), left, sum_k)
        tl.atomic_add(dq + place, tl.dot(changes, keys))
    tl.store(dk + at[:, None] * HEAD + head[None, :], sum_k)
    tl.store(dv + at[:, None] * HEAD + head[None, :], sum_v)


Pair = tuple[np.ndarray, np.ndarray]


def vector_add(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """300 numbers in CTAs of 128."""
    x, y = (random.standard_normal(300).astype(np.float32) for _ in range(2))
    out = np.zeros_like(x)
    add_kernel[(3,)](wrap(x), wrap(y), wrap(out), 300, BLOCK=128)
    return out, x + y


def softmax(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """Three rows of 100 numbers."""
    x = random.standard_normal((3, 100)).astype(np.float32)
    out = np.zeros_like(x)
    softmax_kernel[(3,)](wrap(x), wrap(out), 100, 100, BLOCK=128)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return out, powers / powers.sum(axis=1, keepdims=True)


def softmax_in_place(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """Three rows of 60 numbers, in blocks of half as many elements as threads: two do the same."""
    x = random.standard_normal((3, 60)).astype(np.float32)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    softmax_kernel[(3,)](wrap(x), wrap(x), 60, 60, BLOCK=64)
    return x, powers / powers.sum(axis=1, keepdims=True)


def matmul(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """64 x 48 by 48 x 64 in f16, tiles of 64 x 64 x 32, the last one ragged."""
    a = random.standard_normal((64, 48)).astype(np.float16)
    b = random.standard_normal((48, 64)).astype(np.float16)
    c = np.zeros((64, 64), dtype=np.float16)
    matmul_kernel[(1, 1)](
        wrap(a), wrap(b), wrap(c), 64, 64, 48, 48, 64, 64, ROWS=64, COLUMNS=64, INNER=32
    )
    return c, a.astype(np.float32) @ b.astype(np.float32)


def layer_norm(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """Two rows of 100 numbers."""
    x = random.standard_normal((2, 100)).astype(np.float32)
    weight, bias = (random.standard_normal(100).astype(np.float32) for _ in range(2))
    out = np.zeros_like(x)
    layer_norm_kernel[(2,)](wrap(x), wrap(out), wrap(weight), wrap(bias), 100, 1e-5, BLOCK=128)
    away = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((away * away).mean(axis=1, keepdims=True) + 1e-5)
    return out, away * scale * weight + bias


def attention(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """40 queries and 72 keys of one head of 32."""
    q, k, v = (random.standard_normal((rows, 32)).astype(np.float16) for rows in (40, 72, 72))
    out = np.zeros((40, 32), dtype=np.float16)
    scale = 32**-0.5
    attention_kernel[(1,)](
        wrap(q), wrap(k), wrap(v), wrap(out), 40, 72, scale, HEAD=32, ROWS=64, COLUMNS=32
    )
    scores = q.astype(np.float32) @ k.astype(np.float32).T * scale
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return out, powers / powers.sum(axis=1, keepdims=True) @ v.astype(np.float32)


def persistent_matmul(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """Six tiles of 64 x 64 for two programs."""
    a = random.standard_normal((128, 64)).astype(np.float16)
    b = random.standard_normal((64, 192)).astype(np.float16)
    c = np.zeros((128, 192), dtype=np.float16)
    persistent_matmul_kernel[(2,)](
        wrap(a), wrap(b), wrap(c), 128, 192, 64, ROWS=64, COLUMNS=64, INNER=32, PROGRAMS=2
    )
    return c, a.astype(np.float32) @ b.astype(np.float32)


def attention_backward_32(random: np.random.Generator, wrap=lambda array: array) -> Pair:
    """The same in blocks of 32 by 32, of which several warps compute the same parts."""
    return attention_backward(random, wrap, 32)


def attention_backward(
    random: np.random.Generator, wrap=lambda array: array, block: int = 64
) -> Pair:
    """64 queries and 128 keys of one head of 32; dq, dk and dv one below the other."""
    q, grad, k, v = (
        random.standard_normal((rows, 32)).astype(np.float16) for rows in (64, 64, 128, 128)
    )
    scale = np.float32(32**-0.5)
    wide = [array.astype(np.float32) for array in (q, k, v, grad)]
    scores = wide[0] @ wide[1].T * scale
    norms = np.log(np.exp(scores).sum(axis=1))
    weights = np.exp(scores - norms[:, None])
    deltas = (wide[3] * (weights @ wide[2])).sum(axis=1)
    changes = weights * (wide[3] @ wide[2].T - deltas[:, None]) * scale
    right = (changes @ wide[1], changes.T @ wide[0], weights.T @ wide[3])
    got = [np.zeros(array.shape, dtype=np.float32) for array in right]
    attention_backward_kernel[(128 // block,)](
        *map(wrap, (q, k, v, grad, norms, deltas, *got)), 64, float(scale),
        HEAD=32, ROWS=block, COLUMNS=block,
    )  # fmt: skip
    return np.concatenate(got), np.concatenate(right)


EXAMPLES = {
    "vector_add": (vector_add, 0.0),
    "softmax": (softmax, 1e-6),
    "softmax_in_place": (softmax_in_place, 1e-6),
    "layer_norm": (layer_norm, 1e-5),
    "matmul": (matmul, 0.02),
    "attention": (attention, 5e-3),
    "attention_backward": (attention_backward, 2e-2),
    "attention_backward_32": (attention_backward_32, 2e-2),
    "persistent_matmul": (persistent_matmul, 0.02),
}
