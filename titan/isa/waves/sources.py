"""Operands as functions of a wave: scalars, and rows of words with the lanes that are known."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from titan.isa.gcn.module import GcnOperand, Literal, Registers, SymbolOperand
from titan.isa.waves.arithmetic import Wide
from titan.isa.waves.state import BANK, FULL, NOT_WRITTEN, WORD, OpaqueWord, Scalar, Wave, Words

ScalarSource = Callable[[Wave], Scalar]
VectorSource = Callable[[Wave], tuple[Words, int, OpaqueWord]]
WideSource = Callable[[Wave], tuple[Wide, int, OpaqueWord]]
# Where flat addresses reach LDS and private memory: beyond all of global memory. What a program
# may know of them is their upper word.
LDS_APERTURE, PRIVATE_APERTURE = 0x0100_0000 << 32, 0x0200_0000 << 32
APERTURES = {"src_shared_base": LDS_APERTURE, "src_private_base": PRIVATE_APERTURE}
_SIGN = np.uint32(1 << 31)


def constant(operand: Literal, bits: int) -> int:
    """A literal as an operand of 32 or 64 bits: integers are extended, fractions converted."""
    if operand.real:
        if bits == 32:
            return operand.value
        (value,) = struct.unpack("<f", operand.value.to_bytes(4, "little"))
        return int.from_bytes(struct.pack("<d", value), "little")
    return operand.value & (1 << bits) - 1


def scalar_source(operand: GcnOperand, count: int, number: int) -> ScalarSource:
    """A scalar operand of one or two words of instruction `number`."""
    if isinstance(operand, Literal):
        value = constant(operand, 32 * count)
        return lambda wave: value
    if isinstance(operand, Registers) and operand.bank == "s":
        first = operand.first
        return lambda wave: wave.scalar(first, count)
    if count == 2 and isinstance(operand, SymbolOperand) and operand.name in APERTURES:
        base = APERTURES[operand.name]
        return lambda wave: base
    unknown = OpaqueWord(f"`{getattr(operand, 'name', 'an operand')}`", number)
    return lambda wave: unknown


def vector_source(operand: GcnOperand, number: int, real: bool = False) -> VectorSource:
    """A word a lane; scalars are the same in all. `real`: modifiers of the sign are applied."""
    if isinstance(operand, Registers) and operand.extended:
        extended, nothing = (
            OpaqueWord("a part extended by its sign", number),
            np.zeros(1, np.uint32),
        )
        return lambda wave: (nothing, 0, extended)
    if isinstance(operand, Registers) and operand.bank != "s":
        at = operand.first + (BANK if operand.bank == "a" else 0)

        def row(wave: Wave) -> tuple[Words, int, OpaqueWord]:
            return wave.vectors[at], wave.known[at], wave.origins[at]

        return _modified(row, operand) if real else row
    if isinstance(operand, Literal):
        fixed = np.array([constant(operand, 32)], np.uint32)
        return lambda wave: (fixed, FULL, NOT_WRITTEN)
    inner = scalar_source(operand, 1, number)

    def uniform(wave: Wave) -> tuple[Words, int, OpaqueWord]:
        value = inner(wave)
        if isinstance(value, OpaqueWord):
            return np.zeros(1, np.uint32), 0, value
        return np.array([value & WORD], np.uint32), FULL, NOT_WRITTEN

    if real and isinstance(operand, Registers):
        return _modified(uniform, operand)
    return uniform


def _modified(inner: VectorSource, operand: Registers) -> VectorSource:
    if not operand.negative and not operand.absolute:
        return inner

    def changed(wave: Wave) -> tuple[Words, int, OpaqueWord]:
        values, known, origin = inner(wave)
        if operand.absolute:
            values = values & ~_SIGN
        return (values ^ _SIGN if operand.negative else values), known, origin

    return changed


def selected(inner: VectorSource, selection: str) -> VectorSource | None:
    """A byte or half of each word (SDWA); None if the selection is unknown."""
    if selection in ("", "DWORD"):
        return inner
    kind, _, index = selection.partition("_")
    bits = {"BYTE": 8, "WORD": 16}.get(kind)
    if bits is None or not index.isdigit():
        return None
    shift, mask = np.uint32(bits * int(index)), np.uint32((1 << bits) - 1)

    def part(wave: Wave) -> tuple[Words, int, OpaqueWord]:
        values, known, origin = inner(wave)
        return values >> shift & mask, known, origin

    return part


def part_source(
    operand: GcnOperand, number: int, selection: str, kind: str, negative: bool = False
) -> VectorSource | None:
    """A word a lane of which a part is meant: the one that is selected (SDWA, `op_sel`), extended
    by its sign where the operand says so, with the modifiers of a number of that kind ("f16",
    "i16", "b16", "f32", "u32"). None if the selection is unknown.
    """
    half = kind.endswith("16")
    if isinstance(operand, Literal):
        if half and operand.real:
            if kind != "f16":
                return None
            (value,) = struct.unpack("<f", operand.value.to_bytes(4, "little"))
            operand = Literal(int.from_bytes(struct.pack("<e", value), "little"))
        inner: VectorSource | None = selected(vector_source(operand, number), selection)
    else:
        plain = operand
        if isinstance(operand, Registers):
            plain = replace(operand, negative=False, absolute=False, extended=False)
        inner = selected(vector_source(plain, number), selection)
    if inner is None:
        return None
    of = operand if isinstance(operand, Registers) else None
    bits = {"BYTE": 8, "WORD": 16}.get(selection.partition("_")[0], 32)
    extended = of is not None and of.extended and bits < 32
    absolute = of is not None and of.absolute
    negative = negative != (of is not None and of.negative)
    if not (extended or absolute or negative):
        return inner
    if (absolute or negative) and kind[0] != "f":
        return None
    top = np.uint32(1 << bits - 1)
    sign = np.uint32(1 << (15 if half else 31))

    def changed(wave: Wave) -> tuple[Words, int, OpaqueWord]:
        values, known, origin = inner(wave)
        if extended:
            values = (values ^ top) - top
        if absolute:
            values = values & ~sign
        return (values ^ sign if negative else values), known, origin

    return changed


def wide_source(operand: GcnOperand, number: int) -> WideSource:
    """A number of 64 bits a lane."""
    if isinstance(operand, Registers) and operand.bank != "s":
        at = operand.first + (BANK if operand.bank == "a" else 0)

        def pair(wave: Wave) -> tuple[Wide, int, OpaqueWord]:
            both = wave.known[at] & wave.known[at + 1]
            origin = wave.origins[at + int(wave.known[at] == FULL)]
            low = wave.vectors[at].astype(np.uint64)
            return low | wave.vectors[at + 1].astype(np.uint64) << np.uint64(32), both, origin

        return pair
    inner = scalar_source(operand, 2, number)

    def uniform(wave: Wave) -> tuple[Wide, int, OpaqueWord]:
        value = inner(wave)
        if isinstance(value, OpaqueWord):
            return np.zeros(1, np.uint64), 0, value
        return np.array([value], np.uint64), FULL, NOT_WRITTEN

    return uniform


def signed_wide_source(operand: GcnOperand, number: int) -> WideSource:
    """A number of binary64 with its modifiers; a literal is its upper word."""
    if isinstance(operand, Literal) and not operand.real and not -16 <= operand.value <= 64:
        operand = Literal((operand.value & WORD) << 32)
    inner, sign = wide_source(operand, number), np.uint64(1 << 63)
    absolute = isinstance(operand, Registers) and operand.absolute
    negative = isinstance(operand, Registers) and operand.negative
    if not absolute and not negative:
        return inner

    def source(wave: Wave) -> tuple[Wide, int, OpaqueWord]:
        values, known, why = inner(wave)
        values = values & ~sign if absolute else values
        return (values ^ sign if negative else values), known, why

    return source
