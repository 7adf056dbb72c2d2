"""Matrix products of f16, bf16 and 8-bit numbers with binary32 sums, for runs that compute.

A lane has consecutive elements along K of one row of A (column of B): the lanes are `64 / M` groups
of M. Of the result it has one column; four rows follow each other in its registers, then those of
the next group of four (CDNA3 and CDNA4 instruction set architecture, 7.1.4).

Sums: 8 products along K are aligned to the largest of them, cut to 24 fraction bits rounding down,
added, and that is added to the running sum, to nearest even; then the next 8 (CDNA3, after
arXiv:2511.10909). For gfx90a and gfx950, whose sums are not documented, this is an assumption; so
is it on gfx950 that 16 products of 8-bit numbers are summed together. These have the formats of OCP
there (CDNA4, 7.1); those of gfx942 have one zero (CDNA3, 7.1).
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import Registers
from titan.isa.numbers.formats import BF16, F16, FloatFormat, decode
from titan.isa.numbers.sums import split
from titan.isa.waves.byte_steps import BYTE_FORMATS
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.state import LANES, OpaqueWord, Wave, Words

TOGETHER, TOGETHER_OF_BYTES = 8, 16
KEPT_BITS = 24
_FORM = re.compile(r"v_mfma_f32_(16|32)x\1x(\d+)_?(f16|bf16)(_1k)?$")
_FORM_OF_BYTES = re.compile(r"v_mfma_f32_(16|32)x\1x(\d+)_(fp8|bf8)_(fp8|bf8)$")
_FORMATS = {"f16": F16, "bf16": BF16}
_KNOWN = OpaqueWord("nothing", -1)


def product_step(code: DecodedInstruction, target: str) -> Step | None:
    """The step of a product of one block; None for the forms that are not computed."""
    found = _FORM.match(code.item.base)
    formats = _FORMATS | BYTE_FORMATS.get(target, {})
    of_bytes = _FORM_OF_BYTES.match(code.item.base) if target in BYTE_FORMATS else None
    named = found or of_bytes
    if named is None or any(one in code.item.options for one in ("cbsz", "abid", "blgp")):
        return None
    rows, depth = int(named[1]), int(named[2])
    forms = formats[named[3]], formats[named[3 if of_bytes is None else 4]]
    sums_to, first, second, added = code.item.operands[:4]
    results = register_numbers(sums_to)
    groups = LANES // rows
    if len(results) * LANES != rows * rows or not isinstance(first, Registers):
        return None  # several blocks
    if first.count * (32 // forms[0].bits) * groups != depth:
        return None
    factors = [register_numbers(one) for one in (first, second)]
    start = register_numbers(added)

    def step(wave: Wave) -> None:
        used = [register for one in (*factors, start) for register in one]
        unknown = [at for at in used if wave.known[at] & wave.exec != wave.exec]
        if unknown:
            for register in results:
                wave.forget(register, 1, wave.origins[unknown[0]])
            return
        a, b = (_elements(wave, one, rows, form) for one, form in zip(factors, forms, strict=True))
        sums = np.zeros((rows, rows), np.float32)
        row, column = _places(rows, len(results))
        if start:
            sums[row, column] = wave.vectors[list(start)].view(np.float32)
        sums = accumulate(a, b, sums, *forms)
        values = np.ascontiguousarray(sums[row, column]).view(np.uint32)
        for at, register in enumerate(results):
            wave.set_vector(register, values[at], wave.exec, _KNOWN)

    return step


def _elements(wave: Wave, registers: range, rows: int, form: FloatFormat) -> NDArray[np.int64]:
    """The bits of a factor as (rows, depth)."""
    words: Words = np.ascontiguousarray(wave.vectors[list(registers)].T)
    parts = words.view(np.uint8 if form.bits == 8 else np.uint16)  # (lanes, elements of a lane)
    by_group = parts.astype(np.int64).reshape(LANES // rows, rows, -1)
    return by_group.transpose(1, 0, 2).reshape(rows, -1)


def _places(rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each register and lane of the result."""
    lane, register = np.arange(LANES)[None, :], np.arange(count)[:, None]
    group, groups = lane // rows, LANES // rows
    row = 4 * groups * (register // 4) + 4 * group + register % 4
    return row, np.broadcast_to(lane % rows, row.shape)


def accumulate(
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    sums: NDArray[np.float32],
    form: FloatFormat,
    other: FloatFormat | None = None,
) -> NDArray[np.float32]:
    """`a @ b.T + sums`, with a and b as bits of shape (rows, K); b in `other` if that is given."""
    other = other or form
    a_whole, a_exponent, a_special = split(a, form)
    b_whole, b_exponent, b_special = split(b, other)
    fraction = form.fraction_bits + other.fraction_bits
    together = TOGETHER_OF_BYTES if form.bits == 8 else TOGETHER
    with np.errstate(all="ignore"):
        for at in range(0, a.shape[1], together):
            part = slice(at, at + together)
            products = a_whole[:, None, part] * b_whole[None, :, part]
            exponents = a_exponent[:, None, part] + b_exponent[None, :, part]
            exponents = np.where(products == 0, -126, exponents)
            largest = exponents.max(axis=2)
            shift = exponents - largest[:, :, None] + KEPT_BITS - fraction
            left, right = np.clip(shift, 0, 40), np.clip(-shift, 0, 62)
            total = ((products << left) >> right).sum(axis=2)
            exact = np.ldexp(total.astype(np.float64), largest - KEPT_BITS)
            sums = (exact + sums).astype(np.float32)
    special = a_special.any() or b_special.any()
    return _special_sums(_reals(a, form), _reals(b, other), sums) if special else sums


def _special_sums(
    left: NDArray[np.float64], right: NDArray[np.float64], sums: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Rows and columns with infinities or NaN give what exact arithmetic would."""
    with np.errstate(all="ignore"):
        exact = (left @ right.T).astype(np.float32)
    return np.where(np.isfinite(exact), sums, exact)


def _reals(bits: NDArray[np.int64], form: FloatFormat) -> NDArray[np.float64]:
    if form.bits == 8:
        return np.array([decode(one, form) for one in range(256)])[bits]
    if form is F16:
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
