"""Loops whose rounds data decide: each instruction of one is executed once, for its accesses.

A loop with a strong access or an atomic may wait for what others write; the machine refuses it.
"""

from __future__ import annotations

from titan.isa.simt import events as ev
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
