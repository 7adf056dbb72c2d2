"""binary32 and binary64 arithmetic on bits, rounded to nearest even; a NaN result is the canonical
one (0x7FFFFFFF, 0x7FF8000000000000).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

from titan.isa.simt.operations import DecodedStep, Op

_NAN = {32: 0x7FFFFFFF, 64: 0x7FF8000000000000}
_TO_INTEGER: dict[str, Callable[[float], int]] = {
    "rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil,
}  # fmt: skip
_FORMAT = {32: ("<f", "<I"), 64: ("<d", "<Q")}


def number(value: int, bits: int, flush: bool = False) -> float:
    """The number of some bits; subnormal binary32 numbers are zeros with `flush`."""
    if flush and bits == 32 and not value & 0x7F800000:
        value &= 0x80000000
    letter, word = _FORMAT[bits]
    found: float = struct.unpack(letter, struct.pack(word, value))[0]
    return found


def bits_of(value: float, bits: int, flush: bool = False) -> int:
    """The bits of a binary64 number rounded to `bits` bits."""
    if math.isnan(value):
        return _NAN[bits]
    letter, word = _FORMAT[bits]
    try:
        found: int = struct.unpack(word, struct.pack(letter, value))[0]
    except OverflowError:
        found = 0x7F800000 if value > 0 else 0xFF800000
    if flush and bits == 32 and not found & 0x7F800000:
        found &= 0x80000000
    return found


def fused(a: float, b: float, c: float, bits: int) -> float:
    """a * b + c with one rounding: the binary64 number to round, or for binary32 one that rounds
    like the exact sum (round to odd).
    """
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c if not _invalid(a, b) else math.nan
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a * b == 0 else math.copysign(0.0, a * b + c)
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if bits == 64 or Fraction(near) == exact:
        return near
    if struct.unpack("<Q", struct.pack("<d", near))[0] & 1:
        return near
    return math.nextafter(near, math.inf if exact > Fraction(near) else -math.inf)


def of_integer(value: int, bits: int) -> int:
    """The bits of an integer, rounded once."""
    near = float(value)
    if bits == 64 or int(near) == value or struct.unpack("<Q", struct.pack("<d", near))[0] & 1:
        return bits_of(near, bits)
    return bits_of(math.nextafter(near, math.inf if value > near else -math.inf), bits)


def to_integer(
    value: int, from_bits: int, bits: int, *, word: str, signed: bool, flush: bool
) -> int:  # fmt: skip
    """A float as an integer of `bits`, rounded as the word says and clamped. NaN gives 0, or the
    top bit where one of both has 64 bits.
    """
    given = number(value, from_bits, flush)
    top = 1 << bits - 1
    if math.isnan(given):
        return top if 64 in (from_bits, bits) else 0
    low, high = (-top, top - 1) if signed else (0, 2 * top - 1)
    if math.isinf(given):
        found = high if given > 0 else low
    else:
        found = min(max(_TO_INTEGER[word](given), low), high)
    return found & (2 * top - 1)


def _invalid(a: float, b: float) -> bool:
    return (math.isinf(a) and b == 0) or (math.isinf(b) and a == 0)


def compare(word: str, a: int, b: int, bits: int, flush: bool) -> bool:
    """A comparison of floating-point numbers, ordered or (`...u`) unordered."""
    left, right = number(a, bits, flush), number(b, bits, flush)
    unordered = math.isnan(left) or math.isnan(right)
    if word == "num":
        return not unordered
    if word == "nan":
        return unordered
    if unordered:
        return word.endswith("u") and word != "num"
    return {
        "eq": left == right, "ne": left != right, "lt": left < right,
        "le": left <= right, "gt": left > right, "ge": left >= right,
    }[word[:2]]  # fmt: skip


def _minimum(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b:  # -0 is less than +0
        return a if math.copysign(1, a) < 0 else b
    return min(a, b)


def _maximum(a: float, b: float) -> float:
    return -_minimum(-a, -b)


def _product(a: float, b: float) -> float:
    return math.nan if _invalid(a, b) else a * b


FUNCTIONS: dict[Op, Callable[..., float]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL_LOW: _product,
    Op.MIN: _minimum,
    Op.MAX: _maximum,
    Op.FMA: fused,
    Op.NEG: lambda a: -a,
    Op.ABS: abs,
}


def function_of(step: DecodedStep) -> Callable[..., int]:
    """The function on bits of a step of kind FLOAT with 32 or 64 bits."""
    bits, flush = step.bits, bool(step.flags and step.flags[0])
    if step.op is Op.NEG:
        return lambda a: a ^ 1 << (bits - 1)
    if step.op is Op.ABS:
        return lambda a: a & ~(1 << (bits - 1))
    make = FUNCTIONS[step.op]

    def function(*values: int) -> int:
        numbers = [number(value, bits, flush) for value in values]
        if step.op is Op.FMA:
            return bits_of(fused(numbers[0], numbers[1], numbers[2], bits), bits, flush)
        return bits_of(make(*numbers), bits, flush)

    return function
