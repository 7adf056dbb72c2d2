"""Why bytes that a launch leaves are unknown: reads of shared memory that nothing has written.

The launch runs once more, without numbers, on the machine that records accesses. That one of these
reads made the bytes unknown is not shown; where there is none, nothing of the kind did.
"""

from __future__ import annotations

from itertools import islice

from titan.emulated.checking import located
from titan.emulated.modules import LoadedModule
from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.run import run
from titan.isa.simt.unwritten_reads import UnwrittenRead
from titan.isa.simt.unwritten_reads import unwritten_reads as reads_of

STEPS_MAX = 2_000_000  # warp instructions: what comes after is not examined
FINDINGS_MAX = 4


def unwritten_reads(loaded: LoadedModule, launch: Launch) -> list[Diagnostic]:
    """The first reads of each instruction, at the lines of the sources."""
    made, _ = run(loaded.module, launch, Options(steps_max=STEPS_MAX), loaded.source)
    if made is None:
        return []
    found = [
        diagnostic(
            "TTN204", f"nothing has written {_place(read)}", loaded.places.span(instruction),
            f"read here, by warp {read.event.warp}",
        )
        for instruction, read in islice(reads_of(made).items(), FINDINGS_MAX)
    ]  # fmt: skip
    return located(loaded, found)


def _place(read: UnwrittenRead) -> str:
    if read.footprint.space is MemorySpace.TENSOR:
        return "this tensor memory"
    low, high = read.footprint.bounds
    return f"shared+{low:#x}..{max(low, high - 1):#x}"
