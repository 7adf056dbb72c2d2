"""Memory of a thread in a traced run: bytes with marks, and branches on data that use it.

A branch whose arms only compute, load and store there (`pure_regions.py`) leaves there, byte by
byte, a function of what its registers are made of. Bytes that the lane has not written have no
number that another lane's have: a load of such alone is not followed. Where data choose the place
of a load, it is taken to be one that has been written, which is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import local_memory
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.memory import OPAQUE, UNWRITTEN, Bytes
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.state import Warp
from titan.isa.simt.tracing.traced_memory import PLACE_BITS, WIDEST, TracedBytes
from titan.isa.simt.values import Opaque, lane, lanes_of

OWN_MAX = 1 << 12  # bytes of a thread's memory that are followed


class OwnBytes(TracedBytes):
    """The memory of one thread."""

    def held(self) -> tuple[int, ...]:
        """What the bytes are; 0 for those that the thread has not written."""
        held = self.content(0, self.size)
        return tuple(
            0 if state == UNWRITTEN else mark for mark, state in zip(held, self.state, strict=True)
        )

    def make_of(self, key: object) -> None:
        """The unknown bytes are what is made of a key, which says what all of them were before."""
        for first in range(0, self.size, WIDEST):
            number = self.numbers.of((key, first)) << PLACE_BITS
            for at in range(first, min(first + WIDEST, self.size)):
                if self.state[at] == OPAQUE:
                    self.marks[at] = number | at - first


@dataclass(slots=True)
class ArmsInMemory:
    """The arms of one branch. `first`: the number of events before them; `content`: one number for
    what bytes hold. `before`: by lane, what was there; `failed`: a load of bytes that
    nothing has written; `chosen`: a load whose place data choose, where there are such bytes.
    """

    machine: SimtMachine
    warp: Warp
    first: int
    content: Callable[[Footprint], int]
    before: dict[int, tuple[int, ...]] = field(default_factory=dict)
    failed: bool = False
    chosen: bool = False
    reads: tuple[int, ...] | None = None

    def enter(self, lanes: int, executed: bool) -> None:
        """Before the arms are executed; they are not if they only load what is the thread's own."""
        for index in lanes_of(lanes):
            memory = local_memory(self.machine, self.warp, index)
            self.failed |= not isinstance(memory, OwnBytes)
            if isinstance(memory, OwnBytes):
                self.before[index] = memory.held()
                if not executed:
                    self._note_choice(index, memory)

    def _note_choice(self, index: int, memory: Bytes) -> None:
        """Data choose what a lane loads."""
        self.chosen |= 0 in self.before.get(index, ())
        self.failed |= memory.state.count(UNWRITTEN) == memory.size

    def note(self, step: DecodedStep, mask: int) -> None:
        """An instruction of an arm, which some lanes execute."""
        if step.op is not Op.LOAD or step.flags[0] != MemorySpace.LOCAL:
            return
        _, offset, _, _, bits, *_ = step.flags
        count = bits // 8 * len(step.out)
        for index in lanes_of(mask):
            memory = local_memory(self.machine, self.warp, index)
            address = lane(self.warp.registers[step.args[0]], index)
            if isinstance(address, Opaque):
                self._note_choice(index, memory)
            else:
                self.failed |= memory.has(address + offset, count, UNWRITTEN)

    def made(self, index: int) -> object | None:
        """What the results of a lane are made of in memory; None where that is not followed."""
        if self.reads is None:
            self.reads = tuple(map(self._content, self.loads()))
        if self.failed or 0 in self.reads:
            return None
        return self.before[index], self.reads

    def loads(self) -> list[ev.AccessEvent]:
        """The loads of the arms from memory that others see."""
        events = self.machine.events[self.first :]
        return [event for event in events if isinstance(event, ev.AccessEvent)]

    def _content(self, event: ev.AccessEvent) -> int:
        """One number for what a load may read; 0 where that is too much."""
        size = sum(box.size_bytes for box in event.footprint.boxes)
        return self.content(event.footprint) if size <= OWN_MAX else 0

    def leave(self, keys: dict[int, object]) -> None:
        """Behind the arms: by lane, what they have left is made of."""
        for index, key in keys.items():
            memory = local_memory(self.machine, self.warp, index)
            if isinstance(memory, OwnBytes):
                memory.make_of(key)
