"""`cp.async.mbarrier.arrive` without `.noinc`: arrivals that raise the pending count first.

Such an arrival adds one to the pending arrivals of the phase when it is executed, and takes it off
when the thread's earlier copies are complete. Suppose that every warp that makes some arrives at
the same barrier afterwards, before it waits there; it may expect bytes in between, as
`cuda::memcpy_async` does for each piece of a tile. Then the phase cannot have been complete before
that arrival, so all fall into its phase, and the phase completes exactly when it would if its count
were higher by the number of such arrivals and these were plain ones. That number has to be the same
in every phase that is completed.
"""

from __future__ import annotations

from collections import Counter

from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run


def raised_counts(run: Run) -> tuple[dict[ev.BarrierAddress, int], int | None]:
    """By how much the count of each barrier is higher, or the instruction that does not fit."""
    waiting: dict[tuple[int, int, ev.BarrierAddress], list[ev.CopyArrive]] = {}
    raised: dict[ev.BarrierAddress, Counter[int]] = {}
    completed: dict[ev.BarrierAddress, int] = {}
    for event in run.events:
        if isinstance(event, ev.CopyArrive) and not event.no_increment:
            waiting.setdefault((event.cta, event.warp, event.barrier), []).append(event)
        elif isinstance(event, ev.ArriveEvent):
            completed[event.barrier] = max(completed.get(event.barrier, 0), event.phase)
            for copy in waiting.pop((event.cta, event.warp, event.barrier), ()):
                if copy.lanes & ~event.lanes:
                    return {}, copy.instruction
                phases = raised.setdefault(event.barrier, Counter())
                phases[event.phase] += copy.lanes.bit_count()
        elif isinstance(event, ev.WaitEvent):
            key = (event.cta, event.warp, event.barrier)
            if key in waiting:
                return {}, waiting[key][0].instruction
    if waiting:
        return {}, next(iter(waiting.values()))[0].instruction
    counts = {}
    for barrier, phases in raised.items():
        wanted = max(phases.values())
        if any(phases[phase] != wanted for phase in range(completed[barrier])):
            return {}, _first(run, barrier)
        counts[barrier] = wanted
    return counts, None


def _first(run: Run, barrier: ev.BarrierAddress) -> int:
    return next(
        event.instruction
        for event in run.events
        if isinstance(event, ev.CopyArrive) and event.barrier == barrier
    )
