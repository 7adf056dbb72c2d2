"""Whether a kernel writes what it reads as read-only data.

`ld.global.nc` may be answered from a cache that nothing keeps coherent: what it reads, and what
`ldu` reads, must not be written while the kernel runs (PTX, ld.global.nc, ldu), whatever barriers
stand in between. A run shows the bytes that the CTAs of a cluster read so, and all that they write;
CTAs of other clusters are other runs, and what they write is not seen here.
"""

from __future__ import annotations

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.outcome import Run
from titan.isa.simt.written import WrittenRanges, global_accesses


def written_read_only(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN201 for each instruction that reads, as read-only data, bytes that the run writes.

    Accesses at unknown addresses are left out: which bytes they touch is not known.
    """
    read_only = {
        number
        for number, item in enumerate(places.module.instructions)
        if item.opcode == "ldu" or (item.opcode == "ld" and "nc" in item.modifiers)
    }
    if not read_only:
        return []
    unknown = run.unknown_addresses()
    read_only -= unknown
    reads: dict[tuple[int, Footprint], ev.Event] = {}
    writes: dict[Footprint, int] = {}
    for event, footprint, mode in global_accesses(run, unknown):
        if mode is not ev.Mode.READ:
            writes.setdefault(footprint, event.instruction)
        elif event.instruction in read_only:
            reads.setdefault((event.instruction, footprint), event)
    if not reads:
        return []
    written = WrittenRanges(writes.items())
    found: dict[int, Diagnostic] = {}
    for (instruction, footprint), reading in reads.items():
        writer = None if instruction in found else next(written.meeting(footprint), None)
        if writer is None:
            continue
        low, high = footprint.bounds
        name = "ldu" if places.module.instructions[instruction].opcode == "ldu" else "ld.global.nc"
        headline = (
            f"{name} reads global bytes within {low:#x}..{high - 1:#x} that the kernel also "
            "writes: nothing orders such a read"
        )
        item = diagnostic(
            "TTN201", headline, places.span(instruction), f"here, by warp {reading.warp}",
            others=(Annotation(places.span(writer), "the bytes are written here"),),
        )  # fmt: skip
        found[instruction] = with_sources(item, places)
    return list(found.values())
