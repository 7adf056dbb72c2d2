"""Operands as functions of a wave: scalars, and rows of words with the lanes that are known."""

from __future__ import annotations

import struct
from collections.abc import Callable

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
