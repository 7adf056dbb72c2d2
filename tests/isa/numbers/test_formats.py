"""Formats of numbers beside NumPy, and beside exact fractions."""

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
    F64,
    FORMATS,
    bf16_of_f32,
    decode,
    encode,
)

NUMPY = {
    "f16": (np.float16, np.uint16),
    "f32": (np.float32, np.uint32),
    "f64": (np.float64, np.uint64),
}


def patterns(bits: int, seed: int = 0) -> list[int]:
    random = Random(seed)
    edges = [0, 1, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1]
    return edges + [random.getrandbits(bits) for _ in range(2000)]


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_bits_mean_what_numpy_reads(name):
    form, (number, word) = FORMATS[name], NUMPY[name]
    for bits in patterns(form.bits):
        with np.errstate(invalid="ignore"):
            wanted = float(np.array([bits], dtype=word).view(number)[0])
        found = decode(bits, form)
        assert found == wanted or (math.isnan(found) and math.isnan(wanted))


@pytest.mark.parametrize("form", [F16, BF16, E4M3, E5M2], ids=lambda form: form.name)
def test_every_number_is_encoded_as_itself(form):
    for bits in range(1 << form.bits):
        number = decode(bits, form)
        if not math.isnan(number):
            assert encode(number, form) == bits
        assert encode(math.nan, form) == form.nan


@pytest.mark.parametrize("name", ["f16", "f32"])
def test_rounding_to_nearest_even_is_numpys(name):
    form, (number, word) = FORMATS[name], NUMPY[name]
    for bits in patterns(64, 1):
        value = decode(bits, F64)
        if math.isnan(value):
            continue
        with np.errstate(over="ignore", under="ignore"):
            wanted = int(np.array([value]).astype(number).view(word)[0])
        assert encode(value, form) == wanted, value


@pytest.mark.parametrize("form", [F16, BF16, E4M3], ids=lambda form: form.name)
def test_directed_rounding_brackets_the_number(form):
    random = Random(2)
    for _ in range(500):
        exact = Fraction(random.randint(-(1 << 20), 1 << 20), random.randint(1, 1 << 24))
        down, up = (Fraction(decode(encode(exact, form, mode), form)) for mode in ("rm", "rp"))
        assert down <= exact <= up
        zero, near = (Fraction(decode(encode(exact, form, mode), form)) for mode in ("rz", "rn"))
        assert abs(zero) <= abs(exact) and near in (down, up)
        assert abs(near - exact) == min(exact - down, up - exact)


def test_overflow_saturates_where_asked_and_is_nan_where_there_is_no_infinity():
    assert encode(1e9, E4M3) == E4M3.nan and encode(1e9, E4M3, sat=True) == E4M3.largest
    assert decode(E4M3.largest, E4M3) == 448 and decode(E5M2.largest, E5M2) == 57344
    assert encode(-math.inf, F16) == 0xFC00 and encode(1e9, F16, "rz") == F16.largest


def test_the_short_way_to_bf16_is_the_long_one():
    for bits in patterns(32, 3):
        assert bf16_of_f32(bits) == encode(decode(bits, F32), BF16)
