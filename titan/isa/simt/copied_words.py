"""What cp.async writes, as far as it is known: words of global memory that are known, and zeros.

The twin of `note_copied` in `native/copies.c`.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.isa.simt.accesses import Located
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.state import Fragment, StoredNumber
from titan.isa.simt.values import Opaque, Scalar, lane, lanes_of

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


def copied(
    machine: SimtMachine, to: Located, at: Located, sizes: Mapping[int, int | None], count: int
) -> tuple[StoredNumber, ...]:
    """The words that are known of those that lanes copy: zeros, and what global memory holds."""
    sources = {index: where[2] for lanes, where in at for index in lanes_of(lanes)}
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
