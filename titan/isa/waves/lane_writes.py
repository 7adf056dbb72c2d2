"""Lanes that write to the same bytes with one instruction: which of them stays is open.

That is right where they write the same. Values that are known are compared; of others nothing is
shown, so that the run is undecided unless they are assumed to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.simt.footprints import MemorySpace
from titan.isa.waves.events import LanesAlike, LanesDiffer, LanesShown
from titan.isa.waves.group import Addresses, WaveGroup
from titan.isa.waves.state import Wave, lanes_of

PARTS_MASK = {1: np.uint32(0xFF), 2: np.uint32(0xFFFF)}  # of a register, by the bytes stored


def note_lanes(
    group: WaveGroup,
    wave: Wave,
    number: int,
    item: AssemblyInstruction,
    stored: Sequence[tuple[Addresses, Sequence[int]]],
    size: int,
    space: MemorySpace,
) -> None:
    """An event where active lanes write to the same bytes, unless it is the same value.

    `stored`: addresses by lane (negative ones touch no memory) with the registers of the data.
    """
    places = np.concatenate([addresses for addresses, _ in stored])
    used = np.tile(wave.active, len(stored)) & (places >= 0)
    if not group.lanes_meet(places[used], size):
        return
    words, known = _values(wave, [registers for _, registers in stored], size, item)
    places, words, known = places[used], words[:, used], known[used]
    order = np.argsort(places, kind="stable")
    places, words, known = places[order], words[:, order], known[order]
    gaps = np.diff(places)
    same = gaps == 0
    apart = (words[:, 1:] != words[:, :-1]).any(axis=0)
    both = known[1:] & known[:-1]
    header = group.header(wave, number)
    if (same & both & apart).any():
        at = places[1:][same & both & apart]
        group.events.append(LanesDiffer(*header, group.footprint(at, size, space)))
    elif not (gaps > 0).any() and _alike(wave, [registers for _, registers in stored]):
        pass  # one value at one place
    elif ((same & ~both) | ((gaps > 0) & (gaps < size))).any():
        values = group.values
        shown = values is not None and values.lanes_alike(wave, item, stored, size)
        group.events.append(LanesShown(*header) if shown else LanesAlike(*header))


def _alike(wave: Wave, stored: Sequence[Sequence[int]]) -> bool:
    """Whether each register that is stored has one value in all active lanes."""
    return len(stored) == 1 and all(
        wave.exec & ~wave.alike.get(register, 0) == 0 for register in stored[0]
    )


def written_value(
    group: WaveGroup,
    wave: Wave,
    item: AssemblyInstruction,
    stored: Sequence[tuple[Addresses, Sequence[int]]],
    size: int,
) -> bytes:
    """A mark of what the active lanes write; nothing where it is not known.

    One word in all places is a mark by itself, whatever the places; other values with the places.
    """
    words, known = _values(wave, [registers for _, registers in stored], size, item)
    used = np.tile(wave.active, len(stored))
    if not used.any() or not known[used].all():
        traced = group.values is not None and bool(used.any())
        return group.values.mark(wave, item, stored, size) if traced and group.values else b""
    places, words = np.concatenate([addresses for addresses, _ in stored])[used], words[:, used]
    if size >= 4 and not (places % 4).any() and (words == words[0, 0]).all():
        return b"word" + words[0, 0].tobytes()
    order = np.argsort(places, kind="stable")
    content = places[order].tobytes() + np.ascontiguousarray(words[:, order]).tobytes()
    return sha256(content + size.to_bytes(1, "little")).digest()


def _values(
    wave: Wave, stored: Sequence[Sequence[int]], size: int, item: AssemblyInstruction
) -> tuple[np.ndarray, np.ndarray]:
    """The words that each lane stores, and for which lanes all of them are known."""
    rows, masks = [], []
    for registers in stored:
        whole = (1 << 64) - 1
        for register in registers:
            whole &= wave.known[register]
        values = [wave.vectors[register] for register in registers]
        if size in PARTS_MASK:
            shift = np.uint32(16 if "_hi" in item.base else 0)
            values = [row >> shift & PARTS_MASK[size] for row in values]
        rows.append(np.array(values))
        masks.append(lanes_of(whole))
    return np.concatenate(rows, axis=1), np.concatenate(masks)
