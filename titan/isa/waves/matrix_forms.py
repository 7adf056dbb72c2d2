"""Matrix products by their names: shape, formats of the factors, and where their numbers lie.

A lane has numbers of one row of A (column of B): the lanes are `64 / M` groups of M, and group g
has consecutive numbers along K. Of 8-bit numbers in products of mixed widths (f8f6f4) it has two
parts of 16: 16 g to 16 g + 15 of the lower half of K, and of the upper half. Such a product may
have scales: lane by lane one byte of a register, a power of two with the bias 127 (255 is NaN), for
32 numbers along K of the lane's row, those from 32 g on. Sources: CDNA3 and CDNA4 instruction set
architecture, 7.1 and 7.2; AMD's text on programming matrix cores; products with random scales that
Triton compiles for gfx950 are those of NumPy with this order and no other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Registers
from titan.isa.numbers.formats import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    F16,
    F32,
    F64,
    S8,
    TF32,
    FloatFormat,
    IntegerFormat,
)
from titan.isa.waves.byte_steps import BYTE_FORMATS
from titan.isa.waves.decode import register_numbers
from titan.isa.waves.state import LANES, Wave, Words

Integers = NDArray[np.int64]
NumberFormat = FloatFormat | IntegerFormat
SCALED_TOGETHER = 32  # numbers along K with one scale
_SHAPE = re.compile(r"v_mfma_(scale_)?(f32|i32|f64)_(16|32)x\3x(\d+)_?(\w+)$")
_FACTORS: dict[str, NumberFormat] = {
    "f16": F16, "bf16": BF16, "bf16_1k": BF16, "f32": F32, "xf32": TF32, "f64": F64, "i8": S8,
}  # fmt: skip
_MIXED = (None, None, E2M3, E3M2, E2M1)  # by cbsz and blgp; the first two are of the target


@dataclass(frozen=True, slots=True)
class ScaleOperand:
    """A register of scales, of which a byte is chosen."""

    operand: GcnOperand
    byte: int


@dataclass(frozen=True, slots=True)
class ProductForm:
    """A product of one block: `rows` by `rows` results in `sums`, `depth` products for each."""

    rows: int
    depth: int
    sums: str
    factors: tuple[NumberFormat, NumberFormat]
    mixed: bool = False
    scales: tuple[ScaleOperand, ScaleOperand] | None = None

    @property
    def groups(self) -> int:
        """Of lanes with one row each."""
        return LANES // self.rows


def product_form(item: AssemblyInstruction, target: str) -> ProductForm | None:
    """The form of a product; None for those that are not computed: several blocks, sparse ones."""
    found = _SHAPE.match(item.base)
    if found is None or "abid" in item.options:
        return None
    scaled, sums, rows, depth, kinds = found.groups()
    bytes_of = BYTE_FORMATS.get(target, {})
    mixed = kinds == "f8f6f4"
    if not mixed and ("cbsz" in item.options or "blgp" in item.options):
        return None
    if mixed:
        table = (*bytes_of.values(), *_MIXED[2:])
        codes = item.integer("cbsz"), item.integer("blgp")
        if max(codes) >= len(table):
            return None
        factors: list[NumberFormat | None] = [table[code] for code in codes]
    else:
        both = kinds.split("_") if kinds.count("_") and kinds not in _FACTORS else [kinds] * 2
        factors = [bytes_of.get(one) or _FACTORS.get(one) for one in both]
    first, second = factors
    if first is None or second is None:
        return None
    scales = _scales(item) if scaled else None
    form = ProductForm(int(rows), int(depth), sums, (first, second), mixed, scales)
    return form if _suits(form, item) else None


def _suits(form: ProductForm, item: AssemblyInstruction) -> bool:
    """Whether the registers hold one block of such numbers."""
    words = form.rows**2 // LANES * (2 if form.sums == "f64" else 1)
    if len(register_numbers(item.operands[0])) != words:
        return False
    for operand, one in zip(item.operands[1:3], form.factors, strict=True):
        if not isinstance(operand, Registers):
            return False
        bits = 32 if one is TF32 else one.bits
        if operand.count * 32 * form.groups < form.depth * bits:
            return False
        if not form.mixed and operand.count * 32 * form.groups != form.depth * bits:
            return False
    return True


def _scales(item: AssemblyInstruction) -> tuple[ScaleOperand, ScaleOperand]:
    """The registers of scales, and by op_sel (lower bit) and op_sel_hi which of their bytes."""
    chosen = []
    for name in ("op_sel", "op_sel_hi"):
        bits = item.options.get(name, "[0,0,0]").strip("[]").split(",")
        chosen.append([int(bit) for bit in bits])
    low, high = chosen
    first, second = (ScaleOperand(item.operands[4 + at], low[at] + 2 * high[at]) for at in range(2))
    return first, second


def elements(wave: Wave, registers: range, form: ProductForm, one: NumberFormat) -> Integers:
    """The bits of a factor as (rows, depth)."""
    bits = 32 if one is TF32 else one.bits
    each = form.depth // form.groups
    words: Words = np.ascontiguousarray(wave.vectors[list(registers)].T)  # a lane in each row
    parts = _numbers(words, bits)[:, :each]
    if form.mixed and bits == 8:
        halves = parts.reshape(form.groups, form.rows, 2, each // 2)
        return halves.transpose(1, 2, 0, 3).reshape(form.rows, form.depth)
    by_group = parts.reshape(form.groups, form.rows, each)
    return by_group.transpose(1, 0, 2).reshape(form.rows, form.depth)


def _numbers(words: Words, bits: int) -> Integers:
    """The numbers of `bits` bits that follow each other in the words of each row."""
    whole = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}.get(bits)
    if whole is not None:
        return words.view(whole).astype(np.int64)
    single = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    count = single.shape[1] // bits
    places = np.int64(1) << np.arange(bits, dtype=np.int64)
    return single[:, : count * bits].reshape(len(words), count, bits).astype(np.int64) @ places


def result_places(form: ProductForm, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each register (of f64: pair of registers) and lane of the result."""
    lane, register = np.arange(LANES)[None, :], np.arange(count)[:, None]
    group = lane // form.rows
    if form.sums == "f64":
        row = 4 * register + group
    else:
        row = 4 * form.groups * (register // 4) + 4 * group + register % 4
    return row, np.broadcast_to(lane % form.rows, row.shape)
