"""Loops whose rounds data decide: which of them wait for memory, and for whose.

The machine executes each instruction of such a loop once, for its accesses. A strong load or an
atomic in it may wait for what others write. Where a warp of the same cluster writes those bytes,
the loop orders the two, which is not modelled: the run then represents nothing. Where none does,
the loop waits for other clusters; that they come is assumed.
"""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.outcome import Run


def data_loops(run: Run) -> list[int]:
    """The branches of the loops that access memory, each time that one was met."""
    if run.prepared is None:
        return []
    regions = run.prepared.code.regions
    return [
        event.instruction
        for event in run.events
        if isinstance(event, ev.Skipped) and regions[event.instruction].blocks
    ]


def changed_by_others(run: Run) -> tuple[int | None, list[int]]:
    """An instruction whose strong access steers though others in the run may change its bytes (None
    where there is none), and those that steer loops by bytes which nobody else touches.
    """
    polled: list[int] = []
    alone: set[tuple[int, int, Footprint]] = set()
    for steering in run.confluence.steering:
        access = run.events[steering.sequence]
        if not isinstance(access, ev.AccessEvent) or access.semantics is ev.AccessSemantics.WEAK:
            continue
        key = access.cta, access.warp, access.footprint
        if access.known:
            return steering.instruction, polled
        if key not in alone and any(_may_change(event, access) for event in run.events):
            return steering.instruction, polled
        alone.add(key)
        polled.append(steering.instruction)
    return None, polled


def _may_change(event: ev.Event, access: ev.AccessEvent) -> bool:
    """Whether another warp's event writes bytes that the access reads."""
    if (event.cta, event.warp) == (access.cta, access.warp):
        return False
    if isinstance(event, ev.AccessEvent):
        return event.mode is not ev.Mode.READ and _meet(event.footprint, access.footprint)
    if isinstance(event, ev.AsynchronousEvent):
        return any(
            effect.mode is not ev.Mode.READ and _meet(effect.footprint, access.footprint)
            for effect in event.effects
        )
    return False


def _meet(left: Footprint, right: Footprint) -> bool:
    (low, high), (start, end) = left.bounds, right.bounds
    return (left.space, left.cta) == (right.space, right.cta) and low < end and start < high
