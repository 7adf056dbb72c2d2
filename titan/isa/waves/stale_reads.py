"""Which reads of LDS in a run of waves come round a ring to a stage that is not filled again.

The pattern is that of `titan/isa/simt/stale_reads.py`. LDS is filled by copies from global memory,
or by stores of what was loaded before: of a store the instruction is the source.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Run
from titan.isa.simt.stale_reads import StageAccess, source_of, stale_of
from titan.isa.waves.events import OperationIssued


def stale_lds_reads(run: Run) -> tuple[int, ...]:
    """The instructions of such reads, in the order of their first ones."""
    return stale_of(list(_accesses(run)))


def _accesses(run: Run) -> Iterator[StageAccess]:
    unknown = run.unknown_addresses()
    for event in run.events:
        if not isinstance(event, OperationIssued):
            continue
        agent, number = (event.cta, event.warp), event.instruction
        anywhere = number in unknown
        source = source_of(number, (use.footprint for use in event.uses))
        for use in sorted(event.uses, key=lambda use: use.write):
            if use.footprint.space is not MemorySpace.SHARED:
                continue
            if use.write:
                yield StageAccess(agent, number, use.footprint, source, anywhere)
            elif not anywhere:
                yield StageAccess(agent, number, use.footprint, None)
