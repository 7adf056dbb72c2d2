"""What a CTA does before it draws a ticket, and behind it, as other CTAs see it.

A ticket is the old value of an atomic on a counter of the grid. Of two CTAs the one with the later
ticket reads from the atomic of the earlier one, through a chain of atomics. What the earlier one
did is ordered before what the later one does (PTX memory model, "Release and Acquire Patterns",
"Causality Order") by one of these:

- *pattern*: it is before the atomic, which has release semantics, or before a fence by the lane of
  the atomic in front of it; and behind the other atomic, which has acquire semantics, or behind a
  fence by its lane. All of gpu scope or wider.
- *fences*: it is before a `fence.sc` of that scope by any thread that is before the atomic; and
  behind such a fence that is behind the other atomic. `fence.sc` operations are ordered, and
  the order in which the atomics observe each other decides how.

"Before" within a CTA is program order, and what barriers hand on: cumulativity. Followed are named
barriers, `bar.warp.sync`, and mbarrier arrivals with release and waits with acquire. What else may
order (strong accesses, completions of asynchronous operations) is not followed: a run with such
events is not `complete`, and order that is not found may be there. Strong accesses to shared memory
order threads only with a release and an acquire: volatile ones without fences order nothing.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from titan.frontends.grid.waited_copies import is_copy
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace

RELEASING = (
    ev.AccessSemantics.RELEASE, ev.AccessSemantics.ACQUIRE_RELEASE, ev.AccessSemantics.SEQUENTIAL,
)  # fmt: skip
ACQUIRING = (
    ev.AccessSemantics.ACQUIRE, ev.AccessSemantics.ACQUIRE_RELEASE, ev.AccessSemantics.SEQUENTIAL,
)  # fmt: skip
READS_MAX = 256  # of shared memory, of which is asked what is behind them
Starts = Mapping[int, int]  # lanes by the sequence number of an event
Masks = dict[int, int]


@dataclass(frozen=True, slots=True)
class TicketSides:
    """Lanes of each event, by sequence number, that are on one side of the ticket's atomic.

    `released` and `acquired` by the pattern, `fenced` before it and behind it by `fence.sc`;
    `behind`: base causality order alone. `complete`: nothing may order but what was followed.
    """

    released: Masks = field(default_factory=dict)
    acquired: Masks = field(default_factory=dict)
    fenced_before: Masks = field(default_factory=dict)
    fenced_behind: Masks = field(default_factory=dict)
    behind: Masks = field(default_factory=dict)
    complete: bool = True


def ticket_sides(events: Sequence[ev.Event], ticket: ev.AccessEvent | None) -> TicketSides:
    """The sides of a ticket that one lane draws in a run that has come to its end; none of them
    where no ticket is drawn."""
    if ticket is None:
        return TicketSides(complete=is_complete(events, ()))
    here = {ticket.sequence: ticket.lanes}
    behind, before = known_behind(events, here), known_before(events, here)
    return TicketSides(
        known_before(events, releases_of(events, ticket)),
        known_behind(events, acquires_of(events, ticket)),
        known_before(events, sequential_in(events, before)),
        known_behind(events, sequential_in(events, behind)),
        behind,
        complete=is_complete(events, {ticket.sequence}),
    )


def known_behind(events: Sequence[ev.Event], starts: Starts) -> Masks:
    """Lanes of each event that come after what lanes do in the events `starts`."""
    return _followed(events, starts, backwards=False)


def known_before(events: Sequence[ev.Event], starts: Starts) -> Masks:
    """Lanes of each event that come before what lanes do in the events `starts`."""
    return _followed(list(reversed(events)), starts, backwards=True)


def _followed(events: Sequence[ev.Event], starts: Starts, *, backwards: bool) -> Masks:
    if not starts:
        return {}
    lanes: dict[tuple[int, int], int] = {}
    keys: set[Hashable] = set()
    found: Masks = {}
    for event in events:
        warp = event.cta, event.warp
        now = lanes.get(warp, 0) & event.lanes
        if now:
            found[event.sequence] = now
        key, hands_on, takes = _meeting(event)
        if backwards:
            hands_on, takes = takes, hands_on
        if hands_on and now:
            keys.add(key)
        if takes and key in keys:
            now |= event.lanes
        now |= starts.get(event.sequence, 0)
        if now:
            lanes[warp] = lanes.get(warp, 0) | now
    return found


def _meeting(event: ev.Event) -> tuple[Hashable, bool, bool]:
    """What an event meets others at; whether it hands on what it knows, and takes over."""
    if isinstance(event, ev.RendezvousEvent) and event.meeting is not ev.Meeting.WARPGROUP:
        passes = event.side is ev.Side.PASS
        if event.meeting is ev.Meeting.CLUSTER:
            weak = event.semantics is ev.AccessSemantics.RELAXED
            return (event.meeting, event.generation), not passes and not weak, passes
        warp = event.warp if event.meeting is ev.Meeting.WARP else -1
        key = event.meeting, event.cta, warp, event.number, event.generation
        return key, not passes or warp >= 0, passes
    if isinstance(event, ev.ArriveEvent):
        return (event.barrier, event.phase), event.semantics in RELEASING, False
    if isinstance(event, ev.WaitEvent):
        return (event.barrier, event.phase), False, event.semantics in ACQUIRING
    return None, False, False


def _is_fence(event: ev.Event, semantics: Sequence[ev.AccessSemantics]) -> bool:
    return (
        isinstance(event, ev.FenceEvent)
        and event.kind is ev.RecordedFence.MEMORY
        and event.semantics in semantics
        and event.scope >= ev.AccessScope.GPU
    )


def sequential_in(events: Sequence[ev.Event], side: Masks) -> Masks:
    """The lanes that execute `fence.sc` on a side of the ticket."""
    return {
        event.sequence: side[event.sequence]
        for event in events
        if event.sequence in side and _is_fence(event, (ev.AccessSemantics.SEQUENTIAL,))
    }


def _own_fences(
    events: Sequence[ev.Event], ticket: ev.AccessEvent, semantics: Sequence[ev.AccessSemantics]
) -> list[ev.Event]:
    """Fences of the ticket's own lane, in order."""
    return [
        event
        for event in events
        if (event.cta, event.warp) == (ticket.cta, ticket.warp)
        and event.lanes & ticket.lanes
        and _is_fence(event, semantics)
    ]


