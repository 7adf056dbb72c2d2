"""What lanes compute, as numbers, so that stores of several waves, or lanes, can be compared.

Compilers let waves do the same where a tile has fewer elements than the work-group has lanes: all
store the same to the same bytes. So each lane of a register gets a number of 16 bytes: two numbers
are equal only where instructions of one form made them of equal numbers, or loaded them from the
same place while nothing was written there, or from an unknown one while nothing was written at all.
The two operands of sums, products, minima and maxima may change places. What comes from atomics,
from coherent loads, from registers and LDS that nothing has written, equals nothing else.

Products and exchanges of lanes that are not followed lane by lane are made of all that all lanes
put in, and of the lane. Assumed: the run is free of races otherwise, which its verdict shows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Literal, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.simt.stored import MADE
from titan.isa.waves.decode import (
    SCALAR_BASE,
    DecodedInstruction,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.group import Addresses, WaveGroup
from titan.isa.waves.lane_choices import LaneChoices
from titan.isa.waves.lane_exchanges import lanes_sent
from titan.isa.waves.lane_halves import PACKED, Halves, is_lower, of_lower_halves
from titan.isa.waves.lane_numbers import (
    BIT,
    BYTE_OF,
    KNOWN,
    LANES_MIXED,
    PLACE,
    WORD,
    ZERO,
    Numbers,
    constant_number,
    folded,
    in_order,
    joined,
    known_numbers,
    mask_numbers,
    mixed,
    of_text,
    place,
    reordered,
)
from titan.isa.waves.lane_private import PrivateNumbers
from titan.isa.waves.moved_lanes import (
    dpp_lanes,
    dpp_written,
    operand_bits,
    places_matter,
    swap_rows,
    swizzle_lanes,
)
from titan.isa.waves.numbering import of_all_lanes, writes_all
from titan.isa.waves.private_steps import private_address
from titan.isa.waves.scalar_memory_steps import scalar_address
from titan.isa.waves.scalar_steps import performed, takes_condition
from titan.isa.waves.sources import constant
from titan.isa.waves.state import LANES, OpaqueWord, Wave, lanes_of

INSTRUCTIONS_MAX = 200_000
_CHANGES_PLACES = re.compile(
    r"v_(pk_)?(add|mul|max|min|and|or|xor|xnor)_(?!lshl|or)|v_(pk_)?fma_|v_(pk_)?fmac_|v_mac_"
    r"|v_(max3|min3|add3|or3)_"
)
_MASKS = re.compile(r"s_(and|or|xor|andn2|orn2|nand|nor|xnor|not|mov)_b64$")
_PAIRS = frozenset(("v_pk_mul_f32", "v_pk_add_f32", "v_pk_fma_f32"))
_NARROW = re.compile(r"16|8")
_Stored = Sequence[tuple[Addresses, Sequence[int]]]
_MOVES = re.compile("row_|wave_|quad_perm")
_PLAIN_DPP = frozenset(("row_mask", "bank_mask", "bound_ctrl"))


@dataclass(slots=True)
class LaneValues:
    """The numbers of one run; it takes the place of `Numbering` in a machine."""

    group: WaveGroup
    _rows: dict[int, list[Numbers]] = field(default_factory=dict)
    _scalars: dict[int, dict[int, Numbers]] = field(default_factory=lambda: defaultdict(dict))
    _masks: dict[int, dict[int, Numbers]] = field(default_factory=lambda: defaultdict(dict))
    _condition: dict[int, Numbers] = field(default_factory=dict)
    _mode: dict[int, Numbers] = field(default_factory=dict)
    _private: PrivateNumbers = field(default_factory=PrivateNumbers)
    _texts: dict[int, Numbers] = field(default_factory=dict)
    _halves: Halves = field(default_factory=Halves)
    _choices: LaneChoices = field(default_factory=LaneChoices)
    _loaded: list[Numbers] | None = None
    _written: list[tuple[int, int]] = field(default_factory=list)
    _count: int = 0
    _lds: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self._lds = self._own(self.group.lds_bytes + 16)

    def _own(self, *shape: int) -> Numbers:
        """Numbers that nothing else has."""
        count = int(np.prod(shape))
        first, self._count = self._count, self._count + count
        numbers = np.arange(first, first + count, dtype=np.uint64)
        return mixed(of_text("own"), numbers[:, None]).reshape(*shape, 2)

    # ---------------------------------------------------------------------------- registers

    def _all_rows(self, wave: Wave) -> list[Numbers]:
        """Those of all registers; a write replaces a row, as others may still hold the old one."""
        rows = self._rows.get(wave.number)
        if rows is None:
            rows = self._rows[wave.number] = list(self._own(len(wave.known), LANES))
        return rows

    def row(self, wave: Wave, register: int) -> Numbers:
        """The numbers of a vector register, a scalar one for all lanes."""
        if register >= SCALAR_BASE:
            return np.broadcast_to(self._scalar(wave, register - SCALAR_BASE), (LANES, 2))
        mask, rows = wave.known[register], self._all_rows(wave)[register]
        if not mask:
            return rows
        return np.where(lanes_of(mask)[:, None], known_numbers(wave.vectors[register]), rows)

    def _scalar(self, wave: Wave, number: int) -> Numbers:
        value = wave.scalar(number)
        if not isinstance(value, OpaqueWord):
            return known_numbers(np.array(value, np.uint32))
        found = self._scalars[wave.number].get(number)
        if found is None:
            found = self._scalars[wave.number][number] = self._own(1)[0]
        return found

    def _set_scalar(self, wave: Wave, number: int, made: Numbers) -> None:
        self._scalars[wave.number][number] = made
        for first in (number - 1, number):
            self._masks[wave.number].pop(first, None)

    def _mask(self, wave: Wave, operand: GcnOperand) -> Numbers:
        """The bit of each lane in a mask."""
        if isinstance(operand, Registers) and operand.bank == "s":
            found = self._masks[wave.number].get(operand.first)
            value = wave.scalar(operand.first, operand.count)
            if isinstance(value, OpaqueWord):
                words = [self._scalar(wave, operand.first + at) for at in range(operand.count)]
                return mixed(BIT, *words, LANES_MIXED) if found is None else found
        elif isinstance(operand, Literal):
            value = constant(operand, 64)
        else:
            return self._own(LANES)
        return known_numbers(lanes_of(value & (1 << 64) - 1).astype(np.int64))

    def _operand(self, wave: Wave, operand: GcnOperand, base: str, lower: bool = False) -> Numbers:
        """The numbers of an operand of `base` with its modifiers, one for all of its words; of a
        vector register of which only the lower half is read, that of this half."""
        if isinstance(operand, Literal):
            return np.broadcast_to(constant_number(operand, base), (LANES, 2))
        numbers = register_numbers(operand)
        if not isinstance(operand, Registers) or not numbers:
            return self._own(LANES)
        rows = [self.row(wave, at) for at in numbers]
        made = rows[0] if len(rows) == 1 else mixed(*rows)
        if lower and numbers[0] < SCALAR_BASE:
            made = self._halves.of((wave.number, numbers[0]), made, False)
        changes = (operand.negative, operand.absolute, operand.half, operand.extended)
        return mixed(made, of_text(changes)) if any(changes) else made

    # ------------------------------------------------------------------------- instructions

    def step(self, wave: Wave, code: DecodedInstruction) -> None:
        """Perform an instruction, and number what it writes."""
        assert code.step is not None
        kind = code.opcode.kind
        self._loaded = None
        if kind is OpcodeKind.SCALAR:
            self._scalar_step(wave, code)
            return
        made: list[Numbers] | None = None
        if kind in (OpcodeKind.VECTOR, OpcodeKind.MATRIX, OpcodeKind.CROSS_LANE):
            made = self._computed(wave, code)
        elif kind is OpcodeKind.SCRATCH:
            made = self._private_step(wave, code)
        elif kind is OpcodeKind.SCALAR_MEMORY:
            made = self._scalar_loaded(wave, code)
        registers = written_in_order(code)
        old = [self.row(wave, at) for at in registers]
        base = code.item.base
        whole = writes_all(code.item) or (
            code.item.opcode.endswith("_dpp") and not _NARROW.search(base)
        )
        whole = whole or code.item.options.get("dst_sel") == "DWORD"
        whole = whole or (swap_rows(base) is not None and wave.exec == wave.lanes_all)
        changed = kind in (OpcodeKind.FLAT, OpcodeKind.TENSOR) or "_async_" in code.item.base
        code.step(wave)
        if changed:  # which memory it reaches is not followed
            self.forget_lds()
            self._private.forget()
            self._written.append((0, 1 << 62))
        made = self._loaded if made is None else made
        if made is None or len(made) != len(registers):
            made = [self._own(LANES) for _ in registers]
        self._assign(wave, code, registers, made, old, whole)

    def _assign(
        self, wave: Wave, code: DecodedInstruction, registers: Sequence[int],
        made: Sequence[Numbers], old: Sequence[Numbers], whole: bool,
    ) -> None:  # fmt: skip
        everywhere = code.opcode.kind is OpcodeKind.MATRIX or swap_rows(code.item.base) is not None
        lanes = np.ones(LANES, np.bool_) if everywhere else wave.active
        if code.item.opcode.endswith("_dpp"):
            lanes = lanes & dpp_written(code.item)
            moved = dpp_lanes(code.item)
            if moved is not None and "bound_ctrl" not in code.item.options:
                lanes = lanes & (moved >= 0)
        rows = self._all_rows(wave)
        scalars = [at for at, register in enumerate(registers) if register >= SCALAR_BASE]
        for at, (register, numbers) in enumerate(zip(registers, made, strict=True)):
            if register >= SCALAR_BASE:
                self._set_scalar(wave, register - SCALAR_BASE, numbers[0])
                continue
            new = numbers if whole else mixed(numbers, old[at])
            if code.item.base == "v_writelane_b32":
                new, lanes = numbers, np.ones(LANES, np.bool_)
            rows[register] = np.where(lanes[:, None], new, old[at])
            if not whole and is_lower(code):
                key, row = (wave.number, register), rows[register]
                self._halves.note_lower(key, lanes, numbers, old[at], row)
        if scalars and code.opcode.kind is OpcodeKind.VECTOR and "v_read" not in code.item.base:
            self._assign_mask(wave, [registers[at] for at in scalars], made[scalars[0]])

    def _assign_mask(self, wave: Wave, registers: Sequence[int], made: Numbers) -> None:
        """Of a mask: a bit of each lane, 0 where it is not active."""
        bits = np.where(wave.active[:, None], made, ZERO)
        whole = folded(bits)
        for at, register in enumerate(registers):
            self._set_scalar(wave, register - SCALAR_BASE, mixed(whole, place(at)))
        self._masks[wave.number][registers[0] - SCALAR_BASE] = bits
        self._choices.note(wave, registers[0] - SCALAR_BASE, bits)

    def control(self, wave: Wave, code: DecodedInstruction) -> None:
        """An instruction of control: modes change, and what it writes is of the moment."""
        if code.item.base.startswith("s_setreg"):
            operand = code.item.operands[-1]
            value = self._operand(wave, operand, code.item.base)[0]
            before = self._mode.get(wave.number, KNOWN)
            self._mode[wave.number] = mixed(before, self._text(code), value)
        for register in code.writes:
            self._set_scalar(wave, register - SCALAR_BASE, self._own(1)[0])

    def _text(self, code: DecodedInstruction) -> Numbers:
        found = self._texts.get(code.number)
        if found is None:
            moves = _PLAIN_DPP | {one for one in code.item.options if _MOVES.match(one)}
            options = {one: text for one, text in code.item.options.items() if one not in moves}
            found = self._texts[code.number] = of_text((code.item.base, sorted(options.items())))
        return found

    def _form(self, wave: Wave, code: DecodedInstruction) -> Numbers:
        mode = self._mode.get(wave.number)
        return self._text(code) if mode is None else mixed(self._text(code), mode)

    def _computed(self, wave: Wave, code: DecodedInstruction) -> list[Numbers] | None:
        """The numbers of the results of a vector instruction."""
        item, base = code.item, code.item.base
        count = len(written_in_order(code))
        results = 0 if code.opcode.both else results_of(item, code.opcode)
        operands = list(item.operands[results:])
        special = self._special(wave, code, operands)
        if special is not None:
            return special
        lower = of_lower_halves(item)
        sources = [self._operand(wave, one, base, lower) for one in operands]
        if base.startswith("v_cndmask") and len(operands) > 2:
            sources[2] = self._mask(wave, operands[2])
        if base.startswith(("v_addc", "v_subb")) and len(operands) > 2:
            sources[-1] = self._mask(wave, operands[-1])
        form = self._form(wave, code)
        if item.opcode.endswith("_dpp"):
            first = int(code.opcode.both)
            moved = self._moved(wave, item, sources[first])
            if moved is None:
                form = mixed(form, of_text(sorted(item.options.items())))
                sources += [self.row(wave, at) for at in written_in_order(code)]  # may be kept
                return self._of_everything(wave, form, sources, count)
            sources[first] = moved
        elif of_all_lanes(code):
            return self._of_everything(wave, form, sources, count)
        if base == "v_cndmask_b32" and not places_matter(item):
            return [self._choices.chosen(wave, operands[2], sources)]
        if base in ("v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"):
            return [sources[0]] if not item.opcode.endswith("_sdwa") else None
        if _CHANGES_PLACES.match(base) and not places_matter(item):
            sources = reordered(sources, int(code.opcode.both), 3 if "3_" in base else 2)
        if base.startswith("v_div_fmas"):
            vcc = Registers("s", 106, 2)
            sources.append(self._mask(wave, vcc))
        made = mixed(form, *sources)
        if base in PACKED and not places_matter(item):
            self._halves.note((wave.number, written_in_order(code)[0]), form, sources, made)
        found = [made if count == 1 else mixed(made, place(at)) for at in range(count)]
        if base.startswith("v_cmp_") and not places_matter(item):
            found[0] = self._choices.compared(base, sources, found[0])
        return found

    def _of_everything(
        self, wave: Wave, form: Numbers, sources: Sequence[Numbers], count: int
    ) -> list[Numbers]:
        """Of all lanes of the sources, and of the execution mask."""
        mask = np.array([wave.exec & 0xFFFF_FFFF, wave.exec >> 32], np.uint64)
        whole = mixed(form, mask, *(folded(one) for one in sources))
        return [mixed(whole, LANES_MIXED, place(at)) for at in range(count)]

    def _moved(self, wave: Wave, item: AssemblyInstruction, source: Numbers) -> Numbers | None:
        lanes = dpp_lanes(item)
        if lanes is None or wave.exec != wave.lanes_all:
            return None
        return np.where((lanes >= 0)[:, None], source[lanes], ZERO)

    def _special(
        self, wave: Wave, code: DecodedInstruction, operands: list[GcnOperand]
    ) -> list[Numbers] | None:
        """Moves of lanes, and moves of two words."""
        item, base, whole = code.item, code.item.base, wave.exec == wave.lanes_all
        if base in ("v_readlane_b32", "v_readfirstlane_b32"):
            lane: object = (wave.exec & -wave.exec).bit_length() - 1 if wave.exec else 0
            if base == "v_readlane_b32":
                lane = self._lane(wave, operands[1])
            if isinstance(lane, int):
                row = self._operand(wave, operands[0], base)
                return [np.broadcast_to(row[lane], (LANES, 2))]
        if base == "v_writelane_b32":
            lane = self._lane(wave, operands[-1])
            row = self.row(wave, written_in_order(code)[0]).copy()
            if not isinstance(lane, int):
                return None
            row[lane] = self._operand(wave, operands[-2], base)[0]
            return [row]
        odd = swap_rows(base)
        if odd is not None and whole:
            one, other = (self._operand(wave, operand, base) for operand in item.operands[:2])
            shift = 32 if "32_swap" in base else 16
            first = np.where(odd[:, None], np.roll(other, shift, 0), one)
            second = np.where(odd[:, None], other, np.roll(one, -shift, 0))
            return [first, second]
        if base == "ds_swizzle_b32" and whole:
            lanes = swizzle_lanes(item)
            return None if lanes is None else [self._operand(wave, operands[0], base)[lanes]]
        if base in ("ds_bpermute_b32", "ds_permute_b32") and whole and len(operands) == 2:
            lanes = lanes_sent(wave, item, register_numbers(operands[0]))
            row = self._operand(wave, operands[1], base)
            return None if lanes is None else [np.where((lanes >= 0)[:, None], row[lanes], ZERO)]
        if base in _PAIRS:
            return self._pair(wave, code, operands)
        moved = item.opcode.endswith("_dpp") or not isinstance(operands[0], Registers)
        if base == "v_mov_b64" and not moved:
            return [self.row(wave, at) for at in register_numbers(operands[0])]
        return None

    def _pair(
        self, wave: Wave, code: DecodedInstruction, operands: list[GcnOperand]
    ) -> list[Numbers]:
        """Two results of binary32: each is made of one word of each source."""
        item, found = code.item, []
        mode = self._mode.get(wave.number, KNOWN)
        form = mixed(of_text((item.base, "clamp" in item.options)), mode)
        for half, (chosen_by, sign) in enumerate((("op_sel", "neg_lo"), ("op_sel_hi", "neg_hi"))):
            words = operand_bits(item, chosen_by, half, len(operands))
            signs = operand_bits(item, sign, 0, len(operands))
            sources = [
                self._word(wave, one, word, negative)
                for one, word, negative in zip(operands, words, signs, strict=True)
            ]
            sources[:2] = in_order(*sources[:2])
            found.append(mixed(form, *sources))
        return found

    def _word(self, wave: Wave, operand: GcnOperand, word: int, negative: int) -> Numbers:
        numbers = register_numbers(operand)
        if len(numbers) == 2:
            row = self.row(wave, numbers[word])
        else:
            row = mixed(self._operand(wave, operand, "f32"), place(word))
        return mixed(row, BIT) if negative else row

    def _lane(self, wave: Wave, operand: GcnOperand) -> int | None:
        if isinstance(operand, Literal):
            return operand.value & wave.width - 1
        if isinstance(operand, Registers) and operand.bank == "s":
            value = wave.scalar(operand.first)
            return None if isinstance(value, OpaqueWord) else value & wave.width - 1
        return None

    # --------------------------------------------------------------------------- scalar unit

    def _scalar_step(self, wave: Wave, code: DecodedInstruction) -> None:
        item = code.item
        results = 0 if code.opcode.both else results_of(item, code.opcode)
        operands = item.operands[results:]
        masks = None
        if _MASKS.match(item.base):
            masks = [self._mask(wave, one) for one in operands]
        sources = [self._operand(wave, one, item.base)[0] for one in operands]
        if item.base.startswith(("s_cmov", "s_bitset")):
            sources += [self.row(wave, at)[0] for at in sorted(code.writes)]
        form = self._text(code)
        if takes_condition(item.base):
            sources.append(self.condition(wave))
        sets = performed(wave, code)
        made = mixed(form, *sources)
        registers = written_in_order(code)
        for at, register in enumerate(registers):
            moved = item.base in ("s_mov_b32", "s_mov_b64") and len(operands) == 1
            number = mixed(made, place(at))
            if moved and isinstance(operands[0], Registers):
                number = self._scalar(wave, operands[0].first + at)
            self._set_scalar(wave, register - SCALAR_BASE, number)
        if sets:
            self._condition[wave.number] = mixed(made, BIT)
        if masks is not None and registers:
            bits = mask_numbers(item.base, form, masks)
            self._masks[wave.number][registers[0] - SCALAR_BASE] = bits

    def condition(self, wave: Wave) -> Numbers:
        """The number of the condition code."""
        if not isinstance(wave.condition, OpaqueWord):
            return known_numbers(np.array(int(wave.condition), np.uint32))
        found = self._condition.get(wave.number)
        if found is None:
            found = self._condition[wave.number] = self._own(1)[0]
        return found

    def _scalar_loaded(self, wave: Wave, code: DecodedInstruction) -> list[Numbers] | None:
        """A load of the scalar unit, as one of the vector unit from there: by its address, or where
        that is not known by what it is made of, while nothing is stored."""
        item = code.item
        if not item.base.startswith(("s_load_", "s_buffer_load_")):
            return None
        words = range(len(written_in_order(code)))
        start = scalar_address(code)(wave) if item.base.startswith("s_load_dword") else None
        if isinstance(start, int):
            places = np.array([start & ~3])
            return self._at_places(places, places, 4 * len(words), words, WORD)
        return self._from_anywhere(wave, code, item.operands[1:], words)

    def _from_anywhere(
        self, wave: Wave, code: DecodedInstruction, operands: Sequence[GcnOperand], words: range
    ) -> list[Numbers]:
        """Words from a place that is not known, by what it is made of and what was stored."""
        sources = [self._operand(wave, one, code.item.base) for one in operands]
        made = mixed(self._text(code), place(len(self._written)), *sources)
        return [mixed(made, place(at)) for at in words]

    # -------------------------------------------------------------------------------- memory

    def _private_step(self, wave: Wave, code: DecodedInstruction) -> list[Numbers] | None:
        """Private memory by the text of the address."""
        start = private_address(code.item, code.number)(wave)
        if "_load_" in code.item.base:
            return self._private.load(wave, start, len(written_in_order(code)))
        data = register_numbers(code.item.operands[1]) if len(code.item.operands) > 1 else range(0)
        rows = [self.row(wave, register) for register in data]
        self._private.store(wave, start, rows, lambda: self._own(LANES))
        return []

    def note_global_load(
        self, wave: Wave, code: DecodedInstruction, addresses: Addresses | None, size: int
    ) -> None:
        """What a load brings, before it is issued; `addresses`: None where not known."""
        self._loaded = self._from_global(wave, code, addresses, size)

    def _from_global(
        self, wave: Wave, code: DecodedInstruction, addresses: Addresses | None, size: int
    ) -> list[Numbers] | None:
        item = code.item
        coherent = "sc1" in item.options or "glc" in item.options or "scope" in item.options
        if coherent or "_atomic_" in item.base or not wave.exec:
            self._written.append((0, 0))  # what others have stored may be seen from here on
            return None
        words = max(1, size // 4)
        if addresses is None:
            operands = item.operands[results_of(item, code.opcode) :]
            named = [one for one in operands if isinstance(one, Registers | Literal)]
            return self._from_anywhere(wave, code, named, range(words))
        kind = of_text(item.base) if size < 4 else WORD
        return self._at_places(addresses, addresses[wave.active], size, range(words), kind)

    def _at_places(
        self, addresses: Addresses, touched: Addresses, size: int, words: range, kind: Numbers
    ) -> list[Numbers] | None:
        """The numbers of words from places in global memory on; None where something was stored."""
        touched = touched[touched >= 0]
        low, high = (int(touched.min()), int(touched.max()) + size) if len(touched) else (0, 0)
        if any(start < high and low < end for start, end in self._written):
            return None
        outside = (addresses < 0)[:, None]
        every = [(addresses + 4 * at).astype(np.uint64)[:, None] for at in words]
        return [np.where(outside, ZERO[:1], mixed(PLACE, kind, one)) for one in every]

    def note_global_store(self, addresses: Addresses, size: int) -> None:
        """Bytes of global memory change."""
        if len(addresses):
            self._written.append((int(addresses.min()), int(addresses.max()) + size))

    def note_copy(self, wave: Wave, places: Addresses, size: int) -> None:
        """A copy to LDS writes what `note_global_load` has for it; `places`: of active lanes."""
        loaded = self._loaded if size >= 4 else None
        for at in range(0, size, 4):
            row = None if loaded is None else loaded[at // 4][wave.active]
            for byte in range(4):
                self._put(places + at + byte, None if row is None else mixed(row, BYTE_OF[byte]))
        self._loaded = None

    def note_lds_load(
        self, wave: Wave, code: DecodedInstruction, rows: Sequence[Addresses], size: int
    ) -> None:
        """What a load from LDS brings, before it is issued."""
        registers = written_in_order(code)
        each, found = max(1, size // 4), []
        for at in range(len(registers)):
            start = rows[at // each] + 4 * (at % each)
            start = np.clip(start, 0, self.group.lds_bytes)
            parts = [self._lds[start + byte] for byte in range(min(4, size))]
            found.append(joined(parts))
        if "_tr" in code.item.base:
            form = self._form(wave, code)
            found = self._of_everything(wave, form, found, len(registers))
        elif size < 4:
            found = [mixed(of_text(code.item.base), one) for one in found]
        self._loaded = found

    def note_lds_store(
        self, wave: Wave, item: AssemblyInstruction, rows: Sequence[Addresses],
        data: Sequence[Sequence[int]], size: int,
    ) -> None:  # fmt: skip
        """Active lanes write registers to LDS; without `data`, what is written is not known."""
        for index, addresses in enumerate(rows):
            registers: Sequence[int] = data[index] if index < len(data) else ()
            for at in range(max(1, size // 4)):
                row = self._stored(wave, item, registers[at], size) if registers else None
                for byte in range(min(4, size)):
                    value = None if row is None else mixed(row[wave.active], BYTE_OF[byte])
                    self._put(addresses[wave.active] + 4 * at + byte, value)

    def _stored(self, wave: Wave, item: AssemblyInstruction, register: int, size: int) -> Numbers:
        """The numbers of what a store takes of a register."""
        row, high = self.row(wave, register), "_hi" in item.base
        return row if size >= 4 else self._halves.of((wave.number, register), row, high)

    def forget_lds(self) -> None:
        """Nothing of LDS is known any more."""
        self._lds = self._own(len(self._lds))

    def _put(self, places: Addresses, numbers: Numbers | None) -> None:
        inside = (places >= 0) & (places < self.group.lds_bytes)
        own = self._own(len(places)) if numbers is None else numbers
        self._lds[places[inside]] = own[inside]

    # --------------------------------------------------------------------------- comparisons

    def _bytes_of(
        self, wave: Wave, item: AssemblyInstruction, stored: _Stored, size: int
    ) -> tuple[Addresses, Numbers]:
        """The places of active lanes in order, and a number for what goes to each."""
        places, numbers = [], []
        for addresses, registers in stored:
            words = [self._stored(wave, item, at, size)[wave.active] for at in registers]
            places.append(addresses[wave.active])
            numbers.append(mixed(*words, place(0)))
        at, what = np.concatenate(places), np.concatenate(numbers)
        used = at >= 0
        at, what = at[used], what[used]
        order = np.lexsort((what[:, 1], what[:, 0], at))
        return at[order], what[order]

    def mark(self, wave: Wave, item: AssemblyInstruction, stored: _Stored, size: int) -> bytes:
        """A mark of what active lanes write, and where: two writes with one mark are equal."""
        places, numbers = self._bytes_of(wave, item, stored, size)
        made = blake2b(digest_size=16)
        for part in (places.tobytes(), np.ascontiguousarray(numbers).tobytes(), bytes([size])):
            made.update(part)
        return MADE + made.digest()

    def lanes_alike(
        self, wave: Wave, item: AssemblyInstruction, stored: _Stored, size: int
    ) -> bool:
        """Whether lanes that write to one place write the same, and no two places overlap."""
        places, numbers = self._bytes_of(wave, item, stored, size)
        gaps = np.diff(places)
        same = gaps == 0
        differ = (numbers[1:] != numbers[:-1]).any(axis=1)
        return not (same & differ).any() and not ((gaps > 0) & (gaps < size)).any()
