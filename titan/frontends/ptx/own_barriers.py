"""Whether operations on mbarriers address the CTA that they may address.

Most forms take an mbarrier of the executing CTA alone; through a generic or `.shared::cta` address
of a peer's object the behaviour is undefined, as is a `st.async` whose barrier lies in another CTA
than its destination (PTX, mbarrier.init, mbarrier.inval, mbarrier.arrive, mbarrier.test_wait,
cp.async.mbarrier.arrive, st.async, red.async). The machine executes them all as they are meant, so
that one which no device executes so would be verified.
"""

from __future__ import annotations

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Run

OF_THE_OWN_CTA: dict[type[ev.Event], str] = {  # what an event is in PTX
    ev.BarrierInit: "mbarrier.init",
    ev.BarrierInvalidate: "mbarrier.inval",
    ev.WaitEvent: "a wait for an mbarrier",
    ev.Poll: "a wait for an mbarrier",
    ev.CopyArrive: "cp.async.mbarrier.arrive",
}
TO_ONE_PEER = (ev.RecordedOperation.STORE, ev.RecordedOperation.REDUCE)  # st.async, red.async


def foreign_barriers(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN219 for each instruction that uses an mbarrier of a CTA that it must not address."""
    if run.launch.cluster_size == 1:
        return []
    found: dict[int, Diagnostic] = {}
    for event in run.events:
        headline = "" if event.instruction in found else _wrong(event)
        if headline:
            span, who = places.span(event.instruction), f"here, by warp {event.warp}"
            found[event.instruction] = with_sources(
                diagnostic("TTN219", headline, span, who), places
            )
    return list(found.values())


def _wrong(event: ev.Event) -> str:
    """What is wrong with an event, or nothing."""
    match event:
        case (
            ev.BarrierInit(barrier=barrier)
            | ev.BarrierInvalidate(barrier=barrier)
            | ev.WaitEvent(barrier=barrier)
            | ev.Poll(barrier=barrier)
            | ev.CopyArrive(barrier=barrier)
        ) if barrier.cta != event.cta:
            what = OF_THE_OWN_CTA[type(event)]
            return f"{what} takes an mbarrier of its own CTA, and this one is another's"
        case ev.ArriveEvent(barrier=barrier, remote=False) if barrier.cta != event.cta:
            return "an arrival without .shared::cluster is at an mbarrier of another CTA"
        case ev.AsynchronousEvent(kind=kind, effects=effects, completes=completes):
            homes = {
                effect.footprint.cta
                for effect in effects
                if effect.footprint.space is MemorySpace.SHARED
            }
            at = {completion.barrier.cta for completion in completes}
            if kind in TO_ONE_PEER and homes and at and homes != at:
                return "st.async and its mbarrier are in different CTAs"
    return ""
