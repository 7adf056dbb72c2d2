"""The steps of divisions of binary32 and of binary64, for runs that compute.

They are three: scale, multiply-add, mend. Compilers divide by Newton's method on numbers that
`v_div_scale` has moved to where nothing underflows; `v_div_fmas` moves the quotient back,
`v_div_fixup` puts special cases right. Source: CDNA3 instruction set architecture, 12.10
(V_DIV_SCALE_F32, V_DIV_FMAS_F32, V_DIV_FIXUP_F32, and those of F64).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import GcnOperand, Registers
from titan.isa.gcn.operands import VCC
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.matrix_steps import fused
from titan.isa.waves.sources import signed_wide_source, vector_source
from titan.isa.waves.state import LANES, OpaqueWord, Wave, Words, lanes_of, mask_of
from titan.isa.waves.typed_operations import Numbers

Reals = NDArray[np.float32]
UNDERFLOW = -150
_KNOWN = OpaqueWord("nothing", -1)


@dataclass(frozen=True)
class DivisionFormat:
    """A type, and by which powers of two its divisions are moved where."""

    kind: type[np.floating]
    words: type[np.unsignedinteger]
    fraction_bits: int
    exponent_mask: int
    moved_by: int
    tiny_exponent: int
    near_largest: int


SINGLE = DivisionFormat(np.float32, np.uint32, 23, 0xFF, 64, 23, 96)
DOUBLE = DivisionFormat(np.float64, np.uint64, 52, 0x7FF, 128, 53, 768)


def division_step(code: DecodedInstruction) -> Step | None:
    """The step of `v_div_scale` or `v_div_fmas`; None for another instruction."""
    form = DOUBLE if code.item.base.endswith("_f64") else SINGLE
    if code.item.base.startswith("v_div_scale_"):
        return _scale(code, form)
    if code.item.base.startswith("v_div_fmas_"):
        return _multiply_add(code, form)
    return None


def _rows(words: Numbers) -> Numbers:
    rows = np.ascontiguousarray(np.broadcast_to(words, (LANES,)))
    return rows.view(np.float64 if rows.dtype == np.uint64 else np.float32)


def _exponent(words: Numbers, form: DivisionFormat = SINGLE) -> NDArray[np.int64]:
    shifted = np.broadcast_to(words, (LANES,)) >> form.words(form.fraction_bits)
    return (shifted & form.words(form.exponent_mask)).astype(np.int64)


def _subnormal(values: Numbers) -> NDArray[np.bool_]:
    return (values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)


def scaled(
    chosen: Numbers, divisor: Numbers, dividend: Numbers, form: DivisionFormat = SINGLE
) -> tuple[Numbers, NDArray[np.bool_]]:
    """What `v_div_scale` makes of `chosen`, one of the other two, and the mask that it writes."""
    value, low, high = _rows(chosen), _rows(divisor), _rows(dividend)
    is_divisor = np.broadcast_to(chosen == divisor, (LANES,))
    is_dividend = np.broadcast_to(chosen == dividend, (LANES,))
    with np.errstate(all="ignore"):
        inverse, quotient = _subnormal(form.kind(1) / low), _subnormal(high / low)
        up, down = np.ldexp(value, form.moved_by), np.ldexp(value, -form.moved_by)
    far = _exponent(dividend, form) - _exponent(divisor, form) >= form.near_largest
    cases = [
        ((low == 0) | (high == 0), np.full(LANES, np.nan, form.kind), False),
        (far, np.where(is_divisor, up, value), True),
        (_subnormal(low), up, False),
        (inverse & quotient, np.where(is_divisor, up, value), True),
        (inverse, down, False),
        (quotient, np.where(is_dividend, up, value), True),
        (_exponent(dividend, form) <= form.tiny_exponent, up, False),
    ]
    result = np.select([case for case, _, _ in cases], [one for _, one, _ in cases], value)
    flags = [np.full(LANES, flag) for *_, flag in cases]
    mask = np.select([case for case, _, _ in cases], flags, False)
    return result.astype(form.kind), mask


Source = Callable[[Wave], tuple[Numbers, int, OpaqueWord]]


def _sources(code: DecodedInstruction, first: int, form: DivisionFormat) -> list[Source]:
    make = signed_wide_source if form is DOUBLE else _signed_source
    return [make(operand, code.number) for operand in code.item.operands[first : first + 3]]


def _signed_source(operand: GcnOperand, number: int) -> Source:
    return vector_source(operand, number, True)


def _write(wave: Wave, target: int, numbers: Numbers, known: int, why: OpaqueWord) -> None:
    words = np.ascontiguousarray(numbers).view(np.uint32).reshape(LANES, -1)
    for at in range(words.shape[1]):
        wave.set_vector(target + at, words[:, at], known, why)


def _scale(code: DecodedInstruction, form: DivisionFormat) -> Step | None:
    operands = code.item.operands
    mask_to = operands[1]
    if len(operands) < 5 or not isinstance(mask_to, Registers):
        return None
    target = register_numbers(operands[0])[0]
    sources = _sources(code, 2, form)

    def step(wave: Wave) -> None:
        made = [source(wave) for source in sources]
        known = wave.exec & made[0][1] & made[1][1] & made[2][1]
        why = next((one for _, mask, one in made if wave.exec & ~mask), _KNOWN)
        result, mask = scaled(made[0][0], made[1][0], made[2][0], form)
        _write(wave, target, result, known, why)
        wave.set_scalar(mask_to.first, mask_of(mask) & wave.exec if known == wave.exec else why, 2)

    return step


def _multiply_add(code: DecodedInstruction, form: DivisionFormat) -> Step:
    target = register_numbers(code.item.operands[0])[0]
    sources = _sources(code, 1, form)

    def step(wave: Wave) -> None:
        made = [source(wave) for source in sources]
        known = wave.exec & made[0][1] & made[1][1] & made[2][1]
        why = next((one for _, mask, one in made if wave.exec & ~mask), _KNOWN)
        moved = wave.scalar(VCC, 2)
        if isinstance(moved, OpaqueWord):
            known, why, moved = 0, moved, 0
        a, b, c = (_rows(words).astype(np.float64) for words, _, _ in made)
        large = _exponent(made[2][0], form) > form.exponent_mask >> 1
        by = np.where(large, form.moved_by, -form.moved_by)
        with np.errstate(all="ignore"):
            total = fused(a, b, c) if form is DOUBLE else a * b + c
            result = np.where(lanes_of(moved), np.ldexp(total, by), total).astype(form.kind)
        _write(wave, target, result, known, why)

    return step


def mended(quotient: Words, divisor: Words, dividend: Words) -> Words:
    """`v_div_fixup_f32`."""
    value, low, high = _rows(quotient), _rows(divisor), _rows(dividend)
    negative = np.signbit(low) ^ np.signbit(high)
    nothing = np.full(LANES, np.nan, np.float32)
    infinite, zero = np.full(LANES, np.inf, np.float32), np.zeros(LANES, np.float32)
    far = _exponent(dividend) - _exponent(divisor) < UNDERFLOW
    unsigned = np.select(
        [(low == 0) | np.isinf(high), np.isinf(low) | (high == 0), far],
        [infinite, zero, zero],
        np.where(np.isnan(value), infinite, np.abs(value)),  # it went beyond all bounds
    )
    undefined = np.isnan(low) | np.isnan(high) | ((low == 0) & (high == 0))
    undefined |= np.isinf(low) & np.isinf(high)
    signed = np.where(negative, -unsigned, unsigned)
    result = np.where(undefined, nothing, signed).astype(np.float32)
    return np.ascontiguousarray(result).view(np.uint32)
