"""Conversions with a scale from and to 4- and 8-bit numbers (gfx950), for runs that compute.

The scale is a power of two: the exponent of a number of binary32, whose sign and fraction do not
count (all ones: NaN). Widened numbers are multiplied by it, narrowed ones divided before they are
rounded. `op_sel` chooses the half (of 4-bit numbers: the byte) that is read, or written while the
rest of the register stays. Beyond the largest number there is NaN, of 4 bits the largest number.
Sources: CDNA4 instruction set architecture, 12 (V_CVT_SCALEF32_*); LLVM's forms of them.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import GcnOperand, Registers
from titan.isa.numbers.formats import E2M1, E4M3, E5M2, FloatFormat, decode
from titan.isa.waves.byte_steps import narrowed_reals
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.moved_lanes import operand_bits
from titan.isa.waves.part_steps import known_sources, origin_of
from titan.isa.waves.sources import VectorSource, part_source
from titan.isa.waves.state import LANES, Wave, Words
from titan.isa.waves.typed_steps import kept_part

_NAME = re.compile(r"v_cvt_scalef32_(pk_)?(f32|f16|bf16|fp8|bf8|fp4)_(f32|f16|bf16|fp8|bf8|fp4)$")
_SMALL = {"fp8": E4M3, "bf8": E5M2, "fp4": E2M1}
Reals = NDArray[np.float64]


def scaled_step(code: DecodedInstruction) -> Step | None:
    """The step of a conversion; None for those of 6 bits, and those that round at random."""
    found = _NAME.match(code.item.base)
    if found is None or set(code.item.options) - {"op_sel"}:
        return None
    pair, result, source = found.groups()
    if source in _SMALL and result not in _SMALL:
        return _widened(code, _SMALL[source], result, bool(pair))
    if result in _SMALL and source not in _SMALL and pair:
        return _narrowed(code, _SMALL[result], source)
    return None


def _scale(words: Words) -> Reals:
    exponent = (words >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)
    return np.where(exponent == 255, np.nan, np.ldexp(1.0, exponent - 127))


def words_of_reals(numbers: Reals, kind: str) -> Words:
    """The bits of numbers rounded to nearest even."""
    with np.errstate(all="ignore"):
        if kind == "f16":
            return numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
        words = np.ascontiguousarray(numbers.astype(np.float32)).view(np.uint32)
    if kind == "f32":
        return words
    nearest = words + np.uint32(0x7FFF) + (words >> np.uint32(16) & np.uint32(1))
    quiet = words >> np.uint32(16) | np.uint32(64)
    return np.where(np.isnan(numbers), quiet, nearest >> np.uint32(16)).astype(np.uint32)


def _widened(code: DecodedInstruction, form: FloatFormat, result: str, pair: bool) -> Step | None:
    item = code.item
    bits = operand_bits(item, "op_sel", 0, 3)
    count = 2 if pair else 1
    # A part is what is read at once: a byte for one number or two of 4 bits, else a half.
    size = form.bits * count
    place = bits[0] if size == 16 else bits[0] + 2 * bits[1]
    upper = result == "f16" and not pair and bool(bits[-1])
    if not pair and result == "bf16":
        return None
    read = part_source(item.operands[1], code.number, "", "b32")
    by = part_source(item.operands[2], code.number, "", "f32")
    if read is None or by is None:
        return None
    table = np.array([decode(one, form) for one in range(1 << form.bits)])
    targets = register_numbers(item.operands[0])

    def step(wave: Wave) -> None:
        made, known = known_sources([read, by], wave)
        words, scale = made[0][0] >> np.uint32(size * place), _scale(made[1][0])
        found = []
        for at in range(count):
            codes = words >> np.uint32(form.bits * at) & np.uint32((1 << form.bits) - 1)
            found.append(np.broadcast_to(words_of_reals(table[codes] * scale, result), (LANES,)))
        why = origin_of(made, wave)
        if result == "f32":
            for target, values in zip(targets, found, strict=True):
                wave.set_vector(target, values, known, why)
        elif pair:
            wave.set_vector(targets[0], found[0] | found[1] << np.uint32(16), known, why)
        else:
            shift = np.uint32(16 if upper else 0)
            before, also, reason = kept_part(wave, targets[0])
            values = before & ~(np.uint32(0xFFFF) << shift) | found[0] << shift
            wave.set_vector(targets[0], values, known & also, why if wave.exec & ~known else reason)

    return step


def _narrowed(code: DecodedInstruction, form: FloatFormat, source: str) -> Step | None:
    item = code.item
    bits = operand_bits(item, "op_sel", 0, 4)
    size = 2 * form.bits
    place = bits[-1]
    if form.bits == 4:
        place = sum(bit << at for at, bit in enumerate(bits[2:4]))
    pairs = _pair(item.operands[1:-1], source, code.number)
    by = part_source(item.operands[-1], code.number, "", "f32")
    if pairs is None or by is None:
        return None
    target = register_numbers(item.operands[0])[0]
    shift = np.uint32(size * place)
    inside = np.uint32((1 << size) - 1) << shift

    def step(wave: Wave) -> None:
        made, known = known_sources([*pairs, by], wave)
        scale = _scale(made[2][0])
        with np.errstate(all="ignore"):
            low, high = (
                narrowed_reals(_reals(words, source) / scale, form) for words, _, _ in made[:2]
            )
        values = np.broadcast_to(low | high << np.uint32(form.bits), (LANES,))
        before = kept_part(wave, target)
        made.append(before)
        values = before[0] & ~inside | values << shift
        wave.set_vector(target, values, known & before[1], origin_of(made, wave))

    return step


def _pair(operands: tuple[GcnOperand, ...], source: str, number: int) -> list[VectorSource] | None:
    """The two numbers that are narrowed: two registers, or the halves of one."""
    found = []
    for at in range(2):
        operand = operands[at if source == "f32" else 0]
        if source != "f32" and not isinstance(operand, Registers):
            return None
        part = "" if source == "f32" else f"WORD_{at}"
        one = part_source(operand, number, part, {"f32": "f32", "f16": "f16"}.get(source, "b16"))
        if one is None:
            return None
        found.append(one)
    return found


def _reals(words: Words, kind: str) -> Reals:
    if kind == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    whole = words << np.uint32(16) if kind == "bf16" else words
    return np.ascontiguousarray(whole).view(np.float32).astype(np.float64)
