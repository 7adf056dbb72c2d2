"""Steps of instructions that access memory: what they touch, when it is counted, what they load.

Loads take effect on registers at once and mark them as pending until a wait covers them; what they
load from global memory is unknown. LDS keeps words that are known, so that values which a wave
hands to another may steer it; the verdict shows that no race decides them. In a run that computes
(`contents.py`) all values are known, and what is accessed is not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import M0
from titan.isa.simt.events import Assumption
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Policy
from titan.isa.waves.atomic_steps import contents_atomic, contents_lds_atomic
from titan.isa.waves.contents import Contents, register_rows, set_registers
from titan.isa.waves.decode import (
    DecodedInstruction,
    Step,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.events import IN_TURN, MisalignedAtomic, OutsideLds, UnknownAddress, WaveUse
from titan.isa.waves.group import Addresses, WaveGroup
from titan.isa.waves.lane_exchanges import exchange_step
from titan.isa.waves.lane_writes import note_lanes, written_value
from titan.isa.waves.private_steps import forget_all, private_step, size_of
from titan.isa.waves.scalar_memory_steps import counted_step, scalar_memory_step
from titan.isa.waves.sources import VectorSource, scalar_source, vector_source, wide_source
from titan.isa.waves.state import FULL, LANES, OpaqueWord, Refused, Scalar, Wave, lanes_of
from titan.isa.waves.transposed_reads import COMPUTED, transposed

GLOBAL, LDS = MemorySpace.GLOBAL, MemorySpace.SHARED
_DMA_LANE_BYTES = {1: 4, 2: 4, 4: 4, 12: 16, 16: 16}  # CDNA4, 9.1.9
# Bits of the words of a resource that change what an offset means (CDNA3, 9.1.8).
_SWIZZLED, _LANE_ADDED = 1 << 31, 1 << 23
_STRIDE = 0x3FFF  # bits of word 1, above those of the address
_LANES = np.arange(LANES, dtype=np.int64)
LDS_ADDRESS = (
    0xFFFF_FFFF  # of LDS: the sum of a register and an offset wraps (compilers rely on it)
)


def memory_step(code: DecodedInstruction, group: WaveGroup) -> Step:
    """The step of an instruction of a memory unit, but for accesses at flat addresses."""
    return _STEPS[code.opcode.kind](code, group)


def coherent_for_device(item: AssemblyInstruction) -> bool:
    """Whether all work-groups of the device see an access as one of a coherent memory."""
    return "_atomic_" in item.base or "sc1" in item.options or "glc" in item.options


_COMMUTING = re.compile(r"(pk_)?(add|sub|[us]?min|[us]?max|and|or|xor)(_|$)")


def atomic_word(
    group: WaveGroup, item: AssemblyInstruction, returns: bool, places: Addresses | None, size: int
) -> str:
    """The operation of an atomic as the uses have it (`WaveUse.word`); `places`: if known."""
    name = item.base.partition("_atomic_")[2] or item.base.removeprefix("ds_")
    if not returns and _COMMUTING.match(name) is not None:
        return name
    return IN_TURN if returns and (places is None or group.lanes_meet(places, size)) else ""


def note_alignment(
    group: WaveGroup, wave: Wave, number: int, places: Addresses, size: int, space: MemorySpace
) -> None:
    """An event where an atomic is not at a multiple of its bytes, which no mode of alignment allows
    (LLVM AMDGPU usage, unaligned-access-mode); two of one operation overlap only there."""
    wrong = places[places % size != 0]
    if len(wrong):
        header = group.header(wave, number)
        group.events.append(MisalignedAtomic(*header, group.footprint(wrong, size, space), size))


# ------------------------------------------------------------------------------------- LDS


def lds_offsets(item: AssemblyInstruction, size: int) -> list[int]:
    """The distances from the address at which an LDS instruction accesses `size` bytes."""
    if item.base.startswith(("ds_read2", "ds_write2", "ds_wrxchg2")):
        unit = size * (64 if "st64" in item.base else 1)
        return [item.integer("offset0") * unit, item.integer("offset1") * unit]
    return [item.integer("offset")]


def _lds(code: DecodedInstruction, group: WaveGroup) -> Step:
    item, number, size = code.item, code.number, size_of(code.item)
    if item.base == "ds_nop":
        return lambda wave: None
    if "gds" in item.options:
        raise Refused(f"{item.opcode} accesses memory that all work-groups share, which")
    registers = written_in_order(code)
    returns, results = bool(registers), results_of(item, code.opcode)
    reads = item.base.startswith(("ds_read", "ds_load_tr"))
    atomic = not reads and not item.base.startswith("ds_write")
    offsets = lds_offsets(item, size)
    by_lane = "addtid" in item.base or item.base in ("ds_append", "ds_consume")
    address_of = None if by_lane else vector_source(item.operands[results], number)
    moved = "_tr" in item.base  # each lane gets what others address
    data = [] if reads or atomic else [
        list(register_numbers(operand)) for operand in item.operands[results + 1 :]
    ]  # fmt: skip
    origin = OpaqueWord(f"LDS that {item.opcode} reads", number)

    def step(wave: Wave) -> None:
        if wave.exec == 0:
            group.issue(wave, number, group.queues.lds, registers, ())
            return
        addresses = lds_addresses(wave, address_of, item)
        if group.contents is not None:
            if addresses is None or (moved and item.base not in COMPUTED):
                raise Refused(f"{item.opcode} is not computed")
            if moved and wave.exec != FULL:
                raise Refused(f"{item.opcode} with lanes that are not active")
            if atomic:
                where = [_inside_window(wave, addresses + offset) for offset in offsets]
                contents_lds_atomic(group.contents, wave, code, where, size)
            else:
                _lds_contents(group.contents, wave, code, addresses, data)
            uses: tuple[WaveUse, ...] = ()
        elif addresses is None:
            header = group.header(wave, number)
            group.events.append(Assumption(*header, Policy.OPAQUE_ADDRESS))
            word = atomic_word(group, item, returns, None, size) if atomic else ""
            uses = (WaveUse(group.all_lds, not reads, atomic, returns=returns, word=word),)
            if not reads:
                group.forget_all()
                if group.values is not None:
                    group.values.forget_lds()
            forget_all(wave, registers, origin)
        else:
            rows = [addresses + offset & LDS_ADDRESS for offset in offsets]
            places = np.concatenate([row[wave.active] for row in rows])
            stored = list(zip(rows, data, strict=False))
            value = written_value(group, wave, item, stored, size) if data else b""
            footprint = inside_lds(group, wave, number, places, size)
            if atomic:
                note_alignment(group, wave, number, places, size, LDS)
            word = atomic_word(group, item, returns, places, size) if atomic else ""
            uses = (WaveUse(footprint, not reads, atomic, returns=returns, value=value, word=word),)
            if group.values is not None and reads:
                group.values.note_lds_load(wave, code, rows, size)
            elif group.values is not None:
                group.values.note_lds_store(wave, item, rows, data, size)
            if reads:
                _read_words(group, wave, rows, registers, origin, moved or size < 4)
            else:
                forget_all(wave, registers, origin)
                if data:
                    note_lanes(group, wave, number, item, stored, size, LDS)
                _write_words(group, wave, rows, data, size)
        group.issue(wave, number, group.queues.lds, registers, uses)

    return step


def _lds_contents(
    contents: Contents,
    wave: Wave,
    code: DecodedInstruction,
    addresses: Addresses,
    data: list[list[int]],
) -> None:
    """A load or store of LDS by its bytes."""
    item, size = code.item, size_of(code.item)
    registers = written_in_order(code)
    offsets = lds_offsets(item, size)
    each = max(1, size // 4)
    for at, offset in enumerate(offsets):
        places = _inside_window(wave, addresses + offset)
        if registers:
            rows = contents.read_lds(places, size)
            rows = transposed(rows, item.base) if item.base in COMPUTED else rows
            set_registers(wave, registers[at * each : (at + 1) * each], rows, item)
        else:
            contents.write_lds(places, register_rows(wave, data[at], size, item))


def _inside_window(wave: Wave, addresses: Addresses) -> Addresses:
    """Places in LDS, negative for lanes that are not active."""
    return np.where(wave.active, addresses & LDS_ADDRESS, np.int64(-1))


def lds_addresses(
    wave: Wave, address_of: VectorSource | None, item: AssemblyInstruction
) -> Addresses | None:
    """The address of each lane without the offset; None if one of an active lane is unknown."""
    if address_of is None:
        base = wave.scalar(M0)
        if isinstance(base, OpaqueWord):
            return None
        lanes = 4 * _LANES if "addtid" in item.base else np.zeros(LANES, np.int64)
        return (base & 0xFFFF) + lanes
    values, known, _ = address_of(wave)
    if known & wave.exec != wave.exec:
        return None
    return np.broadcast_to(values, (LANES,)).astype(np.int64)


def inside_lds(
    group: WaveGroup, wave: Wave, number: int, places: Addresses, size: int
) -> Footprint:
    """The footprint in LDS; bytes beyond its end are recorded and left out."""
    outside = (places < 0) | (places + size > group.lds_bytes)
    if outside.any():
        beyond = group.footprint(places[outside], size, LDS)
        header = group.header(wave, number)
        group.events.append(OutsideLds(*header, beyond, group.lds_bytes))
        places = places[~outside]
    return group.footprint(places, size, LDS)


def _read_words(
    group: WaveGroup,
    wave: Wave,
    rows: list[Addresses],
    registers: tuple[int, ...],
    origin: OpaqueWord,
    opaque: bool,
) -> None:
    if opaque or not group.any_known:
        forget_all(wave, registers, origin)
        return
    each = len(registers) // len(rows)
    for at, register in enumerate(registers):
        values, known = group.load(rows[at // each], 4 * (at % each))
        wave.set_vector(register, values, known & wave.exec, origin)


def _write_words(
    group: WaveGroup,
    wave: Wave,
    rows: list[Addresses],
    data: list[list[int]],
    size: int,
) -> None:
    active = wave.active
    whole = size >= 4 and bool(data)
    for index, addresses in enumerate(rows):
        row = data[index] if whole and index < len(data) else []
        for at in range(max(1, size // 4)):
            register = row[at] if at < len(row) and row[at] < 512 else None
            if register is None:
                group.store(addresses[active] + 4 * at, None, np.zeros(1, np.bool_))
                continue
            known = lanes_of(wave.known[register])[active]
            values = wave.vectors[register][active]
            group.store(addresses[active] + 4 * at, values, known)


# --------------------------------------------------------------------------- global memory


def _global(code: DecodedInstruction, group: WaveGroup) -> Step:
    item = code.item
    if item.base == "global_prefetch_b8":
        return lambda wave: None
    results = results_of(item, code.opcode)
    operands = item.operands[results:]
    if not operands:
        raise Refused(f"{item.opcode} without an address")
    return _vector_access(code, group, address_from(code, operands[0]))


def address_from(code: DecodedInstruction, first: GcnOperand) -> Callable[[Wave], Addresses | None]:
    """The addresses of a global access: a pointer in vector registers (`first`), or an offset there
    and a pointer in scalar registers. None where one of an active lane is unknown."""
    item = code.item
    scalar = next(
        (one for one in item.operands[1:] if isinstance(one, Registers) and one.bank == "s"), None
    )
    offset = item.integer("offset")
    scale = size_of(item) if "scale_offset" in item.options else 1
    if scalar is None:
        pointer = wide_source(first, code.number)

        def address_of(wave: Wave) -> Addresses | None:
            values, known, _ = pointer(wave)
            if known & wave.exec != wave.exec:
                return None
            return np.broadcast_to(values, (LANES,)).view(np.int64) + offset

        return address_of
    base_of = scalar_source(scalar, 2, code.number)
    distance = vector_source(first, code.number)

    def from_base(wave: Wave) -> Addresses | None:
        base, (values, known, _) = base_of(wave), distance(wave)
        if isinstance(base, OpaqueWord) or known & wave.exec != wave.exec:
            return None
        base -= base >> 63 << 64  # addresses are numbers with a sign here
        lanes = np.broadcast_to(values, (LANES,))
        # On gfx1250 the offset of a lane has a sign (LLVM, signed GVS offsets).
        signed = wave.width != LANES
        wide = (np.ascontiguousarray(lanes).view(np.int32) if signed else lanes).astype(np.int64)
        return wide * scale + base + offset

    return from_base


def _buffer(code: DecodedInstruction, group: WaveGroup) -> Step:
    item, number = code.item, code.number
    to_lds = "lds" in item.options
    operands = item.operands if to_lds else item.operands[1:]
    resource = next(
        (
            one
            for one in operands
            if isinstance(one, Registers) and one.bank == "s" and one.count == 4
        ),
        None,
    )
    if resource is None:
        raise Refused(f"{item.opcode} without a resource")
    place = operands.index(resource)
    words = [scalar_source(Registers("s", resource.first + at), 1, number) for at in range(4)]
    step_of = scalar_source(operands[place + 1], 1, number) if place + 1 < len(operands) else None
    inst = item.integer("offset")
    offsets, indexed = "offen" in item.options, "idxen" in item.options
    first: GcnOperand = operands[0]
    index_of = vector_source(_word_of(first, 0), number) if indexed else None
    vector = vector_source(_word_of(first, int(indexed)), number) if offsets else None

    def address_of(wave: Wave) -> Addresses | None:
        low, high, records, form = (word(wave) for word in words)
        more = 0 if step_of is None else step_of(wave)
        if any(isinstance(one, OpaqueWord) for one in (low, high, records, more)):
            return None
        if wave.width != LANES:
            return _of_gfx1250(wave, (low, high, records, form), more)
        assert isinstance(low, int) and isinstance(high, int)
        assert isinstance(records, int) and isinstance(more, int)
        if high & _SWIZZLED or (isinstance(form, int) and form & _LANE_ADDED):
            return None
        index = _numbers(wave, index_of)
        offset = _numbers(wave, vector)
        if index is None or offset is None:
            return None
        stride = high >> 16 & _STRIDE
        within = offset + inst + stride * index
        addresses = within + (low | (high & 0xFFFF) << 32) + more
        # Raw buffers: what begins beyond the end is neither read nor written (CDNA3, 9.1.5).
        outside = within >= records
        # Others end after so many records, or bytes: where that differs, nothing is known.
        differ = outside != (index >= records)
        if stride and bool(differ[wave.active].any()):
            return None
        return np.where(outside, np.int64(-1), addresses)

    def _of_gfx1250(wave: Wave, found: tuple[Scalar, ...], more: Scalar) -> Addresses | None:
        """57 bits of an address, 45 of a size (LLVM, buffer resources of gfx1250)."""
        whole = 0
        for at, word in enumerate(found):
            if isinstance(word, OpaqueWord):
                return None
            whole |= word << 32 * at
        offset = _numbers(wave, vector)
        if indexed or offset is None or whole >> 108 & 0xFFFF or not isinstance(more, int):
            return None
        within = offset + inst
        outside = within >= (whole >> 57 & (1 << 45) - 1)
        return np.where(outside, np.int64(-1), within + (whole & (1 << 57) - 1) + more)

    return _vector_access(code, group, address_of)


def _word_of(operand: GcnOperand, at: int) -> GcnOperand:
    """One of the registers of an address: the index, and behind it the offset."""
    if isinstance(operand, Registers) and operand.count > at:
        return Registers(operand.bank, operand.first + at)
    raise Refused("an address of a buffer that is not understood")


def _numbers(wave: Wave, source: VectorSource | None) -> Addresses | None:
    """What a source has for each lane, zeros without one; None if an active lane is unknown."""
    if source is None:
        return np.zeros(LANES, np.int64)
    values, known, _ = source(wave)
    if known & wave.exec != wave.exec:
        return None
    return np.broadcast_to(values, (LANES,)).astype(np.int64)


def _vector_access(
    code: DecodedInstruction, group: WaveGroup, address_of: Callable[[Wave], Addresses | None]
) -> Step:
    """A load, store, atomic or copy to LDS; lanes with a negative address access no memory."""
    item, number, size = code.item, code.number, size_of(code.item)
    registers = written_in_order(code)
    atomic = "_atomic_" in item.base
    write = atomic or "_store_" in item.base
    to_lds = "lds" in item.options or "_load_lds_" in item.base
    coherent = coherent_for_device(item)
    origin = OpaqueWord(f"memory that {item.opcode} reads", number)
    data = _stored(code) if write and not atomic else ()
    # An atomic that gives the old value back is counted as a load.
    queue = group.queues.stores if write and not registers else group.queues.loads
    if "format" in item.base:
        raise Refused(f"{item.opcode} accesses as many bytes as its resource says, which")

    def step(wave: Wave) -> None:
        uses: list[WaveUse] = []
        rows = None
        if wave.exec and group.contents is not None:
            _contents_access(group.contents, wave, code, address_of(wave))
            group.issue(wave, number, queue, registers, ())
            return
        if wave.exec:
            addresses = group.places = address_of(wave)
            if group.values is not None and not write:
                group.values.note_global_load(wave, code, addresses, size)
            if addresses is None:
                if write:
                    raise Refused(f"the address of {item.opcode}", opaque_source(wave, code))
                group.events.append(UnknownAddress(*group.header(wave, number)))
            else:
                active = addresses[wave.active]
                active = active[active >= 0]
                if registers and not write and not to_lds:
                    places = np.where(wave.active, addresses, np.int64(-1))
                    rows = group.read_initial(places, size, number)
                if len(active):
                    footprint = group.footprint(active, size, GLOBAL)
                    stored = [(addresses, data)]
                    value = written_value(group, wave, item, stored, size) if data else b""
                    returns = bool(registers)
                    word = atomic_word(group, item, returns, active, size) if atomic else ""
                    uses.append(WaveUse(footprint, write, atomic, coherent, returns, value, word))
                    if data:
                        note_lanes(group, wave, number, item, stored, size, GLOBAL)
                    elif atomic:
                        note_alignment(group, wave, number, active, size, GLOBAL)
                    if group.values is not None and write:
                        group.values.note_global_store(active, size)
            if to_lds:
                uses.append(WaveUse(_copied_to(group, wave, code, size), True))
        if rows is None:
            forget_all(wave, registers, origin)
        else:
            set_registers(wave, registers, rows, item)
        group.issue(wave, number, queue, registers, tuple(uses))

    return step


def _stored(code: DecodedInstruction) -> range:
    """The registers that a store writes to memory."""
    return register_numbers(code.item.operands[0 if code.opcode.kind is OpcodeKind.BUFFER else 1])


def _contents_access(
    contents: Contents, wave: Wave, code: DecodedInstruction, addresses: Addresses | None
) -> None:
    """A load, store or copy to LDS by its bytes."""
    item, size = code.item, size_of(code.item)
    if addresses is None:
        raise Refused(f"the address of {item.opcode}", opaque_source(wave, code))
    places = np.where(wave.active, addresses, np.int64(-1))
    if "_atomic_" in item.base:
        contents_atomic(contents, wave, code, places, size)
        return
    if "_store_" in item.base:
        rows = register_rows(wave, _stored(code), size, item)
        contents.write(places, rows)
        return
    rows = contents.read(places, size)
    if "lds" not in item.options and "_load_lds_" not in item.base:
        set_registers(wave, written_in_order(code), rows, item)
        return
    base = wave.scalar(M0)
    if isinstance(base, OpaqueWord):
        raise Refused("the destination in LDS", base)
    start = (base & _start_bits(code)) + item.integer("offset")
    lanes = np.where(wave.active, start + _DMA_LANE_BYTES[size] * _LANES, np.int64(-1))
    contents.write_lds(lanes, rows)


def _copied_to(group: WaveGroup, wave: Wave, code: DecodedInstruction, size: int) -> Footprint:
    """What a copy writes in LDS: a place for each lane, from M0 on (CDNA3, 10.3)."""
    base = wave.scalar(M0)
    if isinstance(base, OpaqueWord):
        raise Refused("the destination in LDS", base)
    each = _DMA_LANE_BYTES.get(size)
    if each is None:
        raise Refused(f"{code.item.opcode} copies {size} bytes a lane to LDS")
    start = (base & _start_bits(code)) + code.item.integer("offset")
    places = start + each * _LANES[wave.active]
    for word in range(0, size, 4):
        group.store(places + word, None, np.zeros(1, np.bool_))
    if group.values is not None:
        group.values.note_copy(wave, places, size)
    return inside_lds(group, wave, code.number, places, max(4, size))


def _start_bits(code: DecodedInstruction) -> int:
    """The bits of M0 at which a copy to LDS begins: whole words, but in buffers (HARDWARE A13)."""
    return 0x3FFFF if code.opcode.kind is OpcodeKind.BUFFER else 0x3FFFC


def opaque_source(wave: Wave, code: DecodedInstruction) -> OpaqueWord:
    """The first register of an instruction that is not known."""
    for register in sorted(code.reads):
        if register >= 512:
            value = wave.scalar(register - 512)
            if isinstance(value, OpaqueWord):
                return value
        elif wave.known[register] & wave.exec != wave.exec:
            return wave.origins[register]
    return OpaqueWord("a value that is not known", code.number)


_STEPS: dict[OpcodeKind, Callable[[DecodedInstruction, WaveGroup], Step]] = {
    OpcodeKind.SCALAR_MEMORY: scalar_memory_step,
    OpcodeKind.CACHE: counted_step,
    OpcodeKind.LDS: _lds,
    OpcodeKind.CROSS_LANE: exchange_step,
    OpcodeKind.GLOBAL: _global,
    OpcodeKind.BUFFER: _buffer,
    OpcodeKind.SCRATCH: private_step,
}
