"""What cp.async writes, as far as it is known: words of global memory that are known, and zeros.

The twin of `note_copied` in `native/copy_async.c`.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.isa.simt.accesses import Located, locate_aligned
from titan.isa.simt.footprints import MemorySpace, PlacedBytes
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.state import Cta, Fragment, StoredNumber
from titan.isa.simt.values import Opaque, Scalar, lane, lanes_of

Sources = list[tuple[int, tuple[int, Cta | None, int], int]]  # lanes, a place, bytes
COPIED_WORD_BYTES = 4  # each is known or not


def sizes_read(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int
) -> dict[int, int | None]:
    """How many bytes each lane of a cp.async reads, None where that is not known; zeros are written
    for the others.
    """
    count, ignores = step.flags[2:4]
    if len(step.args) < 3:
        return dict.fromkeys(lanes_of(mask), count)
    given = fragment.warp.registers[step.args[2]]
    sizes: dict[int, int | None] = {}
    for index in lanes_of(mask):
        item = lane(given, index)
        if isinstance(item, Opaque):
            sizes[index] = None
        elif ignores:
            sizes[index] = 0 if item & 1 else count
        else:
            sizes[index] = item
            if item > count:
                machine.fault(fragment, f"a copy of {count} bytes cannot read {item}")
    return sizes


def sources_of(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, sizes: Mapping[int, int | None]
) -> Sources | None:
    """What the lanes of a cp.async read: as many bytes as they say, and all where that is not
    known. None: an address is not known.
    """
    offset, count = step.flags[1:3]
    reading: dict[int, int] = {}
    for index, size in sizes.items():
        whole = count if size is None else size
        reading[whole] = reading.get(whole, 0) | 1 << index
    reading.pop(0, None)
    found: Sources = []
    for size, lanes in reading.items():
        form = PlacedBytes(MemorySpace.GLOBAL, offset, size, count)
        located = locate_aligned(machine, fragment, step.args[1], form, lanes)
        if located is None:
            return None
        found += [(by, where, size) for by, where in located]
    return found


def copied(
    machine: SimtMachine, to: Located, at: Sources, sizes: Mapping[int, int | None], count: int
) -> tuple[StoredNumber, ...]:
    """The words that are known of those that lanes copy: zeros, and what global memory holds."""
    sources = {index: where[2] for lanes, where, _ in at for index in lanes_of(lanes)}
    found = []
    for lanes, (_, cta, place_) in to:
        origins = {(sources.get(index), sizes[index]) for index in lanes_of(lanes)}
        source, size = origins.pop()
        if origins or cta is None or size is None or (size and source is None):
            continue
        for offset in range(0, count, COPIED_WORD_BYTES):
            read = min(max(size - offset, 0), COPIED_WORD_BYTES)
            value: Scalar = 0
            if read and source is not None:
                value = machine.memory.read(source + offset, read, -1)
            if isinstance(value, int):
                found.append(StoredNumber(cta.number, place_ + offset, COPIED_WORD_BYTES, value))
    return tuple(found)
