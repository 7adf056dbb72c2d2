"""Faults of a run in which some interleaving breaks an order that PTX asks for."""

from __future__ import annotations

from titan.engines.happens_before.engine import OrderResult
from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.record import LaunchRecording
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.required_orders import RequiredOrder


def out_of_order(
    result: OrderResult, recording: LaunchRecording, places: CodePlaces
) -> list[Diagnostic]:
    """The faults, one for each instruction."""
    found: dict[int, Diagnostic] = {}
    for precedence in result.unordered:
        item = recording.required[precedence]
        found.setdefault(item.first.instruction, _fault(item, places))
    return list(found.values())


def _fault(required: RequiredOrder, places: CodePlaces) -> Diagnostic:
    first, others = required
    if isinstance(first, ev.ArriveEvent):
        headline = (
            f"mbarrier+{first.barrier.offset:#x} may receive last an arrival that must not "
            "complete it: nothing that the phase needs is behind it in every interleaving"
        )
        code, where, notes = "TTN206", first.instruction, others[:1]
        label = "may be earlier"
    else:
        headline = "the permit to allocate tensor memory may be given up before an allocation"
        code, where, notes = "TTN219", others[0].instruction, (first,)
        label = "perhaps later"
    near = tuple(Annotation(places.span(event.instruction), label) for event in notes)
    fault = diagnostic(code, headline, places.span(where), "here", others=near)
    return with_sources(fault, places)
