"""Arithmetic in floating point, for runs that compute; other runs take its results as unknown.

binary32 as IEEE 754 has it, rounded to nearest; `v_exp`, `v_log`, `v_rcp`, `v_rsq`, `v_sqrt` give
the nearest value where the hardware is good to one unit in the last place. A fused multiply-add is
computed in binary64 and rounded once more, which can differ in the last place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import GcnOperand, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.waves.arithmetic import BINARY, UNARY
from titan.isa.waves.byte_steps import byte_step
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.division_steps import division_step, mended
from titan.isa.waves.matrix_steps import product_step
from titan.isa.waves.part_steps import (
    known_sources,
    moved_step,
    origin_of,
    part_step,
    part_writer,
    swap_step,
)
from titan.isa.waves.scaled_steps import scaled_step
from titan.isa.waves.sources import part_source, scalar_source, vector_source
from titan.isa.waves.state import OpaqueWord, Wave, Words, lanes_of
from titan.isa.waves.typed_steps import typed_step

Reals = NDArray[np.float32]


def _reals(a: Words) -> Reals:
    return a.view(np.float32)


def _words(a: NDArray[np.floating]) -> Words:
    return np.ascontiguousarray(a, np.float32).view(np.uint32)


def _of(function: Callable[..., Reals]) -> Callable[..., Words]:
    return lambda *given: _words(function(*map(_reals, given)))


def _halves(a: Words) -> Words:
    return np.ascontiguousarray(_reals(a).astype(np.float16)).view(np.uint16).astype(np.uint32)


def _from_half(a: Words) -> Words:
    return _words((a & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16))


def _nearest_bfloat(a: Words) -> Words:
    nearest = a + np.uint32(0x7FFF) + (a >> np.uint32(16) & np.uint32(1))
    quiet = a >> np.uint32(16) | np.uint32(64)
    return np.where(np.isnan(_reals(a)), quiet, nearest >> np.uint32(16)).astype(np.uint32)


FUNCTIONS: dict[str, Callable[..., Words]] = {
    "v_exp_f32": _of(np.exp2),
    "v_log_f32": _of(np.log2),
    "v_sqrt_f32": _of(np.sqrt),
    "v_rsq_f32": _of(lambda a: np.float32(1) / np.sqrt(a)),
    "v_fract_f32": _of(lambda a: a - np.floor(a)),
    "v_max_f32": _of(np.fmax),
    "v_min_f32": _of(np.fmin),
    "v_max3_f32": _of(lambda a, b, c: np.fmax(np.fmax(a, b), c)),
    "v_min3_f32": _of(lambda a, b, c: np.fmin(np.fmin(a, b), c)),
    "v_div_fixup_f32": mended,
    "v_cvt_f16_f32": _halves,
    "v_cvt_f32_f16": _from_half,
    "v_cvt_pk_bf16_f32": lambda a, b: _nearest_bfloat(a) | _nearest_bfloat(b) << np.uint32(16),
    "v_cvt_pk_f16_f32": lambda a, b: _halves(a) | _halves(b) << np.uint32(16),
    "v_pack_b32_f16": lambda a, b: a & np.uint32(0xFFFF) | b << np.uint32(16),
}
PACKED: dict[str, Callable[..., Reals]] = {
    "v_pk_add_f32": lambda a, b: a + b,
    "v_pk_mul_f32": lambda a, b: a * b,
    "v_pk_fma_f32": lambda a, b, c: (a.astype(np.float64) * b + c).astype(np.float32),
}


def value_step(code: DecodedInstruction, processor: str) -> Step | None:
    """The step of an instruction that computes numbers; None where the ordinary step does."""
    item, name = code.item, code.item.base
    if code.opcode.kind is OpcodeKind.MATRIX:
        return product_step(code, processor)
    if name.startswith("v_cvt_scalef32_"):
        return scaled_step(code)
    if name.startswith("v_cvt_") and ("_fp8" in name or "_bf8" in name):
        return byte_step(code, processor)
    if name in PACKED:
        return _packed(code)
    if name.endswith("_swap_b32") and name.startswith("v_permlane"):
        return swap_step(code)
    if name.startswith("v_fma_mix"):
        return _mixed(code)
    if name.startswith("v_cmp_") and name.endswith(("_f16", "_f32", "_f64")):
        return typed_step(code)
    if name == "v_cndmask_b32" and item.opcode.endswith("_sdwa"):
        return _selected_condition(code)
    if name.startswith("v_div_s") or name.startswith("v_div_fmas"):
        return division_step(code)
    function = FUNCTIONS.get(name)
    if function is None and item.opcode.endswith(("_dpp", "_sdwa")):
        function = UNARY.get(name) or BINARY.get(name)
    if function is None or _changed(code):
        return typed_step(code)
    kind = {"_f16": "f16", "_f32": "f32"}.get(name[-4:], "b32")
    sources = []
    for at, operand in enumerate(item.operands[1:]):
        source = part_source(operand, code.number, item.options.get(f"src{at}_sel", ""), kind)
        if source is None:
            return None
        sources.append(source)
    if item.opcode.endswith("_dpp"):
        return moved_step(code, function, sources)
    if item.opcode.endswith("_sdwa"):
        return part_step(code, function, sources)
    target = register_numbers(item.operands[0])[0]

    def step(wave: Wave) -> None:
        made, known = known_sources(sources, wave)
        with np.errstate(all="ignore"):
            values = function(*(words for words, _, _ in made))
        wave.set_vector(target, values, known, origin_of(made, wave))

    return step


def _changed(code: DecodedInstruction) -> bool:
    return any(word in code.item.options for word in ("clamp", "mul", "div", "op_sel"))


def _choices(code: DecodedInstruction, name: str, otherwise: str, count: int) -> list[bool]:
    text = code.item.options.get(name)
    parts = text.strip("[]").split(",") if text else [otherwise] * count
    return [part.strip() == "1" for part in parts]


def _packed(code: DecodedInstruction) -> Step | None:
    """v_pk_*_f32: two results, each of a chosen word of every source."""
    item = code.item
    if "clamp" in item.options:
        return None
    target, count = register_numbers(item.operands[0])[0], len(item.operands) - 1
    function = PACKED[item.base]
    halves = []
    for select, other, negate in (("op_sel", "0", "neg_lo"), ("op_sel_hi", "1", "neg_hi")):
        chosen = _choices(code, select, other, count)
        negative = _choices(code, negate, "0", count)
        halves.append(
            [
                vector_source(_word(operand, upper, minus), code.number, True)
                for operand, upper, minus in zip(
                    item.operands[1:], chosen, negative, strict=True
                )
            ]
        )  # fmt: skip

    def step(wave: Wave) -> None:
        results = []
        for sources in halves:
            made, known = known_sources(sources, wave)
            with np.errstate(all="ignore"):
                values = _words(function(*(_reals(words) for words, _, _ in made)))
            results.append((values, known, origin_of(made, wave)))
        for at, (values, known, why) in enumerate(results):
            wave.set_vector(target + at, values, known, why)

    return step


def _mixed(code: DecodedInstruction) -> Step | None:
    """v_fma_mix*: sources of 32 bits, or halves (`op_sel_hi`); mixlo and mixhi keep the other half
    of their register, which is a pattern where nothing has written it.
    """
    item = code.item
    if "clamp" in item.options:
        return None
    sources = []
    for operand, half, upper in zip(
        item.operands[1:], _choices(code, "op_sel_hi", "0", 3), _choices(code, "op_sel", "0", 3),
        strict=True,
    ):  # fmt: skip
        part = f"WORD_{int(upper)}" if half else ""
        source = part_source(operand, code.number, part, "f16" if half else "f32")
        if source is None:
            return None
        sources.append((source, half))
    target, upper = register_numbers(item.operands[0])[0], item.base == "v_fma_mixhi_f16"

    def step(wave: Wave) -> None:
        made = [source(wave) for source, _ in sources]
        known = wave.exec
        numbers = []
        for (words, mask, _), (_, half) in zip(made, sources, strict=True):
            known &= mask
            numbers.append(_reals(_from_half(words) if half else words))
        a, b, c = numbers
        with np.errstate(all="ignore"):
            values = _words((a.astype(np.float64) * b + c).astype(np.float32))
            if item.base != "v_fma_mix_f32":
                shift, old = np.uint32(16 if upper else 0), wave.vectors[target]
                kept = old & np.uint32(0xFFFF if upper else 0xFFFF0000)
                values = kept | _halves(values) << shift
        wave.set_vector(target, values, known, origin_of(made, wave))

    return step


def _word(operand: GcnOperand, upper: bool, negative: bool) -> GcnOperand:
    if not isinstance(operand, Registers):
        return operand
    return Registers(operand.bank, operand.first + int(upper and operand.count > 1), 1, negative)


def _selected_condition(code: DecodedInstruction) -> Step | None:
    """v_cndmask_b32_sdwa: a part of either source."""
    item, write = code.item, part_writer(code)
    parts = [
        part_source(operand, code.number, item.options.get(f"src{at}_sel", ""), "f32")
        for at, operand in enumerate(item.operands[1:3])
    ]
    if write is None or len(item.operands) < 4 or parts[0] is None or parts[1] is None:
        return None
    zero, one = parts[0], parts[1]
    chosen = scalar_source(item.operands[3], 2, code.number)
    target = register_numbers(item.operands[0])[0]

    def step(wave: Wave) -> None:
        mask = chosen(wave)
        if isinstance(mask, OpaqueWord):
            wave.forget(target, 1, mask)
            return
        made = [zero(wave), one(wave)]
        known = (made[1][1] & mask | made[0][1] & ~mask) & wave.exec
        write(wave, np.where(lanes_of(mask), made[1][0], made[0][0]), known, made)

    return step
