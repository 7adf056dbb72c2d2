"""One result of a tensor core to the bit: aligned, truncated sums of products.

All products of one instruction and the addend are aligned to the largest exponent among them, each
truncated toward zero to `kept` fraction bits, added exactly, and the sum is truncated to the
result's precision (binary32; of fp8 operands on Hopper to 13 fraction bits) or rounded to nearest
even (binary16). Zeros count with the exponent -126, subnormal numbers keep the least exponent of
their format. A sum beyond binary32 is an infinity; infinities and NaN give what exact arithmetic
would; NaN results are 0x7FFFFFFF.

The model is that of the literature (MMA-Sim, arXiv:2511.10909), compared there with hardware;
nothing here was run on a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from titan.isa.numbers.formats import E4M3, E5M2, F16, FloatFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

ZERO_EXPONENT = -126


@dataclass(frozen=True, slots=True)
class SumRule:
    """`kept` fraction bits of each aligned term, `result` fraction bits of a binary32 sum."""

    kept: int
    result: int


WIDE = SumRule(25, 23)  # f16, bf16, tf32
NARROW = SumRule(13, 13)  # e4m3, e5m2 on Hopper


def rule_of(form: FloatFormat, *, hopper: bool = True) -> SumRule:
    """The rule of an operand format; Blackwell sums fp8 as wide as the others."""
    return NARROW if hopper and form in (E4M3, E5M2) else WIDE


def split(bits: Integers, form: FloatFormat) -> tuple[Integers, Integers, Integers]:
    """Signed significands, exponents of their last places plus the fraction bits, and a code:
    0 finite, 1 infinite, 2 NaN. The number is `significand * 2 ** (exponent - fraction_bits)`.
    """
    import numpy as np

    field = (1 << form.exponent_bits) - 1
    fraction = bits & ((1 << form.fraction_bits) - 1)
    stored = bits >> form.fraction_bits & field
    special = np.zeros(bits.shape, dtype=np.int64)
    if form.plain:
        pass
    elif form.one_zero:
        special[bits == form.nan] = 2
    elif form.finite:
        special[(stored == field) & (fraction == (1 << form.fraction_bits) - 1)] = 2
    else:
        special[stored == field] = 1
        special[(stored == field) & (fraction != 0)] = 2
    whole = np.where(stored == 0, fraction, fraction | 1 << form.fraction_bits)
    exponent = np.maximum(stored, 1) - form.bias
    exponent = np.where(whole == 0, ZERO_EXPONENT, exponent)
    negative = bits >> (form.bits - 1) & 1 == 1
    return np.where(negative, -whole, whole), exponent, np.where(negative, -special, special)


def multiply(
    a: Integers, b: Integers, c: Integers, form: FloatFormat, other: FloatFormat,
    result: FloatFormat, rule: SumRule,
) -> Integers:  # fmt: skip
    """Bits of `a @ b.T + c`: a of shape (M, K), b of (N, K) in their formats, c of (M, N) in the
    result's, all as bits in int64. Rows are done one by one to bound the memory.
    """
    import numpy as np

    from titan.isa.numbers.formats import F32

    source = F16 if result is F16 else F32
    b_whole, b_exponent, b_special = split(b, other)
    found = np.empty(c.shape, dtype=np.int64)
    for row in range(a.shape[0]):
        whole, exponent, special = split(a[row], form)
        products = whole[None, :] * b_whole
        exponents = exponent[None, :] + b_exponent
        exponents = np.where(products == 0, ZERO_EXPONENT, exponents)
        c_whole, c_exponent, c_special = split(c[row], source)
        largest = np.maximum(exponents.max(axis=1), c_exponent)
        # In units of 2 ** (largest - kept): exact shifts left, truncation toward zero right.
        shift = exponents - largest[:, None] + rule.kept - form.fraction_bits - other.fraction_bits
        total = _shifted(products, shift).sum(axis=1)
        total += _shifted(c_whole, c_exponent - largest + rule.kept - source.fraction_bits)
        if result is F16:
            bits = _nearest16(total, largest - rule.kept)
        else:
            bits = _truncated32(total, largest - rule.kept, rule.result)
        found[row] = _specials(bits, special, b_special, products, c_special, result)
    return found


def _shifted(values: Integers, shift: Integers) -> Integers:
    import numpy as np

    size = np.abs(values)
    left = size << np.clip(shift, 0, 40)
    right = size >> np.clip(-shift, 0, 63)
    return np.sign(values) * np.where(shift >= 0, left, right)


def _truncated32(total: Integers, scale: Integers, fraction_bits: int) -> Integers:
    """`total * 2 ** scale` as binary32, truncated toward zero to `fraction_bits`."""
    import numpy as np

    size = np.abs(total)
    length = _bit_length(size)
    exponent = scale + length - 1  # of the leading one
    least = -126
    drop = np.maximum(length - 1 - fraction_bits, (least - fraction_bits) - scale)
    kept = np.where(drop > 0, size >> np.clip(drop, 0, 63) << np.clip(drop, 0, 62), size)
    # significand of 24 bits, or fewer where it is subnormal
    normal = exponent >= least
    place = np.where(normal, exponent - 23, least - 23) - scale
    whole = np.where(place >= 0, kept >> np.clip(place, 0, 63), kept << np.clip(-place, 0, 40))
    bits = np.where(normal, ((exponent + 126) << 23) + whole, whole)
    bits = np.where(exponent > 127, 0x7F800000, bits)
    return np.where(size == 0, 0, bits | np.where(total < 0, 1 << 31, 0))


def _nearest16(total: Integers, scale: Integers) -> Integers:
    """`total * 2 ** scale` as binary16, rounded to nearest even."""
    import numpy as np

    from titan.isa.numbers.formats import encode

    flat = [
        encode(_exact(int(value), int(power)), F16)
        for value, power in zip(total.ravel(), scale.ravel(), strict=True)
    ]
    return np.array(flat, dtype=np.int64).reshape(total.shape)


def _exact(value: int, power: int) -> float:
    from math import ldexp

    return ldexp(float(value), power)  # at most 36 bits: exact


def _bit_length(values: Integers) -> Integers:
    import numpy as np

    _, exponents = np.frexp(values.astype(np.float64))  # exact below 2 ** 53
    return exponents.astype(np.int64)


def _specials(
    bits: Integers, a: Integers, b: Integers, products: Integers, c: Integers, result: FloatFormat,
) -> Integers:  # fmt: skip
    """Infinities and NaN of the operands, as exact arithmetic treats them."""
    import numpy as np

    if not (a.any() or b.any() or c.any()):
        return bits
    nan, infinity = result.nan, ((1 << result.exponent_bits) - 1) << result.fraction_bits
    left = np.broadcast_to(a[None, :], b.shape)
    is_nan = (np.abs(left) == 2) | (np.abs(b) == 2)
    infinite = ((np.abs(left) == 1) | (np.abs(b) == 1)) & ~is_nan
    is_nan |= infinite & (products == 0)
    sign = np.sign(products) * infinite
    positive = (sign > 0).any(axis=1) | (c == 1)
    negative = (sign < 0).any(axis=1) | (c == -1)
    found = np.where(
        positive, infinity, np.where(negative, infinity | 1 << (result.bits - 1), bits)
    )
    return np.where(is_nan.any(axis=1) | (np.abs(c) == 2) | (positive & negative), nan, found)
