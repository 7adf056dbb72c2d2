"""The steps of a division of binary32, for runs that compute: scale, multiply-add, mend.

Compilers divide by Newton's method on numbers that `v_div_scale` has moved to where nothing
underflows; `v_div_fmas` moves the quotient back, `v_div_fixup` puts special cases right. Source:
CDNA3 instruction set architecture, 12.10 (V_DIV_SCALE_F32, V_DIV_FMAS_F32, V_DIV_FIXUP_F32).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import Registers
from titan.isa.gcn.operands import VCC
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.sources import vector_source
from titan.isa.waves.state import LANES, OpaqueWord, Wave, Words, lanes_of, mask_of

Reals = NDArray[np.float32]
MOVED_BY = 64
TINY_EXPONENT, NEAR_LARGEST = 23, 96
UNDERFLOW = -150
_KNOWN = OpaqueWord("nothing", -1)


def division_step(code: DecodedInstruction) -> Step | None:
    """The step of `v_div_scale_f32` or `v_div_fmas_f32`; None for another instruction."""
    if code.item.base == "v_div_scale_f32":
        return _scale(code)
    if code.item.base == "v_div_fmas_f32":
        return _multiply_add(code)
    return None


def _rows(words: Words) -> Reals:
    return np.broadcast_to(words, (LANES,)).view(np.float32)


def _exponent(words: Words) -> NDArray[np.int64]:
    return (np.broadcast_to(words, (LANES,)) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)


def _subnormal(values: Reals) -> NDArray[np.bool_]:
    return (values != 0) & (np.abs(values) < np.finfo(np.float32).tiny)


def scaled(chosen: Words, divisor: Words, dividend: Words) -> tuple[Reals, NDArray[np.bool_]]:
    """What `v_div_scale` makes of `chosen`, one of the other two, and the mask that it writes."""
    value, low, high = _rows(chosen), _rows(divisor), _rows(dividend)
    is_divisor = np.broadcast_to(chosen == divisor, (LANES,))
    is_dividend = np.broadcast_to(chosen == dividend, (LANES,))
    with np.errstate(all="ignore"):
        inverse, quotient = _subnormal(np.float32(1) / low), _subnormal(high / low)
        up, down = np.ldexp(value, MOVED_BY), np.ldexp(value, -MOVED_BY)
    far = _exponent(dividend) - _exponent(divisor) >= NEAR_LARGEST
    cases = [
        ((low == 0) | (high == 0), np.full(LANES, np.nan, np.float32), False),
        (far, np.where(is_divisor, up, value), True),
        (_subnormal(low), up, False),
        (inverse & quotient, np.where(is_divisor, up, value), True),
        (inverse, down, False),
        (quotient, np.where(is_dividend, up, value), True),
        (_exponent(dividend) <= TINY_EXPONENT, up, False),
    ]
    result = np.select([case for case, _, _ in cases], [one for _, one, _ in cases], value)
    flags = [np.full(LANES, flag) for *_, flag in cases]
    mask = np.select([case for case, _, _ in cases], flags, False)
    return result.astype(np.float32), mask


def _scale(code: DecodedInstruction) -> Step | None:
    operands = code.item.operands
    mask_to = operands[1]
    if len(operands) < 5 or not isinstance(mask_to, Registers):
        return None
    target = register_numbers(operands[0])[0]
    sources = [vector_source(operand, code.number, True) for operand in operands[2:5]]

    def step(wave: Wave) -> None:
        made = [source(wave) for source in sources]
        known = wave.exec & made[0][1] & made[1][1] & made[2][1]
        why = next((one for _, mask, one in made if wave.exec & ~mask), _KNOWN)
        result, mask = scaled(*(words for words, _, _ in made))
        wave.set_vector(target, np.ascontiguousarray(result).view(np.uint32), known, why)
        wave.set_scalar(mask_to.first, mask_of(mask) & wave.exec if known == wave.exec else why, 2)

    return step


def _multiply_add(code: DecodedInstruction) -> Step:
    target = register_numbers(code.item.operands[0])[0]
    sources = [vector_source(operand, code.number, True) for operand in code.item.operands[1:4]]

    def step(wave: Wave) -> None:
        made = [source(wave) for source in sources]
        known = wave.exec & made[0][1] & made[1][1] & made[2][1]
        why = next((one for _, mask, one in made if wave.exec & ~mask), _KNOWN)
        moved = wave.scalar(VCC, 2)
        if isinstance(moved, OpaqueWord):
            known, why, moved = 0, moved, 0
        a, b, c = (_rows(words).astype(np.float64) for words, _, _ in made)
        by = np.where(_exponent(made[2][0]) > 127, MOVED_BY, -MOVED_BY)
        with np.errstate(all="ignore"):
            total = a * b + c
            result = np.where(lanes_of(moved), np.ldexp(total, by), total).astype(np.float32)
        wave.set_vector(target, result.view(np.uint32), known, why)

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
        np.abs(value),
    )
    undefined = np.isnan(low) | np.isnan(high) | ((low == 0) & (high == 0))
    undefined |= np.isinf(low) & np.isinf(high)
    signed = np.where(negative, -unsigned, unsigned)
    result = np.where(undefined, nothing, signed).astype(np.float32)
    return np.ascontiguousarray(result).view(np.uint32)
