"""Sums of tensor cores beside a reference in fractions that shares nothing with them."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from titan.isa.numbers.formats import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    TF32,
    FloatFormat,
    decode,
    encode,
)
from titan.isa.numbers.sums import NARROW, WIDE, SumRule, multiply, rule_of


def exponent_of(bits: int, form: FloatFormat) -> int:
    if decode(bits, form) == 0:
        return -126
    stored = bits >> form.fraction_bits & ((1 << form.exponent_bits) - 1)
    return max(stored, 1) - form.bias


def reference(
    a: list[int], b: list[int], c: int, form: FloatFormat, rule: SumRule, cut=math.trunc,
) -> int:  # fmt: skip
    """Aligned to the largest exponent, each `cut` (truncated to zero), added, truncated (f32)."""
    terms = []
    for x, y in zip(a, b, strict=True):
        product = Fraction(decode(x, form)) * Fraction(decode(y, form))
        exponent = -126 if product == 0 else exponent_of(x, form) + exponent_of(y, form)
        terms.append((product, exponent))
    terms.append((Fraction(decode(c, F32)), exponent_of(c, F32)))
    largest = max(exponent for _, exponent in terms)
    unit = Fraction(2) ** (largest - rule.kept)
    total = sum(cut(value / unit) for value, _ in terms) * unit
    short = FloatFormat("sum", 8, rule.result)
    if total == 0:
        return 0
    if abs(total) >= Fraction(2) ** 128:
        return 0x7F800000 | (total < 0) << 31
    return encode(total, short, "rz") << (23 - rule.result)


def drawn(random: Random, form: FloatFormat, spread: bool) -> int:
    while True:
        bits = random.getrandbits(form.bits)
        number = decode(bits, form)
        if math.isfinite(number) and (spread or 1e-3 < abs(number) < 1e3 or random.random() < 0.05):
            return bits


@pytest.mark.parametrize("spread", [False, True], ids=["near", "any"])
@pytest.mark.parametrize("form", [F16, BF16, TF32, E4M3, E5M2], ids=lambda form: form.name)
def test_sums_are_those_of_the_reference(form, spread):
    random, rule = Random(11), rule_of(form)
    rows, columns, depth = 6, 5, 8 if form is TF32 else 16
    for _ in range(6):
        a = [[drawn(random, form, spread) for _ in range(depth)] for _ in range(rows)]
        b = [[drawn(random, form, spread) for _ in range(depth)] for _ in range(columns)]
        c = [[drawn(random, F32, spread) for _ in range(columns)] for _ in range(rows)]
        found = multiply(np.array(a), np.array(b), np.array(c), form, form, F32, rule)
        for row in range(rows):
            for column in range(columns):
                wanted = reference(a[row], b[column], c[row][column], form, rule)
                assert int(found[row, column]) == wanted


def test_fp8_sums_on_hopper_lose_what_stands_below_13_bits():
    one, small = encode(1.0, E4M3), encode(2.0**-7, E4M3)
    a, b = np.array([[one] + [small] * 31]), np.array([[one] + [small] * 31])
    zero = np.zeros((1, 1), dtype=np.int64)
    narrow, wide = (
        decode(int(multiply(a, b, zero, E4M3, E4M3, F32, rule)[0, 0]), F32)
        for rule in (NARROW, WIDE)
    )
    assert narrow == 1.0 and wide == 1.0 + 31 * 2.0**-14
    assert rule_of(E4M3, hopper=False) == WIDE


def test_infinities_and_nan_are_those_of_exact_arithmetic():
    infinity, nan, zero, one = 0x7F80, 0x7FC0, 0, 0x3F80
    negative = one | 0x8000
    cases = [
        ([infinity, one], [one, one], 0x7F800000),
        ([infinity, one], [zero, one], F32.nan),
        ([infinity, infinity], [one, negative], F32.nan),
        ([nan, one], [one, one], F32.nan),
        ([one, one], [infinity | 0x8000, one], 0xFF800000),
    ]
    for a, b, wanted in cases:
        addend = np.zeros((1, 1), dtype=np.int64)
        found = multiply(np.array([a]), np.array([b]), addend, BF16, BF16, F32, WIDE)
        assert int(found[0, 0]) == wanted
