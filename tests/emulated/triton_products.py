"""Kernels of Triton that multiply matrices of every type, with what is right in NumPy.

As in `triton_examples`: each example takes a random generator and gives (got, right).
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from tests.emulated.triton_kinds import Pair, Wrap, plain, run


@triton.jit
def product_kernel(
    a, b, c, KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """One tile; KIND: 0 as stored, 1 fp8 stored as bytes, 2 bf16 stored as words."""
    rows, columns, inner = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, INNER)
    left = tl.load(a + rows[:, None] * INNER + inner[None, :])
    right = tl.load(b + columns[None, :] * INNER + inner[:, None])
    if KIND == 1:
        left = left.to(tl.float8e4nv, bitcast=True)
        right = right.to(tl.float8e4nv, bitcast=True)
    if KIND == 2:
        left, right = left.to(tl.bfloat16, bitcast=True), right.to(tl.bfloat16, bitcast=True)
    tl.store(c + rows[:, None] * COLUMNS + columns[None, :], tl.dot(left, right))


def product(a: np.ndarray, b: np.ndarray, kind: int, wrap: Wrap) -> np.ndarray:
    whole = a.dtype == np.int8
    c = np.zeros((len(a), len(b)), dtype=np.int32 if whole else np.float32)
    shape = {"ROWS": len(a), "COLUMNS": len(b), "INNER": a.shape[1]}
    run(product_kernel, (1,), [a, b, c], wrap, KIND=kind, **shape)
    return c


def int8_product(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    a, b = (random.integers(-128, 128, (64, 64)).astype(np.int8) for _ in range(2))
    return product(a, b, 0, wrap), a.astype(np.int64) @ b.astype(np.int64).T


def tf32_product(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    a, b = (random.integers(-99, 99, (64, 32)).astype(np.float32) for _ in range(2))
    return product(a, b, 0, wrap), a @ b.T


def fp8_product(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    a, b = (random.integers(0, 16, (64, 64)).astype(np.float32) - 8 for _ in range(2))
    stored = [e4m3(x) for x in (a, b)]
    return product(*stored, 1, wrap), a @ b.T


def e4m3(x: np.ndarray) -> np.ndarray:
    """The bytes of small integers."""
    significand, exponent = np.frexp(np.abs(x))
    bits = ((exponent + 6) * 8 + (significand * 16 - 8)).astype(np.uint8)
    return np.where(x == 0, 0, bits | np.where(x < 0, 128, 0)).astype(np.uint8)


def bf16_product(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    a, b = (random.integers(-99, 99, (64, 64)).astype(np.float32) for _ in range(2))
    stored = [(x.view(np.uint32) >> 16).astype(np.int16) for x in (a, b)]
    return product(*stored, 2, wrap), a @ b.T


@triton.jit
def batched_kernel(a, b, c, COUNT: tl.constexpr, SIZE: tl.constexpr):
    one, two = tl.arange(0, COUNT)[:, None, None], tl.arange(0, SIZE)
    at = one * SIZE * SIZE + two[None, :, None] * SIZE + two[None, None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


def batched_product(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    a, b = (random.integers(-4, 5, (4, 16, 16)).astype(np.float16) for _ in range(2))
    c = np.zeros((4, 16, 16), dtype=np.float32)
    run(batched_kernel, (1,), [a, b, c], wrap, COUNT=4, SIZE=16)
    return c, a.astype(np.float32) @ b.astype(np.float32)


@triton.jit
def split_kernel(a, b, c, k, SIZE: tl.constexpr, INNER: tl.constexpr):
    rows, part = tl.arange(0, SIZE), tl.program_id(0)
    sums = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for first in range(part * INNER, k, INNER * tl.num_programs(0)):
        inner = first + tl.arange(0, INNER)
        left = tl.load(a + rows[:, None] * k + inner[None, :])
        right = tl.load(b + rows[None, :] * k + inner[:, None])
        sums = tl.dot(left, right, sums)
    tl.atomic_add(c + rows[:, None] * SIZE + rows[None, :], sums)


def split_k(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    a, b = (random.integers(-4, 5, (64, 160)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), dtype=np.float32)
    run(split_kernel, (3,), [a, b, c], wrap, 160, SIZE=64, INNER=32)
    return c, a.astype(np.float32) @ b.astype(np.float32).T


@triton.jit
def grouped_kernel(
    a, b, c, sizes, GROUPS: tl.constexpr, TILE: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Products of several sizes, whose matrices lie one behind the other; tiles go round."""
    tile, before = tl.program_id(0), 0
    a_at, b_at, c_at = 0, 0, 0
    for group in range(GROUPS):
        m, n = tl.load(sizes + 3 * group), tl.load(sizes + 3 * group + 1)
        k = tl.load(sizes + 3 * group + 2)
        across = n // TILE
        tiles = (m // TILE) * across
        while tile < before + tiles:
            rows = (tile - before) // across * TILE + tl.arange(0, TILE)
            columns = (tile - before) % across * TILE + tl.arange(0, TILE)
            sums = tl.zeros((TILE, TILE), dtype=tl.float32)
            for first in range(0, k, INNER):
                inner = first + tl.arange(0, INNER)
                left = tl.load(a + a_at + rows[:, None] * k + inner[None, :])
                right = tl.load(b + b_at + columns[None, :] * k + inner[:, None])
                sums = tl.dot(left, right, sums)
            tl.store(c + c_at + rows[:, None] * n + columns[None, :], sums)
            tile += tl.num_programs(0)
        before += tiles
        a_at, b_at, c_at = a_at + m * k, b_at + n * k, c_at + m * n


def grouped_product(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    sizes = np.array([[64, 32, 32], [32, 64, 64], [32, 32, 96]], dtype=np.int32)
    pairs = [
        [random.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n)]
        for m, n, k in sizes
    ]
    a, b = (np.concatenate([pair[which].ravel() for pair in pairs]) for which in (0, 1))
    c = np.zeros(int((sizes[:, 0] * sizes[:, 1]).sum()), dtype=np.float32)
    run(grouped_kernel, (2,), [a, b, c, sizes], wrap, GROUPS=3, TILE=32, INNER=32)
    right = [(x.astype(np.float32) @ y.astype(np.float32).T).ravel() for x, y in pairs]
    return c, np.concatenate(right)


@triton.jit
def scaled_kernel(
    a, a_scale, b, b_scale, c, SIZE: tl.constexpr, INNER: tl.constexpr, FORM: tl.constexpr,
):  # fmt: skip
    per: tl.constexpr = 2 if FORM == "e2m1" else 1
    rows, inner, blocks = tl.arange(0, SIZE), tl.arange(0, INNER // per), tl.arange(0, INNER // 32)
    left = tl.load(a + rows[:, None] * (INNER // per) + inner[None, :])
    right = tl.load(b + rows[None, :] * (INNER // per) + inner[:, None])
    lefts = tl.load(a_scale + rows[:, None] * (INNER // 32) + blocks[None, :])
    rights = tl.load(b_scale + rows[:, None] * (INNER // 32) + blocks[None, :])
    found = tl.dot_scaled(left, lefts, FORM, right, rights, FORM)
    tl.store(c + rows[:, None] * SIZE + rows[None, :], found)


def scaled(random: np.random.Generator, wrap: Wrap, form: str) -> Pair:
    size, depth = 128, 128
    scales = [random.integers(125, 130, (size, depth // 32)).astype(np.uint8) for _ in range(2)]
    if form == "e4m3":
        values = [random.integers(-8, 9, (size, depth)).astype(np.float32) for _ in range(2)]
        stored = [e4m3(x) for x in values]
    else:
        numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        codes = [random.integers(0, 16, (size, depth)) for _ in range(2)]
        values = [numbers[x & 7] * np.where(x & 8, -1, 1) for x in codes]
        stored = [(x[:, ::2] | x[:, 1::2] << 4).astype(np.uint8) for x in codes]
    c = np.zeros((size, size), dtype=np.float32)
    arrays = [stored[0], scales[0], stored[1], scales[1], c]
    scaled_kernel[(1,)](*map(wrap, arrays), SIZE=size, INNER=depth, FORM=form)
    left, right = (
        x * np.repeat(2.0 ** (s.astype(np.float64) - 127), 32, axis=1)
        for x, s in zip(values, scales, strict=True)
    )
    return c, left @ right.T


def scaled_e4m3(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    return scaled(random, wrap, "e4m3")


def scaled_e2m1(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    return scaled(random, wrap, "e2m1")


@triton.jit
def causal_kernel(q, k, v, out, n, scale, HEAD: tl.constexpr, BLOCK: tl.constexpr):
    """Blocks before the diagonal unmasked, then the one on it."""
    block, head = tl.program_id(0), tl.arange(0, HEAD)
    rows = block * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(q + rows[:, None] * HEAD + head[None, :])
    most = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    sums = tl.zeros((BLOCK, HEAD), dtype=tl.float32)
    for first in range(0, (block + 1) * BLOCK, BLOCK):
        at = first + tl.arange(0, BLOCK)
        keys = tl.load(k + at[None, :] * HEAD + head[:, None])
        scores = tl.dot(left, keys) * scale
        scores = tl.where(rows[:, None] >= at[None, :], scores, -float("inf"))
        larger = tl.maximum(most, tl.max(scores, axis=1))
        powers, shrink = tl.exp(scores - larger[:, None]), tl.exp(most - larger)
        total = total * shrink + tl.sum(powers, axis=1)
        values = tl.load(v + at[:, None] * HEAD + head[None, :])
        sums = tl.dot(powers.to(tl.float16), values, sums * shrink[:, None])
        most = larger
    tl.store(out + rows[:, None] * HEAD + head[None, :], (sums / total[:, None]).to(tl.float16))


def causal_attention(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    q, k, v = (random.standard_normal((128, 32)).astype(np.float16) for _ in range(3))
    out, scale = np.zeros((128, 32), dtype=np.float16), 32**-0.5
    run(causal_kernel, (2,), [q, k, v, out], wrap, 128, scale, HEAD=32, BLOCK=64)
    scores = q.astype(np.float32) @ k.astype(np.float32).T * scale
    powers = np.exp(np.where(np.tri(128, dtype=bool), scores, -np.inf))
    return out, powers / powers.sum(axis=1, keepdims=True) @ v.astype(np.float32)


PRODUCTS = {
    "int8_product": (int8_product, 0.0),
    "tf32_product": (tf32_product, 0.0),
    "fp8_product": (fp8_product, 0.0),
    "bf16_product": (bf16_product, 0.0),
    "batched_product": (batched_product, 0.0),
    "split_k": (split_k, 0.0),
    "grouped_product": (grouped_product, 0.0),
    "scaled_e4m3": (scaled_e4m3, 0.0),
    "scaled_e2m1": (scaled_e2m1, 0.0),
    "causal_attention": (causal_attention, 5e-3),
}
