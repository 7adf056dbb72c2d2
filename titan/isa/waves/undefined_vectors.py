"""Undefined bits of vector registers: what instructions of the vector unit leave undefined.

Lanes are followed through exchanges (DPP, swizzles, permutations) whose places are known, rows and
columns through products of matrices whose form is (`matrix_forms.py`). Results of others are
undefined in all lanes if something is in one of the operands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import GcnOperand
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC, VCC
from titan.isa.waves.decode import (
    SCALAR_BASE,
    DecodedInstruction,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.lane_exchanges import NOBODY, lanes_given
from titan.isa.waves.matrix_forms import product_form, result_places
from titan.isa.waves.moved_lanes import dpp_goes, dpp_lanes, swap_rows, swizzle_lanes
from titan.isa.waves.numbering import keeps_part
from titan.isa.waves.skipped_lanes import LeftArms
from titan.isa.waves.sources import scalar_source, vector_source
from titan.isa.waves.state import LANES, OpaqueWord, Wave, lanes_of
from titan.isa.waves.undefined_bits import (
    Given,
    compared_bits,
    single_word,
    surely_changes,
    words_of_result,
)
from titan.isa.waves.undefined_scalars import UndefinedScalars
from titan.isa.waves.undefined_words import (
    ALL_BITS,
    BITS,
    DEFINED,
    NOWHERE,
    Origins,
    UndefinedWord,
    made,
    merged,
    without_certain,
)

_VCC = (SCALAR_BASE + VCC, SCALAR_BASE + VCC + 1)
_MASKED = ("v_cndmask_b", "v_addc_", "v_subb_", "v_subbrev_", "v_add_co_ci_", "v_sub_co_ci_")
_EVERY = np.ones(LANES, np.bool_)
Lanes = NDArray[np.bool_]


class UndefinedVectors:
    """The registers of all waves; only those of which something is undefined are kept."""

    def __init__(self, scalars: UndefinedScalars, target: str) -> None:
        self._scalars, self._target = scalars, target
        self._of: dict[int, dict[int, UndefinedWord]] = {}
        self._results: list[UndefinedWord] | None = None
        self._mask: Origins = DEFINED.origins
        self._scalar: Origins | None = None
        self._lanes: Lanes = _EVERY
        self._chooses = False  # by a mask that is not known
        self._forms = True  # the lanes that are moved are known

    def begin(self, wave: Wave, register: int, word: UndefinedWord, lanes: Lanes) -> None:
        """Nothing has written some lanes of a register."""
        self._of.setdefault(wave.number, {})[register] = word if lanes.all() else word.where(lanes)

    def of(self, wave: Wave, register: int) -> UndefinedWord:
        """What is undefined of a register, in all lanes; of a scalar one the same in each."""
        if register >= SCALAR_BASE:
            return self._scalars.word(wave, register)
        return self._of[wave.number].get(register, DEFINED)

    def put(self, wave: Wave, register: int, word: UndefinedWord, lanes: Lanes) -> None:
        """Some lanes of a register are written."""
        registers = self._of[wave.number]
        old = registers.get(register)
        if old is None and not word.any:
            return
        if word.any and isinstance(wave.arms, LeftArms):
            wave.arms.written.pop(register, None)  # what arms have written there is gone
        if old is not None and not lanes.all():
            word = UndefinedWord(
                np.where(lanes, word.bits, old.bits), np.where(lanes, word.origins, old.origins)
            )
        elif old is None:
            word = word.where(lanes)
        if word.any:
            registers[register] = word
        else:
            registers.pop(register, None)

    # -------------------------------------------------------------------------- execution

    def compute(self, wave: Wave, code: DecodedInstruction) -> None:
        """What an instruction leaves undefined, before it overwrites its operands."""
        self._results, self._scalar = None, None
        self._mask, self._lanes = DEFINED.origins, wave.active
        quiet = self._of[wave.number].keys().isdisjoint(code.touches)
        if quiet and self._scalars.registers(wave).keys().isdisjoint(code.touches):
            return
        base = code.item.base
        if code.opcode.kind is OpcodeKind.MATRIX:
            self._product(wave, code)
            self._lanes = _EVERY
        elif code.opcode.kind is OpcodeKind.CROSS_LANE:
            self._exchanged(wave, code)
        elif base in ("v_readlane_b32", "v_readfirstlane_b32"):
            self._lane_read(wave, code)
        elif base == "v_writelane_b32":
            self._lane_written(wave, code)
        elif base == "v_swap_b32" or base.startswith("v_permlane"):
            self._swapped(wave, code)
        else:
            self._computed(wave, code)

    def leave(self, wave: Wave, code: DecodedInstruction) -> list[Origins]:
        """What it writes; what it lets decide which lanes take part."""
        used: list[Origins] = []
        if self._results is None and self._scalar is None:
            return used
        at, results = 0, self._results or []
        registers = written_in_order(code)
        first = min((one for one in registers if one >= SCALAR_BASE), default=0)
        for register in registers:
            if register < SCALAR_BASE:
                self.put(wave, register, results[at], self._lanes)
                at += 1
                continue
            bits = self._scalar
            if bits is None:  # a mask, of which lanes that take no part have zeros
                there = np.where(wave.active, self._mask, np.int32(NOWHERE))
                begins = BITS * (register - first)
                bits = there[begins : begins + BITS]
            if register - SCALAR_BASE in (EXEC, EXEC + 1):
                used.append(bits)
            else:
                self._scalars.put(wave, register, bits.copy())
        if code.item.base.startswith("v_cmpx"):
            used.append(np.where(wave.active, self._mask, np.int32(NOWHERE)))
        return used

    def made_now(self, wave: Wave) -> Origins:
        """By lane the mask that is made by the instruction which is executed."""
        found: Origins = np.where(wave.active, self._mask, np.int32(NOWHERE))
        return found

    # --------------------------------------------------------------------- moves of lanes

    def _everywhere(self, wave: Wave, code: DecodedInstruction) -> None:
        """Results that rest on all lanes of all operands."""
        found = merged(self.of(wave, register) for register in code.reads)
        self._give_all(code, int(without_certain(found.origins).max()))

    def _product(self, wave: Wave, code: DecodedInstruction) -> None:
        """A product: a row of the first factor, a column of the second, and the sum before."""
        item = code.item
        form = None if code.opcode.both else product_form(item, self._target)
        if form is None:
            self._everywhere(wave, code)
            return
        factors = []
        for at in (1, 2):
            operands = item.operands[at : at + 4 : 3]  # the factor, and its scales
            word = merged(
                self.of(wave, one) for named in operands for one in register_numbers(named)
            )
            by_group = without_certain(word.origins).reshape(form.groups, form.rows)
            factors.append(by_group.max(axis=0))
        registers = written_in_order(code)
        each = 2 if form.sums == "f64" else 1
        rows, columns = result_places(form, len(registers) // each)
        sums = register_numbers(item.operands[3])
        self._results = []
        for at in range(len(registers)):
            before = self.of(wave, sums[at]).unsure() if sums else DEFINED
            row, column = rows[at // each], columns[at // each]
            origins = np.maximum(np.maximum(factors[0][row], factors[1][column]), before.origins)
            bits = np.where(origins != NOWHERE, ALL_BITS, np.uint32(0))
            self._results.append(UndefinedWord(bits, origins))

    def _give_all(self, code: DecodedInstruction, origin: int) -> None:
        count = sum(register < SCALAR_BASE for register in written_in_order(code))
        word = DEFINED
        if origin != NOWHERE:
            word = UndefinedWord(np.full(LANES, ALL_BITS), np.full(LANES, origin, np.int32))
        self._results = [word] * count

    def _exchanged(self, wave: Wave, code: DecodedInstruction) -> None:
        item = code.item
        lanes, address = None, DEFINED
        if item.base == "ds_swizzle_b32":
            lanes = swizzle_lanes(item)
        elif item.base in ("ds_bpermute_b32", "ds_permute_b32"):
            lanes = lanes_given(wave, code)
            address = merged(self.of(wave, at) for at in register_numbers(item.operands[1]))
            address = address.where(wave.active)
        if lanes is None or (address.any and item.base == "ds_permute_b32"):
            self._everywhere(wave, code)
            return
        data = self.of(wave, register_numbers(item.operands[-1])[0])
        there = (lanes != NOBODY) & wave.active[np.where(lanes >= 0, lanes, 0)]
        found = data.of_lanes(lanes, there)
        wrong = address.bits != 0
        self._results = [
            UndefinedWord(
                np.where(wrong, ALL_BITS, found.bits),
                np.where(wrong, without_certain(address.origins), found.origins),
            )
        ]

    def _lane_read(self, wave: Wave, code: DecodedInstruction) -> None:
        item, word = code.item, self.of(wave, next(iter(register_numbers(code.item.operands[1]))))
        lane: int | OpaqueWord = max((wave.exec & -wave.exec).bit_length() - 1, 0)
        chosen = DEFINED
        if item.base == "v_readlane_b32":
            lane = scalar_source(item.operands[2], 1, code.number)(wave)
            chosen = merged(self.of(wave, at) for at in register_numbers(item.operands[2]))
        if isinstance(lane, OpaqueWord) or chosen.any:
            word = merged([word, chosen]).unsure()
            bits, origin = int(np.bitwise_or.reduce(word.bits)), int(word.origins.max())
            bits = 0xFFFF_FFFF if chosen.any else bits
        else:
            lane &= wave.width - 1
            bits, origin = int(word.bits[lane]), int(word.origins[lane])
        there = np.array([bits >> at & 1 for at in range(BITS)], np.bool_)
        self._scalar = np.where(there, origin, NOWHERE).astype(np.int32)

    def _lane_written(self, wave: Wave, code: DecodedInstruction) -> None:
        _, value, place = code.item.operands[:3]
        lane = scalar_source(place, 1, code.number)(wave)
        word = merged(self.of(wave, at) for at in register_numbers(value))
        if isinstance(lane, OpaqueWord):
            chosen = merged(self.of(wave, at) for at in register_numbers(place))
            old = self.of(wave, register_numbers(code.item.operands[0])[0])
            self._results = [merged([word, chosen, old]).unsure()]
            self._lanes = _EVERY
            return
        self._results = [word]
        self._lanes = np.arange(LANES) == lane & wave.width - 1

    def _swapped(self, wave: Wave, code: DecodedInstruction) -> None:
        item = code.item
        registers = [register_numbers(one)[0] for one in item.operands[:2]]
        odd = swap_rows(item.base)
        if item.base != "v_swap_b32" and (odd is None or wave.exec != wave.lanes_all):
            self._everywhere(wave, code)
            self._lanes = _EVERY
            return
        first, second = (self.of(wave, one) for one in registers)
        if odd is None:
            self._results = [second, first]
            return
        shift = 32 if "32_swap" in item.base else 16
        down, up = (np.roll(np.arange(LANES), by) for by in (shift, -shift))
        self._results = [
            merged([first.where(~odd), second.of_lanes(down, odd)]),
            merged([second.where(odd), first.of_lanes(up, ~odd)]),
        ]

    # -------------------------------------------------------------------------- arithmetic

    def _computed(self, wave: Wave, code: DecodedInstruction) -> None:
        item, self._chooses = code.item, False
        results = results_of(item, code.opcode)
        operands: tuple[GcnOperand, ...] = item.operands[results:]
        if code.opcode.both:
            operands = (*operands, *item.operands[:1])
        words = [[self.of(wave, at) for at in register_numbers(one)] for one in operands]
        keeps = keeps_part(item) or bool(getattr(item.operands[0], "half", ""))
        self._forms = True
        if item.opcode.endswith("_dpp"):
            keeps = self._move_lanes(wave, code, words) or keeps
        mask = DEFINED.origins
        if item.base.startswith((*_MASKED, "v_div_fmas")):
            mask = self._mask_of(wave, code, operands)
            words, operands = words[:2] if len(words) > 2 else words, operands[:2]
            if item.base.startswith("v_div_fmas"):
                words = [[self.of(wave, at) for at in register_numbers(one)] for one in
                         item.operands[results:]]  # fmt: skip
        if item.base == "v_cndmask_b32":
            words = self._chosen(wave, code, words)
        self._results = self._results_of(wave, code, operands, words, keeps)
        undefined = mask != NOWHERE
        if undefined.any():
            whole = UndefinedWord(np.where(undefined, ALL_BITS, np.uint32(0)), mask)
            self._results = [merged([one, whole]) for one in self._results]
        if any(register >= SCALAR_BASE for register in code.writes):
            found = compared_bits(item, [[one.bits for one in word] for word in words])
            every = merged(one for word in words for one in word).unsure()
            self._mask = np.maximum(made(found, every.origins).origins, mask)

    def _move_lanes(
        self, wave: Wave, code: DecodedInstruction, words: list[list[UndefinedWord]]
    ) -> bool:
        """The first source of each lane is that of another one (DPP); whether lanes may be kept
        that are not known."""
        lanes, goes = dpp_lanes(code.item), dpp_goes(code.item, wave.active)
        if lanes is None or goes is None:
            for at, word in enumerate(words[:1]):
                words[at] = [_spread(one) for one in word]
            self._forms = False
            return True
        there = (lanes >= 0) & wave.active[np.where(lanes >= 0, lanes, 0)]
        words[0] = [one.of_lanes(lanes, there) for one in words[0]]
        self._lanes = wave.active & goes
        return False

    def _mask_of(
        self, wave: Wave, code: DecodedInstruction, operands: Sequence[GcnOperand]
    ) -> Origins:
        """By lane the mask that an instruction takes."""
        registers: Sequence[int] = _VCC
        if len(operands) > 2 and not code.item.base.startswith("v_div_fmas"):
            registers = register_numbers(operands[2])
        found = without_certain(self._scalars.mask(wave, registers))
        return found

    def _chosen(
        self, wave: Wave, code: DecodedInstruction, words: list[list[UndefinedWord]]
    ) -> list[list[UndefinedWord]]:
        """The operand that v_cndmask takes in each lane, where its mask is known."""
        given = code.item.operands[results_of(code.item, code.opcode) :]
        registers: Sequence[int] = register_numbers(given[2]) if len(given) > 2 else _VCC
        bits = 0
        for at, register in enumerate(registers):
            word = wave.scalar(register - SCALAR_BASE)
            if isinstance(word, OpaqueWord):
                self._chooses = True
                return words
            bits |= word << BITS * at
        taken = lanes_of(bits)
        return [
            [one.where(taken if at else ~taken) for one in word] for at, word in enumerate(words)
        ]

    def _results_of(
        self, wave: Wave, code: DecodedInstruction, operands: Sequence[GcnOperand],
        words: list[list[UndefinedWord]], keeps: bool,
    ) -> list[UndefinedWord]:  # fmt: skip
        """What the vector results have undefined."""
        item = code.item
        registers = [one for one in written_in_order(code) if one < SCALAR_BASE]
        if not registers:
            return []
        every = merged(one for word in words for one in word)
        count = sum(any(one.any for one in word) for word in words)
        certain = surely_changes(item) and count < 2 and not self._chooses
        origins = every.origins if certain else every.unsure().origins
        masks = [[one.bits for one in word] for word in words]
        if len(registers) == 1 and all(len(one) < 2 for one in masks):
            old = self.of(wave, registers[0]) if keeps else DEFINED
            old = old if self._forms else old.unsure()
            flat = [one[0] if one else DEFINED.bits for one in masks]
            given = [_given(wave, one, code.number) for one in operands]
            bits = single_word(item, flat, given, old.bits, keeps)
            return [made(bits, np.where(every.bits != 0, origins, old.origins))]
        padded = [one or [DEFINED.bits] for one in masks]
        apart = words_of_result(item, padded, len(registers))
        if apart is None:
            whole = np.where(every.bits != 0, ALL_BITS, np.uint32(0))
            apart = [whole] * len(registers)
        found = [made(bits, origins) for bits in apart]
        if keeps:
            found = [
                merged([one, self.of(wave, at).unsure()])
                for one, at in zip(found, registers, strict=True)
            ]
        return found


def _given(wave: Wave, operand: GcnOperand, number: int) -> Given:
    def given() -> tuple[NDArray[np.uint32], Lanes]:
        values, known, _ = vector_source(operand, number)(wave)
        return values, lanes_of(known)

    return given


def _spread(word: UndefinedWord) -> UndefinedWord:
    """All lanes rest on all lanes."""
    if not word.any:
        return word
    bits, origin = np.bitwise_or.reduce(word.bits), word.unsure().origins.max()
    return UndefinedWord(np.full(LANES, bits), np.full(LANES, origin, np.int32))
