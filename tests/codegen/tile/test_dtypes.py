"""Rounding and bit patterns of the element types, against tables of all their numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from titan.codegen.tile.dtypes import DTYPES, FORMATS, bytes_of, decode, encode, rounded

NARROW = [name for name in DTYPES if name != "f32"]


def numbers_of(dtype: str) -> np.ndarray:
    """All finite numbers that are not negative, by their definition, in order."""
    form = FORMATS[dtype]
    found = []
    for pattern in range(1 << (form.bits - 1)):
        field, fraction = pattern >> form.mantissa, pattern & ((1 << form.mantissa) - 1)
        top = field == (1 << form.exponent) - 1
        if top and (not form.finite or fraction == (1 << form.mantissa) - 1):
            continue
        whole = fraction / 2**form.mantissa + (1 if field else 0)
        found.append(math.ldexp(whole, max(field, 1) - form.bias))
    return np.array(found)


def test_the_largest_numbers() -> None:
    assert FORMATS["bf16"].largest == 3.3895313892515355e38
    assert FORMATS["f16"].largest == 65504
    assert FORMATS["e4m3"].largest == 448
    assert FORMATS["e5m2"].largest == 57344
    assert FORMATS["f32"].largest == float(np.finfo(np.float32).max)
    assert [bytes_of(name) for name in ("f32", "bf16", "e4m3")] == [4, 2, 1]


@pytest.mark.parametrize("dtype", NARROW)
def test_every_number_is_its_own_rounding_and_its_pattern_comes_back(dtype: str) -> None:
    table = numbers_of(dtype)
    assert np.all(np.diff(table) > 0)
    assert table[-1] == FORMATS[dtype].largest
    for sign in (1, -1):
        assert np.array_equal(rounded(sign * table, dtype), (sign * table).astype(np.float32))
        assert np.array_equal(decode(encode(sign * table, dtype), dtype), sign * table)
    patterns = np.arange(1 << FORMATS[dtype].bits)
    again = encode(decode(patterns, dtype), dtype)
    nothing = np.isnan(decode(patterns, dtype))
    # e5m2 saturates: its infinities are read but never made.
    ends = np.isinf(decode(patterns, dtype)) if dtype == "e5m2" else np.zeros_like(nothing)
    assert np.array_equal(again[~nothing & ~ends], patterns[~nothing & ~ends])
    assert np.all(np.isnan(decode(again[nothing], dtype)))


@pytest.mark.parametrize("dtype", NARROW)
def test_rounding_is_to_nearest_with_ties_to_even(dtype: str) -> None:
    table = numbers_of(dtype)
    middle = (table[:-1] + table[1:]) / 2
    below, above = np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)
    even = np.where(np.arange(len(middle)) % 2 == 0, table[:-1], table[1:])
    for sign in (1, -1):
        assert np.array_equal(rounded(sign * middle, dtype), sign * even)
        assert np.array_equal(rounded(sign * below, dtype), sign * table[:-1])
        assert np.array_equal(rounded(sign * above, dtype), sign * table[1:])


@pytest.mark.parametrize("dtype", NARROW)
def test_beyond_the_largest_number(dtype: str) -> None:
    form = FORMATS[dtype]
    step = form.largest - float(numbers_of(dtype)[-2])
    far = np.array([form.largest + step, -1e300, np.inf, -np.inf, form.largest + 0.49 * step])
    limit = form.largest if form.saturating else np.inf
    assert rounded(far, dtype).tolist() == [limit, -limit, limit, -limit, form.largest]
    assert np.isnan(rounded(np.nan, dtype))
    assert np.signbit(rounded(-0.0, dtype))


def test_the_types_of_numpy_agree() -> None:
    numbers = np.random.default_rng(1).standard_normal(10000) * 10.0 ** np.random.default_rng(
        2
    ).integers(-12, 8, 10000)
    with np.errstate(over="ignore"):
        assert np.array_equal(rounded(numbers, "f16"), numbers.astype(np.float16))
    assert np.array_equal(
        encode(numbers, "f16"), rounded(numbers, "f16").astype(np.float16).view("u2")
    )
    assert np.array_equal(decode(encode(numbers, "f32"), "f32"), numbers.astype(np.float32))
    # bf16 is the upper half of f32.
    patterns = np.arange(1 << 16, dtype=np.uint32)
    halves = (patterns << 16).view(np.float32)
    assert np.array_equal(decode(patterns, "bf16"), halves, equal_nan=True)
