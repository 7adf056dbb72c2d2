"""Parts of a warp that come to one barrier, each by an instruction of its own.

A `barrier.sync` without `.aligned` may be executed by some lanes of a warp in one arm of a branch
and by the others in another arm. Where the barrier is one of all threads of the CTA, and no part
does anything between the arrivals of all parts, nor between their ways on, the warp does what it
would do if it had come whole, with one instruction. So one event of all these lanes takes the place
of theirs; the other events become a remark. Where a part does something in between, the events stay
as they are: the parts run side by side then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from titan.isa.simt import events as ev
from titan.isa.simt.operations import DecodedCode, Op

LANE_ORDER = "lane-order"  # the remark on lanes that run in the order of the recorded run


def parts_together(
    events: Sequence[ev.Event], code: DecodedCode, threads: int
) -> Sequence[ev.Event]:
    """The events of a run with parts of warps together, in CTAs of so many threads."""
    if all(step.op is not Op.BARRIER_NAMED or step.flags[1] for step in code.steps):
        return events
    found = list(events)
    last: dict[tuple[int, int], int] = {}  # by warp, the event that parts may join in
    joined: list[tuple[int, int]] = []
    for place, event in enumerate(events):
        warp = event.cta, event.warp
        if not _is_of_part(event, threads):
            if not isinstance(event, ev.Exit):
                last.pop(warp, None)
            continue
        before = last.get(warp, -1)
        if before >= 0 and _same_step(found[before], event):
            found[before] = replace(found[before], lanes=found[before].lanes | event.lanes)
            joined.append((before, place))
        else:
            last[warp] = place
    return _where_whole(events, found, joined)


def _is_of_part(event: ev.Event, threads: int) -> bool:
    return (
        isinstance(event, ev.RendezvousEvent)
        and event.meeting is ev.Meeting.NAMED
        and event.side is not ev.Side.ARRIVE
        and not event.aligned
        and event.threads in (0, threads)
    )


def _same_step(one: ev.Event, other: ev.Event) -> bool:
    """Whether other lanes make the same step at the same barrier."""
    if one.lanes & other.lanes:
        return False
    like = replace(one, sequence=0, lanes=0, instruction=0)
    return like == replace(other, sequence=0, lanes=0, instruction=0)


def _where_whole(
    events: Sequence[ev.Event], found: list[ev.Event], joined: list[tuple[int, int]]
) -> Sequence[ev.Event]:
    """The events where the same lanes that have come together go on together; the rest as it was:
    lanes that go on one after the other may do something in between."""
    sides: dict[tuple[int, int, int, int], list[tuple[ev.Side, int]]] = {}
    for place in dict.fromkeys(first for first, _ in joined):
        event = found[place]
        assert isinstance(event, ev.RendezvousEvent)
        key = event.cta, event.warp, event.number, event.generation
        sides.setdefault(key, []).append((event.side, event.lanes))
    made = list(events)
    for first, place in joined:
        event = found[first]
        assert isinstance(event, ev.RendezvousEvent)
        lanes = event.lanes
        steps = sides[event.cta, event.warp, event.number, event.generation]
        if set(steps) == {(ev.Side.SYNC, lanes), (ev.Side.PASS, lanes)} and len(steps) == 2:
            made[first] = event
            gone = events[place]
            made[place] = ev.Assumption(
                gone.sequence, gone.cta, gone.warp, gone.lanes, gone.instruction, LANE_ORDER
            )
    return made
