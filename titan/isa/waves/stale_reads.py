"""Which reads of LDS in a run of waves come round a ring to a stage that is not filled again.

The pattern is that of `titan/isa/simt/stale_reads.py`. LDS is filled by copies from global memory,
or by stores of what was loaded before: of a store the instruction is the source.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.isa.simt.outcome import Run
from titan.isa.simt.stale_reads import StageAccess, source_of, stale_of
from titan.isa.waves.events import lds_uses


def stale_lds_reads(run: Run) -> tuple[int, ...]:
    """The instructions of such reads, in the order of their first ones."""
    return stale_of(list(_accesses(run)))


def _accesses(run: Run) -> Iterator[StageAccess]:
    unknown = run.unknown_addresses()
    for event, use in lds_uses(run.events):
        agent, number = (event.cta, event.warp), event.instruction
        anywhere = number in unknown
        if use.write:
            source = source_of(number, (other.footprint for other in event.uses))
            yield StageAccess(agent, number, use.footprint, source, anywhere)
        elif not anywhere:
            yield StageAccess(agent, number, use.footprint, None)
