"""Which reads of a run meet bytes of shared or tensor memory that nothing has written before.

A copy counts as done where it is issued: who reads it too early has a race, which is reported by
itself. A write at an address that is not known may have written anything, a read at such an address
counts as none. Whether what is read is used is another question
(`titan/isa/simt/tracing/undefined_values.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace, of_ranges
from titan.isa.simt.mbarriers import BYTES
from titan.isa.simt.outcome import Run

_MEMORIES = (MemorySpace.SHARED, MemorySpace.TENSOR)


class WrittenBytes:
    """The bytes of each CTA's shared and tensor memory that are written so far."""

    def __init__(self) -> None:
        self._memories: dict[tuple[MemorySpace, int], bytearray] = {}
        self._whole: set[Footprint] = set()

    def add(self, footprint: Footprint) -> None:
        """The bytes of the footprint are written."""
        if footprint in self._whole:
            return
        self._whole.add(footprint)
        for low, high in footprint.ranges():
            self._memory(footprint, high)[low:high] = b"\1" * (high - low)

    def hold(self, footprint: Footprint) -> bool:
        """Whether all bytes of the footprint are written."""
        if footprint in self._whole:
            return True
        for low, high in footprint.ranges():
            if self._memory(footprint, high).find(0, low, high) >= 0:
                return False
        self._whole.add(footprint)
        return True

    def _memory(self, footprint: Footprint, size: int) -> bytearray:
        memory = self._memories.setdefault((footprint.space, footprint.cta), bytearray())
        if len(memory) < size:
            memory.extend(bytes(size - len(memory)))
        return memory


class UnwrittenRead(NamedTuple):
    """The first such read of an instruction."""

    event: ev.Event
    footprint: Footprint


def unwritten_reads(run: Run) -> dict[int, UnwrittenRead]:
    """The instructions of such reads, in the order of their first ones."""
    written = WrittenBytes()
    unknown = run.unknown_addresses()
    found: dict[int, UnwrittenRead] = {}
    for event in run.events:
        for footprint, mode in touched(event):
            reads = mode is not ev.Mode.WRITE and event.instruction not in unknown
            if reads and not written.hold(footprint):
                found.setdefault(event.instruction, UnwrittenRead(event, footprint))
            if mode is not ev.Mode.READ:
                written.add(footprint)
    return found


def touched(event: ev.Event) -> Iterator[tuple[Footprint, ev.Mode]]:
    """What an event touches of shared and tensor memory, what it reads first."""
    if isinstance(event, ev.BarrierInit):
        place = event.barrier.offset, event.barrier.offset + BYTES
        yield of_ranges(MemorySpace.SHARED, event.barrier.cta, (place,)), ev.Mode.WRITE
    elif isinstance(event, ev.AccessEvent):
        if event.footprint.space in _MEMORIES:
            yield event.footprint, event.mode
    elif isinstance(event, ev.AsynchronousEvent):
        for effect in sorted(event.effects, key=lambda effect: effect.mode is ev.Mode.WRITE):
            if effect.footprint.space in _MEMORIES:
                yield effect.footprint, effect.mode
