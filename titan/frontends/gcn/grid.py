"""What work-groups of a launch access in global memory, to be compared (`../grid/races.py`).

Atomics, and loads and stores that are coherent for the device (sc1; glc on gfx90a), do not race
with each other; with plain accesses they do. What a work-group learns by one of them may order it
after another, which is not decided. A relaxed atomic store of gfx90a is a plain one, so stores that
are read coherently do not race either. Where work-groups store to the same bytes, what they store
is compared by numbers that say how it was computed (`titan/isa/waves/numbering.py`).

Assumption: work-groups are compared by their accesses in one run each, or in those of all ways that
data may choose, without loads at unknown addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titan.frontends.grid.races import GlobalAccess, GridAccesses
from titan.isa.simt.events import Event, Mode
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Ending, Run
from titan.isa.waves.events import IN_TURN, OperationIssued, WaveUse


def add_group(
    accesses: GridAccesses, runs: Sequence[Run], group: int,
    stored: Mapping[int, bytes] | None = None,
) -> None:  # fmt: skip
    """Note what a work-group accesses in a run, or in several of which data choose one; what did
    not end is left out.

    `stored`: by event of one run, the numbers of what its stores write.
    """
    ended = [run for run in runs if run.outcome.ending is Ending.FINISHED]
    first = accesses.begin(ended[0], group) if ended else None
    if first is None:
        return
    if len(ended) > 1:
        accesses.ways[first] = tuple(ended)
    shown = stored is not None and not any(map(_atomic, runs[0].events))
    if shown and stored is not None and _all_stored(runs[0], stored):
        accesses.work[first] = tuple(stored.values())
    for run in ended:
        for event in run.events:
            for use in event.uses if isinstance(event, OperationIssued) else ():
                if use.footprint.space is MemorySpace.GLOBAL:
                    value = None if stored is None else stored.get(event.sequence)
                    accesses.note(_access(first, use, value), event)


def stores_meet(accesses: GridAccesses) -> bool:
    """Whether two work-groups store to the same bytes, and nothing says that it is the same."""
    if accesses.unsettled_refused and accesses.unsettled() is not None:
        return True
    return any(race.first.mode is race.second.mode is Mode.WRITE for race in accesses.races()[0])


def _all_stored(run: Run, stored: Mapping[int, bytes]) -> bool:
    """Whether it is known of every store how what it writes was computed."""
    return all(
        event.sequence in stored
        for event in run.events
        for use in (event.uses if isinstance(event, OperationIssued) else ())
        if use.write and use.footprint.space is MemorySpace.GLOBAL
    )


def _atomic(event: Event) -> bool:
    return isinstance(event, OperationIssued) and any(
        use.atomic and use.footprint.space is MemorySpace.GLOBAL for use in event.uses
    )


def _access(group: int, use: WaveUse, value: bytes | None) -> GlobalAccess:
    mode = Mode.ATOMIC if use.atomic else Mode.WRITE if use.write else Mode.READ
    reads = mode is not Mode.WRITE
    strong = use.shared_by_device
    observes = strong and reads and use.returns
    value = value if use.write else None
    return GlobalAccess(group, mode, strong, observes, value, use.footprint, settled_word(use))


def settled_word(use: WaveUse) -> str:
    """The operation of an atomic that leaves the same in any order with others of it."""
    return "" if use.word == IN_TURN else use.word
