"""What work-groups of a launch access in global memory, for the comparison of grid_races.

Atomics, and loads and stores that are coherent for the device (sc1; glc on gfx90a), do not race
with each other; with plain accesses they do. What a work-group learns by one of them may order it
after another, which is not decided. A relaxed atomic store of gfx90a is a plain one, so stores that
are read coherently do not race either. Whether two work-groups store the same is not compared.

Assumption: work-groups are compared by their accesses in one run each, without loads at unknown
addresses.
"""

from __future__ import annotations

from titan.frontends.ptx.grid_races import GlobalAccess, GridAccesses
from titan.isa.simt.events import Mode
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Run
from titan.isa.waves.events import OperationIssued, WaveUse


def add_group(accesses: GridAccesses, run: Run, group: int) -> None:
    """Note what a work-group accesses in a run; one that did not end is left out."""
    first = accesses.begin(run, group)
    if first is None:
        return
    for event in run.events:
        for use in event.uses if isinstance(event, OperationIssued) else ():
            if use.footprint.space is MemorySpace.GLOBAL:
                accesses.note(_access(first, use), event)


def _access(group: int, use: WaveUse) -> GlobalAccess:
    mode = Mode.ATOMIC if use.atomic else Mode.WRITE if use.write else Mode.READ
    reads = mode is not Mode.WRITE
    strong = use.shared_by_device
    observes = strong and reads and use.returns
    return GlobalAccess(group, mode, strong, observes, None, use.footprint)
