"""Whether operations address the CTA that they may address.

- Most forms of mbarrier operations take an object of the executing CTA alone; through a generic or
  `.shared::cta` address of a peer's the behaviour is undefined (PTX, mbarrier.init, mbarrier.inval,
  mbarrier.arrive, mbarrier.test_wait, cp.async.mbarrier.arrive).
- `.shared`, which is `.shared::cta`, is the window of the executing CTA, for accesses as for both
  ends of a copy; that of a peer is in `.shared::cluster` alone (PTX, "Shared State Space").
- What completes on an mbarrier signals in the CTA in which it writes, for each of a multicast; with
  `cta_group::2` in that pair of CTAs (PTX, st.async, red.async, cp.async.bulk,
  cp.async.bulk.tensor, clusterlaunchcontrol.try_cancel).

The machine executes them all as they are meant, so that one which no device executes so would be
verified.
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
_Kind = ev.RecordedOperation
SIGNALS_WHERE_IT_WRITES: dict[_Kind, str] = {
    _Kind.STORE: "st.async",
    _Kind.REDUCE: "red.async",
    _Kind.BULK_COPY: "the destination of a bulk copy",
    _Kind.BULK_REDUCE: "the destination of a bulk reduction",
    _Kind.TENSOR_COPY: "the destination of a tensor copy",
    _Kind.TRY_CANCEL: "the answer of a try_cancel",
}
OWN_WORDS = frozenset({"shared", "shared::cta"})
SPACE_WORDS = OWN_WORDS | {"shared::cluster", "global"}
_COPIES = (*SIGNALS_WHERE_IT_WRITES, _Kind.COPY, _Kind.TENSOR_REDUCE)


def wrong_ctas(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN219 for each instruction that addresses a CTA that it must not address."""
    if run.launch.cluster_size == 1:
        return []
    found: dict[int, Diagnostic] = {}
    unknown = run.unknown_addresses()
    for event in run.events:
        if event.instruction in found or event.instruction in unknown:
            continue
        headline = _wrong_barrier(event) or _wrong_window(event, places)
        if headline:
            span, who = places.span(event.instruction), f"here, by warp {event.warp}"
            found[event.instruction] = with_sources(
                diagnostic("TTN219", headline, span, who), places
            )
    return list(found.values())


def _wrong_barrier(event: ev.Event) -> str:
    """What is wrong with the mbarrier of an event, or nothing."""
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
        case ev.AsynchronousEvent(kind=kind, completes=completes):
            # CTAs are numbered by clusters, so that those of a pair differ in the lowest bit
            pair = int(event.cta_group == 2)
            homes = {cta >> pair for cta in _shared(event, writes=True)}
            at = {completion.barrier.cta >> pair for completion in completes}
            if kind in SIGNALS_WHERE_IT_WRITES and homes and at and homes != at:
                what = SIGNALS_WHERE_IT_WRITES[kind]
                return f"{what} and its mbarrier are in different CTAs"
    return ""


def _wrong_window(event: ev.Event, places: CodePlaces) -> str:
    """What is wrong with the window through which an event reaches shared memory, or nothing."""
    match event:
        case ev.AccessEvent(footprint=footprint):
            foreign = footprint.space is MemorySpace.SHARED and footprint.cta != event.cta
            words = _spaces(event, places) if foreign else ()
        case ev.ExpectBytes(barrier=barrier):
            words = _spaces(event, places) if barrier.cta != event.cta else ()
        case ev.AsynchronousEvent(kind=kind) if kind in _COPIES:
            words = _spaces(event, places)
            written = bool(_shared(event, writes=True) - {event.cta})
            read = bool(_shared(event, writes=False) - {event.cta})
            multicast = len(event.completes) > 1
            words = (words[:1] if written and not multicast else ()) + (words[1:] if read else ())
        case _:
            words = ()
    if OWN_WORDS.isdisjoint(words):
        return ""
    return "an address through .shared::cta is in the shared memory of another CTA"


def _spaces(event: ev.Event, places: CodePlaces) -> tuple[str, ...]:
    """The spaces that the name of an instruction has: of a copy those that it writes and reads."""
    words = places.module.instructions[event.instruction].modifiers
    return tuple(word for word in words if word in SPACE_WORDS)


def _shared(event: ev.AsynchronousEvent, *, writes: bool) -> set[int]:
    """The CTAs whose shared memory an operation writes, or reads."""
    return {
        effect.footprint.cta
        for effect in event.effects
        if effect.footprint.space is MemorySpace.SHARED
        and (effect.mode is not ev.Mode.READ) is writes
    }
