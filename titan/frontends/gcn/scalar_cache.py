"""Scalar loads of bytes that the run stores: the cache of the scalar unit may hold what was there.

Vector stores do not update that cache, so a load that is ordered behind a store may still see the
old bytes, unless the wave invalidates it in between (CDNA3, S_DCACHE_INV; LLVM AMDGPU usage, memory
model). Compilers load by the scalar unit only what no kernel changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from titan.frontends.gcn.phase_order import TimedAccess, accesses_of
from titan.isa.simt.events import Event
from titan.isa.simt.footprints import Footprint, MemorySpace, merged
from titan.isa.simt.outcome import Ending, Run
from titan.isa.waves.events import (
    SCALAR_QUEUES,
    OperationIssued,
    ScalarCacheInvalidated,
    WaveBarrier,
    WaveSignalWait,
)


class _Invalidation(NamedTuple):
    """`passed`: barriers of its wave in front of it. `place` among the events of the run."""

    wave: int
    passed: int
    place: int


def stale_scalar_load(run: Run) -> int | None:
    """The first instruction that may load what is in the cache no more in memory."""
    if run.outcome.ending is not Ending.FINISHED or not _meeting(run):
        return None
    accesses = accesses_of(run, {})
    written = [
        (access, use.footprint)
        for access, event in accesses
        for use in event.uses
        if use.write and use.footprint.space is MemorySpace.GLOBAL
    ]
    invalidations = _invalidations(run.events)
    for access, event in accesses:
        for use in event.uses if event.queue in SCALAR_QUEUES else ():
            for store, footprint in written:
                if _overlap(use.footprint, footprint) and _stale(store, access, invalidations):
                    return event.instruction
    return None


def _stale(store: TimedAccess, load: TimedAccess, invalidations: list[_Invalidation]) -> bool:
    """Whether the store may be over before the load, and no invalidation lies between them."""
    if load.before(store):
        return False
    return not any(
        item.wave == load.name[0] and item.place < load.since and _over_before(store, item)
        for item in invalidations
    )


def _over_before(store: TimedAccess, item: _Invalidation) -> bool:
    if store.name[0] == item.wave:
        return 0 <= store.until < item.place
    return 0 <= store.over < item.passed


def _invalidations(events: Sequence[Event]) -> list[_Invalidation]:
    passed: dict[int, int] = {}
    found = []
    for place, event in enumerate(events):
        if isinstance(event, WaveBarrier | WaveSignalWait):
            passed[event.warp] = passed.get(event.warp, 0) + 1
        elif isinstance(event, ScalarCacheInvalidated):
            found.append(_Invalidation(event.warp, passed.get(event.warp, 0), place))
    return found


def _meeting(run: Run) -> bool:
    """Whether any scalar load touches bytes that are stored, whatever the order."""
    loaded: dict[Footprint, None] = {}
    stored: dict[Footprint, None] = {}
    for event in run.events:
        for use in event.uses if isinstance(event, OperationIssued) else ():
            if use.footprint.space is MemorySpace.GLOBAL:
                if use.write:
                    stored[use.footprint] = None
                elif isinstance(event, OperationIssued) and event.queue in SCALAR_QUEUES:
                    loaded[use.footprint] = None
    ranges = merged([run_of for footprint in stored for run_of in footprint.ranges()])
    return any(
        low < end and start < high
        for footprint in loaded
        for low, high in footprint.ranges()
        for start, end in ranges
    )


def _overlap(one: Footprint, other: Footprint) -> bool:
    return any(
        low < end and start < high for low, high in one.ranges() for start, end in other.ranges()
    )
