"""Whether lanes of one warp access the same bytes without having met in between.

Lanes that run the same instruction are not ordered by that: a lane may be ahead of its neighbours
from the next instruction on (PTX, independent thread scheduling), so what one lane writes with a
plain st and another reads or writes needs bar.warp.sync, or another barrier, between the two.

What is noted of each byte of shared and global memory: the lanes that read and wrote it with plain
ld and st, until all others have come after them (lane_uses.py). Lanes that all wrote a byte may
read it.
ldmatrix, stmatrix, atomics, volatile and relaxed accesses are not noted, nor what may not happen:
accesses in the arms of a branch on unknown data.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import NO_CTA, MemorySpace
from titan.isa.simt.recorder import Recorder
from titan.isa.simt.state import Cta, Fragment

Place = tuple[int, Cta | None, int]  # memory, CTA (shared memory only) and offset


def order_lanes(
    machine: Recorder, fragment: Fragment, located: Sequence[tuple[int, Place]], count: int,
    mode: ev.Mode,
) -> None:  # fmt: skip
    """Note a plain read or write of `count` bytes at each place by its lanes; record the first
    clash of the instruction with what other lanes did since the lanes met."""
    if machine.maybe:
        return
    clash: tuple[int, MemorySpace, int, int, int] | None = None
    for lanes, (space, cta, at) in located:
        if space not in (MemorySpace.SHARED, MemorySpace.GLOBAL):
            continue
        number = NO_CTA if cta is None else cta.number
        for byte in range(at, at + count):
            other = fragment.warp.uses.note((number, byte), lanes, mode, fragment.pc)
            if clash is None and other is not None:
                clash = lanes, MemorySpace(space), number, at, other
    if clash is not None and fragment.pc not in machine.clashed:
        machine.clashed.add(fragment.pc)
        lanes, space, number, at, other = clash
        footprint = machine.footprint(space, number, ((at, at + count),))
        machine.record(ev.LaneClash, fragment, lanes, footprint, mode, other)
