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


EXAMPLES = {
    "vector_add": (vector_add, 0.0),
    "softmax": (softmax, 1e-6),
    "layer_norm": (layer_norm, 1e-5),
    "matmul": (matmul, 0.02),
    "attention": (attention, 5e-3),
}
