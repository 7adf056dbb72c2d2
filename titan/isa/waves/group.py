"""What the waves of one work-group share: LDS, constant memory, the recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.simt.events import Event
from titan.isa.simt.footprints import NO_CTA, Footprint, MemorySpace, of_ranges
from titan.isa.simt.written import WrittenMemories
from titan.isa.waves.arm_queues import end_operations
from titan.isa.waves.contents import Bytes, Contents
from titan.isa.waves.decode import DecodedInstruction
from titan.isa.waves.events import CounterFull, OperationIssued, WaveQueue, WaveUse
from titan.isa.waves.state import OpaqueWord, PendingOperation, Refused, Wave

Addresses = NDArray[np.int64]


_Stored = Sequence[tuple[Addresses, Sequence[int]]]


class StoreValues(Protocol):
    """Follows what lanes load, store and copy (`lane_values.py`); addresses by lane."""

    def note_global_load(
        self, wave: Wave, code: DecodedInstruction, addresses: Addresses | None, size: int
    ) -> None:
        """A load is about to be issued."""

    def note_global_store(self, addresses: Addresses, size: int) -> None:
        """Active lanes store there."""

    def note_copy(self, wave: Wave, places: Addresses, size: int) -> None:
        """Active lanes copy what was loaded last to LDS."""

    def note_lds_load(
        self, wave: Wave, code: DecodedInstruction, rows: Sequence[Addresses], size: int
    ) -> None:
        """A load from LDS is about to be issued."""

    def note_lds_store(
        self, wave: Wave, item: AssemblyInstruction, rows: Sequence[Addresses],
        data: Sequence[Sequence[int]], size: int,
    ) -> None:  # fmt: skip
        """Registers are stored to LDS."""

    def forget_lds(self) -> None:
        """Some of LDS has changed."""

    def mark(self, wave: Wave, item: AssemblyInstruction, stored: _Stored, size: int) -> bytes:
        """A mark of what is stored, and where."""

    def lanes_alike(
        self, wave: Wave, item: AssemblyInstruction, stored: _Stored, size: int
    ) -> bool:
        """Whether lanes that store to one place store the same."""


class ConstantBytes:
    """Memory that the kernel only reads, of which some bytes are known: kernarg, the packet."""

    def __init__(self, start: int, data: bytes, known: bytes, what: str) -> None:
        self.start, self.data, self.known, self.what = start, data, known, what

    def word(self, address: int, instruction: int) -> int | OpaqueWord | None:
        """Four bytes; None if they are outside."""
        offset = address - self.start
        if not 0 <= offset <= len(self.data) - 4:
            return None
        if all(self.known[offset : offset + 4]):
            return int.from_bytes(self.data[offset : offset + 4], "little")
        at = offset if self.what == "kernarg" else -1
        return OpaqueWord(f"bytes {offset} to {offset + 3} of {self.what}", instruction, at)


COUNTED_MAX = {WaveQueue.VECTOR: 63}  # vmcnt has 6 bits


@dataclass(frozen=True, slots=True)
class TargetQueues:
    """The queue of each kind of operation of a target. `flat`: of flat loads, and of stores."""

    loads: WaveQueue = WaveQueue.VECTOR
    stores: WaveQueue = WaveQueue.VECTOR
    lds: WaveQueue = WaveQueue.LDS
    scalar: WaveQueue = WaveQueue.SCALAR
    flat_lds: WaveQueue = WaveQueue.FLAT_LDS
    flat: tuple[WaveQueue, WaveQueue] = (WaveQueue.FLAT_GLOBAL, WaveQueue.FLAT_GLOBAL)
    private: WaveQueue = WaveQueue.VECTOR  # stores of private memory


OLDER = TargetQueues()
OF_GFX1250 = TargetQueues(
    WaveQueue.LOADS, WaveQueue.STORES, WaveQueue.DS, WaveQueue.KM, WaveQueue.FLAT_DS,
    (WaveQueue.FLAT_LOADS, WaveQueue.FLAT_STORES), WaveQueue.SCRATCH_STORES,
)  # fmt: skip


class WaveGroup:
    """One work-group of a run: its memory, and the events of its waves in their order.

    `contents`: the run computes, in this memory. `initial`: what is loaded is known, while nothing
    in the work-group writes it; what others write would race.
    """

    def __init__(
        self,
        cta: int,
        lds_bytes: int,
        constants: Sequence[ConstantBytes],
        contents: Contents | None = None,
        queues: TargetQueues = OLDER,
    ) -> None:
        self.cta = cta
        self.queues = queues
        self.lds_bytes = lds_bytes
        self.private_bytes: int | None = None  # of a lane; None: not judged
        self.constants = tuple(constants)
        self.events: list[Event] = []
        self._footprints: dict[tuple[bytes, int, MemorySpace], Footprint] = {}
        self._meeting: dict[tuple[bytes, int], bool] = {}
        self._everything = of_ranges(MemorySpace.SHARED, cta, [(0, max(1, lds_bytes))])
        self.words: NDArray[np.uint32] = np.zeros((lds_bytes + 3) // 4 + 4, np.uint32)
        self.words_known: NDArray[np.bool_] = np.zeros(len(self.words), np.bool_)
        self.any_known = False
        self.by_data = False  # data decide whether lanes store
        self.stalls = True  # an operation is issued only when its counter has room
        self.contents = contents
        self.initial: Contents | None = None  # global memory as it was before the launch
        self.initially_read: list[tuple[Footprint, int]] = []  # of it, and by which instruction
        self.values: StoreValues | None = None  # numbers of what lanes compute
        self.reads_unwritten = False  # of registers or private memory, perhaps
        self.places: Addresses | None = None  # of the last access of global memory, by lane
        if contents is not None:
            contents.begin_group(lds_bytes)

    def read_initial(self, places: Addresses, size: int, instruction: int) -> Bytes | None:
        """The bytes at each place before the launch, as rows; None where they are not given."""
        if self.initial is None:
            return None
        try:
            rows = self.initial.read(places, size)
        except Refused:
            return None
        inside = places[places >= 0]
        if len(inside):
            footprint = self.footprint(inside, size, MemorySpace.GLOBAL)
            self.initially_read.append((footprint, instruction))
        return rows

    def overwritten(self) -> int | None:
        """An instruction that has read what the work-group writes as it was before the launch."""
        if not self.initially_read:
            return None
        written = self._written()
        for footprint, instruction in self.initially_read:
            if next(written.meeting(footprint), None) is not None:
                return instruction
        return None

    def unwritten(self) -> Contents | None:
        """The parts of memory that the work-group does not write; None where none of what it has
        read as it was before the launch is written."""
        if self.initial is None or self.overwritten() is None:
            return None
        written = self._written()
        return Contents(
            [
                (start, data)
                for start, data in self.initial.parts
                if len(data)
                and next(
                    written.meeting(
                        of_ranges(MemorySpace.GLOBAL, NO_CTA, [(start, start + len(data))])
                    ),
                    None,
                )
                is None
            ]
        )

    def _written(self) -> WrittenMemories[int]:
        return WrittenMemories(
            (use.footprint, event.instruction)
            for event in self.events
            if isinstance(event, OperationIssued)
            for use in event.uses
            if use.write and use.footprint.space is MemorySpace.GLOBAL
        )

    # ------------------------------------------------------------------------- recording

    def header(self, wave: Wave, instruction: int) -> tuple[int, int, int, int, int]:
        """The fields that every event has."""
        return len(self.events), self.cta, wave.number, wave.exec, instruction

    def issue(
        self,
        wave: Wave,
        instruction: int,
        queue: WaveQueue,
        registers: tuple[int, ...],
        uses: tuple[WaveUse, ...],
    ) -> None:
        """An operation joins a queue; `registers` are written when it is done."""
        if self.stalls:
            self._make_room(wave, instruction, queue)
        number = wave.issued[queue]
        wave.issued[queue] = number + 1
        entry = PendingOperation(instruction, queue, registers, bool(registers), number=number)
        wave.in_flight[queue].append(entry)
        wave.last = entry
        for register in registers:
            wave.pending[register] = entry
        header = self.header(wave, instruction)
        if self.by_data:
            uses = tuple(replace(use, by_data=True) for use in uses)
        self.events.append(OperationIssued(*header, queue, number, uses))

    def issue_flat(
        self,
        wave: Wave,
        instruction: int,
        registers: tuple[int, ...],
        in_lds: tuple[WaveUse, ...],
        in_global: tuple[WaveUse, ...],
    ) -> None:
        """An access at flat addresses, which two counters count."""
        by_cache = self.queues.flat[0 if registers else 1]
        entry = PendingOperation(instruction, by_cache, registers, bool(registers), counters=2)
        wave.last = entry
        for register in registers:
            wave.pending[register] = entry
        for queue, uses in ((self.queues.flat_lds, in_lds), (by_cache, in_global)):
            number = wave.issued[queue]
            wave.issued[queue] = number + 1
            wave.in_flight[queue].append(entry)
            header = self.header(wave, instruction)
            self.events.append(OperationIssued(*header, queue, number, uses))

    def _make_room(self, wave: Wave, instruction: int, queue: WaveQueue) -> None:
        """The oldest operation is done where its counter can count no more.

        For vmcnt alone: LLVM leaves out the wait for the oldest of 64 loads, and no such reliance
        on lgkmcnt is known.
        """
        entries, room = wave.in_flight[queue], COUNTED_MAX.get(queue, 0)
        if not room or len(entries) < room:
            return
        left = end_operations(wave, queue, room - 1)
        self.events.append(CounterFull(*self.header(wave, instruction), queue, left))

    # ------------------------------------------------------------------------ footprints

    def footprint(self, addresses: Addresses, size: int, space: MemorySpace) -> Footprint:
        """`size` bytes at each address; a run that computes has no use for them."""
        if self.contents is not None:
            return self._everything
        key = (addresses.tobytes(), size, space)
        found = self._footprints.get(key)
        if found is None:
            found = self._made(addresses, size, space)
            self._footprints[key] = found
        return found

    def _made(self, addresses: Addresses, size: int, space: MemorySpace) -> Footprint:
        starts = np.unique(addresses)
        breaks = np.flatnonzero(np.diff(starts) > size) + 1
        lows = starts[np.concatenate(([0], breaks))] if len(starts) else starts
        highs = starts[np.concatenate((breaks - 1, [len(starts) - 1]))] if len(starts) else starts
        ranges = [(int(low), int(high) + size) for low, high in zip(lows, highs, strict=True)]
        return of_ranges(space, self.cta if space is MemorySpace.SHARED else NO_CTA, ranges)

    def lanes_meet(self, addresses: Addresses, size: int) -> bool:
        """Whether two of the places have bytes in common."""
        key = (addresses.tobytes(), size)
        found = self._meeting.get(key)
        if found is None:
            found = bool((np.diff(np.sort(addresses)) < size).any())
            self._meeting[key] = found
        return found

    @property
    def all_lds(self) -> Footprint:
        """Every byte of LDS."""
        return self._everything

    # --------------------------------------------------------------------- known LDS words

    def load(self, addresses: Addresses, offset: int) -> tuple[NDArray[np.uint32], int]:
        """A word for each lane, and the lanes for which it is known."""
        at = addresses + offset
        inside = (at >= 0) & (at + 4 <= self.lds_bytes) & (at % 4 == 0)
        index = np.where(inside, at // 4, 0)
        known = self.words_known[index] & inside
        mask = int.from_bytes(np.packbits(known, bitorder="little").tobytes(), "little")
        return self.words[index], mask

    def store(
        self, addresses: Addresses, values: NDArray[np.uint32] | None, known: NDArray[np.bool_]
    ) -> None:
        """Words of some lanes; bytes around a part of a word are forgotten."""
        if not self.any_known and not known.any():
            return
        for shift in (0, 3):
            touched = addresses + shift
            touched = touched[(touched >= 0) & (touched < self.lds_bytes)]
            self.words_known[touched // 4] = False
        inside = (addresses >= 0) & (addresses + 4 <= self.lds_bytes)
        if values is not None and not self.by_data:
            good = inside & known & (addresses % 4 == 0)
            self.words[addresses[good] // 4] = np.broadcast_to(values, addresses.shape)[good]
            self.words_known[addresses[good] // 4] = True
            self.any_known = True

    def forget_all(self) -> None:
        """Nothing of LDS is known any more."""
        self.words_known[:] = False
        self.any_known = False
