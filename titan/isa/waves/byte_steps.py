"""Conversions from and to 8-bit numbers, for runs that compute: OCP on gfx950, fnuz on gfx942.

A conversion to two bytes keeps the other half of its register. Of one that was never written that
half is a pattern, so that numbers which rest on it are wrong. Beyond the largest number there is
NaN (CDNA3 and CDNA4, V_CVT_PK_FP8_F32 without FP16_OVFL).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from titan.isa.numbers.formats import (
    E4M3,
    E4M3_FNUZ,
    E5M2,
    E5M2_FNUZ,
    FloatFormat,
    decode,
)
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.sources import selected, vector_source
from titan.isa.waves.state import NOT_WRITTEN, OpaqueWord, Wave, Words

NEVER_WRITTEN = np.uint32(0xDEAD_DEAD)
_HALF = np.uint32(0xFFFF)
BYTE_FORMATS: dict[str, dict[str, FloatFormat]] = {
    "gfx942": {"fp8": E4M3_FNUZ, "bf8": E5M2_FNUZ},
    "gfx950": {"fp8": E4M3, "bf8": E5M2},
}
_NONE = OpaqueWord("nothing", -1)


def byte_step(code: DecodedInstruction, target: str) -> Step | None:
    """The step of a conversion; None for the forms that are not computed."""
    item, formats = code.item, BYTE_FORMATS.get(target, {})
    words = item.base.split("_")
    if words[:3] == ["v", "cvt", "f32"] and words[3] in formats and len(words) == 4:
        return _widened(code, formats[words[3]])
    if "clamp" in item.options:
        return None
    if words[:3] == ["v", "cvt", "pk"] and words[3] in formats and words[4:] == ["f32"]:
        return _narrowed(code, formats[words[3]])
    if words[:4] == ["v", "cvt", "pk", "f32"] and words[-1] in formats:
        return _widened_pair(code, formats[words[-1]])
    return None


def _widened(code: DecodedInstruction, form: FloatFormat) -> Step | None:
    item = code.item
    target = register_numbers(item.operands[0])[0]
    part = item.options.get("src0_sel", "BYTE_0")
    source = selected(vector_source(item.operands[1], code.number), part)
    others = set(item.options) - {"src0_sel", "dst_sel", "dst_unused"}
    if source is None or others or item.options.get("dst_sel", "DWORD") != "DWORD":
        return None
    table = np.array([decode(one, form) for one in range(256)], np.float32).view(np.uint32)

    def step(wave: Wave) -> None:
        values, known, origin = source(wave)
        wave.set_vector(target, table[values & np.uint32(0xFF)], known & wave.exec, origin)

    return step


def _widened_pair(code: DecodedInstruction, form: FloatFormat) -> Step | None:
    """Both bytes of one half, which `op_sel` or SDWA chooses."""
    item = code.item
    if set(item.options) - {"src0_sel", "op_sel"}:
        return None
    half = item.options.get("src0_sel", "WORD_0")
    if item.options.get("op_sel", "[0").startswith("[1"):
        half = "WORD_1"
    source = selected(vector_source(item.operands[1], code.number), half)
    if source is None:
        return None
    targets = register_numbers(item.operands[0])
    table = np.array([decode(one, form) for one in range(256)], np.float32).view(np.uint32)

    def step(wave: Wave) -> None:
        values, known, origin = source(wave)
        values = values.copy()  # the result may be written over it
        for at, target in enumerate(targets):
            byte = values >> np.uint32(8 * at) & np.uint32(0xFF)
            wave.set_vector(target, table[byte], known & wave.exec, origin)

    return step


def _narrowed(code: DecodedInstruction, form: FloatFormat) -> Step:
    target = register_numbers(code.item.operands[0])[0]
    low, high = (
        vector_source(operand, code.number, real=True) for operand in code.item.operands[1:3]
    )

    # The last bit chooses the half of the result that is written.
    upper = code.item.options.get("op_sel", "").strip("[]").split(",")[-1].strip() == "1"
    shift = np.uint32(16 if upper else 0)

    def step(wave: Wave) -> None:
        (a, a_known, a_why), (b, b_known, b_why) = low(wave), high(wave)
        kept, kept_known, kept_why = (
            wave.vectors[target], wave.known[target], wave.origins[target],
        )  # fmt: skip
        if not kept_known and kept_why is NOT_WRITTEN:
            kept, kept_known = np.full(len(kept), NEVER_WRITTEN), wave.exec
        made = narrowed(a, form) | narrowed(b, form) << np.uint32(8)
        whys = ((a_known, a_why), (b_known, b_why), (kept_known, kept_why))
        origin = next((why for known, why in whys if wave.exec & ~known), _NONE)
        known = a_known & b_known & kept_known & wave.exec
        wave.set_vector(target, kept & ~(_HALF << shift) | made << shift, known, origin)

    return step


def narrowed(words: Words, form: FloatFormat) -> NDArray[np.uint32]:
    """The bytes nearest to numbers of binary32, ties to even."""
    return narrowed_reals(words.view(np.float32).astype(np.float64), form)


def narrowed_reals(values: NDArray[np.float64], form: FloatFormat) -> NDArray[np.uint32]:
    """The codes nearest to numbers, ties to even; of formats without NaN the nearest of all."""
    codes = np.array([one for one in range(form.largest + 1)])
    numbers = np.array([decode(int(one), form) for one in codes])
    size = np.abs(values)
    right = np.clip(np.searchsorted(numbers, size), 1, len(numbers) - 1)
    below, above = size - numbers[right - 1], numbers[right] - size
    even = codes[right] % 2 == 0
    nearest = np.where((above < below) | ((above == below) & even), right, right - 1)
    last = numbers[-1] - numbers[-2]
    beyond = size > numbers[-1] + last / 2
    if form.one_zero:  # whose largest number is odd
        beyond = size >= numbers[-1] + last / 2
    made = np.where(beyond, form.largest if form.plain else form.nan, codes[nearest])
    if form.plain:
        return (made | np.signbit(values).astype(np.int64) << form.bits - 1).astype(np.uint32)
    if not form.finite and not form.one_zero:
        infinite = ((1 << form.exponent_bits) - 1) << form.fraction_bits
        made = np.where(size >= numbers[-1] + last / 2, infinite, made)
    made = np.where(np.isnan(values), form.nan, made)
    sign = np.signbit(values).astype(np.int64) << 7
    if form.one_zero:
        sign = np.where(made == 0, 0, sign)
    return (made | sign).astype(np.uint32)
