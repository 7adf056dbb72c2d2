"""Steps of accesses at flat addresses: each lane reaches LDS, private or global memory.

The upper word of an address says which (`sources.APERTURES`). vmcnt and lgkmcnt count an access
both, whatever it reaches, and it returns in no order with others (`events.py`). Values that are
loaded are not followed. Sources: CDNA3, 4.4 and 9.4; LLVM, SIInsertWaitcnts.
"""

from __future__ import annotations

import numpy as np

from titan.isa.gcn.module import GcnOperand, Registers
from titan.isa.simt.events import Assumption
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Policy
from titan.isa.waves.decode import (
    DecodedInstruction,
    Step,
    register_numbers,
    results_of,
    written_in_order,
)
from titan.isa.waves.events import UnknownAddress, WaveUse
from titan.isa.waves.group import Addresses, WaveGroup
from titan.isa.waves.lane_writes import note_lanes, written_value
from titan.isa.waves.memory_steps import (
    atomic_word,
    coherent_for_device,
    inside_lds,
    note_alignment,
    opaque_source,
)
from titan.isa.waves.private_steps import size_of
from titan.isa.waves.sources import LDS_APERTURE, PRIVATE_APERTURE, wide_source
from titan.isa.waves.state import LANES, OpaqueWord, Refused, Wave

_WINDOW = 32  # bits of an address within LDS or private memory


def _whole_pointer(operand: GcnOperand) -> bool:
    return isinstance(operand, Registers) and operand.count == 2


def flat_step(code: DecodedInstruction, group: WaveGroup) -> Step:
    """The step of a flat load, store or atomic."""
    item, number, size = code.item, code.number, size_of(code.item)
    registers = written_in_order(code)
    operands = item.operands[results_of(item, code.opcode) :]
    if not operands:
        raise Refused(f"{item.opcode} without an address")
    if "scale_offset" in item.options or not _whole_pointer(operands[0]):
        raise Refused(f"{item.opcode} with a pointer in scalar registers")
    pointer = wide_source(operands[0], number)
    offset = item.integer("offset")
    atomic = "_atomic_" in item.base
    write = atomic or "_store_" in item.base
    data = register_numbers(operands[1]) if "_store_" in item.base else range(0)
    origin = OpaqueWord(f"memory that {item.opcode} reads", number)

    def addresses_of(wave: Wave) -> Addresses | None:
        values, known, _ = pointer(wave)
        if known & wave.exec != wave.exec:
            return None
        return np.broadcast_to(values, (LANES,)).view(np.int64) + offset

    def step(wave: Wave) -> None:
        uses: dict[MemorySpace, WaveUse] = {}
        if group.contents is not None:
            raise Refused(f"{item.opcode} is not computed")
        addresses = addresses_of(wave) if wave.exec else np.full(LANES, -1, np.int64)
        if addresses is None:
            if write:
                raise Refused(f"the address of {item.opcode}", opaque_source(wave, code))
            group.events.append(UnknownAddress(*group.header(wave, number)))
            group.events.append(Assumption(*group.header(wave, number), Policy.OPAQUE_ADDRESS))
            uses[MemorySpace.SHARED] = WaveUse(group.all_lds, False)
        else:
            uses = _parts(group, wave, code, addresses, data, (size, write, atomic))
        for register in registers:
            wave.forget(register, 1, origin)
        in_lds, in_global = (
            (uses[space],) if space in uses else ()
            for space in (MemorySpace.SHARED, MemorySpace.GLOBAL)
        )
        group.issue_flat(wave, number, registers, in_lds, in_global)

    return step


def _parts(
    group: WaveGroup,
    wave: Wave,
    code: DecodedInstruction,
    addresses: Addresses,
    data: range,
    what: tuple[int, bool, bool],
) -> dict[MemorySpace, WaveUse]:
    """What the lanes touch, in LDS and in global memory."""
    (size, write, atomic), item = what, code.item
    window = addresses >> _WINDOW << _WINDOW
    in_lds, private = window == LDS_APERTURE, window == PRIVATE_APERTURE
    if write and (private & wave.active).any():
        wave.private.clear()
    uses: dict[MemorySpace, WaveUse] = {}
    coherent = coherent_for_device(item)
    for space, lanes in (
        (MemorySpace.SHARED, in_lds), (MemorySpace.GLOBAL, ~in_lds & ~private),
    ):  # fmt: skip
        chosen = lanes & wave.active
        if not chosen.any():
            continue
        places = np.where(lanes, addresses - (in_lds * LDS_APERTURE), np.int64(-1))
        active = places[chosen]
        lds = space is MemorySpace.SHARED
        footprint = (
            inside_lds(group, wave, code.number, active, size)
            if lds
            else group.footprint(active, size, space)
        )
        if lds and write:
            group.store(active, None, np.zeros(1, np.bool_))
            for more in range(4, size, 4):
                group.store(active + more, None, np.zeros(1, np.bool_))
        whole = bool(data) and bool((chosen == wave.active).all())
        value = written_value(group, wave, item, [(places, data)], size) if whole else b""
        if atomic:
            note_alignment(group, wave, code.number, active, size, space)
        returns = bool(code.writes)
        word = atomic_word(group, item, returns, active, size) if atomic else ""
        uses[space] = WaveUse(footprint, write, atomic, coherent, returns, value, word)
        if data:
            note_lanes(group, wave, code.number, item, [(places, data)], size, space)
    return uses
