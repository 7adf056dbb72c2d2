"""Whether lanes of one warp use an mbarrier that another lane has initialised, and meet in between.

`mbarrier.init` and `mbarrier.inval` are weak writes to the object; an arrival, a wait, and what
completes on it are strong operations (PTX, "mbarrier", "Memory Consistency Model"). Lanes of a warp
are threads: where one makes the object and another uses it, something has to order them, as
bar.warp.sync, a barrier of the CTA, or a release and an acquire do. Towards other warps the order
engine decides that; to it a warp is one agent. Which lanes come after which is taken as for data in
memory (titan/isa/simt/lane_uses.py), so a race is missed where a lane acquires from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.lane_uses import LaneAccess, LaneUses, follow_lanes
from titan.isa.simt.outcome import Run

ALL_LANES = 0xFFFFFFFF
_WHOLE = (ev.BarrierInit, ev.BarrierInvalidate)
_Warp = tuple[int, int]


def unordered_lanes(run: Run, places: CodePlaces, policies: CodePolicies) -> list[Diagnostic]:
    """One TTN201 for each instruction that uses, makes or ends an mbarrier without order with what
    another lane of its warp did to it."""
    if policies.lanes == "ordered":
        return []
    shared, making = _used_by_several(run)
    found: dict[int, Diagnostic] = {}
    warps: dict[_Warp, _Lanes] = {}
    for event in run.events if shared else ():
        warp = (event.cta, event.warp)
        if warp not in shared:
            continue
        if warp not in warps:
            warps[warp] = _Lanes(shared[warp], making[warp])
        clash = warps[warp].step(event)
        if clash is None or event.instruction in found:
            continue
        barrier, other = clash
        verb = {ev.BarrierInit: "initialises", ev.BarrierInvalidate: "invalidates"}
        done = "used" if isinstance(event, _WHOLE) else "initialised or invalidated"
        headline = (
            f"a lane {verb.get(type(event), 'uses')} mbarrier+{barrier.offset:#x} that another "
            f"lane of its warp has {done}, and no bar.warp.sync orders them"
        )
        span, who = places.span(event.instruction), f"here, by warp {event.warp}"
        others = (Annotation(places.span(other), "the other lane's operation"),)
        found[event.instruction] = with_sources(
            diagnostic("TTN201", headline, span, who, others=others), places
        )
    return list(found.values())


def _touched(event: ev.Event) -> Iterator[ev.BarrierAddress]:
    """The mbarriers that an event concerns."""
    match event:
        case (
            ev.BarrierInit(barrier=barrier)
            | ev.BarrierInvalidate(barrier=barrier)
            | ev.ArriveEvent(barrier=barrier)
            | ev.ExpectBytes(barrier=barrier)
            | ev.CopyArrive(barrier=barrier)
            | ev.WaitEvent(barrier=barrier)
            | ev.Poll(barrier=barrier)
        ):
            yield barrier
        case ev.TensorCommitEvent(barriers=barriers):
            yield from barriers
        case ev.AsynchronousEvent(completes=completes):
            for completion in completes:
                yield completion.barrier


def _used_by_several(
    run: Run,
) -> tuple[dict[_Warp, set[ev.BarrierAddress]], dict[_Warp, int]]:
    """The mbarriers that lanes of a warp make or end, and other lanes of it use; and the last
    event of each warp that makes or ends one."""
    making: dict[tuple[_Warp, ev.BarrierAddress], int] = {}
    last: dict[_Warp, int] = {}
    for event in run.events:
        if isinstance(event, _WHOLE):
            key = (event.cta, event.warp), event.barrier
            making[key] = making.get(key, 0) | event.lanes
            last[key[0]] = event.sequence
    found: dict[_Warp, set[ev.BarrierAddress]] = {}
    for event in run.events if making else ():
        warp = event.cta, event.warp
        for barrier in _touched(event):
            lanes = making.get((warp, barrier), 0)
            if lanes and lanes | event.lanes != lanes & event.lanes:
                found.setdefault(warp, set()).add(barrier)
    return found, last


class _Lanes:
    """The lanes of one warp, event by event, as the machine follows them for data.

    `last`: the last event that makes or ends an mbarrier; uses behind it clash with it alone.
    """

    def __init__(self, barriers: set[ev.BarrierAddress], last: int) -> None:
        self.barriers = barriers
        self.last = last
        self.uses = LaneUses()
        self.live = ALL_LANES

    def step(self, event: ev.Event) -> tuple[ev.BarrierAddress, int] | None:
        """The next event: an mbarrier that it clashes at, and the instruction it clashes with."""
        clash = None
        if event.sequence > self.last and not (self.uses.now or self.uses.layers):
            return None
        for barrier in _touched(event):
            if barrier in self.barriers and clash is None:
                place, how = (barrier.cta, barrier.offset), _access(event)
                other = self.uses.note(place, event.lanes, how, event.instruction, some=False)
                clash = None if other is None else (barrier, other)
        self.live = follow_lanes(self.uses, event, self.live)
        return clash


def _access(event: ev.Event) -> LaneAccess:
    if isinstance(event, _WHOLE):
        return LaneAccess.WRITE
    waits = isinstance(event, ev.WaitEvent | ev.Poll)
    return LaneAccess.STRONG_READ if waits else LaneAccess.STRONG_WRITE
