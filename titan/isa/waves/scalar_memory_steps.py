"""Steps of scalar loads, and of operations that a counter counts and nothing else.

A scalar load reads 4 bytes or more at one address, counted by lgkmcnt. `s_buffer_load` takes the
address from a resource, and reads zeros beyond its end (CDNA3, 7.4).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from titan.isa.gcn.module import GcnOperand, Literal, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import VCC
from titan.isa.simt.footprints import MemorySpace
from titan.isa.waves.decode import DecodedInstruction, Step, written_in_order
from titan.isa.waves.events import ScalarCacheInvalidated, UnknownAddress, WaveUse
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.sources import scalar_source
from titan.isa.waves.state import OpaqueWord, Refused, Scalar, Wave

_Address = Callable[[Wave], int | OpaqueWord]
_LOADS = ("s_load_", "s_buffer_load_", "s_scratch_load_")
_STRIDE = 0x3FFF  # bits of word 1 of a resource, above those of the address
_NARROW = {"u8": (1, False), "i8": (1, True), "u16": (2, False), "i16": (2, True)}
_WHOLE_VCC = Registers("s", VCC, 2)
BEYOND = -1  # an address that touches no memory


def scalar_memory_step(code: DecodedInstruction, group: WaveGroup) -> Step:
    """The step of a load of scalar registers, or of something else that lgkmcnt counts."""
    item, number = code.item, code.number
    if "_prefetch_" in item.base:
        return lambda wave: None
    if "_store_" in item.base or "_atomic_" in item.base:
        raise Refused(f"{item.opcode} writes by the scalar unit, which is not followed")
    if not item.base.startswith(_LOADS):
        return counted_step(code, group)
    if "scale_offset" in item.options:
        raise Refused(f"{item.opcode} with an offset that is scaled")
    target = item.operands[0]
    if not isinstance(target, Registers) or len(item.operands) < 3:
        raise Refused(f"{item.opcode} with too few operands")
    address_of = scalar_address(code)
    private = item.base.startswith("s_scratch_load_")
    registers = written_in_order(code)
    unknown = OpaqueWord(f"memory that {item.opcode} reads", number)
    narrow = _NARROW.get(item.base.rsplit("_", 1)[1])
    size = narrow[0] if narrow else 4 * target.count

    def step(wave: Wave) -> None:
        start = OpaqueWord("", number) if private else address_of(wave)
        if isinstance(start, int) and start != BEYOND and narrow is None:
            start &= ~3  # of a place within a word the word is loaded (CDNA3, 8.2)
        uses: tuple[WaveUse, ...] = ()
        if isinstance(start, int) and start != BEYOND:
            place = np.array([start], np.int64)
            footprint = group.footprint(place, size, MemorySpace.GLOBAL)
            uses = (WaveUse(footprint, False),)
        elif isinstance(start, OpaqueWord) and not private:
            group.events.append(UnknownAddress(*group.header(wave, number)))
        for at in range(target.count):
            value: Scalar = unknown
            if isinstance(start, int) and start != BEYOND:
                value = _word(group, start + 4 * at, number, unknown)
                if narrow and isinstance(value, int):
                    value = _extended(value, *narrow)
            wave.set_scalar(target.first + at, value)
        if target == _WHOLE_VCC:
            wave.vcc_in_part = False
        group.issue(wave, number, group.queues.scalar, registers, uses)

    return step


def _extended(value: int, size: int, signed: bool) -> int:
    bits = 8 * size
    value &= (1 << bits) - 1
    return value - (1 << bits) & 0xFFFF_FFFF if signed and value >> bits - 1 else value


def _word(group: WaveGroup, address: int, number: int, unknown: OpaqueWord) -> Scalar:
    for memory in group.constants:
        value = memory.word(address, number)
        if value is not None:
            return value
    place = np.array([address], np.int64)
    if group.contents is None:
        initially = group.read_initial(place, 4, number)
        return unknown if initially is None else int(initially.view(np.uint32)[0, 0])
    found = group.contents.read(place, 4)
    return int(found.view(np.uint32)[0, 0])


def scalar_address(code: DecodedInstruction) -> _Address:
    """Where a load begins; an opaque word if that is not known."""
    item, number = code.item, code.number
    offset_of = _offset(item.operands[2], number)
    more = item.integer("offset")
    base_of = scalar_source(item.operands[1], 2, number)
    if item.base.startswith("s_load_"):

        def from_pointer(wave: Wave) -> int | OpaqueWord:
            base, offset = base_of(wave), offset_of(wave)
            if isinstance(base, OpaqueWord):
                return base
            return offset if isinstance(offset, OpaqueWord) else base + offset + more

        return from_pointer
    resource = item.operands[1]
    assert isinstance(resource, Registers)
    size_of = scalar_source(Registers("s", resource.first + 2), 1, number)

    def from_resource(wave: Wave) -> int | OpaqueWord:
        base, size, offset = base_of(wave), size_of(wave), offset_of(wave)
        for one in (base, size, offset):
            if isinstance(one, OpaqueWord):
                return one
        assert isinstance(base, int) and isinstance(size, int) and isinstance(offset, int)
        if base >> 48 & _STRIDE:
            return OpaqueWord("a buffer of records", number)
        inside = 0 <= offset + more < size
        return (base & (1 << 48) - 1) + offset + more if inside else BEYOND

    return from_resource


def _offset(operand: GcnOperand, number: int) -> Callable[[Wave], Scalar]:
    """An immediate has a sign (CDNA3, 13.2), a register has none."""
    if not isinstance(operand, Literal):
        return scalar_source(operand, 1, number)
    low = operand.value & 0xFFFF_FFFF
    value = low - (1 << 32) if low >> 31 else low
    return lambda wave: value


def counted_step(code: DecodedInstruction, group: WaveGroup) -> Step:
    """Clocks and writing back caches: counted, and nothing else is recorded.

    Invalidating is not counted: no text of AMD says that vmcnt counts it, and LLVM does not
    (SIInsertWaitcnts). If the hardware does, a wait ends more than is recorded here, never less.
    """
    if code.item.base in ("global_inv", "global_wbinv", "global_wb"):
        # Writing back is a store, invalidating a load that returns in order (SIInsertWaitcnts).
        kind = group.queues.loads if code.item.base == "global_inv" else group.queues.stores
        return lambda wave: group.issue(wave, code.number, kind, (), ())
    if "inv" in code.item.base and code.opcode.kind is OpcodeKind.CACHE:
        return lambda wave: None
    if code.item.base.startswith("s_dcache_inv"):
        return lambda wave: group.events.append(
            ScalarCacheInvalidated(*group.header(wave, code.number))
        )
    registers = written_in_order(code)
    scalar = code.opcode.kind is OpcodeKind.SCALAR_MEMORY
    queue = group.queues.scalar if scalar else group.queues.stores
    unknown = OpaqueWord("a value of the moment", code.number)
    waits = not scalar or bool(registers)

    def step(wave: Wave) -> None:
        for register in registers:
            wave.set_scalar(register - 512, unknown)
        if waits:
            group.issue(wave, code.number, queue, registers, ())

    return step
