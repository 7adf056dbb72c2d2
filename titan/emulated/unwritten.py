"""Why bytes that a launch leaves are unknown: loads of shared memory that nothing has written.

The launch runs once more, without numbers, on the machine that records such loads. That one of them
made the bytes unknown is not shown; where there is none, nothing of the kind did.
"""

from __future__ import annotations

from titan.emulated.checking import located
from titan.emulated.modules import LoadedModule
from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.isa.simt.events import MemoryFault, MemoryFaultKind
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.run import run

STEPS_MAX = 2_000_000  # warp instructions: what comes after is not examined
FINDINGS_MAX = 4


def unwritten_reads(loaded: LoadedModule, launch: Launch) -> list[Diagnostic]:
    """The first loads of each instruction, at the lines of the sources."""
    options = Options(uninitialised=True, steps_max=STEPS_MAX)
    made, _ = run(loaded.module, launch, options, loaded.source)
    found: dict[int, Diagnostic] = {}
    for event in () if made is None else made.events:
        if not isinstance(event, MemoryFault) or event.instruction in found:
            continue
        if event.fault is MemoryFaultKind.UNINITIALISED and len(found) < FINDINGS_MAX:
            low, high = event.footprint.bounds
            found[event.instruction] = diagnostic(
                "TTN204", f"nothing has written shared+{low:#x}..{max(low, high - 1):#x}",
                loaded.places.span(event.instruction), f"read here, by warp {event.warp}",
            )  # fmt: skip
    return located(loaded, list(found.values()))
