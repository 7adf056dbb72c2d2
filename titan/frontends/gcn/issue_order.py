"""Which accesses of a work-group take place in the order in which its waves issue them.

Those to global memory by the vector cache, which all waves of a work-group share (LLVM AMDGPU
usage, memory model: at work-group scope nothing waits for them but in threadgroup split mode).
Bytes that the run also loads by the scalar unit are left out, as that has another cache: but where
barriers have all of these loads before all that is stored there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from titan.isa.simt.footprints import Footprint, MemorySpace, merged
from titan.isa.simt.outcome import Run
from titan.isa.simt.written import WrittenMemories
from titan.isa.waves.events import BY_VECTOR_CACHE, OperationIssued, WaveBarrier, WaveQueue


class IssueOrder:
    """Of one run of a work-group."""

    def __init__(self, run: Run) -> None:
        phases: Counter[int] = Counter()  # how many barriers each wave has passed
        stored: list[tuple[Footprint, int]] = []
        scalar: list[tuple[Footprint, int]] = []
        for event in run.events:
            if isinstance(event, WaveBarrier):
                phases[event.warp] += 1
            elif isinstance(event, OperationIssued):
                for use in event.uses:
                    one = use.footprint, phases[event.warp]
                    if event.queue is WaveQueue.SCALAR:
                        scalar.append(one)
                    elif use.write and use.footprint.space is MemorySpace.GLOBAL:
                        stored.append(one)
        written = WrittenMemories(stored)
        loaded = {
            footprint
            for footprint, phase in set(scalar)
            if phase >= min(written.meeting(footprint), default=phase)
        }
        self._scalar = merged([part for footprint in loaded for part in footprint.ranges()])
        self._known: dict[Footprint, bool] = {}

    def holds(self, queue: WaveQueue, footprint: Footprint) -> bool:
        """Whether an access of this queue takes place where it is issued."""
        if queue not in BY_VECTOR_CACHE or footprint.space is not MemorySpace.GLOBAL:
            return False
        found = self._known.get(footprint)
        if found is None:
            found = not any(self._meets(low, high) for low, high in footprint.ranges())
            self._known[footprint] = found
        return found

    def _meets(self, low: int, high: int) -> bool:
        at = bisect_left(self._scalar, (high, high)) - 1
        return at >= 0 and self._scalar[at][1] > low