def releases_of(events: Sequence[ev.Event], ticket: ev.AccessEvent) -> Masks:
    """Where the lane of an access to a word releases what is before it."""
    if ticket.scope < ev.AccessScope.GPU:
        return {}
    if ticket.semantics in RELEASING:
        return {ticket.sequence: ticket.lanes}
    fences = _own_fences(events, ticket, RELEASING)
    last = [event for event in fences if event.sequence < ticket.sequence][-1:]
    return {event.sequence: ticket.lanes for event in last}


def acquires_of(events: Sequence[ev.Event], ticket: ev.AccessEvent) -> Masks:
    """Where the lane of an access to a word acquires for what is behind it."""
    if ticket.scope < ev.AccessScope.GPU:
        return {}
    if ticket.semantics in ACQUIRING:
        return {ticket.sequence: ticket.lanes}
    fences = _own_fences(events, ticket, ACQUIRING)
    first = [event for event in fences if event.sequence > ticket.sequence][:1]
    return {event.sequence: ticket.lanes for event in first}


def is_complete(events: Sequence[ev.Event], followed: Container[int]) -> bool:
    """Whether nothing may order threads of a run but what is followed; `followed`: the accesses by
    which CTAs hand over, by their numbers."""
    own: list[ev.AccessEvent] = []
    for event in events:
        if event.sequence in followed:
            continue
        if isinstance(event, ev.AccessEvent) and _is_own(event):
            own.append(event)
        elif _orders_otherwise(event):
            return False
    return not own or not _handed_within(events, own)


def _is_own(event: ev.AccessEvent) -> bool:
    """Whether a strong access is to the shared memory of its own CTA."""
    strong = event.semantics is not ev.AccessSemantics.WEAK
    shared = event.footprint.space is MemorySpace.SHARED and event.footprint.cta == event.cta
    return strong and shared


def _handed_within(events: Sequence[ev.Event], own: Sequence[ev.AccessEvent]) -> bool:
    """Whether strong accesses to shared memory may order threads of the CTA: some write releases,
    or has a fence of its warp before it, and some read acquires, or has a fence of its warp behind
    it, and does not come before all that the write may be.
    """
    fences: dict[int, list[int]] = {}
    for event in events:
        if isinstance(event, ev.FenceEvent) and event.kind is ev.RecordedFence.MEMORY:
            fences.setdefault(event.warp, []).append(event.sequence)
    writes = [
        event
        for event in own
        if event.mode is not ev.Mode.READ
        and (event.semantics in RELEASING or _any_below(fences.get(event.warp), event.sequence))
    ]
    reads = {
        (event.warp, event.lanes): event.sequence  # the last of those lanes
        for event in own
        if event.mode is not ev.Mode.WRITE
        and (event.semantics in ACQUIRING or _any_above(fences.get(event.warp), event.sequence))
    }
    if writes and len(reads) > READS_MAX:
        return True
    for (_, lanes), read in reads.items() if writes else ():
        behind = known_behind(events, {read: lanes})
        if any(behind.get(write.sequence, 0) != write.lanes for write in writes):
            return True
    return False


def _any_below(places: Sequence[int] | None, at: int) -> bool:
    return places is not None and places[0] < at


def _any_above(places: Sequence[int] | None, at: int) -> bool:
    return places is not None and places[-1] > at


def _orders_otherwise(event: ev.Event) -> bool:
    """Whether an event may order threads in a way that is not followed."""
    if isinstance(event, ev.AccessEvent):
        strong = event.semantics is not ev.AccessSemantics.WEAK
        sums = event.mode is ev.Mode.ATOMIC and not event.returns
        return strong and not sums
    if isinstance(event, ev.ArriveEvent):
        return event.semantics not in RELEASING
    if isinstance(event, ev.WaitEvent):
        return event.semantics not in ACQUIRING
    kinds = ev.AsynchronousEvent | ev.CopyArrive | ev.TensorCommitEvent
    return isinstance(event, kinds) and not is_copy(event)


def touches(footprint: Footprint, address: int, size: int) -> bool:
    """Whether a footprint has one of these bytes of global memory."""
    if footprint.space is not MemorySpace.GLOBAL:
        return False
    return any(low < address + size and address < high for low, high in footprint.ranges())
