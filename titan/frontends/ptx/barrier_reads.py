"""Whether threads or engines read the bytes of an mbarrier that is live.

Between mbarrier.init and mbarrier.inval the object is opaque, and no operations but those of
mbarriers are defined on its bytes (PTX, "Contents of the mbarrier object"). Writes the machine
itself reports; here are reads, in the order of the run. What is read at unknown addresses is left
out: its footprint is a bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.mbarriers import BYTES
from titan.isa.simt.outcome import Run


def barriers_read(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN209 for each instruction that reads bytes of a live mbarrier."""
    live: dict[int, set[int]] = {}  # by CTA
    found: dict[int, Diagnostic] = {}
    unknown = run.unknown_addresses()
    for event in run.events:
        if isinstance(event, ev.BarrierInit):
            live.setdefault(event.barrier.cta, set()).add(event.barrier.offset)
        elif isinstance(event, ev.BarrierInvalidate):
            live.get(event.barrier.cta, set()).discard(event.barrier.offset)
        elif event.instruction not in found and event.instruction not in unknown:
            for offset in _read(event, live) if live else ():
                headline = f"mbarrier+{offset:#x} is read as memory while it is live"
                span, who = places.span(event.instruction), f"here, by warp {event.warp}"
                item = diagnostic("TTN209", headline, span, who)
                found[event.instruction] = with_sources(item, places)
                break
    return list(found.values())


def _read(event: ev.Event, live: dict[int, set[int]]) -> Iterator[int]:
    for footprint in _reads_of(event):
        barriers = live.get(footprint.cta)
        if footprint.space is not MemorySpace.SHARED or not barriers:
            continue
        low, high = footprint.bounds
        for offset in sorted(barriers):
            if offset + BYTES > low and offset < high and _meets(footprint, offset):
                yield offset


def _reads_of(event: ev.Event) -> Iterator[Footprint]:
    if isinstance(event, ev.AccessEvent) and event.mode is ev.Mode.READ:
        yield event.footprint
    elif isinstance(event, ev.AsynchronousEvent):
        for effect in event.effects:
            if effect.mode is ev.Mode.READ:
                yield effect.footprint


def _meets(footprint: Footprint, offset: int) -> bool:
    return any(low < offset + BYTES and offset < high for low, high in footprint.ranges())
