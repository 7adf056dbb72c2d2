"""Which reads of LDS meet bytes that nothing has written before, in the order of a run of waves.

An atomic operation leaves undefined what was, and a store that data choose may not take place.
"""

from __future__ import annotations

from titan.isa.simt.outcome import Run
from titan.isa.simt.unwritten_reads import WrittenBytes
from titan.isa.waves.events import lds_uses


def unwritten_lds_reads(run: Run) -> list[int]:
    """The instructions of such reads; those at addresses that are not known are left out."""
    written = WrittenBytes()
    unknown = run.unknown_addresses()
    found: dict[int, None] = {}
    for event, use in lds_uses(run.events):
        reads = (not use.write or use.atomic) and event.instruction not in unknown
        if reads and not written.hold(use.footprint):
            found[event.instruction] = None
        if use.write and not use.atomic and not use.by_data:
            written.add(use.footprint)
    return list(found)
