"""Whether tensor memory is given back, and allocated only while the CTA may.

All columns that a kernel allocates have to be deallocated before it ends: what a CTA keeps is
missing to the next one on its processor, which waits for it (PTX, "Tensor Memory Allocation").
After one of its threads has executed tcgen05.relinquish_alloc_permit, a CTA must not allocate again
(PTX, tcgen05.relinquish_alloc_permit). Both are decided on the run: a CTA keeps what it has in any
order of its warps, and where a permit is given up by another warp than the one that allocates, the
order is that of the run.
"""

from __future__ import annotations

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Ending, Run


def tensor_allocations(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """The faults of a run, one for each instruction."""
    kept: dict[tuple[int, int], ev.TensorAllocate] = {}  # by CTA and column
    given_up: dict[int, ev.TensorRelinquish] = {}
    found: dict[int, Diagnostic] = {}
    for event in run.events:
        match event:
            case ev.TensorAllocate(cta=cta, column=column):
                kept[(cta, column)] = event
                permit = given_up.get(cta)
                if permit is not None and event.instruction not in found:
                    found[event.instruction] = _without_permit(event, permit, places)
            case ev.TensorDeallocate(cta=cta, column=column, known=True):
                kept.pop((cta, column), None)
            case ev.TensorRelinquish(cta=cta):
                given_up.setdefault(cta, event)
    if run.outcome.ending is Ending.FINISHED:
        for event in kept.values():
            if event.instruction not in found:
                found[event.instruction] = _kept(event, places)
    return list(found.values())


def _kept(event: ev.TensorAllocate, places: CodePlaces) -> Diagnostic:
    headline = f"the CTA ends and keeps {event.columns} columns of tensor memory"
    span, who = places.span(event.instruction), f"allocated here, by warp {event.warp}"
    return with_sources(diagnostic("TTN211", headline, span, who), places)


def _without_permit(
    event: ev.TensorAllocate, permit: ev.TensorRelinquish, places: CodePlaces
) -> Diagnostic:
    headline = "tensor memory is allocated by a CTA that has given up the permit to allocate"
    others = (Annotation(places.span(permit.instruction), "given up here"),)
    span, who = places.span(event.instruction), f"here, by warp {event.warp}"
    return with_sources(diagnostic("TTN219", headline, span, who, others=others), places)
