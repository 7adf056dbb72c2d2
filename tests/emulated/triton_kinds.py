"""Further kernels of Triton, one for each kind of operation, with what is right in NumPy.

As in `triton_examples`: each example takes a random generator and gives (got, right).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl

Pair = tuple[np.ndarray, np.ndarray]
Wrap = Callable[[np.ndarray], object]


def plain(array: np.ndarray) -> np.ndarray:
    return array


def run(kernel, grid, arrays: list[np.ndarray], wrap: Wrap, *numbers: float, **constants: int):
    kernel[grid](*map(wrap, arrays), *numbers, **constants)


# --------------------------------------------------------------------- scans, sorts, reductions


@triton.jit
def cumulative_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=0))


def cumulative_sum(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x = random.integers(-9, 9, 512).astype(np.float32)
    out = np.zeros_like(x)
    run(cumulative_kernel, (1,), [x, out], wrap, BLOCK=512)
    return out, np.cumsum(x)


@triton.jit
def _decayed(a0, x0, a1, x1):
    return a0 * a1, x0 * a1 + x1


@triton.jit
def recurrence_kernel(a, x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    _, states = tl.associative_scan((tl.load(a + at), tl.load(x + at)), 0, _decayed)
    tl.store(out + at, states)


def linear_recurrence(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    a, x = (random.random(256).astype(np.float32) for _ in range(2))
    out, state, right = np.zeros_like(x), np.float32(0), []
    run(recurrence_kernel, (1,), [a, x, out], wrap, BLOCK=256)
    for factor, value in zip(a, x, strict=True):
        state = state * factor + value
        right.append(state)
    return out, np.array(right)


@triton.jit
def sort_kernel(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=True))


def sort(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x = random.standard_normal((4, 64)).astype(np.float32)
    out = np.zeros_like(x)
    run(sort_kernel, (1,), [x, out], wrap, ROWS=4, COLUMNS=64)
    return out, -np.sort(-x, axis=1)


@triton.jit
def extremes_kernel(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    values = tl.load(x + rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out + rows, tl.argmax(values, axis=1))
    tl.store(out + ROWS + rows, tl.argmin(values, axis=1))
    tl.store(out + 2 * ROWS + rows, tl.max(values, axis=1))
    tl.store(out + 3 * ROWS + rows, tl.xor_sum(values, axis=1))


def extremes(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x = random.permutation(16 * 32).reshape(16, 32).astype(np.int32)
    out = np.zeros(64, dtype=np.int32)
    run(extremes_kernel, (1,), [x, out], wrap, ROWS=16, COLUMNS=32)
    right = [x.argmax(axis=1), x.argmin(axis=1), x.max(axis=1), np.bitwise_xor.reduce(x, axis=1)]
    return out, np.concatenate(right)


@triton.jit
def _merged(mean0, away0, count0, mean1, away1, count1):
    count = count0 + count1
    share = tl.where(count == 0, 0.0, count1 / count)
    change = mean1 - mean0
    return mean0 + change * share, away0 + away1 + change * change * count0 * share, count


@triton.jit
def welford_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0)
    counts = (at < n).to(tl.float32)
    mean, away, count = tl.reduce((values, values * 0, counts), 0, _merged)
    tl.store(out, mean)
    tl.store(out + 1, away / count)


def welford(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, out = random.standard_normal(200).astype(np.float32), np.zeros(2, dtype=np.float32)
    run(welford_kernel, (1,), [x, out], wrap, 200, BLOCK=256)
    return out, np.array([x.mean(), x.var()])


@triton.jit
def histogram_kernel(x, out, BLOCK: tl.constexpr, BINS: tl.constexpr):
    counts = tl.histogram(tl.load(x + tl.arange(0, BLOCK)), BINS)
    tl.store(out + tl.arange(0, BINS), counts)


def histogram(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, out = random.integers(0, 32, 512).astype(np.int32), np.zeros(32, dtype=np.int32)
    run(histogram_kernel, (1,), [x, out], wrap, BLOCK=512, BINS=32)
    return out, np.bincount(x, minlength=32)


# ------------------------------------------------------------------------ shapes, moves, bits


@triton.jit
def gather_kernel(x, index, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), axis=0))


def gather(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x = random.standard_normal((16, 32)).astype(np.float32)
    index, out = random.integers(0, 16, (16, 32)).astype(np.int32), np.zeros_like(x)
    run(gather_kernel, (1,), [x, index, out], wrap, ROWS=16, COLUMNS=32)
    return out, np.take_along_axis(x, index, axis=0)


@triton.jit
def transpose_kernel(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    values = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out + columns[:, None] * ROWS + rows[None, :], tl.trans(values))


def transpose(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, out = random.standard_normal((32, 64)).astype(np.float16), np.zeros((64, 32), np.float16)
    run(transpose_kernel, (1,), [x, out], wrap, ROWS=32, COLUMNS=64)
    return out, x.T.astype(np.float64)


@triton.jit
def halves_kernel(x, out, BLOCK: tl.constexpr):
    pairs = tl.reshape(tl.load(x + tl.arange(0, 2 * BLOCK)), (BLOCK, 2))
    even, odd = tl.split(pairs)
    both = tl.interleave(odd, even)
    tl.store(out + tl.arange(0, 2 * BLOCK), both)


def interleave(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, out = random.integers(0, 99, 256).astype(np.int32), np.zeros(256, dtype=np.int32)
    run(halves_kernel, (1,), [x, out], wrap, BLOCK=128)
    return out, x.reshape(-1, 2)[:, ::-1].reshape(-1)


@triton.jit
def integer_kernel(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    wide = tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)
    found = (a // b) ^ (a % b) ^ (a << 3) ^ (a >> 2) ^ wide ^ tl.abs(a - b) ^ tl.maximum(a, b)
    tl.store(out + at, found)


def integers(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, y = (random.integers(1, 1 << 20, 128).astype(np.int32) for _ in range(2))
    out = np.zeros_like(x)
    run(integer_kernel, (1,), [x, y, out], wrap, BLOCK=128)
    wide = (x.astype(np.int64) * y >> 32).astype(np.int32)
    right = (x // y) ^ (x % y) ^ (x << 3) ^ (x >> 2) ^ wide ^ np.abs(x - y) ^ np.maximum(x, y)
    return out, right


@triton.jit
def fp8_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(out + at, values.to(tl.float8e4nv).to(tl.float32))
    tl.store(out + BLOCK + at, values.to(tl.float8e5).to(tl.float32))


def fp8_conversions(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x = (random.integers(-15, 16, 128) * 2.0 ** random.integers(-4, 4, 128)).astype(np.float32)
    out = np.zeros(256, dtype=np.float32)
    run(fp8_kernel, (1,), [x, out], wrap, BLOCK=128)
    return out, np.concatenate([to_format(x, 3), to_format(x, 2)])


def to_format(x: np.ndarray, fraction_bits: int) -> np.ndarray:
    """Normal numbers rounded to nearest even."""
    significand, exponent = np.frexp(x.astype(np.float64))
    scale = 2.0 ** (fraction_bits + 1)
    return np.ldexp(np.round(significand * scale) / scale, exponent)


# ------------------------------------------------------------------------------ functions


@triton.jit
def functions_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    found = tl.exp2(a) + tl.log2(a) + tl.sqrt(a) + tl.rsqrt(a) + tl.sin(a) * tl.cos(a) + tl.erf(a)
    tl.store(out + at, found + tl.floor(a) - tl.ceil(a) + tl.fma(a, a, a))


def functions(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    from math import erf

    x = (0.1 + 3 * random.random(128)).astype(np.float32)
    out, wide = np.zeros_like(x), x.astype(np.float64)
    run(functions_kernel, (1,), [x, out], wrap, BLOCK=128)
    right = np.exp2(wide) + np.log2(wide) + np.sqrt(wide) + 1 / np.sqrt(wide)
    right += np.sin(wide) * np.cos(wide) + np.array([erf(a) for a in wide])
    return out, right + np.floor(wide) - np.ceil(wide) + wide * wide + wide


@triton.jit
def dropout_kernel(x, out, seed, share, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > share
    tl.store(out + at, tl.where(kept, tl.load(x + at) / (1 - share), 0.0))


def dropout(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x = random.standard_normal(256).astype(np.float32)
    out = np.zeros_like(x)
    run(dropout_kernel, (2,), [x, out], wrap, 123, 0.25, BLOCK=128)
    drawn = philox(np.arange(256, dtype=np.uint64), 123).astype(np.int32)
    numbers = np.where(drawn < 0, -drawn - 1, drawn) * 4.6566127342e-10
    return out, np.where(numbers > 0.25, x / 0.75, 0.0)


def philox(counter: np.ndarray, seed: int) -> np.ndarray:
    """The first word of Philox 4x32 with ten rounds (Salmon et al., SC 2011)."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counter & mask, counter * 0, counter * 0, counter * 0]
    k = [np.uint64(seed), np.uint64(0)]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high, low = np.uint64(32), mask
        c = [second >> high ^ c[1] ^ k[0], second & low, first >> high ^ c[3] ^ k[1], first & low]
        k = [k[0] + np.uint64(0x9E3779B9) & mask, k[1] + np.uint64(0xBB67AE85) & mask]
    return c[0].astype(np.uint32)


