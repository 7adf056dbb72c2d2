"""Loads whose read of their tensor map is over at a wait for bulk groups.

An engine reads the tensor map of a copy at some time until the copy completes. PTX counts the read
of the tensor map among what `cp.async.bulk.wait_group.read` waits for, and CUTLASS edits maps
behind such a wait while loads through them, which complete on mbarriers, are in flight. Both bound
the same read, so each may be taken: the wait for the loads found here, where it comes before the
map is written again, and the completion for all others.
"""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.outcome import Run


def maps_waited_for(run: Run) -> frozenset[int]:
    """The sequence numbers of loads whose maps are written behind a wait for bulk groups."""
    pending: dict[int, tuple[ev.AsynchronousEvent, Footprint]] = {}
    waited: set[int] = set()
    found: set[int] = set()
    for event in run.events:
        if isinstance(event, ev.AsynchronousEvent) and event.completes:
            for effect in event.effects:
                if effect.proxy is ev.AccessProxy.TENSORMAP:
                    pending[event.sequence] = (event, effect.footprint)
        elif not pending:
            continue
        elif isinstance(event, ev.QueueWaitEvent) and event.queue is ev.RecordedQueue.BULK:
            waited.update(
                number
                for number, (load, _) in pending.items()
                if (load.cta, load.warp) == (event.cta, event.warp)
                and not load.lanes & ~event.lanes
            )
        elif isinstance(event, ev.AccessEvent) and event.mode is not ev.Mode.READ:
            for number in [n for n, (_, at) in pending.items() if at == event.footprint]:
                del pending[number]
                if number in waited:
                    found.add(number)
    return frozenset(found)
