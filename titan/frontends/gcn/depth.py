"""Stages of the rings in LDS that a run of waves goes through.

An instruction of a loop that uses LDS in turn uses the same bytes again after as many rounds as the
ring has stages: the period of what it touches. A ring that no instruction goes through twice does
not show.
"""

from __future__ import annotations

from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Run
from titan.isa.waves.events import OperationIssued

DEPTH_MAX = 16


def lds_depth(run: Run) -> int:
    """The longest period that an instruction of a wave shows, at most `DEPTH_MAX`."""
    touched: dict[tuple[int, int], list[object]] = {}
    for event in run.events:
        uses = event.uses if isinstance(event, OperationIssued) else ()
        mine = tuple(use.footprint for use in uses if use.footprint.space is MemorySpace.SHARED)
        if mine:
            touched.setdefault((event.warp, event.instruction), []).append(mine)
    periods = {tuple(rounds): 1 for rounds in touched.values() if len(rounds) > 1}
    return max((_period(rounds) for rounds in periods), default=1)


def _period(rounds: tuple[object, ...]) -> int:
    """After how many rounds everything comes again; 1 where nothing does."""
    for period in range(1, min(DEPTH_MAX, len(rounds) - 1) + 1):
        if rounds[period:] == rounds[:-period]:
            return period
    return 1
