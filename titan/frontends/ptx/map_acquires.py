"""Tensor maps that a run writes, where it acquires others too, or where another CTA acquires.

`fence.proxy.tensormap::generic.acquire [map], 128` is about these bytes alone (PTX, membar/fence:
"the operand pair [addr, size]"). A sync program's acquire has no address, so that of one map counts
there for every map. It is for the CTA that uses the map, too (memory_model.md), since what is
cached of a map is by multiprocessor. Where a run acquires other places than that of a map which it
writes and uses, or in other CTAs, it is judged once more for this map and each CTA that uses it:
with the acquires of this CTA that cover it, and its uses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from titan.engines.happens_before.engine import OrderResult
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.order_of_run import order_of_run
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording, Locate, record_together
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.outcome import Run


def with_own_acquires(
    run: Run,
    rest: tuple[str, str, Locate, CodePolicies, int | None, int],
    recording: LaunchRecording,
    order: OrderResult,
    policies: CodePolicies,
) -> tuple[LaunchRecording, OrderResult]:
    """What is found of the first map that lacks an acquire of its own; else what was found."""
    for place, cta in maps_among_others(run):
        alone = of_one_map(run, place, cta)
        name, target, locate, _, registers, groups = rest
        (other,) = record_together([alone], name, target, locate, policies, registers, groups)
        found = order_of_run(alone, other, policies, show=True)
        if found is not None and found.verdict is Verdict.REFUTED:
            return other, found
    return recording, order


def maps_among_others(run: Run) -> list[tuple[Footprint, int]]:
    """The maps that a run writes, with CTAs that use them, where another place is acquired or
    another CTA acquires."""
    acquired = {
        (event.footprint, event.cta)
        for event in run.events
        if _is_acquire(event) and event.footprint is not None
    }
    if not acquired:
        return []
    used = {
        (effect.footprint, event.cta)
        for event in run.events
        if isinstance(event, ev.AsynchronousEvent)
        for effect in event.effects
        if effect.proxy is ev.AccessProxy.TENSORMAP
    }
    written = [
        event.footprint
        for event in run.events
        if isinstance(event, ev.AccessEvent) and event.mode is not ev.Mode.READ
    ]
    return sorted(
        (
            (place, cta)
            for place, cta in used
            if any(not _covers(other, place) or by != cta for other, by in acquired)
            and any(other.may_meet(place) for other in written)
        ),
        key=lambda use: (use[0].bounds, use[1]),
    )


def of_one_map(run: Run, place: Footprint, cta: int) -> Run:
    """The run without acquires of other places or by other CTAs, and without other uses of maps."""

    def reduced(event: ev.Event) -> ev.Event:
        if _is_acquire(event) and not (
            event.cta == cta and event.footprint and _covers(event.footprint, place)
        ):
            header = event.sequence, event.cta, event.warp, event.lanes, event.instruction
            return ev.Prefetch(*header, None)  # in its place, touching nothing
        if isinstance(event, ev.AsynchronousEvent):
            kept = tuple(
                effect
                for effect in event.effects
                if effect.proxy is not ev.AccessProxy.TENSORMAP
                or (effect.footprint == place and event.cta == cta)
            )
            return replace(event, effects=kept) if kept != event.effects else event
        return event

    return replace(
        run, events=tuple(map(reduced, run.events)), order=tuple(map(reduced, run.order))
    )


def _is_acquire(event: ev.Event) -> TypeGuard[ev.FenceEvent]:
    return isinstance(event, ev.FenceEvent) and event.kind is ev.RecordedFence.TENSORMAP_ACQUIRE


def _covers(one: Footprint, other: Footprint) -> bool:
    (low, high), (first, end) = one.bounds, other.bounds
    return one.space is other.space and low <= first and end <= high
