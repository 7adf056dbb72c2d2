"""Which writes meet an access: a look-up by bytes, of one memory or of several."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run

Write = TypeVar("Write")


class WrittenRanges(Generic[Write]):
    """Bytes that are written, each range with what writes it."""

    def __init__(self, writes: Iterable[tuple[Footprint, Write]]) -> None:
        ranges = [
            (low, high, write) for footprint, write in writes for low, high in footprint.ranges()
        ]
        ranges.sort(key=lambda item: item[:2])
        self._ranges = ranges
        self._starts = [low for low, _, _ in ranges]
        self._longer: list[int] = []  # for each range the last one before it that ends later, or -1
        for index, (_, high, _) in enumerate(ranges):
            before = index - 1
            while before >= 0 and ranges[before][1] <= high:
                before = self._longer[before]
            self._longer.append(before)

    def meeting(self, footprint: Footprint) -> Iterator[Write]:
        """What writes a byte of the footprint, once for each range that does."""
        for _ in self._within(*footprint.bounds):  # if there is one
            for low, high in footprint.ranges():
                yield from self._within(low, high)
            return

    def _within(self, low: int, high: int) -> Iterator[Write]:
        at = bisect_left(self._starts, high) - 1
        while at >= 0:
            _, end, write = self._ranges[at]
            if end > low:
                yield write
                at -= 1
            else:  # nor do those in between, which end no later
                at = self._longer[at]


class WrittenMemories(Generic[Write]):
    """The same of several memories, each footprint in its own."""

    def __init__(self, writes: Iterable[tuple[Footprint, Write]]) -> None:
        by_memory: dict[tuple[MemorySpace, int], list[tuple[Footprint, Write]]] = {}
        for footprint, write in writes:
            memory = footprint.space, footprint.cta
            by_memory.setdefault(memory, []).append((footprint, write))
        self._of = {memory: WrittenRanges(items) for memory, items in by_memory.items()}

    def meeting(self, footprint: Footprint) -> Iterator[Write]:
        """What writes a byte of the footprint, once for each range that does."""
        ranges = self._of.get((footprint.space, footprint.cta))
        if ranges is not None:
            yield from ranges.meeting(footprint)


def global_accesses(
    run: Run, unknown: set[int]
) -> Iterator[tuple[ev.AccessEvent | ev.AsynchronousEvent, Footprint, ev.Mode]]:
    """The accesses of a run to global memory but for those of the instructions `unknown`."""
    for event in run.events:
        if event.instruction in unknown:
            continue
        if isinstance(event, ev.AccessEvent):
            if event.footprint.space is MemorySpace.GLOBAL:
                yield event, event.footprint, event.mode
        elif isinstance(event, ev.AsynchronousEvent):
            for effect in event.effects:
                if effect.footprint.space is MemorySpace.GLOBAL:
                    yield event, effect.footprint, effect.mode
