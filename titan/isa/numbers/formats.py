"""Floating-point formats by their bits: exact decoding, correctly rounded encoding.

Sources: IEEE 754; OCP 8-bit Floating Point Specification (e4m3 has no infinities, its largest
pattern is NaN); OCP Microscaling Formats (6 and 4 bits: every pattern is a number); PTX,
"Fundamental Types" and `cvt`; for fnuz, arXiv:2206.02915 and CDNA3, 7.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """`exponent_bits` and `fraction_bits`; `finite`: no infinities, one NaN pattern (e4m3).

    `one_zero`: no infinities either, and the pattern of negative zero is NaN (fnuz). `plain`: every
    pattern is a number (6 and 4 bits).
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    finite: bool = False
    one_zero: bool = False
    plain: bool = False

    @property
    def bits(self) -> int:
        """Bits of a value."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        """The exponent that is stored for 1.0."""
        return (1 << (self.exponent_bits - 1)) - 1 + self.one_zero

    @property
    def nan(self) -> int:
        """The canonical NaN of an arithmetic result (PTX: all ones but the sign)."""
        sign = 1 << (self.bits - 1)
        return sign if self.one_zero else sign - 1

    @property
    def largest(self) -> int:
        """The bits of the largest finite number."""
        if self.one_zero or self.plain:
            return (1 << (self.bits - 1)) - 1
        top = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        return top | ((1 << self.fraction_bits) - 2) if self.finite else top - 1


@dataclass(frozen=True, slots=True)
class IntegerFormat:
    """Integers of so many bits, as operands and results of matrix products."""

    name: str
    bits: int
    signed: bool


S8, U8, S32 = (
    IntegerFormat("s8", 8, True),
    IntegerFormat("u8", 8, False),
    IntegerFormat("s32", 32, True),
)
INTEGERS = {item.name: item for item in (S8, U8, S32)}
F16 = FloatFormat("f16", 5, 10)
BF16 = FloatFormat("bf16", 8, 7)
F32 = FloatFormat("f32", 8, 23)
F64 = FloatFormat("f64", 11, 52)
E4M3 = FloatFormat("e4m3", 4, 3, finite=True)
E5M2 = FloatFormat("e5m2", 5, 2)
E4M3_FNUZ = FloatFormat("e4m3fnuz", 4, 3, one_zero=True)
E5M2_FNUZ = FloatFormat("e5m2fnuz", 5, 2, one_zero=True)
E2M3 = FloatFormat("e2m3", 2, 3, plain=True)
E3M2 = FloatFormat("e3m2", 3, 2, plain=True)
E2M1 = FloatFormat("e2m1", 2, 1, plain=True)
TF32 = FloatFormat("tf32", 8, 10)  # stored in 32 bits, the low 13 of them zero
FORMATS = {item.name: item for item in (F16, BF16, F32, F64, E4M3, E5M2)}


def decode(bits: int, form: FloatFormat) -> float:
    """The number; every format here is exact in binary64."""
    sign = -1.0 if bits >> (form.bits - 1) & 1 else 1.0
    exponent = bits >> form.fraction_bits & ((1 << form.exponent_bits) - 1)
    fraction = bits & ((1 << form.fraction_bits) - 1)
    if form.one_zero and bits == form.nan:
        return math.nan
    if exponent == (1 << form.exponent_bits) - 1 and not (form.one_zero or form.plain):
        if not form.finite:
            return sign * math.inf if fraction == 0 else math.nan
        if fraction == (1 << form.fraction_bits) - 1:
            return math.nan
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - form.bias - form.fraction_bits)
    whole = fraction | 1 << form.fraction_bits
    return sign * math.ldexp(whole, exponent - form.bias - form.fraction_bits)


def encode(
    value: float | Fraction, form: FloatFormat, mode: str = "rn", *, sat: bool = False
) -> int:
    """The bits of a number rounded to nearest even (`rn`), to zero (`rz`), down or up (`rm`, `rp`).

    `sat`: beyond the largest finite number, that number (`satfinite`). A negative zero is kept.
    """
    if isinstance(value, float):
        if math.isnan(value):
            return form.nan
        negative = math.copysign(1.0, value) < 0
        if math.isinf(value):
            return _overflow(form, negative, sat, infinite=True)
        if value == 0:
            return (negative and not form.one_zero) << (form.bits - 1)
        value = Fraction(value)
    negative = value < 0
    sign = negative << (form.bits - 1)
    size = abs(value)
    if size == 0:
        return 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent, 1 - form.bias)
    scaled = size / Fraction(2) ** (exponent - form.fraction_bits)
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    up = {
        "rn": 2 * rest > scaled.denominator or (2 * rest == scaled.denominator and whole & 1 == 1),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
        "rna": 2 * rest >= scaled.denominator,
    }[mode]
    whole += up
    stored = ((exponent + form.bias - 1) << form.fraction_bits) + whole
    if stored > form.largest:
        to_zero = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        return sign | form.largest if to_zero else _overflow(form, negative, sat, infinite=False)
    return stored and sign | stored if form.one_zero else sign | stored


def _overflow(form: FloatFormat, negative: bool, sat: bool, *, infinite: bool) -> int:
    sign = negative << (form.bits - 1)
    if sat or form.plain:
        return sign | form.largest
    if form.finite or form.one_zero:
        return sign | form.nan
    return sign | ((1 << form.exponent_bits) - 1) << form.fraction_bits


def flushed(bits: int, form: FloatFormat) -> int:
    """Subnormal numbers as zeros of their sign (`ftz`)."""
    if not bits >> form.fraction_bits & ((1 << form.exponent_bits) - 1):
        return bits & 1 << (form.bits - 1)
    return bits


def bf16_of_f32(bits: int) -> int:
    """binary32 bits rounded to nearest even to bfloat16."""
    if bits & 0x7F800000 == 0x7F800000 and bits & 0x7FFFFF:
        return BF16.nan
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF
