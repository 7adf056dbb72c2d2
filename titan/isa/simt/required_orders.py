"""Orders that rules of PTX ask for and that no access and no wait of a run shows.

- An arrival with `.noComplete` must not complete its phase (PTX, mbarrier.arrive: "the behavior is
  undefined" otherwise). That it does not in the run says nothing of others: it may be the last one
  unless something that the phase needs as well (another arrival, or bytes) comes behind it in every
  interleaving.
- Once a thread has executed tcgen05.relinquish_alloc_permit its CTA must not allocate, so that each
  allocation by another warp has to be behind the knowledge of it. What one warp does itself, and
  an allocation that the run makes too late, `titan/frontends/ptx/tensor_allocations.py` judges.

The order engine decides them with the rest of the program, to which a warp is one agent
(`titan/engines/happens_before/precedences.py`). Which lanes of a warp come after which is taken as
for memory (`lane_uses.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from titan.isa.simt import events as ev
from titan.isa.simt.lane_uses import LaneAccess, LaneUses, follow_lanes
from titan.isa.simt.values import lanes_of

ALL_LANES = 0xFFFFFFFF


class RequiredOrder(NamedTuple):
    """`first` has to be before one of `others`, in every interleaving."""

    first: ev.Event
    others: tuple[ev.Event, ...]


def required_orders(events: Sequence[ev.Event]) -> list[RequiredOrder]:
    """What has to be ordered in a run."""
    return [*_permits(events), *_incomplete_arrivals(events)]


def _permits(events: Sequence[ev.Event]) -> Iterator[RequiredOrder]:
    """An allocation before the permit is given up, where another warp does that."""
    given_up = [event for event in events if isinstance(event, ev.TensorRelinquish)]
    for event in events if given_up else ():
        if isinstance(event, ev.TensorAllocate):
            for permit in given_up:
                apart = permit.cta == event.cta and permit.warp != event.warp
                if apart and event.sequence < permit.sequence:
                    yield RequiredOrder(event, (permit,))


def _incomplete_arrivals(events: Sequence[ev.Event]) -> Iterator[RequiredOrder]:
    """An arrival that must not complete its phase, before something else of the phase."""
    for number, event in enumerate(events):
        if isinstance(event, ev.ArriveEvent) and event.no_complete:
            needed = _needed(events, number, event)
            if needed is not None and not _behind_in_warp(events[number + 1 :], event, needed):
                others = [one for one in needed if (one.cta, one.warp) != (event.cta, event.warp)]
                yield RequiredOrder(event, tuple(others))


def _needed(
    events: Sequence[ev.Event], number: int, arrival: ev.ArriveEvent
) -> list[ev.Event] | None:
    """What else the phase of the arrival needs; None where the run does not complete the phase."""
    barrier = arrival.barrier
    first, last = number, number
    while first > 0 and not _begins(events[first], barrier):
        first -= 1
    while last < len(events) and not _begins(events[last], barrier):
        last += 1
    span = events[first:last]
    ends = {event.operation: event.phases for event in span if isinstance(event, ev.Finish)}
    found: list[ev.Event] = []
    complete = False
    for event in span:
        match event:
            case ev.WaitEvent(barrier=other, phase=phase) if other == barrier:
                complete = complete or phase >= arrival.phase
            case (
                ev.ArriveEvent(phase=phase, completed=completed)
                | ev.ExpectBytes(phase=phase, completed=completed)
            ) if event.barrier == barrier:
                complete = (
                    complete or phase > arrival.phase or (phase == arrival.phase and completed)
                )
                brings = isinstance(event, ev.ArriveEvent) or event.bytes < 0
                if brings and phase == arrival.phase and event is not arrival:
                    found.append(event)
            case ev.AsynchronousEvent() | ev.CopyArrive() | ev.TensorCommitEvent():
                phases = ends.get(event.operation, ())
                if arrival.phase in phases and _signals(event, barrier):
                    found.append(event)
    return found if complete else None


def _begins(event: ev.Event, barrier: ev.BarrierAddress) -> bool:
    return isinstance(event, ev.BarrierInit) and event.barrier == barrier


def _signals(event: ev.Event, barrier: ev.BarrierAddress) -> bool:
    match event:
        case ev.AsynchronousEvent(completes=completes):
            return any(item.barrier == barrier for item in completes)
        case ev.TensorCommitEvent(barriers=barriers):
            return barrier in barriers
        case ev.CopyArrive(barrier=other):
            return other == barrier
    return False


def _behind_in_warp(
    events: Sequence[ev.Event], arrival: ev.ArriveEvent, needed: Sequence[ev.Event]
) -> bool:
    """Whether each lane of the arrival is before something that its own warp does to the phase."""
    wanted = {event.sequence for event in needed}
    uses, live, left = LaneUses(), ALL_LANES, set(lanes_of(arrival.lanes))
    for lane in left:
        uses.note((0, lane), 1 << lane, LaneAccess.WRITE, arrival.instruction, some=False)
    for event in events:
        if (event.cta, event.warp) == (arrival.cta, arrival.warp) and left:
            if event.sequence in wanted:
                left = {lane for lane in left if not _is_behind(uses, lane, event)}
            live = follow_lanes(uses, event, live)
    return not left


def _is_behind(uses: LaneUses, lane: int, event: ev.Event) -> bool:
    """Whether some lane of an event comes after what `lane` did."""
    read, at = LaneAccess.READ, event.instruction
    behind = (
        uses.note((0, lane), 1 << other, read, at, some=False) for other in lanes_of(event.lanes)
    )
    return any(found is None for found in behind)
