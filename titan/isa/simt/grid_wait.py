"""Which accesses to global memory may come before `griddepcontrol.wait`.

A launch may begin while the grid before it still runs (PTX, griddepcontrol): what that grid writes
is there, and what it reads is over, behind the wait alone. So a lane may touch global memory once
it has executed the wait, or knows of one that has: by a barrier at which that one arrived, or by
the completion of an asynchronous operation that it started. What is learnt through memory (flags,
atomics) does not count. Kernels without the instruction run behind the whole grid before them, and
have no early accesses.

The order is that of the run: in another one a barrier has the same arrivals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace, merged

OWN = (MemorySpace.SHARED, MemorySpace.LOCAL, MemorySpace.CONSTANT, MemorySpace.PARAMETER,
       MemorySpace.TENSOR)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EarlyAccesses:
    """The instructions that read and write global memory too early, in the order of the run.

    `changed`: those that read bytes which this launch writes, so that they are no constants: where
    the same kernel is the grid before, it may not have written them yet.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()


@dataclass(slots=True)
class _Known:
    """Who knows of a wait: lanes by warp, then barriers, phases and operations."""

    lanes: dict[tuple[int, int], int] = field(default_factory=dict)
    others: set[Hashable] = field(default_factory=set)

    def hand_on(self, event: ev.Event, key: Hashable) -> None:
        """Lanes of the event arrive at something; one that knows is enough."""
        if event.lanes & self.lanes.get((event.cta, event.warp), 0):
            self.others.add(key)

    def learn(self, event: ev.Event, key: Hashable) -> None:
        """Lanes of the event pass something."""
        if key in self.others:
            self.add(event)

    def add(self, event: ev.Event) -> None:
        """Lanes of the event know."""
        warp = event.cta, event.warp
        self.lanes[warp] = self.lanes.get(warp, 0) | event.lanes

    def unknown(self, event: ev.Event) -> bool:
        """Whether a lane of the event does not know."""
        return bool(event.lanes & ~self.lanes.get((event.cta, event.warp), 0))


def global_modes(event: ev.Event) -> set[ev.Mode]:
    """How an event touches global memory, or memory that is not known."""
    if isinstance(event, ev.AccessEvent):
        return set() if event.footprint.space in OWN else {event.mode}
    if not isinstance(event, ev.AsynchronousEvent):
        return set()
    found = {effect.mode for effect in event.effects if effect.footprint.space not in OWN}
    if event.tensor_map != -1 and not found:  # where in the tensor is not known
        loads = any(effect.mode is ev.Mode.WRITE for effect in event.effects)
        found.add(ev.Mode.READ if loads else ev.Mode.WRITE)
    return found


def early_accesses(events: Sequence[ev.Event]) -> EarlyAccesses:
    """The accesses of a run that may come before the wait."""
    if not any(isinstance(event, ev.GridControl) and event.waits for event in events):
        return EarlyAccesses()
    known = _Known()
    completes: dict[int, tuple[ev.BarrierAddress, ...]] = {}
    found: dict[bool, dict[int, None]] = {False: {}, True: {}}
    reads: list[ev.Event] = []
    for event in events:
        modes = global_modes(event)
        if modes and known.unknown(event):
            found[modes != {ev.Mode.READ}][event.instruction] = None
            reads += [event] if modes == {ev.Mode.READ} else []
        _follow(known, event, completes)
    changed = dict.fromkeys(_changed(reads, events))
    return EarlyAccesses(tuple(found[False]), tuple(found[True]), tuple(changed))


def _changed(reads: Sequence[ev.Event], events: Sequence[ev.Event]) -> Iterator[int]:
    """The reads of bytes that some event writes, as far as both places are known."""
    if not reads:
        return
    writes = merged(
        run
        for event in events
        for mode, footprint in _global_places(event)
        if mode is not ev.Mode.READ
        for run in footprint.ranges()
    )
    ends = [end for _, end in writes]
    for event in reads:
        for _, footprint in _global_places(event):
            for low, high in footprint.ranges():
                next_ = bisect_right(ends, low)
                if next_ < len(writes) and writes[next_][0] < high:
                    yield event.instruction


def _global_places(event: ev.Event) -> Iterator[tuple[ev.Mode, Footprint]]:
    """The bytes of global memory that an event touches, and how."""
    if isinstance(event, ev.AccessEvent):
        found = [(event.mode, event.footprint)]
    elif isinstance(event, ev.AsynchronousEvent):
        found = [(effect.mode, effect.footprint) for effect in event.effects]
    else:
        found = []
    yield from (one for one in found if one[1].space is MemorySpace.GLOBAL)


def _follow(
    known: _Known, event: ev.Event, completes: dict[int, tuple[ev.BarrierAddress, ...]]
) -> None:
    """Hand knowledge of the wait on, by what an event orders."""
    if isinstance(event, ev.GridControl):
        if event.waits:
            known.add(event)
    elif isinstance(event, ev.RendezvousEvent):
        key = _meeting(event)
        if event.side is not ev.Side.PASS or event.meeting is ev.Meeting.WARP:
            known.hand_on(event, key)  # lanes of a warp meet in one event
        if event.side is ev.Side.PASS:
            known.learn(event, key)
    elif isinstance(event, ev.ArriveEvent):
        known.hand_on(event, (event.barrier, event.phase))
    elif isinstance(event, ev.WaitEvent):
        known.learn(event, (event.barrier, event.phase))
    elif isinstance(event, ev.AsynchronousEvent):
        completes[event.operation] = tuple(one.barrier for one in event.completes)
        known.hand_on(event, event.operation)
    elif isinstance(event, ev.TensorCommitEvent):
        completes[event.operation] = event.barriers
        known.hand_on(event, event.operation)
    elif isinstance(event, ev.CopyArrive):
        completes[event.operation] = (event.barrier,)
        known.hand_on(event, event.operation)
    elif isinstance(event, ev.Finish) and event.operation in known.others:
        barriers = completes.get(event.operation, ())
        known.others.update(zip(barriers, event.phases, strict=False))


def _meeting(event: ev.RendezvousEvent) -> Hashable:
    """One meeting at a hardware barrier."""
    where: tuple[int, ...] = (event.cta,)
    if event.meeting is ev.Meeting.CLUSTER:
        where = ()
    elif event.meeting in (ev.Meeting.WARP, ev.Meeting.WARPGROUP):
        where = event.cta, event.warp
    return event.meeting, where, event.number, event.generation
