"""Copies of gfx1250 between global memory and LDS, past the registers.

`global_load_async_to_lds` and `global_store_async_from_lds` copy up to 16 bytes for each active
lane; a vector register has the lane's address in LDS, and the offset of the instruction counts for
both addresses (LLVM, AMDGPU DMA operations). asynccnt counts them. They are in no order with
accesses of other kinds, and here in none with each other where they meet.

`tensor_load_to_lds` and `tensor_store_from_lds` copy a tile that scalar registers describe,
whatever lanes are active; tensorcnt counts them. What the tile covers in LDS is known where the
description is that of plain rows (`tensor_tiles.py`), otherwise it may be all of LDS.
"""

from __future__ import annotations

import numpy as np

from titan.isa.gcn.module import Registers
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.simt.events import Assumption
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Policy
from titan.isa.waves.decode import DecodedInstruction, Step
from titan.isa.waves.events import LanesAlike, UnknownAddress, WaveQueue, WaveUse
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.memory_steps import address_from, inside_lds, opaque_source
from titan.isa.waves.sources import vector_source
from titan.isa.waves.state import LANES, Refused, Wave
from titan.isa.waves.tensor_tiles import tile_in_lds

_WIDTHS = {"b8": 1, "b32": 4, "b64": 8, "b128": 16}
# Triton gives lanes that shall copy nothing an address that no LDS reaches.
NOWHERE = 0x7FFF_0000
_ZERO = np.zeros(1, np.bool_)


def copy_step(code: DecodedInstruction, group: WaveGroup) -> Step:
    """The step of a copy."""
    if group.contents is not None:
        raise Refused(f"{code.item.opcode} is not computed")
    return _tensor(code, group) if code.opcode.kind is OpcodeKind.TENSOR else _lanes(code, group)


def _lanes(code: DecodedInstruction, group: WaveGroup) -> Step:
    item, number = code.item, code.number
    load = "_load_" in item.base
    size = _WIDTHS[item.base.rsplit("_", 1)[1]]
    if len(item.operands) < 3:
        raise Refused(f"{item.opcode} with too few operands")
    in_lds = vector_source(item.operands[0 if load else 1], number)
    address_of = address_from(code, item.operands[1] if load else item.operands[0])
    offset = item.integer("offset")
    queue = WaveQueue.ASYNC_LOADS if load else WaveQueue.ASYNC_STORES

    def step(wave: Wave) -> None:
        uses: list[WaveUse] = []
        if wave.exec:
            values, known, _ = in_lds(wave)
            addresses = address_of(wave)
            if addresses is None:
                if not load:
                    raise Refused(f"the address of {item.opcode}", opaque_source(wave, code))
                group.events.append(UnknownAddress(*group.header(wave, number)))
            else:
                footprint = group.footprint(addresses[wave.active], size, MemorySpace.GLOBAL)
                uses.append(WaveUse(footprint, not load))
                if not load and group.lanes_meet(addresses[wave.active], size):
                    group.events.append(LanesAlike(*group.header(wave, number)))
            if known & wave.exec != wave.exec:
                group.events.append(Assumption(*group.header(wave, number), Policy.OPAQUE_ADDRESS))
                uses.append(WaveUse(group.all_lds, load))
                if load:
                    group.forget_all()
            else:
                places = np.broadcast_to(values, (LANES,)).astype(np.int64) + offset
                places = places[wave.active]
                places = places[places < NOWHERE]
                if len(places):
                    uses.append(WaveUse(_in_lds(group, wave, number, places, size, load), load))
        group.issue(wave, number, queue, (), tuple(uses))

    return step


def _in_lds(  # type: ignore[no-untyped-def]
    group: WaveGroup, wave: Wave, number: int, places, size: int, write: bool
):
    if write:
        if group.lanes_meet(places, size):
            group.events.append(LanesAlike(*group.header(wave, number)))
        for more in range(0, size, 4):
            group.store(places + more, None, _ZERO)
    return inside_lds(group, wave, number, places, size)


def _tensor(code: DecodedInstruction, group: WaveGroup) -> Step:
    item, number = code.item, code.number
    load = "_load_" in item.base
    groups = [one for one in item.operands if isinstance(one, Registers) and one.bank == "s"]

    def step(wave: Wave) -> None:
        words = [[wave.scalar(one.first + at) for at in range(one.count)] for one in groups]
        found = tile_in_lds(words, item.opcode)
        # Global memory is touched at places that are not followed.
        group.events.append(UnknownAddress(*group.header(wave, number)))
        if not load:
            raise Refused(f"what {item.opcode} writes in global memory is not followed, which")
        if found is None:
            group.events.append(Assumption(*group.header(wave, number), Policy.OPAQUE_ADDRESS))
            footprint = group.all_lds
            group.forget_all()
        else:
            places = np.array(found, np.int64)
            group.store(places, None, _ZERO)
            footprint = inside_lds(group, wave, number, places, 4)
        group.issue(wave, number, WaveQueue.TENSOR, (), (WaveUse(footprint, load),))

    return step
