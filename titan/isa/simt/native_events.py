"""Reads what the native machine recorded into the dataclasses of `events.py`.

A record is (kind, number of words, cta, warp, lanes, instruction, fields...). The kinds are
numbered as in `native/machine.h`; each has a reader of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from titan.isa.simt import events as ev
from titan.isa.simt.decode_memory import FENCE_SPACES
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.outcome import Policy

Words = Sequence[int]
Head = tuple[int, int, int, int, int]
_WORD = (1 << 64) - 1
SAME_STEP = 1 << 16
USES = ("branch", "address", "guard", "store")
POLICIES = (
    Policy.ELECTED_LANE, Policy.WHOLE_WARP_BULK, Policy.PARITY_REDUCED, Policy.OPAQUE_GUARD,
    Policy.OPAQUE_ADDRESS, Policy.NO_CANCEL, Policy.OPAQUE_INDEX, Policy.PAIR_LANES,
    Policy.QUARTER_LANES, Policy.ZEROED_MAP,
)  # fmt: skip
MODES = tuple(ev.Mode)
PROXIES = tuple(ev.AccessProxy)
SEMANTICS = tuple(ev.AccessSemantics)
SCOPES = tuple(ev.AccessScope)
QUEUES = tuple(ev.RecordedQueue)
OPERATIONS = tuple(ev.RecordedOperation)
MISUSES = tuple(ev.Misuse)
MEETINGS = tuple(ev.Meeting)
SIDES = tuple(ev.Side)
FENCES = tuple(ev.RecordedFence)
FAULTS = tuple(ev.MemoryFaultKind)


class NativeReader:
    """Makes events from words; `footprints` and register `names` by their numbers.

    `same_step`: events, by number, of the instruction that made the one before, at once.
    """

    def __init__(self, footprints: Sequence[Footprint], names: Sequence[str]) -> None:
        self.footprints = footprints
        self.names = names
        self.same_step: set[int] = set()
        self.readers: tuple[Callable[[Head, Words], ev.Event], ...] = (
            self.access, self.asynchronous, self.finish, self.prefetch, self.barrier_init,
            self.barrier_invalidate, self.arrive, self.expect_bytes, self.copy_arrive, self.wait,
            self.poll_steered, self.barrier_misuse, self.commit, self.queue_wait,
            self.tensor_commit, self.rendezvous, self.fence, self.tensor_allocate,
            self.tensor_deallocate, self.tensor_relinquish, self.register_count,
            self.grid_control, self.elect, self.register_breach, self.memory_fault, self.exit,
            self.assumption, self.skipped, self.poll, self.lane_clash, self.partial_collective,
        )  # fmt: skip

    def read(self, words: memoryview[int], before: Sequence[ev.Event] = ()) -> list[ev.Event]:
        """All events of a recording, those before these words included."""
        found = list(before)
        at, end = 0, len(words)
        while at < end:
            size = words[at + 1]
            marked, _, cta, warp, lanes, instruction, *fields = words[at : at + size].tolist()
            head = (len(found), cta, warp, lanes, instruction)
            kind = marked & ~SAME_STEP
            if kind != marked:
                self.same_step.add(len(found))
            found.append(self.readers[kind](head, fields))
            at += size
        return found

    def access(self, head: Head, w: Words) -> ev.Event:
        """Words: footprint, mode, semantics, scope, three truths, length and words of the value."""
        return ev.AccessEvent(
            *head, self.footprints[w[0]], MODES[w[1]], SEMANTICS[w[2]], SCOPES[w[3]], w[4] != 0,
            w[5] != 0, w[6] != 0, _packed(w[8:], w[7]) if w[7] else None,
        )  # fmt: skip

    def asynchronous(self, head: Head, w: Words) -> ev.Event:
        """Words: eight scalars, then counted effects, completions, registers, sources, operands."""
        number, kind, queue, map_, group, clipped, accumulates, count = w[:8]
        at = 8
        effects = tuple(
            ev.RecordedEffect(self.footprints[w[n]], MODES[w[n + 1]], PROXIES[w[n + 2]])
            for n in range(at, at + 3 * count, 3)
        )
        at += 3 * count + 1
        count = w[at - 1]
        completes = tuple(
            ev.RecordedCompletion(ev.BarrierAddress(w[n], w[n + 1]), w[n + 2])
            for n in range(at, at + 3 * count, 3)
        )
        at += 3 * count + 1
        count = w[at - 1]
        registers = tuple(w[at : at + count])
        at += count + 1
        sources = tuple(w[at : at + w[at - 1]])
        at += len(sources) + 1
        operands = tuple(value & _WORD for value in w[at : at + w[at - 1]])
        return ev.AsynchronousEvent(
            *head, number, OPERATIONS[kind], effects, completes,
            None if queue < 0 else QUEUES[queue], registers, sources, map_, group, clipped != 0,
            accumulates != 0, operands,
        )  # fmt: skip

    def finish(self, head: Head, w: Words) -> ev.Event:
        """Words: operation, then the counted phases."""
        return ev.Finish(*head, w[0], tuple(w[2 : 2 + w[1]]))

    def prefetch(self, head: Head, w: Words) -> ev.Event:
        """Words: the footprint's number, negative for none."""
        return ev.Prefetch(*head, None if w[0] < 0 else self.footprints[w[0]])

    def barrier_init(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier (CTA, offset), count, whether an object was live there."""
        return ev.BarrierInit(*head, ev.BarrierAddress(w[0], w[1]), w[2], w[3] != 0)

    def barrier_invalidate(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier (CTA, offset)."""
        return ev.BarrierInvalidate(*head, ev.BarrierAddress(w[0], w[1]))

    def arrive(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier (CTA, offset), then the fields of `ArriveEvent` in their order."""
        return ev.ArriveEvent(
            *head, ev.BarrierAddress(w[0], w[1]), w[2], w[3], SEMANTICS[w[4]], SCOPES[w[5]], w[6],
            w[7] != 0, w[8] != 0, w[9] != 0, w[10] != 0,
        )  # fmt: skip

    def expect_bytes(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier (CTA, offset), signed bytes, scope, phase, completed."""
        return ev.ExpectBytes(
            *head, ev.BarrierAddress(w[0], w[1]), w[2], SCOPES[w[3]], w[4], w[5] != 0
        )

    def copy_arrive(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier (CTA, offset), no_increment, counted operations, its own operation."""
        operations = tuple(w[4 : 4 + w[3]])
        return ev.CopyArrive(*head, ev.BarrierAddress(w[0], w[1]), w[2] != 0, operations, w[-1])

    def wait(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier, has a parity, parity, phase, current, semantics, scope, polls."""
        return ev.WaitEvent(
            *head,
            ev.BarrierAddress(w[0], w[1]),
            w[3] if w[2] else None,
            w[4],
            w[5],
            SEMANTICS[w[6]],
            SCOPES[w[7]],
            w[8],
        )

    def poll(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier (CTA, offset), has a parity, parity, phase."""
        return ev.Poll(*head, ev.BarrierAddress(w[0], w[1]), w[3] if w[2] else None, w[4])

    def partial_collective(self, head: Head, w: Words) -> ev.Event:
        """Words: the lanes expected."""
        return ev.PartialCollective(*head, w[0])

    def lane_clash(self, head: Head, w: Words) -> ev.Event:
        """Words: footprint, mode, instruction of the other access, as by rounding."""
        return ev.LaneClash(*head, self.footprints[w[0]], MODES[w[1]], w[2], bool(w[3]))

    def poll_steered(self, head: Head, w: Words) -> ev.Event:
        """Words: the number of the use in USES."""
        return ev.PollSteered(*head, USES[w[0]])

    def barrier_misuse(self, head: Head, w: Words) -> ev.Event:
        """Words: barrier (CTA, offset), misuse."""
        return ev.BarrierMisuse(*head, ev.BarrierAddress(w[0], w[1]), MISUSES[w[2]])

    def commit(self, head: Head, w: Words) -> ev.Event:
        """Words: queue, then the counted operations of the group."""
        return ev.CommitEvent(*head, QUEUES[w[0]], tuple(w[2 : 2 + w[1]]))

    def queue_wait(self, head: Head, w: Words) -> ev.Event:
        """Words: queue, pending groups, reads_only, then the counted operations."""
        return ev.QueueWaitEvent(*head, QUEUES[w[0]], w[1], w[2] != 0, tuple(w[4 : 4 + w[3]]))

    def tensor_commit(self, head: Head, w: Words) -> ev.Event:
        """Words: counted barriers of two words, cta_group, counted operations, own operation."""
        at = 1 + 2 * w[0]
        barriers = tuple(ev.BarrierAddress(w[n], w[n + 1]) for n in range(1, at, 2))
        operations = tuple(w[at + 2 : at + 2 + w[at + 1]])
        return ev.TensorCommitEvent(*head, barriers, w[at], operations, w[-1])

    def rendezvous(self, head: Head, w: Words) -> ev.Event:
        """Words: the fields of `RendezvousEvent` in their order."""
        return ev.RendezvousEvent(
            *head, MEETINGS[w[0]], SIDES[w[1]], w[2], w[3], w[4], SEMANTICS[w[5]], w[6] != 0
        )

    def fence(self, head: Head, w: Words) -> ev.Event:
        """Words: kind, semantics, scope, space, footprint (negative for none)."""
        footprint = None if w[4] < 0 else self.footprints[w[4]]
        return ev.FenceEvent(
            *head, FENCES[w[0]], SEMANTICS[w[1]], SCOPES[w[2]], FENCE_SPACES[w[3]], footprint
        )

    def tensor_allocate(self, head: Head, w: Words) -> ev.Event:
        """Words: column, columns, cta_group."""
        return ev.TensorAllocate(*head, w[0], w[1], w[2])

    def tensor_deallocate(self, head: Head, w: Words) -> ev.Event:
        """Words: column, columns, cta_group, known."""
        return ev.TensorDeallocate(*head, w[0], w[1], w[2], w[3] != 0)

    def tensor_relinquish(self, head: Head, w: Words) -> ev.Event:
        """Words: cta_group."""
        return ev.TensorRelinquish(*head, w[0])

    def register_count(self, head: Head, w: Words) -> ev.Event:
        """Words: registers of each thread, increase."""
        return ev.RegisterCount(*head, w[0], w[1] != 0)

    def grid_control(self, head: Head, w: Words) -> ev.Event:
        """Words: whether it waits."""
        return ev.GridControl(*head, w[0] != 0)

    def elect(self, head: Head, w: Words) -> ev.Event:
        """Words: member mask, leader lane."""
        return ev.Elect(*head, w[0], w[1])

    def register_breach(self, head: Head, w: Words) -> ev.Event:
        """Words: register (an index of `names`), operation, write."""
        return ev.RegisterBreach(*head, self.names[w[0]], w[1], w[2] != 0)

    def memory_fault(self, head: Head, w: Words) -> ev.Event:
        """Words: fault, footprint, then `alignment` in bytes."""
        return ev.MemoryFault(*head, FAULTS[w[0]], self.footprints[w[1]], w[2])

    def exit(self, head: Head, w: Words) -> ev.Event:
        """Words: the counted operations in flight."""
        return ev.Exit(*head, tuple(w[1 : 1 + w[0]]))

    def assumption(self, head: Head, w: Words) -> ev.Event:
        """Words: the number of the policy in POLICIES."""
        return ev.Assumption(*head, str(POLICIES[w[0]]))

    def skipped(self, head: Head, w: Words) -> ev.Event:
        """Words: until, registers; the native machine's words hold no writes."""
        return ev.Skipped(*head, w[0], w[1], ())


@dataclass(slots=True)
class RecordingBefore:
    """A recording, as words and as events. One that begins with the same words begins with the same
    events, which are then not made again.
    """

    words: bytes = b""
    footprints: list[Footprint] = field(default_factory=list)
    events: list[ev.Event] = field(default_factory=list)
    same_step: set[int] = field(default_factory=set)

    def followed_by(
        self, words: bytes, footprints: list[Footprint], reader: NativeReader
    ) -> list[ev.Event]:
        """The events of these words, which become the recording before."""
        alike = words.startswith(self.words)
        if not alike or footprints[: len(self.footprints)] != self.footprints:
            self.words, self.events, self.same_step = b"", [], set()
        reader.same_step |= self.same_step
        rest = memoryview(words)[len(self.words) :].cast("q")
        self.events = reader.read(rest, self.events)
        self.words, self.footprints = words, footprints
        self.same_step = set(reader.same_step)
        return self.events


def _packed(words: Words, count: int) -> bytes:
    """The bytes that were packed in words."""
    mask = (1 << 64) - 1
    return b"".join((word & mask).to_bytes(8, "little") for word in words)[:count]
