"""Where what a thread copies by `cp.async` is over, as other CTAs see it.

A copy is a weak access of the generic proxy at some time after its lane issues it, and is over once
that lane has waited for the group that it committed it to (PTX, "Completion Mechanisms for
Asynchronous Copy Operations": async-groups). So it is behind what its lane is behind where it
issues the copy, and before what its lane is before at that wait. Copies that are waited for in
another way (at an mbarrier), and those of engines (bulk copies, through the async proxy), are on no
side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titan.isa.simt import events as ev
from titan.isa.simt.values import lanes_of

Waits = dict[int, dict[int, int]]  # lanes by wait, by copy; both by their numbers in the run


def is_copy(event: ev.Event) -> bool:
    """Whether an event is a cp.async, which orders nothing but what its own lanes wait for."""
    return isinstance(event, ev.AsynchronousEvent) and event.queue is ev.RecordedQueue.COPY


def waits_for_copies(events: Sequence[ev.Event]) -> Waits:
    """The waits at which copies are over for lanes."""
    found: Waits = {}
    open_: dict[tuple[int, int, int], list[int]] = {}
    closed: dict[tuple[int, int, int], list[list[int]]] = {}
    for event in events:
        queue = getattr(event, "queue", None)
        if queue is not ev.RecordedQueue.COPY:
            continue
        for lane in lanes_of(event.lanes):
            key = event.cta, event.warp, lane
            groups = closed.setdefault(key, [])
            if isinstance(event, ev.AsynchronousEvent):
                open_.setdefault(key, []).append(event.sequence)
            elif isinstance(event, ev.CommitEvent):
                groups.append(open_.pop(key, []))
            elif isinstance(event, ev.QueueWaitEvent):
                covered = groups[: max(0, len(groups) - event.pending)]
                del groups[: len(covered)]
                for copy in (copy for group in covered for copy in group):
                    at = found.setdefault(copy, {})
                    at[event.sequence] = at.get(event.sequence, 0) | 1 << lane
    return found


def lanes_before(side: Mapping[int, int], event: ev.Event, waits: Waits) -> int:
    """The lanes whose access is over before what `side` is before, by the events of a run."""
    if isinstance(event, ev.AccessEvent):
        return side.get(event.sequence, 0)
    found = 0
    for wait, lanes in waits.get(event.sequence, {}).items():
        found |= side.get(wait, 0) & lanes
    return found


def lanes_behind(side: Mapping[int, int], event: ev.Event) -> int:
    """The lanes whose access begins behind what `side` is behind."""
    follows = isinstance(event, ev.AccessEvent) or is_copy(event)
    return side.get(event.sequence, 0) if follows else 0