@triton.jit
def gated_kernel(x, gate, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n, other=0.0)
    b = tl.load(gate + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + at, (a * b * tl.sigmoid(b)).to(tl.float16), mask=at < n)


def gated_unit(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, gate = (random.standard_normal(300).astype(np.float16) for _ in range(2))
    out = np.zeros_like(x)
    run(gated_kernel, (3,), [x, gate, out], wrap, 300, BLOCK=128)
    b = gate.astype(np.float64)
    return out, x * b / (1 + np.exp(-b))


@triton.jit
def rotary_kernel(x, cosines, sines, out, HALF: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, HALF)
    c, s = tl.load(cosines + row * HALF + at), tl.load(sines + row * HALF + at)
    a, b = tl.load(x + 2 * row * HALF + at), tl.load(x + (2 * row + 1) * HALF + at)
    tl.store(out + 2 * row * HALF + at, a * c - b * s)
    tl.store(out + (2 * row + 1) * HALF + at, b * c + a * s)


def rotary_embedding(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, angle = random.standard_normal((3, 64)).astype(np.float32), random.random((3, 32))
    c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    out = np.zeros_like(x)
    run(rotary_kernel, (3,), [x, c, s, out], wrap, HALF=32)
    a, b = x[:, :32], x[:, 32:]
    return out, np.concatenate([a * c - b * s, b * c + a * s], axis=1)


# ------------------------------------------------------------------------- norms and losses


@triton.jit
def rms_norm_kernel(x, weight, out, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / columns + 1e-6)
    found = values * scale * tl.load(weight + at, mask=at < columns)
    tl.store(out + row * columns + at, found, mask=at < columns)


def rms_norm(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, weight = (random.standard_normal(shape).astype(np.float32) for shape in ((3, 100), 100))
    out = np.zeros_like(x)
    run(rms_norm_kernel, (3,), [x, weight, out], wrap, 100, BLOCK=128)
    return out, x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight


@triton.jit
def norm_backward_kernel(x, weight, grad, dx, dw, db, lock, columns, BLOCK: tl.constexpr):
    """A row a program; the sums over rows are added under a lock."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < columns
    a = tl.load(x + row * columns + at, mask=inside, other=0.0)
    g = tl.load(grad + row * columns + at, mask=inside, other=0.0)
    away = tl.where(inside, a - tl.sum(a, axis=0) / columns, 0.0)
    scale = 1 / tl.sqrt(tl.sum(away * away, axis=0) / columns + 1e-5)
    normed = away * scale
    weighted = g * tl.load(weight + at, mask=inside, other=0.0)
    means = tl.sum(normed * weighted, axis=0) / columns, tl.sum(weighted, axis=0) / columns
    found = (weighted - normed * means[0] - means[1]) * scale
    tl.store(dx + row * columns + at, found, mask=inside)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(dw + at, tl.load(dw + at, mask=inside) + g * normed, mask=inside)
    tl.store(db + at, tl.load(db + at, mask=inside) + g, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def layer_norm_backward(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, grad = (random.standard_normal((3, 100)).astype(np.float32) for _ in range(2))
    weight, dx = random.standard_normal(100).astype(np.float32), np.zeros_like(x)
    dw, db = np.zeros_like(weight), np.zeros_like(weight)
    lock = np.zeros(1, dtype=np.int32)
    run(norm_backward_kernel, (3,), [x, weight, grad, dx, dw, db, lock], wrap, 100, BLOCK=128)
    away = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((away * away).mean(axis=1, keepdims=True) + 1e-5)
    normed, weighted = away * scale, grad * weight
    right = weighted - normed * (normed * weighted).mean(axis=1, keepdims=True)
    right = (right - weighted.mean(axis=1, keepdims=True)) * scale
    sums = [(grad * normed).sum(axis=0), grad.sum(axis=0)]
    return np.concatenate([dx.ravel(), dw, db]), np.concatenate([right.ravel(), *sums])


@triton.jit
def entropy_kernel(x, labels, out, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    most = tl.max(values, axis=0)
    total = tl.log(tl.sum(tl.exp(values - most), axis=0)) + most
    tl.store(out + row, total - tl.load(x + row * columns + tl.load(labels + row)))


def cross_entropy(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x, labels = random.standard_normal((4, 90)).astype(np.float32), random.integers(0, 90, 4)
    out = np.zeros(4, dtype=np.float32)
    run(entropy_kernel, (4,), [x, labels.astype(np.int32), out], wrap, 90, BLOCK=128)
    return out, np.log(np.exp(x).sum(axis=1)) - x[np.arange(4), labels]


# ------------------------------------------------------------------ attention of one query


@triton.jit
def part_kernel(
    q, k, v, sums, extremes, keys, D: tl.constexpr, B: tl.constexpr, PART: tl.constexpr
):
    part, d = tl.program_id(0), tl.arange(0, D)
    query = tl.load(q + d)
    most, weight, total = -float("inf"), 0.0, tl.zeros([D], tl.float32)
    for first in range(part * PART, min((part + 1) * PART, keys), B):
        row = first + tl.arange(0, B)
        at, known = row[:, None] * D + d[None, :], row[:, None] < keys
        scores = tl.sum(tl.load(k + at, mask=known, other=0.0) * query[None, :], 1)
        scores = tl.where(row < keys, scores, -float("inf"))
        now = tl.maximum(most, tl.max(scores, 0))
        weights, factor = tl.exp(scores - now), tl.exp(most - now)
        values = tl.load(v + at, mask=known, other=0.0)
        total = total * factor + tl.sum(weights[:, None] * values, 0)
        weight, most = weight * factor + tl.sum(weights, 0), now
    tl.store(sums + part * D + d, total)
    tl.store(extremes + 2 * part, most)
    tl.store(extremes + 2 * part + 1, weight)


def split_attention(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    keys, parts = 300, 3
    q, k, v = (random.standard_normal(s).astype(np.float32) for s in (64, (keys, 64), (keys, 64)))
    sums, extremes = np.zeros((parts, 64), np.float32), np.zeros((parts, 2), np.float32)
    arrays = [q, k, v, sums, extremes]
    run(part_kernel, (parts,), arrays, wrap, keys, D=64, B=32, PART=128)
    factors = np.exp(extremes[:, 0] - extremes[:, 0].max())
    weights = np.exp(k @ q - (k @ q).max())
    got = (sums * factors[:, None]).sum(0) / (factors * extremes[:, 1]).sum()
    return got, weights @ v / weights.sum()


# --------------------------------------------------------------------------------- atomics


@triton.jit
def count_kernel(x, out, most, BLOCK: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out + values, 1)
    tl.atomic_max(most, tl.max(values, axis=0))


def counts_by_atomics(random: np.random.Generator, wrap: Wrap = plain) -> Pair:
    x = random.integers(0, 16, 512).astype(np.int32)
    out, most = np.zeros(16, dtype=np.int32), np.zeros(1, dtype=np.int32)
    run(count_kernel, (4,), [x, out, most], wrap, BLOCK=128)
    return np.append(out, most), np.append(np.bincount(x, minlength=16), x.max())


KINDS = {
    "cumulative_sum": (cumulative_sum, 0.0),
    "linear_recurrence": (linear_recurrence, 1e-5),
    "sort": (sort, 0.0),
    "extremes": (extremes, 0.0),
    "welford": (welford, 1e-5),
    "histogram": (histogram, 0.0),
    "gather": (gather, 0.0),
    "transpose": (transpose, 0.0),
    "interleave": (interleave, 0.0),
    "integers": (integers, 0.0),
    "fp8_conversions": (fp8_conversions, 0.0),
    "functions": (functions, 1e-4),
    "dropout": (dropout, 0.0),
    "gated_unit": (gated_unit, 1e-2),
    "rotary_embedding": (rotary_embedding, 1e-6),
    "rms_norm": (rms_norm, 1e-5),
    "layer_norm_backward": (layer_norm_backward, 1e-4),
    "cross_entropy": (cross_entropy, 1e-5),
    "split_attention": (split_attention, 1e-4),
    "counts_by_atomics": (counts_by_atomics, 0.0),
}
