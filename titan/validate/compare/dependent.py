"""Launches that begin before the one in front has ended: nothing is touched before the wait.

A dependent launch overlaps the end of what runs before it on its stream. Every thread has to
execute `griddepcontrol.wait` before it reads or writes global memory, by itself or by a copy that
it starts: only then have the launches before it ended, with all that they wrote visible (PTX,
griddepcontrol). Shared memory, registers and tensor maps that are parameters are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from titan.isa.ptx.module import Instruction
from titan.isa.simt import events as ev
from titan.isa.simt.grid_wait import global_modes


def grid_faults(
    events: Iterable[ev.Event], instructions: Sequence[Instruction], dependent: bool
) -> list[str]:
    """What a run of a kernel does too early; all lanes of all warps are examined.

    Where launches are not dependent, a kernel that names other grids is a fault.
    """
    waited: dict[tuple[int, int], int] = {}  # lanes by CTA and warp
    found: dict[int, str] = {}
    for event in events:
        warp = event.cta, event.warp
        if isinstance(event, ev.GridControl):
            if event.waits:
                waited[warp] = waited.get(warp, 0) | event.lanes
            if not dependent:
                found.setdefault(
                    event.instruction, "griddepcontrol in a launch that depends on none"
                )
            elif not event.waits and event.lanes & ~waited.get(warp, 0):
                found.setdefault(event.instruction, "later launches may begin before the wait")
        elif dependent and global_modes(event) and event.lanes & ~waited.get(warp, 0):
            found.setdefault(
                event.instruction, "global memory is touched before griddepcontrol.wait"
            )
    return [f"line {instructions[place].line}: {text}" for place, text in sorted(found.items())]
