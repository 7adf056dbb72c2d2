"""Undefined bits of scalar registers, and of the condition code: where each bit comes from.

The bits of masks stay apart, as they are lanes. Known operands of bitwise instructions, shifts and
halves keep bits defined; of any other instruction all bits of the result rest on all operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import GcnOperand
from titan.isa.gcn.operands import EXEC
from titan.isa.waves.decode import (
    SCALAR_BASE,
    DecodedInstruction,
    register_numbers,
    results_of,
)
from titan.isa.waves.followed import sets_condition
from titan.isa.waves.scalar_steps import BY_CONDITION
from titan.isa.waves.sources import scalar_source
from titan.isa.waves.state import OpaqueWord, Scalar, Wave
from titan.isa.waves.undefined_words import (
    BITS,
    CERTAIN,
    NOWHERE,
    OF_REGISTERS,
    Origins,
    UndefinedWord,
    of_mask,
    without_certain,
)

CONDITION = -1  # beside the registers
_BITWISE = ("s_mov_b", "s_and_b", "s_or_b", "s_xor_b", "s_andn2_b", "s_orn2_b", "s_not_b",
            "s_nand_b", "s_nor_b", "s_xnor_b")  # fmt: skip
_HALVES = {"s_pack_ll_b32_b16": (0, 0), "s_pack_lh_b32_b16": (0, 1), "s_pack_hh_b32_b16": (1, 1),
           "s_pack_hl_b32_b16": (1, 0)}  # fmt: skip
_NONE: Origins = np.full(BITS, NOWHERE, np.int32)


class UndefinedScalars:
    """The registers of all waves; only those of which something is undefined are kept."""

    def __init__(self, waves: Iterable[Wave]) -> None:
        self._of: dict[int, dict[int, Origins]] = {
            wave.number: {CONDITION: np.full(BITS, _origin_of_condition(), np.int32)}
            for wave in waves
        }
        self._made: Origins = np.full(2 * BITS, NOWHERE, np.int32)
        self._condition: Origins | None = None

    def registers(self, wave: Wave) -> dict[int, Origins]:
        """Those of which something is undefined."""
        return self._of[wave.number]

    def begin(self, wave: Wave, register: int) -> None:
        """Nothing has written a register."""
        self.put(wave, register, np.full(BITS, OF_REGISTERS + register | CERTAIN, np.int32))

    def of(self, wave: Wave, register: int) -> Origins:
        """The origin of each bit of a register."""
        return self._of[wave.number].get(register, _NONE)

    def condition(self, wave: Wave) -> Origins:
        """That of the condition code, in all bits."""
        return self.of(wave, CONDITION)

    def word(self, wave: Wave, register: int) -> UndefinedWord:
        """A register as a word of every lane."""
        return of_mask(self.of(wave, register))

    def mask(self, wave: Wave, registers: Iterable[int]) -> Origins:
        """By lane the bits of a mask, in one or two registers."""
        found = np.full(2 * BITS, NOWHERE, np.int32)
        for at, register in enumerate(registers):
            bits = self._of[wave.number].get(register)
            if bits is not None:
                found[BITS * at : BITS * at + BITS] = bits
        return found

    def put(self, wave: Wave, register: int, bits: Origins) -> None:
        """Some bits of a register are undefined, or none."""
        if (bits != NOWHERE).any():
            self._of[wave.number][register] = bits
        else:
            self._of[wave.number].pop(register, None)

    def define(self, wave: Wave, register: int) -> None:
        """A register is written with what is defined."""
        self._of[wave.number].pop(register, None)

    # -------------------------------------------------------------------------- execution

    def compute(self, wave: Wave, code: DecodedInstruction) -> None:
        """What a scalar instruction leaves undefined, before it overwrites its operands."""
        base, registers = code.item.base, self._of[wave.number]
        by_condition = base.startswith(BY_CONDITION)
        found = np.full(2 * BITS, NOWHERE, np.int32)
        self._made, self._condition = found, _NONE if sets_condition(base) else None
        if registers.keys().isdisjoint(code.touches) and not (
            by_condition and CONDITION in registers
        ):
            return
        given = code.item.operands[results_of(code.item, code.opcode) :]
        if code.opcode.both or base.startswith(("s_cmov", "s_bitset")):
            given = (*code.item.operands[:1], *given)
        if base.startswith(("s_cselect", "s_cmov")) and isinstance(wave.condition, int):
            by_condition = False
            first = bool(wave.condition) is base.startswith("s_cselect")
            found = self.mask(wave, register_numbers(given[0 if first else 1]))
        elif base.startswith(_BITWISE) or "saveexec" in base or "wrexec" in base:
            found = self._bitwise(wave, code, given)
        else:
            found = self._other(wave, code, given)
        if by_condition and CONDITION in registers:
            found = np.maximum(found, without_certain(registers[CONDITION]).max())
        if not base.startswith(("s_mov_b", "s_cselect", "s_cmov")):
            found = without_certain(found)
        self._made = found
        if self._condition is not None:
            self._condition = np.full(BITS, without_certain(found).max(), np.int32)

    def leave(self, wave: Wave, code: DecodedInstruction) -> list[Origins]:
        """What it writes; what it lets decide which lanes take part."""
        used, base = [], code.item.base
        saves = "saveexec" in base
        if saves or "wrexec" in base:
            used.append(self._made)
        results = results_of(code.item, code.opcode)
        for operand in code.item.operands[:results]:
            for at, register in enumerate(register_numbers(operand)):
                bits = self._made[BITS * (at % 2) : BITS * (at % 2) + BITS]
                if register - SCALAR_BASE in (EXEC, EXEC + 1):
                    used.append(bits)
                elif saves:
                    self.define(wave, register)
                else:
                    self.put(wave, register, bits.copy())
        if self._condition is not None:
            self.put(wave, CONDITION, self._condition)
        return used

    def made_now(self) -> Origins:
        """What the instruction makes that is executed."""
        return self._made

    def leave_arms(self, wave: Wave, register: int, taken: UndefinedWord) -> None:
        """Arms that data choose have perhaps written a register, of these values."""
        kept = without_certain(self.of(wave, register))
        origin = int(without_certain(taken.origins).max())
        self.put(wave, register, np.maximum(kept, np.int32(origin)))

    # ------------------------------------------------------------------------- operations

    def _bitwise(
        self, wave: Wave, code: DecodedInstruction, given: Sequence[GcnOperand]
    ) -> Origins:
        """Bit by bit; a known bit of one operand may decide alone."""
        base = code.item.base.removeprefix("s_")
        count = 1 if base.endswith("32") else 2
        values = [scalar_source(one, count, code.number)(wave) for one in given]
        masks = [self.mask(wave, register_numbers(one)) for one in given]
        if "exec" in base:
            values.append(wave.exec)
            masks.append(np.full(2 * BITS, NOWHERE, np.int32))
        found = masks[0]
        for mask in masks[1:]:
            found = np.maximum(found, mask)
        for at, value in enumerate(values):
            deciding = _deciding(base.partition("_")[0], at)
            if deciding is not None and not isinstance(value, OpaqueWord):
                found = np.where(_bits_of(value) == deciding, NOWHERE, found)
        return found.astype(np.int32)

    def _other(self, wave: Wave, code: DecodedInstruction, given: Sequence[GcnOperand]) -> Origins:
        base = code.item.base
        words = [self.mask(wave, register_numbers(one)) for one in given]
        if base in _HALVES:
            low, high = _HALVES[base]
            parts = [words[0][16 * low : 16 * low + 16], words[1][16 * high : 16 * high + 16]]
            return np.concatenate([*parts, np.full(BITS, NOWHERE, np.int32)])
        if base in ("s_lshl_b32", "s_lshr_b32", "s_lshl_b64", "s_lshr_b64", "s_bfe_u32"):
            by: Scalar = scalar_source(given[1], 1, code.number)(wave)
            if not isinstance(by, OpaqueWord):
                return _shifted(base, words[0], by)
        found = np.full(2 * BITS, NOWHERE, np.int32)
        for register in (register for one in given for register in register_numbers(one)):
            found = np.maximum(found, self.of(wave, register).max())
        return found


def _origin_of_condition() -> int:
    return OF_REGISTERS + SCALAR_BASE - 1  # no register has this number


def _deciding(operation: str, at: int) -> int | None:
    """The bit of an operand that decides the result alone."""
    if operation in ("and", "nand"):
        return 0
    if operation in ("or", "nor"):
        return 1
    if operation in ("andn2", "orn1"):
        return at
    if operation in ("orn2", "andn1"):
        return 1 - at
    return None


def _bits_of(value: int) -> NDArray[np.int64]:
    data = np.frombuffer((value & (1 << 64) - 1).to_bytes(8, "little"), np.uint8)
    return np.unpackbits(data, bitorder="little").astype(np.int64)


def _shifted(base: str, word: Origins, by: int) -> Origins:
    """Shifts and fields of a known place."""
    width = 64 if base.endswith("64") else BITS
    found = np.full(2 * BITS, NOWHERE, np.int32)
    if base == "s_bfe_u32":
        first, count = by & 31, min(by >> 16 & 127, BITS - (by & 31))
        found[:count] = word[first : first + count]
        return found
    by &= width - 1
    if base.startswith("s_lshl"):
        found[by:width] = word[: width - by]
    else:
        found[: width - by] = word[by:width]
    return found
