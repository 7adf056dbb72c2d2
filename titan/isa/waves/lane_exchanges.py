"""Exchanges of lanes through the unit of LDS, which touch none of its bytes.

Sources: CDNA3, DS_PERMUTE_B32, DS_BPERMUTE_B32 and DS_SWIZZLE_B32. What a lane gets of one that is
not active is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.waves.decode import DecodedInstruction, Step, written_in_order
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.moved_lanes import swizzle_lanes
from titan.isa.waves.private_steps import forget_all
from titan.isa.waves.sources import vector_source
from titan.isa.waves.state import LANES, OpaqueWord, Wave, lanes_of, mask_of

NOBODY = -1


class Exchange(NamedTuple):
    """From which lane each lane gets its word, `NOBODY` where none sends to it, and for which lanes
    that is known."""

    lanes: NDArray[np.int64]
    known: int


def exchange_step(code: DecodedInstruction, group: WaveGroup) -> Step:
    """ds_bpermute_b32, ds_permute_b32, ds_swizzle_b32; of others nothing is known."""
    item, number = code.item, code.number
    registers = written_in_order(code)
    origin = OpaqueWord(f"what {item.opcode} gets from other lanes", number)
    addressed = item.base in ("ds_bpermute_b32", "ds_permute_b32") and len(item.operands) == 3
    swizzled = swizzle_lanes(item) if item.base == "ds_swizzle_b32" else None
    if addressed or swizzled is not None:
        address_of = vector_source(item.operands[1], number)
        data_of = vector_source(item.operands[2 if addressed else 1], number)

    def exchange_of(wave: Wave) -> Exchange:
        if swizzled is not None:
            return Exchange(swizzled & wave.width - 1, wave.exec)
        addresses, known, _ = address_of(wave)
        lanes = _lanes(wave, item, np.broadcast_to(addresses, (LANES,)))
        if item.base == "ds_permute_b32" and known & wave.exec != wave.exec:
            known = 0  # one lane whose place is not known may send to any of them
        return Exchange(lanes, known & wave.exec)

    def step(wave: Wave) -> None:
        if addressed or swizzled is not None:
            lanes, known = exchange_of(wave)
            data, data_known, why = data_of(wave)
            usable = lanes_of(data_known & wave.exec)[lanes] | (lanes == NOBODY)
            rows = np.where(lanes == NOBODY, np.uint32(0), np.broadcast_to(data, (LANES,))[lanes])
            wave.set_vector(registers[0], rows, mask_of(usable) & known, why)
        else:
            forget_all(wave, registers, origin)
        group.issue(wave, number, group.queues.lds, registers, ())

    return step


def lanes_sent(
    wave: Wave, item: AssemblyInstruction, registers: Sequence[int]
) -> NDArray[np.int64] | None:
    """From which lane each lane of a whole wave gets its word, by ds_bpermute_b32, ds_permute_b32;
    None where the addresses, which are in this register, are not known."""
    if len(registers) != 1 or wave.known[registers[0]] != wave.lanes_all:
        return None
    return _lanes(wave, item, wave.vectors[registers[0]])


def lanes_given(wave: Wave, code: DecodedInstruction) -> NDArray[np.int64] | None:
    """From which lane each active lane gets its word, by ds_bpermute_b32, ds_permute_b32; None
    where an address is not known."""
    addresses, known, _ = vector_source(code.item.operands[1], code.number)(wave)
    if known & wave.exec != wave.exec:
        return None
    return _lanes(wave, code.item, np.broadcast_to(addresses, (LANES,)))


def _lanes(
    wave: Wave, item: AssemblyInstruction, addresses: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """The same by the addresses: four bytes name a lane, beyond the last one the first again."""
    places = (addresses + np.uint32(item.integer("offset")) >> np.uint32(2)).astype(np.int64)
    places &= wave.width - 1
    if item.base == "ds_bpermute_b32":
        return places
    found = np.full(LANES, NOBODY, np.int64)
    for lane in np.flatnonzero(wave.active):  # of several that send to one the last one stays
        found[places[lane]] = lane
    return found
