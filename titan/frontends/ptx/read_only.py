"""Whether a kernel writes what it reads as read-only data.

`ld.global.nc` may be answered from a cache that nothing keeps coherent: what it reads must not be
written while the kernel runs (PTX, ld.global.nc), whatever barriers stand in between. A run shows
the bytes that the CTAs of a cluster read so, and all that they write; CTAs of other clusters are
other runs, and what they write is not seen here.
"""

from __future__ import annotations

from bisect import bisect_left

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run


def written_read_only(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN201 for each instruction that reads, as read-only data, bytes that the run writes.

    Accesses at unknown addresses are left out: which bytes they touch is not known.
    """
    read_only = {
        number
        for number, item in enumerate(places.module.instructions)
        if item.opcode == "ld" and "nc" in item.modifiers
    }
    if not read_only:
        return []
    unknown = run.unknown_addresses()
    read_only -= unknown
    reads: dict[tuple[int, Footprint], ev.AccessEvent] = {}
    for event in run.events:
        if (
            event.instruction in read_only
            and isinstance(event, ev.AccessEvent)
            and event.footprint.space is MemorySpace.GLOBAL
        ):
            reads.setdefault((event.instruction, event.footprint), event)
    if not reads:
        return []
    written = _Written(run, unknown)
    found: dict[int, Diagnostic] = {}
    for (instruction, footprint), event in reads.items():
        writer = None if instruction in found else written.by(footprint)
        if writer is None:
            continue
        low, high = footprint.bounds
        headline = (
            f"ld.global.nc reads global bytes within {low:#x}..{high - 1:#x} that the kernel also "
            "writes: nothing orders such a read"
        )
        item = diagnostic(
            "TTN201", headline, places.span(instruction), f"here, by warp {event.warp}",
            others=(Annotation(places.span(writer), "the bytes are written here"),),
        )  # fmt: skip
        found[instruction] = with_sources(item, places)
    return list(found.values())


class _Written:
    """The global bytes that a run writes at known addresses, with an instruction that does."""

    def __init__(self, run: Run, unknown: set[int]) -> None:
        first: dict[Footprint, int] = {}
        for event in run.events:
            if event.instruction in unknown:
                continue
            footprints: list[Footprint] = []
            if isinstance(event, ev.AccessEvent) and event.mode is not ev.Mode.READ:
                footprints = [event.footprint]
            elif isinstance(event, ev.AsynchronousEvent):
                footprints = [e.footprint for e in event.effects if e.mode is not ev.Mode.READ]
            for footprint in footprints:
                if footprint.space is MemorySpace.GLOBAL:
                    first.setdefault(footprint, event.instruction)
        self.ranges = sorted(
            (low, high, instruction)
            for footprint, instruction in first.items()
            for low, high in footprint.ranges()
        )
        self.reach: list[int] = []  # the furthest end of the ranges up to each one
        for _, high, _ in self.ranges:
            self.reach.append(max(high, self.reach[-1] if self.reach else 0))

    def by(self, footprint: Footprint) -> int | None:
        """An instruction that writes a byte of the footprint."""
        for low, high in footprint.ranges():
            at = bisect_left(self.ranges, (high,)) - 1
            while at >= 0 and self.reach[at] > low:
                if self.ranges[at][1] > low:
                    return self.ranges[at][2]
                at -= 1
        return None
