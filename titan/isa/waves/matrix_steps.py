"""Matrix products for runs that compute: factors of 4 to 64 bits, with scales or without.

Of the result a lane has one column; four rows follow each other in its registers, then those of
the next group of four (CDNA3 and CDNA4 instruction set architecture, 7.1.4).

Sums: products along K are aligned to the largest of some that follow each other, cut to 24 fraction
bits rounding down, added, and that is added to the running sum, to nearest even; then the next
ones: 8 of 16 bits, 16 of fewer, 4 of xf32. Of binary32 and binary64 one product after the other is
added as by a fused multiply-add (CDNA3, after arXiv:2511.10909 and its simulator). For gfx90a and
gfx950, whose sums are not documented, this is an assumption, and so is that scales count when
products are aligned, and that xf32 cuts the 13 lowest bits of its factors off. Integers are added
modulo 2^32. 8-bit numbers have the formats of OCP on gfx950 (CDNA4, 7.1); those of gfx942 have one
zero (CDNA3, 7.1).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import Literal, Registers
from titan.isa.numbers.formats import BF16, F16, F32, TF32, FloatFormat, decode
from titan.isa.numbers.sums import split
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.matrix_forms import (
    SCALED_TOGETHER,
    Integers,
    ProductForm,
    elements,
    product_form,
    result_places,
)
from titan.isa.waves.sources import VectorSource, constant, vector_source
from titan.isa.waves.state import LANES, WORD, Wave, Words

KEPT_BITS = 24
_SCALE_BIAS, _SCALE_NAN = 127, 255


def product_step(code: DecodedInstruction, target: str) -> Step | None:
    """The step of a product of one block; None for the forms that are not computed."""
    form = product_form(code.item, target)
    if form is None:
        return None
    operands = code.item.operands
    results, *factors = (register_numbers(one) for one in operands[:3])
    start = [_addend(code, at, form.sums == "f64") for at in range(len(results))]
    scales = [vector_source(one.operand, code.number) for one in form.scales or ()]

    def step(wave: Wave) -> None:
        given, lanes = [source(wave) for source in (*start, *scales)], wave.lanes_all
        unknown = [why for _, known, why in given if known & lanes != lanes]
        unknown += [
            wave.origins[at] for one in factors for at in one if wave.known[at] & lanes != lanes
        ]  # fmt: skip
        if unknown:
            wave.forget(results[0], len(results), unknown[0], True)
            return
        words = np.array([np.broadcast_to(values, (LANES,)) for values, _, _ in given])
        a, b = (
            elements(wave, at, form, one) for at, one in zip(factors, form.factors, strict=True)
        )
        made = _made(form, a, b, words[: len(results)], words[len(results) :])
        for at, register in enumerate(results):  # whatever the execution mask (CDNA3, 7.1)
            wave.vectors[register], wave.known[register] = made[at], lanes

    return step


def _addend(code: DecodedInstruction, at: int, wide: bool) -> VectorSource:
    """One word of what is added; a constant is added to all results."""
    operand = code.item.operands[3]
    if isinstance(operand, Registers):
        return vector_source(replace(operand, first=operand.first + at, count=1), code.number)
    if wide and isinstance(operand, Literal):
        operand = Literal(constant(operand, 64) >> 32 * (at % 2) & WORD)
    return vector_source(operand, code.number)


def _made(
    form: ProductForm, a: Integers, b: Integers, start: Words, scales: Words
) -> NDArray[np.uint32]:
    """The words of the result, register by register."""
    wide = form.sums == "f64"
    row, column = result_places(form, len(start) // (2 if wide else 1))
    if wide:
        pairs = np.ascontiguousarray(start.reshape(-1, 2, LANES).transpose(0, 2, 1))
        sums = np.zeros((form.rows, form.rows), np.float64)
        sums[row, column] = pairs.view(np.float64)[:, :, 0]
        found = np.ascontiguousarray(_chained_wide(a, b, sums)[row, column])
        halves = found.view(np.uint32).reshape(-1, LANES, 2)
        return halves.transpose(0, 2, 1).reshape(-1, LANES)
    given = np.zeros((form.rows, form.rows), np.uint32)
    given[row, column] = start
    if form.sums == "i32":
        whole = a.astype(np.uint8).view(np.int8).astype(np.int64)
        other = b.astype(np.uint8).view(np.int8).astype(np.int64)
        total = whole @ other.T + given
        return (total & 0xFFFF_FFFF).astype(np.uint32)[row, column]
    left, right = form.factors
    assert isinstance(left, FloatFormat) and isinstance(right, FloatFormat)
    reals = given.view(np.float32)
    if left is F32:
        return np.ascontiguousarray(_chained(a, b, reals)).view(np.uint32)[row, column]
    if left is TF32:
        a, b = a >> 13, b >> 13
    powers = _powers(form, scales)
    reals = accumulate(a, b, reals, left, right, powers)
    return np.ascontiguousarray(reals).view(np.uint32)[row, column]


def _powers(form: ProductForm, scales: Words) -> tuple[Integers, Integers] | None:
    """The scales of both factors, as (rows, groups) bytes."""
    if form.scales is None:
        return None
    first, second = (
        (words >> np.uint32(8 * one.byte) & np.uint32(0xFF))
        .astype(np.int64)
        .reshape(form.groups, form.rows)
        .T
        for words, one in zip(scales, form.scales, strict=True)
    )
    return first, second


def _chained(a: Integers, b: Integers, sums: NDArray[np.float32]) -> NDArray[np.float32]:
    """One fused multiply-add of binary32 after the other along K."""
    left, right = (one.astype(np.uint32).view(np.float32) for one in (a, b))
    with np.errstate(all="ignore"):
        for at in range(a.shape[1]):
            product = left[:, at, None].astype(np.float64) * right[None, :, at]
            sums = (product + sums).astype(np.float32)
    return sums


def _chained_wide(a: Integers, b: Integers, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """One fused multiply-add of binary64 after the other along K."""
    left, right = a.view(np.float64), b.view(np.float64)
    for at in range(a.shape[1]):
        sums = fused(left[:, at, None], right[None, :, at], sums)
    return sums


def fused(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`a * b + c` of binary64, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        made = np.array(a * b + c, np.float64)
    for at in np.ndindex(made.shape):
        given = float(a[at]), float(b[at]), float(c[at])
        if np.isfinite(given).all() and all(given):
            exact = Fraction(given[0]) * Fraction(given[1]) + Fraction(given[2])
            try:
                made[at] = float(exact) if exact else made[at]
            except OverflowError:
                made[at] = np.inf if exact > 0 else -np.inf
    return made


def accumulate(
    a: Integers,
    b: Integers,
    sums: NDArray[np.float32],
    form: FloatFormat,
    other: FloatFormat | None = None,
    scales: tuple[Integers, Integers] | None = None,
) -> NDArray[np.float32]:
    """`a @ b.T + sums`, with a and b as bits of shape (rows, K); b in `other` if that is given.

    `scales`: of a and of b, a power of two for each row and 32 numbers along K.
    """
    other = other or form
    a_whole, a_exponent, a_special = split(a, form)
    b_whole, b_exponent, b_special = split(b, other)
    fraction = form.fraction_bits + other.fraction_bits
    if scales is not None:
        a_scale, b_scale = (np.repeat(one, SCALED_TOGETHER, axis=1) for one in scales)
        a_exponent, b_exponent = a_exponent + a_scale, b_exponent + b_scale
        a_special = np.where(a_scale == _SCALE_NAN, 2, a_special)
        b_special = np.where(b_scale == _SCALE_NAN, 2, b_special)
    together = {BF16: 8, F16: 8, TF32: 4}.get(form, 16)
    with np.errstate(all="ignore"):
        for at in range(0, a.shape[1], together):
            part = slice(at, at + together)
            products = a_whole[:, None, part] * b_whole[None, :, part]
            exponents = a_exponent[:, None, part] + b_exponent[None, :, part]
            exponents -= 0 if scales is None else 2 * _SCALE_BIAS
            exponents = np.where(products == 0, -126, exponents)
            largest = exponents.max(axis=2)
            shift = exponents - largest[:, :, None] + KEPT_BITS - fraction
            left, right = np.clip(shift, 0, 40), np.clip(-shift, 0, 62)
            total = ((products << left) >> right).sum(axis=2)
            exact = np.ldexp(total.astype(np.float64), largest - KEPT_BITS)
            sums = (exact + sums).astype(np.float32)
    if not (a_special.any() or b_special.any()):
        return sums
    left_reals, right_reals = _reals(a, form), _reals(b, other)
    left_reals[a_special == 2], right_reals[b_special == 2] = np.nan, np.nan
    return _special_sums(left_reals, right_reals, sums)


def _special_sums(
    left: NDArray[np.float64], right: NDArray[np.float64], sums: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Rows and columns with infinities or NaN give what exact arithmetic would."""
    with np.errstate(all="ignore"):
        exact = (left @ right.T).astype(np.float32)
    return np.where(np.isfinite(exact), sums, exact)


def _reals(bits: Integers, form: FloatFormat) -> NDArray[np.float64]:
    if form.bits <= 8:
        return np.array([decode(one, form) for one in range(1 << form.bits)])[bits]
    if form is F16:
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    lower = 13 if form is TF32 else 16
    return (bits.astype(np.uint32) << np.uint32(lower)).view(np.float32).astype(np.float64)
