"""Lanes of a warp that access memory at addresses that are not known, and have not met.

Which lanes come to the same bytes is not known there, so `lane_order.py` compares nothing. Towards
other warps such an access may touch all of its memory; so it may towards other lanes: where one of
two accesses is a write, not both are strong, and no barrier, wait or `bar.warp.sync` of the whole
warp lies between them, it is open whether they meet. So it is for one store, unless all its lanes
write the same number of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import Op, PresetKind
from titan.isa.simt.outcome import Run
from titan.isa.simt.values import LANES

UNPLACED = (
    "lanes of a warp that have not met access memory, one of them at an address that is not known"
)
_SPACES = (MemorySpace.SHARED, MemorySpace.GLOBAL)


class _Use(NamedTuple):
    """An access: its memory and the bounds in it, by which lanes, and how."""

    memory: tuple[int, int]
    low: int
    high: int
    lanes: int
    writes: bool
    strong: bool

    def may_clash(self, other: _Use) -> bool:
        """Whether different lanes may access common bytes, one of them to write."""
        if self.memory != other.memory or not (self.writes or other.writes):
            return False
        alone = self.lanes == other.lanes and not self.lanes & self.lanes - 1
        apart = self.high <= other.low or other.high <= self.low
        return not (apart or alone or (self.strong and other.strong))


@dataclass(slots=True)
class _SinceMeeting:
    """What the lanes of a warp have accessed since they met: at known addresses, and at others."""

    placed: set[_Use] = field(default_factory=set)
    unplaced: set[_Use] = field(default_factory=set)


def unplaced_lanes(run: Run) -> Iterator[tuple[str, int]]:
    """Why accesses of lanes may meet, and the first instruction for which it is open."""
    unknown = run.unknown_addresses() if run.prepared is not None else ()  # waves go in step
    if not unknown:
        return
    warps: dict[tuple[int, int], _SinceMeeting] = {}
    for event in run.events:
        if isinstance(event, ev.RendezvousEvent | ev.WaitEvent):
            live = min(LANES, run.launch.threads - LANES * event.warp)
            if event.lanes == (1 << live) - 1:
                warps.pop((event.cta, event.warp), None)
        elif isinstance(event, ev.AccessEvent) and event.footprint.space in _SPACES:
            since = warps.setdefault((event.cta, event.warp), _SinceMeeting())
            use = _use_of(event)
            placed = event.instruction not in unknown
            others = since.unplaced if placed else since.placed | since.unplaced
            if any(use.may_clash(other) for other in others):
                yield UNPLACED, event.instruction
                return
            if not placed and use.may_clash(use) and not _same_number(run, event.instruction):
                yield UNPLACED, event.instruction
                return
            (since.placed if placed else since.unplaced).add(use)


def _use_of(event: ev.AccessEvent) -> _Use:
    footprint = event.footprint
    low, high = footprint.bounds
    writes = event.mode is not ev.Mode.READ
    strong = event.mode is ev.Mode.ATOMIC or event.semantics is not ev.AccessSemantics.WEAK
    return _Use((footprint.space, footprint.cta), low, high, event.lanes, writes, strong)


def _same_number(run: Run, instruction: int) -> bool:
    """Whether a store writes numbers of the text alone."""
    assert run.prepared is not None
    code = run.prepared.code
    step = code.steps[instruction]
    constants = {one.register for one in code.presets if one.kind is PresetKind.CONSTANT}
    return step.op is Op.STORE and constants.issuperset(step.args[1:])
