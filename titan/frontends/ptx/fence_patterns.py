"""Relaxed operations at barriers that memory fences make a release or an acquire.

A `fence.acq_rel` or `fence.sc` and then a relaxed arrival are a release pattern, a relaxed wait
and then such a fence an acquire pattern (PTX, "Release and Acquire Patterns"): what is before the
first fence happens before what is behind the second. The arrival is then taken for one with
release, the wait for one with acquire, of the narrower of both scopes, where nothing else of the
same lanes lies between the fence and the operation; where something does, it stays relaxed, since
the fence does not cover it. The same for a relaxed arrival at the barrier of the cluster, and for
mbarrier.complete_tx, which is relaxed always. An mbarrier.expect_tx in between is nothing that a
fence would have to cover; that it is itself a strong operation behind the fence is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run
from titan.isa.simt.values import lanes_of

_RELEASING = (
    ev.AccessSemantics.RELEASE, ev.AccessSemantics.ACQUIRE_RELEASE, ev.AccessSemantics.SEQUENTIAL,
)  # fmt: skip
_ACQUIRING = (
    ev.AccessSemantics.ACQUIRE, ev.AccessSemantics.ACQUIRE_RELEASE, ev.AccessSemantics.SEQUENTIAL,
)  # fmt: skip
_SILENT = (
    ev.Poll, ev.PollSteered, ev.Assumption, ev.Skipped, ev.Prefetch, ev.RegisterBreach,
    ev.LaneClash, ev.Finish, ev.Elect, ev.FenceEvent,
)  # fmt: skip
_HANDS_OVER = (ev.ArriveEvent, ev.RendezvousEvent, ev.ExpectBytes)
_Warp = tuple[int, int]


def with_fence_patterns(run: Run) -> Run:
    """The run with what its fences make strong as strong operations."""
    if not any(_is_relaxed(event) for event in run.events):
        return run
    changed: dict[int, ev.Event] = {}
    for event, scope in _released(run):
        changed[event.sequence] = _strong(event, ev.AccessSemantics.RELEASE, scope)
    for event, scope in _acquired(run):
        changed[event.sequence] = _strong(event, ev.AccessSemantics.ACQUIRE, scope)
    if not changed:
        return run
    return replace(
        run,
        events=[changed.get(event.sequence, event) for event in run.events],
        order=tuple(changed.get(event.sequence, event) for event in run.order),
    )


def _is_relaxed(event: ev.Event) -> bool:
    if isinstance(event, ev.RendezvousEvent):
        at_cluster = event.meeting is ev.Meeting.CLUSTER and event.side is ev.Side.ARRIVE
        return at_cluster and event.semantics is ev.AccessSemantics.RELAXED
    if isinstance(event, ev.ExpectBytes):
        return event.bytes < 0
    if isinstance(event, ev.ArriveEvent | ev.WaitEvent):
        return event.semantics is ev.AccessSemantics.RELAXED
    return False


def _expects(event: ev.Event) -> bool:
    return isinstance(event, ev.ExpectBytes) and event.bytes >= 0


def _strong(event: ev.Event, semantics: ev.AccessSemantics, scope: ev.AccessScope) -> ev.Event:
    if isinstance(event, ev.RendezvousEvent):
        return replace(event, semantics=semantics)
    assert isinstance(event, ev.ArriveEvent | ev.WaitEvent | ev.ExpectBytes)
    return replace(event, semantics=semantics, scope=min(event.scope, scope))


def _released(run: Run) -> Iterator[tuple[ev.Event, ev.AccessScope]]:
    """Relaxed arrivals right behind a fence of each of their lanes, with its scope."""
    fenced: dict[_Warp, dict[int, ev.AccessScope]] = {}  # lane -> the scope of its fence
    for event in run.events:
        lanes = fenced.setdefault((event.cta, event.warp), {})
        if isinstance(event, ev.FenceEvent):
            if event.kind is ev.RecordedFence.MEMORY and event.semantics in _RELEASING:
                lanes.update(dict.fromkeys(lanes_of(event.lanes), event.scope))
        elif isinstance(event, _HANDS_OVER) and _is_relaxed(event):
            scopes = [lanes.get(lane, ev.AccessScope.NONE) for lane in lanes_of(event.lanes)]
            if all(scopes) and _reaches(event, min(scopes)):
                yield event, min(scopes)
        elif not isinstance(event, (*_SILENT, ev.ArriveEvent, ev.ExpectBytes)):
            for lane in lanes_of(event.lanes):
                lanes.pop(lane, None)


def _reaches(event: ev.Event, scope: ev.AccessScope) -> bool:
    """Whether a fence of this scope orders for those who meet at the barrier of the event."""
    return not isinstance(event, ev.RendezvousEvent) or scope >= ev.AccessScope.CLUSTER


def _acquired(run: Run) -> Iterator[tuple[ev.Event, ev.AccessScope]]:
    """Relaxed waits with a fence of each of their lanes right behind them, with its scope."""
    open_: dict[_Warp, list[tuple[ev.WaitEvent, dict[int, ev.AccessScope]]]] = {}
    for event in run.events:
        waits = open_.setdefault((event.cta, event.warp), [])
        if isinstance(event, ev.FenceEvent):
            if event.kind is not ev.RecordedFence.MEMORY or event.semantics not in _ACQUIRING:
                continue
            for wait, scopes in waits:
                scopes.update(dict.fromkeys(lanes_of(event.lanes & wait.lanes), event.scope))
                if len(scopes) == wait.lanes.bit_count():
                    yield wait, min(scopes.values())
            waits[:] = [one for one in waits if len(one[1]) < one[0].lanes.bit_count()]
        elif isinstance(event, ev.WaitEvent) and _is_relaxed(event):
            waits.append((event, {}))  # a wait between another and the fence hides nothing
        elif not isinstance(event, _SILENT) and not _expects(event):
            waits[:] = [
                (wait, scopes)
                for wait, scopes in waits
                if not any(lane not in scopes for lane in lanes_of(event.lanes & wait.lanes))
            ]
