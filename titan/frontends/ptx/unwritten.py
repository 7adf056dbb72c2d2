"""Loads of shared memory that nothing has written, and whose values are used.

What such a load gives is what was there before the launch. Where nothing races it does so in every
interleaving, and a trace shows where its value is used for nothing
(`titan/isa/simt/tracing/traced.py`). Only loads by threads count: products, copies and
ldmatrix also read the padding of tiles, whose results are left out.
"""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run, TracedAccesses

UNINITIALISED = ev.MemoryFaultKind.UNINITIALISED


def used_unwritten(run: Run) -> list[int]:
    """The instructions of such loads; without a trace every load counts as used."""
    last: dict[tuple[int, int], ev.AccessEvent] = {}
    found: dict[int, None] = {}
    for event in run.events:
        if isinstance(event, ev.AccessEvent):
            last[event.cta, event.warp] = event
        elif isinstance(event, ev.MemoryFault) and event.fault is UNINITIALISED:
            access = last.get((event.cta, event.warp))
            if run.traced is None or access is None or _used(access, run.traced):
                found[event.instruction] = None
    return list(found)


def _used(access: ev.AccessEvent, traced: TracedAccesses) -> bool:
    if access.semantics is not ev.AccessSemantics.WEAK:
        return True  # not traced
    return access.sequence in traced.unwritten
