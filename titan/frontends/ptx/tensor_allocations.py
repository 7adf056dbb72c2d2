"""Whether tensor memory is given back, allocated only while the CTA may, and of one or two CTAs.

All columns that a kernel allocates have to be deallocated before it ends: what a CTA keeps is
missing to the next one on its processor, which waits for it (PTX, "Tensor Memory Allocation").
After one of its threads has executed tcgen05.relinquish_alloc_permit, a CTA must not allocate again
(PTX, tcgen05.relinquish_alloc_permit). Both are decided on the run: a CTA keeps what it has in any
order of its warps. That an allocation before the permit is given up by another warp is so in every
interleaving, the order engine decides (`titan/isa/simt/required_orders.py`).

All tcgen05 instructions of a kernel have the same `.cta_group` (PTX, "tcgen05 Instructions"), and
`cta_group::2` works in pairs of CTAs, which a cluster has where their number is even.
"""

from __future__ import annotations

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Ending, Run

_OF_GROUPS = (
    ev.RecordedOperation.TENSOR_MULTIPLY,
    ev.RecordedOperation.TENSOR_MEMORY_COPY,
    ev.RecordedOperation.TENSOR_SHIFT,
)


def tensor_allocations(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """The faults of a run, one for each instruction."""
    kept: dict[tuple[int, int], ev.TensorAllocate] = {}  # by CTA and column
    given_up: dict[int, ev.TensorRelinquish] = {}
    found = _groups(run, places)
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


def _groups(run: Run, places: CodePlaces) -> dict[int, Diagnostic]:
    """The first instruction whose `.cta_group` does not fit the others, or the cluster."""
    first: tuple[int, ev.Event] | None = None
    x, y, z = run.launch.cluster
    for event in run.events:
        group = _group_of(event)
        if not group:
            continue
        first = first or (group, event)
        span, who = places.span(event.instruction), f"here, by warp {event.warp}"
        if group != first[0]:
            headline = f"cta_group::{group} in a kernel that uses cta_group::{first[0]}"
            others = (Annotation(places.span(first[1].instruction), f"cta_group::{first[0]}"),)
            fault = diagnostic("TTN219", headline, span, who, others=others)
            return {event.instruction: with_sources(fault, places)}
        if group == 2 and x * y * z % 2:
            headline = f"cta_group::2 in a cluster of {x * y * z}, which has no pairs of CTAs"
            fault = diagnostic("TTN219", headline, span, who)
            return {event.instruction: with_sources(fault, places)}
    return {}


def _group_of(event: ev.Event) -> int:
    """The CTAs that a tcgen05 instruction works in; 0 of another, or one without a group."""
    match event:
        case (
            ev.TensorAllocate(cta_group=group)
            | ev.TensorDeallocate(cta_group=group)
            | ev.TensorRelinquish(cta_group=group)
            | ev.TensorCommitEvent(cta_group=group)
        ):
            return group
        case ev.AsynchronousEvent(kind=kind, cta_group=group) if kind in _OF_GROUPS:
            return group
    return 0


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
