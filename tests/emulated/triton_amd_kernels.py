"""Kernels of Triton whose instructions on AMD are of types of their own, with what NumPy says."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from tests.isa.waves.test_matrix_products import VALUES


@triton.jit
def scaled_kernel(a, sa, b, sb, out, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    k, packed, s = tl.arange(0, K), tl.arange(0, K // 2), tl.arange(0, K // 32)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + packed[:, None] * N + i[None, :])
    p = tl.load(sa + i[:, None] * (K // 32) + s[None, :])
    q = tl.load(sb + i[:, None] * (K // 32) + s[None, :])
    tl.store(out + i[:, None] * N + i[None, :], tl.dot_scaled(x, p, "e4m3", y, q, "e2m1"))


@triton.jit
def product_kernel(a, b, out, N: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i[:, None] * N + i[None, :])
    y = tl.load(b + i[:, None] * N + i[None, :])
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(x, y, input_precision=PRECISION))


@triton.jit
def count_kernel(x, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, 64), tl.histogram(tl.load(x + tl.arange(0, BLOCK)), 64))


@triton.jit
def arithmetic_kernel(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.maximum(a * b - a, -b) / b)


def scaled(random):
    n, k = 64, 128
    a, b = random.integers(0, 126, (n, k)), random.integers(0, 16, (n, k))
    a = a % 64 + 32 | random.integers(0, 2, (n, k)) << 7  # 1/16 to 7.5
    sa, sb = (random.integers(125, 130, (n, k // 32)).astype(np.uint8) for _ in "ab")
    packed = (b[:, 0::2] | b[:, 1::2] << 4).astype(np.uint8)
    out = np.zeros((n, n), np.float32)
    scaled_kernel[(1,)](a.astype(np.uint8), sa, np.ascontiguousarray(packed.T), sb, out, n, k)
    left, right = np.array(VALUES["e4m3"])[a], np.array(VALUES["e2m1"])[b]
    powers = (np.repeat(2.0 ** (one.astype(np.float64) - 127), 32, axis=1) for one in (sa, sb))
    left, right = (x * y for x, y in zip((left, right), powers, strict=True))
    return out, left @ right.T


def product_of(kind, precision):
    def made(random):
        low, high = (-128, 128) if kind is np.int8 else (-9, 9)
        a, b = (random.integers(low, high, (64, 64)).astype(kind) for _ in "ab")
        out = np.zeros((64, 64), np.int32 if kind is np.int8 else np.float32)
        has_it = triton.runtime.driver.active.get_current_target().arch == "gfx942"
        product_kernel[(1,)](a, b, out, 64, precision if has_it else "ieee")
        return out, a.astype(np.float64) @ b.astype(np.float64)

    return made


def count(random):
    x = random.integers(0, 64, 512).astype(np.int32)
    out = np.zeros(64, np.int32)
    count_kernel[(1,)](x, out, 512)
    return out, np.bincount(x, minlength=64)


def arithmetic_of(kind):
    def made(random):
        a, b = (random.standard_normal(512).astype(kind) for _ in "ab")
        b[np.abs(b) < 0.1] = 1
        out = np.zeros(512, kind)
        arithmetic_kernel[(1,)](a, b, out, 512)
        x, y = a.astype(np.float64), b.astype(np.float64)
        return out, np.maximum(x * y - x, -y) / y

    return made


# Each with the largest difference.
AMD_KERNELS = {
    "scaled": (scaled, 1e-3),
    "bytes": (product_of(np.int8, "ieee"), 0.0),
    "xf32": (product_of(np.float32, "tf32"), 0.0),
    "f32": (product_of(np.float32, "ieee"), 0.0),
    "count": (count, 0.0),
    "f16": (arithmetic_of(np.float16), 0.05),
    "f64": (arithmetic_of(np.float64), 1e-13),
}
