"""States of a block at its barriers, in which a loop whose rounds data decide comes back to itself.

Where all warps of a block wait at one barrier that all its threads pass, nothing before it is
concurrent with anything behind it, so that what may follow depends on the state there alone: the
registers that may be read, the memories, what is known of the truth of values. Two states that
differ in the names of unknown values only are gone on from alike, as long as nothing else is known
of these names. So a state is *sealed*: each unknown value that it holds gets a new number, which is
made of nothing, and equal ones get equal numbers. A sealed state says less than the one before, and
what is made behind it of its values is compared with what is made there alone.

No state is given where more than registers and memory goes on behind the barrier: operations in
flight, mbarriers, clusters of several blocks, lanes that have ended, memory that is not followed.
Nor in code with operations that need fences of their own (asynchronous proxy, wgmma, tensor
memory): registers and memory do not show whether a thread has fenced what it has written.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from titan.isa.simt import events as ev
from titan.isa.simt.control_flow import FunctionGraphs
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.memory import BARRIER, KNOWN, Bytes
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.state import Cta, Fragment, Warp
from titan.isa.simt.tracing.traced_memory import (
    PLACE_BITS,
    WIDEST,
    Traced,
    TracedBytes,
    TracedSparse,
    ValueNumbers,
)
from titan.isa.simt.values import Opaque, Scalar, Value, lane, lanes_of

_WRITTEN = re.compile(rb"[^\x00]+", re.DOTALL)
_SAME = re.compile(rb"\x01+|\x02+|[^\x01\x02]+", re.DOTALL)
# What leaves nothing behind a barrier of the block: accesses of threads, and their order.
_LOCAL = (
    ev.AccessEvent, ev.RendezvousEvent, ev.FenceEvent, ev.Prefetch, ev.Skipped, ev.Assumption,
    ev.LaneClash, ev.PartialCollective, ev.Elect, ev.MemoryFault,
)  # fmt: skip
_OF_BLOCK = (ev.Meeting.NAMED, ev.Meeting.WARP)
# All that a barrier of the block does not order without a fence of another kind before it.
_FENCED = frozenset(op for op in Op if Op.COPY_WAIT_ALL < op < Op.BARRIER_NAMED) | {
    Op.TENSORMAP_REPLACE, Op.TENSORMAP_COPY, Op.TRY_CANCEL,
}  # fmt: skip
Key = tuple[object, ...]


@dataclass(slots=True)
class _Renaming:
    """New numbers for those of a state, in the order in which they come up; without `numbers` they
    stay as they are."""

    numbers: ValueNumbers | None
    fresh: dict[int, int] = field(default_factory=dict)
    order: dict[int, int] = field(default_factory=dict)

    def place(self, number: int) -> int:
        """The position of a number among those of the state."""
        if number not in self.order:
            self.order[number] = len(self.order)
            self.fresh[number] = number if self.numbers is None else self.numbers.fresh()
        return self.order[number]

    def scalar(self, value: Scalar) -> tuple[object, Scalar]:
        """What a key says of a value, and the value with its new number. A value that is followed
        by nothing equals no other, itself included."""
        if isinstance(value, Traced):
            at = self.place(value.number)
            return (at,), Traced(value.site, self.fresh[value.number], value.node)
        return (value, value) if isinstance(value, int) else ("", value)


class SealedStates:
    """The states at the barriers of one run.

    `moving`: the instructions that gave registers other known numbers from one time that warps
    came to a barrier to the next, data having decided something in between.
    """

    def __init__(self, machine: SimtExecution, numbers: ValueNumbers) -> None:
        self._machine = machine
        self._numbers = numbers
        self._graphs = FunctionGraphs(machine.code)
        self._live: dict[int, list[int]] = {}
        self._calls = any(step.op is Op.CALL for step in machine.code.steps)
        self._events = 0
        self._stands = not any(_needs_fences(step) for step in machine.code.steps)
        self._known: dict[tuple[int, ...], dict[tuple[int, int], Value]] = {}
        self.writers: dict[tuple[int, int], int] = {}  # by warp and register, the last one
        self.moving: set[int] = set()

    def barrier_of(self, cta: Cta) -> tuple[int, ...]:
        """The instructions at which all warps wait for one barrier of the block that is complete,
        in a loop; none where they do not, or where more than registers and memory goes on."""
        launch = self._machine.launch
        given = launch.draws or launch.tickets or launch.answers is not None
        alone = launch.cluster_size == 1 and len(self._machine.chosen()) == 1
        self._stands = self._stands and alone and not given and self._local()
        if not self._stands or self._machine.flight or cta.barriers or cta.columns:
            return ()
        if any(barrier.arrived for barrier in cta.named.values()):
            return ()
        fragments = [self._waiting(warp) for warp in cta.warps]
        at = tuple(fragment.pc for fragment in fragments if fragment is not None)
        if len(at) != len(cta.warps) or not self._meet(cta) or not any(map(self._in_loop, at)):
            return ()
        return at

    def _in_loop(self, at: int) -> bool:
        """Whether an instruction may be executed again."""
        graph = self._graphs.around(at)
        block = graph.block_at[graph.head_of(at)]
        return self._calls or block in graph.leading_to([block])

    def _local(self) -> bool:
        """Whether no event since the last time outlasts a barrier."""
        events = self._machine.events
        new, self._events = events[self._events :], len(events)
        return all(
            isinstance(event, _LOCAL)
            and (not isinstance(event, ev.RendezvousEvent) or event.meeting in _OF_BLOCK)
            for event in new
        )

    @staticmethod
    def _waiting(warp: Warp) -> Fragment | None:
        """The lanes of a whole warp that wait, and may go on."""
        if len(warp.fragments) != 1 or warp.joins or warp.live != warp.launched or warp.owned:
            return None
        fragment = warp.fragments[0]
        blocked = fragment.blocked
        whole = fragment.mask == warp.live and fragment.join is None and not fragment.spared
        return fragment if whole and blocked is not None and blocked.ready() else None

    def _meet(self, cta: Cta) -> bool:
        """Whether what warps have announced last is one meeting of all threads."""
        last: dict[int, tuple[int, int, int]] = {}
        for event in reversed(self._machine.events):
            if event.cta != cta.number or event.warp in last:
                continue
            if not isinstance(event, ev.RendezvousEvent) or event.side is not ev.Side.SYNC:
                return False
            if event.meeting is not ev.Meeting.NAMED:
                return False
            last[event.warp] = event.number, event.generation, event.threads
            if len(last) == len(cta.warps):
                break
        threads = {whole for _, _, whole in last.values()}
        meetings = {(number, generation) for number, generation, _ in last.values()}
        return len(meetings) == 1 and threads <= {0, self._machine.launch.threads}

    # ------------------------------------------------------------------------------ states

    def seal(self, cta: Cta, at: tuple[int, ...], truth: dict[int, bool]) -> Key | None:
        """The state of a block that waits at barriers, which is sealed; None where memory is not
        followed. `truth`, by number, is renamed with it."""
        renaming, known = _Renaming(self._numbers), dict[tuple[int, int], Value]()
        key = self._state(cta, at, renaming, known)
        if key is None:
            return None
        self._note_moving(at, known)
        kept = [(renaming.order[n], n, holds) for n, holds in truth.items() if n in renaming.order]
        truth.clear()
        for place, number, holds in sorted(kept):
            key.append((place, holds))
            truth[renaming.fresh[number]] = holds
        return tuple(key)

    def state(self, cta: Cta, at: tuple[int, ...]) -> Key | None:
        """The state of a block that waits at barriers, which is left as it is."""
        key = self._state(cta, at, _Renaming(None), {})
        return None if key is None else tuple(key)

    def _state(
        self,
        cta: Cta,
        at: tuple[int, ...],
        renaming: _Renaming,
        known: dict[tuple[int, int], Value],
    ) -> list[object] | None:
        """What may be read behind barriers; None where memory is not followed. `known`: registers
        whose numbers are known."""
        machine = self._machine
        memories: list[tuple[object, Bytes]] = [("shared", cta.shared)]
        memories += [
            ((warp.index, index), memory)
            for warp in cta.warps
            for index, memory in sorted(warp.local.items())
        ]
        if not isinstance(machine.memory, TracedSparse):
            return None
        memories += sorted(machine.memory.traced.items())
        if not all(isinstance(memory, TracedBytes) for _, memory in memories):
            return None
        if any(memory.has(0, memory.size, BARRIER) for _, memory in memories):
            return None
        key: list[object] = [
            at,
            tuple(sorted(machine.undefined)),
            *sorted(machine.counters.items()),
        ]
        for warp in cta.warps:
            key += self._registers(warp, renaming, known)
        for barrier in cta.named.values():
            key.append(tuple(v if isinstance(v, int) else "" for v in barrier.last))
        for name, memory in memories:
            assert isinstance(memory, TracedBytes)
            key += [name, *_sealed_bytes(memory, renaming)]
        return key

    def _registers(
        self, warp: Warp, renaming: _Renaming, known: dict[tuple[int, int], Value]
    ) -> Iterator[object]:
        """What a key says of a warp's registers that may be read behind the barrier."""
        (fragment,) = warp.fragments
        yield fragment.stack, fragment.peeked, tuple(sorted(warp.sticky.items()))
        lanes = lanes_of(warp.live)
        for register in self._live_behind(fragment):
            value = warp.registers[register]
            items = [renaming.scalar(lane(value, index)) for index in lanes]
            parts = tuple(what for what, _ in items)
            if isinstance(value, list):
                new = list(value)
                for index, (_, item) in zip(lanes, items, strict=True):
                    new[index] = item
                warp.registers[register] = new
            elif isinstance(value, Opaque):
                warp.registers[register] = items[0][1]
            yield register, warp.marks.get(register, 0), parts[0] if len(set(parts)) == 1 else parts
            if all(isinstance(lane(value, index), int) for index in lanes):
                known[warp.index, register] = value

    def _live_behind(self, fragment: Fragment) -> list[int]:
        """The registers that may be read behind an instruction; with calls all of them."""
        if self._calls:
            return list(range(self._machine.code.registers))
        if fragment.pc not in self._live:
            live = self._graphs.around(fragment.pc).live_behind(fragment.pc)
            self._live[fragment.pc] = [n for n in range(live.bit_length()) if live >> n & 1]
        return self._live[fragment.pc]

    def _note_moving(self, at: tuple[int, ...], known: dict[tuple[int, int], Value]) -> None:
        before = self._known.get(at, known)
        for place, value in known.items():
            if before.get(place, value) != value and place in self.writers:
                self.moving.add(self.writers[place])
        self._known[at] = known


