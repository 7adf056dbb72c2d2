"""Floating-point instructions beside NumPy."""

import math
from random import Random

import numpy as np
import pytest

from titan.isa.numbers.formats import BF16, F16, F32, decode, encode
from titan.isa.numbers.functions import function_of
from titan.isa.ptx.module import Instruction


def function(text: str):
    opcode, *words = text.split(".")
    found = function_of(Instruction(opcode, tuple(words), (), -1, False, 1, 1))
    assert found is not None, text
    return found


def f32(bits: int) -> np.float32:
    return np.array([bits], dtype=np.uint32).view(np.float32)[0]


def same(found: int, wanted: np.float32) -> bool:
    bits = int(np.array([wanted]).view(np.uint32)[0])
    return found == bits or (math.isnan(decode(found, F32)) and np.isnan(wanted))


def samples(count: int = 400) -> list[int]:
    random = Random(5)
    edges = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x3F800000, 0x7F7FFFFF]
    return edges + [random.getrandbits(32) for _ in range(count)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("add.rn.f32", np.add), ("sub.f32", np.subtract), ("mul.rn.f32", np.multiply),
     ("div.rn.f32", np.divide)],
)  # fmt: skip
def test_exact_forms_round_as_numpy_does(text, wanted):
    made, values = function(text), samples()
    for a, b in zip(values, reversed(values), strict=True):
        with np.errstate(all="ignore"):
            assert same(made(a, b), wanted(f32(a), f32(b))), (hex(a), hex(b))


def test_flush_takes_subnormal_numbers_as_zeros():
    add = function("add.ftz.f32")
    assert add(1, 1) == 0 and add(0x80000001, 0) == 0
    assert function("mul.ftz.f32")(0x00800000, 0x3F000000) == 0


def test_saturation_keeps_results_between_zero_and_one():
    fma = function("fma.rn.sat.f32")
    two, one = encode(2.0, F32), encode(1.0, F32)
    assert fma(two, two, one) == one and fma(encode(-2.0, F32), two, one) == 0


@pytest.mark.parametrize("form", [F16, BF16], ids=lambda form: form.name)
def test_packed_forms_are_two_of_the_single_ones(form):
    random = Random(7)
    single, packed = (function(f"fma.rn.{form.name}{end}") for end in ("", "x2"))
    for _ in range(200):
        low, high = ([random.getrandbits(16) for _ in range(3)] for _ in range(2))
        both = [a | b << 16 for a, b in zip(low, high, strict=True)]
        assert packed(*both) == single(*low) | single(*high) << 16


