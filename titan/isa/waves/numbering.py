"""Numbers for values that are not known, so that those of two work-groups can be compared.

A value gets the digest of the instruction that made it and of the numbers of all that went in: what
it reads, the execution mask, for a load what is behind the address. Known values are their own
numbers. So where two work-groups of one launch give the same number to two values, both are the
same function of the arguments and of what memory held before, and are equal. What differs between
work-groups in an unknown way, as registers and LDS that were not written, clocks and what atomics
return, has a number that no other work-group has. Different numbers say nothing, unless both
values are known.

Assumed: the run is free of races, and nobody else writes what is loaded; who compares has both
shown. Two digests of 16 bytes are equal only where what they are made of is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from titan.isa.gcn.module import AssemblyInstruction, Registers, SymbolOperand
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import M0
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.stored import COMPUTED, DIGEST_BYTES, KNOWN
from titan.isa.waves.decode import (
    SCALAR_BASE,
    DecodedInstruction,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.events import OperationIssued, UnknownAddress
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.private_steps import size_of
from titan.isa.waves.state import FULL, OpaqueWord, Wave, lanes_of
from titan.isa.waves.typed_operations import OPERATIONS

_OF_THE_MOMENT = ("s_memtime", "s_memrealtime", "s_scratch_load_", "s_movrel")
_NARROW = ("16", "8", "d16", "fp4", "fp6", "bf6", "i4", "u4")
# They write 32 bits, though their names have other numbers.
_WHOLE = re.compile(r"v_(cvt_(pk_)?f32_|cvt_pk_(bf16|f16)_f32|cvt_pk_[iu]16_|cvt_pkrtz|pack_b32)")
_MEMORY = frozenset(
    (
        OpcodeKind.SCALAR_MEMORY, OpcodeKind.LDS, OpcodeKind.GLOBAL, OpcodeKind.BUFFER,
        OpcodeKind.SCRATCH, OpcodeKind.CACHE, OpcodeKind.FLAT, OpcodeKind.TENSOR,
    )
)  # fmt: skip


def digest(*parts: bytes) -> bytes:
    """One number for several, each with its length."""
    made = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        made.update(len(part).to_bytes(4, "little") + part)
    return made.digest()


@dataclass(slots=True)
class Numbering:
    """The numbers of one run of the work-group `group.cta`; `stored`: by event, what stores write.

    What a store writes is a mark, `KNOWN` or `COMPUTED`, the number of its addresses and the number
    of its data. Known are data of which all is known, written to one place a lane.
    """

    group: WaveGroup
    stored: dict[int, bytes] = field(default_factory=dict)
    _numbers: dict[tuple[int, int], tuple[int, bytes]] = field(default_factory=dict)
    _mode: dict[int, bytes] = field(default_factory=dict)
    _private: dict[int, bytes] = field(default_factory=dict)
    _written: list[tuple[int, int, bytes]] = field(default_factory=list)
    _lds: list[bytes] = field(default_factory=list)
    _texts: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lds = [self._own(b"LDS")] * (self.group.lds_bytes // 4 + 1)

    def step(self, wave: Wave, code: DecodedInstruction) -> None:
        """Perform an instruction, and number what it writes."""
        assert code.step is not None
        inputs = self._inputs(wave, code)
        registers = written_in_order(code)
        lanes = wave.lanes_all if of_all_lanes(code) else wave.exec
        whole = writes_all(code.item)
        old = [self._kept(wave, register, lanes, whole) for register in registers]
        begun = len(self.group.events)
        code.step(wave)
        result = inputs
        if code.opcode.kind in _MEMORY:
            result = self._through_memory(wave, code, inputs, begun)
        elif code.item.base.startswith(_OF_THE_MOMENT):
            result = self._own(b"moment", begun)
        for at, register in enumerate(registers):
            mask, kept = old[at]
            number = digest(result, bytes([at & 255]), kept)
            self._numbers[wave.number, register] = mask | lanes, number

    def _kept(self, wave: Wave, register: int, lanes: int, whole: bool) -> tuple[int, bytes]:
        """What stays of a register of which these lanes are written, and the lanes that have it."""
        if register >= SCALAR_BASE:
            return FULL, b"" if whole else self._number(wave, register, FULL)
        if not whole:
            return FULL, self._number(wave, register, wave.lanes_all)
        mask, number = self._numbers.get((wave.number, register), (0, b""))
        return (0, b"") if mask & ~lanes == 0 else (mask, number)

    def control(self, wave: Wave, code: DecodedInstruction) -> None:
        """An instruction of control: modes change, and what it writes is of the moment."""
        if code.item.base.startswith("s_setreg"):
            self._mode[wave.number] = self._inputs(wave, code)
        for register in code.writes:
            self._numbers.pop((wave.number, register), None)

    # -------------------------------------------------------------------------- registers

    def _own(self, *what: bytes | int) -> bytes:
        """A number that no other work-group has."""
        return digest(b"own", str((self.group.cta, *what)).encode())

    def _number(self, wave: Wave, register: int, lanes: int) -> bytes:
        """That of a register as far as these lanes need it."""
        written, known = self._numbers.get((wave.number, register), (0, b""))
        if register >= SCALAR_BASE:
            value = wave.scalar(register - SCALAR_BASE)
            if isinstance(value, OpaqueWord):
                return known or self._own(wave.number, register)
            return value.to_bytes(8, "little")
        mask = wave.known[register] & lanes
        seen = np.where(lanes_of(mask), wave.vectors[register], np.uint32(0)).tobytes()
        if mask == lanes:
            return seen
        if lanes & ~(mask | written):
            known = self._own(wave.number, register)
        return digest(b"part", mask.to_bytes(8, "little"), seen, known)

    def _inputs(self, wave: Wave, code: DecodedInstruction) -> bytes:
        text = self._texts.get(code.number)
        if text is None:
            text = self._texts[code.number] = _text(code.item)
        lanes = wave.lanes_all if of_all_lanes(code) else wave.exec
        results = 0 if code.opcode.both else results_of(code.item, code.opcode)
        operands = code.item.operands[results:]
        named = [at for one in operands for at in register_numbers(one)]
        parts = [self._number(wave, at, lanes) for at in named]
        parts += [self._number(wave, at, lanes) for at in sorted(code.reads.difference(named))]
        if any(isinstance(one, SymbolOperand) and not _is_plain(one) for one in operands):
            parts.append(self._own(b"symbol", code.number))
        if code.opcode.kind in (OpcodeKind.SCALAR, OpcodeKind.CONTROL):
            known = not isinstance(wave.condition, OpaqueWord)
            parts.append(str(wave.condition).encode() if known else self._own(b"scc"))
        if code.opcode.kind in _MEMORY and _uses_m0(code.item):
            parts.append(self._number(wave, SCALAR_BASE + M0, FULL))
        mask = wave.exec.to_bytes(8, "little")
        return digest(text, mask, self._mode.get(wave.number, b""), *parts)

    # ----------------------------------------------------------------------------- memory

    def _through_memory(
        self, wave: Wave, code: DecodedInstruction, inputs: bytes, begun: int
    ) -> bytes:
        """What a load brings, by what went in and what memory holds; a store is noted."""
        item, kind = code.item, code.opcode.kind
        if kind is OpcodeKind.SCRATCH:
            before = self._private.get(wave.number, self._own(b"private", wave.number))
            if "_store_" in item.base:
                self._private[wave.number] = digest(before, inputs)
            return digest(before, inputs)
        event = self.group.events[-1] if len(self.group.events) > begun else None
        moment = self._own(b"moment", begun)
        if not isinstance(event, OperationIssued) or item.base.startswith(_OF_THE_MOMENT):
            return moment
        shared = any(use.atomic or (use.returns and use.shared_by_device) for use in event.uses)
        # A flat access may reach private memory, too; what LDS holds goes to memory unseen.
        unseen = kind in (OpcodeKind.FLAT, OpcodeKind.TENSOR) or "_async_from_lds_" in item.base
        if shared or unseen:
            for one in self.group.events[begun:]:
                for use in one.uses if isinstance(one, OperationIssued) else ():
                    if use.write or shared:
                        self._write(use.footprint, moment)
                    in_global = use.footprint.space is MemorySpace.GLOBAL
                    if in_global and kind is OpcodeKind.FLAT and "_store_" in item.base:
                        self.stored[one.sequence] = self._store(wave, code, use.footprint)
            return moment
        unknown = any(isinstance(one, UnknownAddress) for one in self.group.events[begun:])
        reads = [use.footprint for use in event.uses if not use.write]
        result = digest(inputs, *(self._held(one) for one in reads))
        if unknown:
            result = digest(result, *(number for _, _, number in self._written))
        for use in event.uses:
            if use.write:
                self._write(use.footprint, result)
                if use.footprint.space is MemorySpace.GLOBAL:
                    self.stored[event.sequence] = self._store(wave, code, use.footprint)
        return result

    def _store(self, wave: Wave, code: DecodedInstruction, footprint: Footprint) -> bytes:
        operands = list(code.item.operands)
        data = operands.pop(0 if code.opcode.kind is OpcodeKind.BUFFER else 1)
        addresses = digest(
            _text(code.item), wave.exec.to_bytes(8, "little"),
            *(
                self._number(wave, at, wave.exec)
                for one in operands
                for at in register_numbers(one)
            ),
        )  # fmt: skip
        registers = register_numbers(data)
        known = all(
            at < SCALAR_BASE and wave.known[at] & wave.exec == wave.exec for at in registers
        )
        touched = sum(high - low for low, high in footprint.ranges())
        if known and touched == wave.exec.bit_count() * size_of(code.item):
            rows = [wave.vectors[at][wave.active].tobytes() for at in registers]
            return KNOWN + addresses + digest(*rows)
        return (
            COMPUTED + addresses + digest(*(self._number(wave, at, wave.exec) for at in registers))
        )

    def _held(self, footprint: Footprint) -> bytes:
        """What is in memory, by the stores of this work-group that met it."""
        if footprint.space is MemorySpace.SHARED:
            return digest(
                *(
                    self._lds[word]
                    for low, high in footprint.ranges()
                    for word in range(low // 4, (high + 3) // 4)
                )
            )
        low, high = footprint.bounds
        return digest(
            *(number for start, end, number in self._written if start < high and low < end)
        )

    def _write(self, footprint: Footprint, number: bytes) -> None:
        if footprint.space is not MemorySpace.SHARED:
            self._written.append((*footprint.bounds, number))
            return
        for low, high in footprint.ranges():
            for word in range(low // 4, (high + 3) // 4):
                whole = low <= 4 * word and 4 * word + 4 <= high
                self._lds[word] = number if whole else digest(number, self._lds[word])


def of_all_lanes(code: DecodedInstruction) -> bool:
    """Whether lanes are read or written that do not take part."""
    base = code.item.base
    exchanged = base.startswith(("v_readlane", "v_readfirstlane", "v_writelane", "v_permlane"))
    kinds = (OpcodeKind.MATRIX, OpcodeKind.CROSS_LANE)
    return exchanged or code.opcode.kind in kinds or code.item.opcode.endswith("_dpp")


def _uses_m0(item: AssemblyInstruction) -> bool:
    """Whether an instruction of memory takes a place from M0, which its text does not name."""
    named = ("_lds_", "addtid", "append", "consume")
    return "lds" in item.options or any(part in item.base for part in named)


def _is_plain(operand: SymbolOperand) -> bool:
    """Whether a word is no value: `off`, a mode register."""
    return operand.name == "off" or operand.name.startswith("hwreg")


def _text(item: AssemblyInstruction) -> bytes:
    """An instruction without the names of its registers."""
    operands = [
        ("register", one.count, one.negative, one.absolute, one.half, one.extended)
        if isinstance(one, Registers)
        else one
        for one in item.operands
    ]
    return repr((item.opcode, operands, sorted(item.options.items()))).encode()


def writes_all(item: AssemblyInstruction) -> bool:
    """Whether an instruction surely writes all bits of its results in the active lanes."""
    if item.opcode.endswith(("_dpp", "_sdwa")) or "op_sel" in item.options:
        return False
    if item.base.startswith(("v_writelane", "v_permlane", "s_cmov", "s_bitset")):
        return False
    if item.base.startswith(("v_mfma_", "s_", "v_pk_", "global_", "buffer_", "ds_")):
        return "format" not in item.base
    if _WHOLE.match(item.base):
        return not any(isinstance(one, Registers) and one.half for one in item.operands[:1])
    return not any(part in item.base for part in _NARROW)


def keeps_part(item: AssemblyInstruction) -> bool:
    """Whether a part of each lane of its result stays as it was: SDWA into a part, halves and bytes
    that conversions write, instructions of 16 bits without a short encoding."""
    if item.opcode.endswith("_sdwa"):
        into_part = item.options.get("dst_sel", "DWORD") != "DWORD"
        rest = item.options.get("dst_unused", "UNUSED_PRESERVE")
        return into_part and rest == "UNUSED_PRESERVE"
    operation = OPERATIONS.get(item.base)
    if operation is not None and operation.kept and operation.gives.endswith("16"):
        return True
    return _INTO_PART.match(item.base) is not None or (
        "op_sel" in item.options and _TO_16_BITS.search(item.base) is not None
    )


_INTO_PART = re.compile(
    r"v_fma_mix(lo|hi)_|v_bitop3_b16|v_cvt_(sr_)?(pk_)?(fp8|bf8)_"
    r"|v_cvt_scalef32_(sr_)?(pk_)?(fp8|bf8|fp4)_|v_cvt_scalef32_f16_|v_cvt_sr_(b?f16)_"
)
_TO_16_BITS = re.compile(r"^v_(?!pk_|cmp|mad_[iu]32|fma_mix_|dot|cvt_scalef32_pk).*16")