def _needs_fences(step: DecodedStep) -> bool:
    """Whether an operation is ordered by fences of its own, or is one."""
    proxy = step.op is Op.FENCE and step.flags[0] != ev.RecordedFence.MEMORY
    return proxy or step.op in _FENCED


def _sealed_bytes(memory: TracedBytes, renaming: _Renaming) -> Iterator[object]:
    """What a key says of a memory, whose unknown bytes get new marks where they are not as they
    were at the start: those bytes keep their numbers in every state."""
    for low, high in _changed(memory):
        yield low, bytes(memory.state[low:high])
        for found in _SAME.finditer(memory.state, low, high):
            start, end = found.span()
            if memory.state[start] == KNOWN:
                yield bytes(memory.data[start:end])
                continue
            parts = array("q")
            for at in range(start, end):
                number, place = divmod(memory.marks[at], WIDEST)
                parts.append(renaming.place(number) << PLACE_BITS | place)
                memory.marks[at] = renaming.fresh[number] << PLACE_BITS | place
            yield parts.tobytes()


def _changed(memory: TracedBytes) -> Iterator[tuple[int, int]]:
    """The ranges of bytes that were written, or have other marks than at the start."""
    end = 0
    written = [found.span() for found in _WRITTEN.finditer(memory.state)]
    for low, high in [*written, (memory.size, memory.size)]:
        first = memory.first_mark
        if end < low and memory.marks[end:low] != array("q", range(first + end, first + low)):
            yield end, low
        if low < high:
            yield low, high
        end = high