def test_minimum_and_maximum_treat_nan_as_ptx_says():
    one, nan = encode(1.0, F32), F32.nan
    assert function("max.f32")(one, nan) == one and function("max.NaN.f32")(one, nan) == nan
    assert function("min.f32")(0, 1 << 31) == 1 << 31
    assert function("max.f32")(one, encode(3.0, F32), encode(2.0, F32)) == encode(3.0, F32)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ex2.approx.ftz.f32", np.exp2),
        ("rcp.approx.f32", np.reciprocal),
        ("sqrt.approx.f32", np.sqrt),
        ("lg2.approx.f32", np.log2),
        ("tanh.approx.f32", np.tanh),
    ],
)
def test_approximations_are_near(text, wanted):
    made = function(text)
    for value in np.linspace(0.01, 20, 100, dtype=np.float32):
        found = decode(made(int(value.view(np.uint32))), F32)
        assert abs(found - float(wanted(value))) <= 2e-6 * max(1.0, abs(float(wanted(value))))
    assert decode(function("ex2.approx.f32")(0xFF800000), F32) == 0.0


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("cvt.rn.bf16x2.f32", (encode(1.5, F32), encode(-2.0, F32)), 0x3FC0 << 16 | 0xC000),
        ("cvt.rn.f16x2.f32", (encode(1.0, F32), encode(0.5, F32)), 0x3C00 << 16 | 0x3800),
        ("cvt.rn.satfinite.e4m3x2.f32", (encode(1e9, F32), encode(1.0, F32)), 0x7E << 8 | 0x38),
        ("cvt.f32.f16", (0x3C00,), encode(1.0, F32)),
        ("cvt.rn.f32.s32", ((1 << 32) - 3,), encode(-3.0, F32)),
        ("cvt.rzi.s32.f32", (encode(-2.7, F32),), (1 << 32) - 2),
        ("cvt.rni.s32.f32", (encode(2.5, F32),), 2),
        ("cvt.rzi.u32.f32", (encode(-5.0, F32),), 0),
        ("cvt.rzi.u8.f32", (encode(300.0, F32),), 255),
        ("cvt.rmi.f32.f32", (encode(-1.5, F32),), encode(-2.0, F32)),
        ("cvt.rn.f16x2.e4m3x2", (0x38 | 0xB8 << 8,), 0x3C00 | 0xBC00 << 16),
    ],
)
def test_conversions(text, value, wanted):
    assert function(text)(*value) == wanted


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("dp4a.s32.s32", (0xFF020304, 0x01010102, 5), -1 + 2 + 3 + 8 + 5),
        ("dp4a.u32.s32", (0xFF020304, 0x01010102, 5), 255 + 2 + 3 + 8 + 5),
        ("dp4a.s32.u32", (1, 0xFF, 1), 256),
        ("dp2a.lo.s32.s32", (0xFFFF0002, 0x090903FF, 1), -3 - 2 + 1),
        ("dp2a.hi.s32.u32", (0xFFFF0002, 0x03FF0909, 1), -3 + 510 + 1),
        ("cvt.pack.sat.u8.s32.b32", (300, -5 & 0xFFFFFFFF, 0x1234), 0x1234FF00),
        ("cvt.pack.sat.s8.s32.b32", (-300 & 0xFFFFFFFF, 7, 0xABCD), 0xABCD8007),
        ("cvt.pack.sat.s16.s32", (-2 & 0xFFFFFFFF, 40000), 0xFFFE7FFF),
        ("cvt.pack.sat.s4.s32.b32", (9, -1 & 0xFFFFFFFF, 0x123456), 0x1234567F),
        ("testp.finite.f32", (encode(1e38, F32),), 1),
        ("testp.infinite.f32", (encode(-math.inf, F32),), 1),
        ("testp.notanumber.f32", (0x7F800001,), 1),
        ("testp.normal.f32", (0x807FFFFF,), 0),
        ("testp.subnormal.f32", (0x807FFFFF,), 1),
        ("testp.subnormal.f32", (0x80000000,), 0),
        ("testp.normal.f64", (1 << 52,), 1),
    ],
)
def test_dot_products_packed_integers_and_classes(text, value, wanted):
    assert function(text)(*value) == wanted & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ("min.xorsign.abs.f32", (-3.0, 2.0), -2.0),
        ("min.xorsign.abs.f32", (-3.0, -2.0), 2.0),
        ("max.xorsign.abs.f32", (3.0, -0.0), -3.0),
        ("max.ftz.NaN.xorsign.abs.f32", (3.0, -math.nan), math.nan),
        ("min.xorsign.abs.f32", (-3.0, math.nan), -3.0),
        ("max.abs.f32", (1.0, -4.0, 2.0), 4.0),
    ],
)
def test_extrema_of_magnitudes(text, values, wanted):
    found = decode(function(text)(*(encode(value, F32) for value in values)), F32)
    assert (found, math.copysign(1, found)) == (wanted, math.copysign(1, wanted)) or (
        math.isnan(found) and math.isnan(wanted)
    )


def test_what_is_not_computed_has_no_function():
    words = ("fma.rn.oob.f16", "add.rs.f32", "max.relu.f32")  # no word is passed over
    for text in ("vabsdiff.s32.s32.s32", "add.cc.u32", *words):
        opcode, *words = text.split(".")
        assert function_of(Instruction(opcode, tuple(words), (), -1, False, 1, 1)) is None
