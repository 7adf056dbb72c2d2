"""One thread's events, made from what the machine of warps records of all of them.

A table in code: which event of the machine (titan/isa/simt/events.py) is which kind here. What has
no kind of its own but is an instruction of a family that synchronises is "other".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from titan.isa.ptx.module import Instruction
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import TENSOR_LANE_BYTES, Footprint, MemorySpace
from titan.isa.simt.outcome import Waiter
from titan.validate.compare.corrections import only_corrects

TENSOR_BASE = 1024  # where an allocation of tensor memory begins: beyond all of its columns
CTA_SHIFT = 24  # shared memory of another CTA of the cluster
# Families of instructions that synchronise; each of them is an event or is reported as unreached.
NOTED = frozenset(
    ("mbarrier", "cp", "wgmma", "fence", "bar", "barrier", "setmaxnreg", "tcgen05", "multimem")
)
Range = tuple[int, int]  # first byte, and the one after the last
Lanes = Mapping[int, Sequence[int]]  # of each warp, those that are examined
Threads = dict[tuple[int, int], list["ThreadEvent"]]  # by rank and number in the CTA

SCALED = "block_scale"  # among the modifiers of products with scales in tensor memory
PAIR = "cta_group::2"  # among the modifiers of what works in two CTAs
_SCALED_PRODUCT = {"mma", "cta_group::1", PAIR, SCALED, "kind::mxf8f6f4", "kind::mxf4",
                   "kind::mxf4nvf4", "scale_vec::1X", "scale_vec::2X", "scale_vec::4X"}  # fmt: skip
_SCALE_COPY = {"cp", "cta_group::1", PAIR, "32x128b", "warpx4"}
_PLAIN_PRODUCT = {"mma", "cta_group::1", PAIR, "kind::f16", "kind::f8f6f4"}
_COMMITS = {ev.RecordedQueue.BULK: "bulk_commit", ev.RecordedQueue.WGMMA: "mma_commit"}
_WAITS = {
    ev.RecordedQueue.BULK: "bulk_wait",
    ev.RecordedQueue.WGMMA: "mma_wait",
    ev.RecordedQueue.TENSOR_LOAD: "tensor_wait",
    ev.RecordedQueue.TENSOR_STORE: "tensor_put_wait",
}
_FENCES = {
    ev.RecordedFence.PROXY_ASYNC: "fence_async",
    ev.RecordedFence.BARRIER_INIT: "fence_init",
    ev.RecordedFence.WGMMA: "mma_fence",
    ev.RecordedFence.TENSOR_BEFORE: "tensor_before",
    ev.RecordedFence.TENSOR_AFTER: "tensor_after",
}
_SILENT = (
    ev.Exit, ev.Elect, ev.Finish, ev.Prefetch, ev.Assumption, ev.GridControl, ev.PollSteered,
)  # fmt: skip


class ThreadEvent(NamedTuple):
    """What a thread did: its kind, numbers (None: not known), modifiers, and the line.

    `warp_met`: since its last event that is no arrival the thread has met the others of its warp
    (`bar.warp.sync`). `spans`: for each operand in shared memory the bytes that all lanes of the
    event touch. `arm`: the number of the arm of a branch on data that it is in, which a run may
    leave out; 0 in none.
    """

    kind: str
    values: tuple[int | None, ...]
    modifiers: tuple[str, ...]
    line: int
    warp_met: bool = False
    spans: tuple[tuple[Range, ...], ...] = ()
    arm: int = 0


Reported = tuple[str, tuple[int | None, ...], tuple[tuple[Range, ...], ...]]


class EventReader:
    """Reads the events of one run. `ranks` of the CTAs, `map_number`: of a tensor map's address."""

    def __init__(
        self,
        instructions: Sequence[Instruction],
        ranks: Mapping[int, int],
        threads: int,
        map_number: Callable[[int], int],
    ) -> None:
        self.instructions = instructions
        self.ranks = ranks
        self.threads = threads
        self.map_number = map_number
        self.seen: set[int] = set()
        self.faults: list[str] = []
        self.skipped = -1  # the instruction of a branch on data
        self.slots: set[tuple[int, int]] = set()  # where addresses of tensor memory were written
        self.first_column: dict[int, int] = {}  # by rank
        self.spans: dict[int, tuple[Range, ...]] = {}
        self.corrects: dict[tuple[int, int], bool] = {}  # arms of branches on data
        self.arms = 0  # of branches on data, so far
        self.met: set[tuple[int, int]] = set()
        self.tested: dict[tuple[int, int], ev.Poll] = {}

    def read(
        self, events: Iterable[ev.Event], lanes: Lanes, into: Threads, ended: set[tuple[int, int]]
    ) -> None:
        """Take the events apart; `lanes` are those of each warp that are examined."""
        for event in events:
            reported = self._reported(event)
            examined = sum(1 << lane for lane in lanes.get(event.warp, ()))
            if isinstance(event, ev.ArriveEvent) and event.lanes & ~examined:
                self._fault("lanes arrive that are not examined", event)
            for lane in lanes.get(event.warp, ()) if event.cta in self.ranks else ():
                if not event.lanes >> lane & 1:
                    continue
                thread = self.ranks[event.cta], 32 * event.warp + lane
                if isinstance(event, ev.Exit):
                    ended.add(thread)
                self._passed_by(event, thread, into)
                if isinstance(event, ev.RendezvousEvent) and event.meeting is ev.Meeting.WARP:
                    self.met.add(thread)
                if reported is not None:
                    self._add(event.instruction, reported, thread, into)
                if isinstance(event, ev.Skipped):
                    self._in_arm(event, into[thread])

    def waiting(self, waiters: Iterable[Waiter], lanes: Lanes, into: Threads) -> None:
        """What the threads of a run that hangs are waiting for at an mbarrier."""
        for waiter in waiters:
            if waiter.barrier is None:
                continue
            address = self._address(waiter.barrier, waiter.cta)
            reported: Reported = ("wait", (address, waiter.phase & 1), ())
            for lane in lanes.get(waiter.warp, ()):
                if waiter.lanes >> lane & 1:
                    thread = self.ranks[waiter.cta], 32 * waiter.warp + lane
                    self._add(waiter.instruction, reported, thread, into)

    def _add(self, number: int, reported: Reported, thread: tuple[int, int], into: Threads) -> None:
        here = self.instructions[number]
        self.seen.add(here.line)
        kind, values, spans = reported
        met = thread in self.met
        if kind != "arrive":
            self.met.discard(thread)
        into[thread].append(ThreadEvent(kind, values, here.modifiers, here.line, met, spans))

    def _in_arm(self, skipped: ev.Skipped, made: list[ThreadEvent]) -> None:
        """Mark the last events of a thread as those of the arm that a run may leave out."""
        arm = self.instructions[skipped.instruction + 1 : skipped.until]
        lines = {here.line for here in arm}
        self.arms += 1
        for place in range(len(made) - 1, -1, -1):
            if made[place].line not in lines or made[place].arm:
                break
            made[place] = made[place]._replace(arm=self.arms)

    def _passed_by(self, event: ev.Event, thread: tuple[int, int], into: Threads) -> None:
        """A thread that continues after a failed test does not wait."""
        if isinstance(event, ev.Finish | ev.Assumption | ev.PollSteered):
            return
        poll = self.tested.pop(thread, None)
        if poll is not None:
            again = isinstance(event, ev.WaitEvent | ev.Poll) and (
                event.instruction, event.barrier, event.parity
            ) == (poll.instruction, poll.barrier, poll.parity)  # fmt: skip
            if not again:
                line = self.instructions[poll.instruction].line
                into[thread].append(ThreadEvent("test without waiting", (), (), line))
        if isinstance(event, ev.Poll):
            self.tested[thread] = event

    # ---------------------------------------------------------------------------- kinds

    def _reported(self, event: ev.Event) -> Reported | None:
        """Kind, numbers and spans of an event; None for what is not examined."""
        reader = _READERS.get(type(event))
        if reader is not None:
            return reader(self, event)
        return None if isinstance(event, _SILENT) else ("other", (), ())

    def _modifiers(self, event: ev.Event) -> tuple[str, ...]:
        return self.instructions[event.instruction].modifiers

    def _address(self, barrier: ev.BarrierAddress, cta: int) -> int:
        return self._place(barrier.offset, barrier.cta, cta)

    def _place(self, offset: int, owner: int, cta: int) -> int:
        """An offset of the thread's own CTA, or of another one with its rank."""
        return offset if owner == cta else offset | self.ranks[owner] + 1 << CTA_SHIFT

    def _bytes(self, footprint: Footprint, cta: int) -> tuple[Range, ...]:
        found = self.spans.get(id(footprint))
        if found is None:
            found = self.spans[id(footprint)] = footprint.ranges()
        low = self._place(0, footprint.cta, cta)
        return found if not low else tuple((low + a, low + b) for a, b in found)

    def _access(self, event: ev.AccessEvent) -> Reported | None:
        place = event.footprint
        if place.space is not MemorySpace.SHARED:
            return None
        first = place.bounds[0]
        if self.instructions[event.instruction].opcode == "tcgen05":
            self.slots.add((place.cta, first))  # the address of what was allocated
            return None
        reads = event.mode is ev.Mode.READ
        if reads and (place.cta, first) in self.slots:
            return None
        address = self._place(first, place.cta, event.cta)
        return "read" if reads else "write", (address,), (self._bytes(place, event.cta),)

    def _init(self, event: ev.BarrierInit) -> Reported:
        return "init", (self._address(event.barrier, event.cta), event.count), ()

    def _arrive(self, event: ev.ArriveEvent) -> Reported:
        address = self._address(event.barrier, event.cta)
        if event.drop or event.no_complete:
            return "other", (), ()
        if "expect_tx" in self._modifiers(event):
            return "arrive_expect", (address, event.expect_bytes), ()
        return "arrive", (address, event.count), ()

    def _expect(self, event: ev.ExpectBytes) -> Reported:
        address = self._address(event.barrier, event.cta)
        return ("expect" if event.bytes > 0 else "other"), (address, event.bytes), ()

    def _wait(self, event: ev.WaitEvent) -> Reported:
        if event.parity is None:
            return "other", (), ()
        return "wait", (self._address(event.barrier, event.cta), event.parity), ()

    def _commit(self, event: ev.CommitEvent) -> Reported:
        return _COMMITS.get(event.queue, "other"), (), ()

    def _queue_wait(self, event: ev.QueueWaitEvent) -> Reported:
        kind = _WAITS.get(event.queue, "other")
        if kind.startswith("tensor"):
            return kind, (), ()
        return kind + ("_read" if event.reads_only else ""), (event.pending,), ()

    def _fence(self, event: ev.FenceEvent) -> Reported | None:
        if self.instructions[event.instruction].opcode == "membar":
            return None
        return _FENCES.get(event.kind, "other"), (), ()

    def _meeting(self, event: ev.RendezvousEvent) -> Reported | None:
        if event.meeting is ev.Meeting.CLUSTER:
            passes = event.side is ev.Side.PASS
            return ("cluster_wait" if passes else "cluster_arrive"), (), ()
        if event.meeting is not ev.Meeting.NAMED or event.side is ev.Side.PASS:
            return None
        kind = "sync" if event.side is ev.Side.SYNC else "sync_arrive"
        if "red" in self._modifiers(event):
            kind = "other"
        return kind, (event.number, event.threads or self.threads), ()

    def _registers(self, event: ev.RegisterCount) -> Reported:
        return ("registers_up" if event.increase else "registers_down"), (event.registers,), ()

    def _asynchronous(self, event: ev.AsynchronousEvent) -> Reported:
        kinds = ev.RecordedOperation
        match event.kind:
            case kinds.TENSOR_COPY if event.queue is ev.RecordedQueue.BULK:
                return self._store(event, "store")
            case kinds.TENSOR_REDUCE if "add" in self._modifiers(event):
                return self._store(event, "add")
            case kinds.TENSOR_COPY if event.completes:
                return self._load(event)
            case kinds.TRY_CANCEL:
                return self._ask(event)
            case kinds.WGMMA:
                return self._product(event)
            case kinds.TENSOR_MULTIPLY:
                return self._tensor_product(event)
            case kinds.TENSOR_MEMORY_COPY if set(self._modifiers(event)) <= _SCALE_COPY:
                return self._scale_copy(event)
            case kinds.TENSOR_LOAD if "pack::16b" not in self._modifiers(event):
                return "tensor_load", (self._column(event.effects[0], event.cta),), ()
            case kinds.TENSOR_STORE if "unpack::16b" not in self._modifiers(event):
                return "tensor_put", (self._column(event.effects[0], event.cta),), ()
        return "other", (), ()

    def _load(self, event: ev.AsynchronousEvent) -> Reported:
        """Its place, map, barrier and mask of CTAs; of a multicast the place in each of them."""
        writes = [e.footprint for e in event.effects if e.footprint.space is MemorySpace.SHARED]
        mask, number = 0, self.map_number(event.tensor_map)
        place, barrier = writes[0].bounds[0], event.completes[0].barrier.offset
        if "multicast::cluster" in self._modifiers(event):
            mask = sum(1 << self.ranks[write.cta] for write in writes)
            if {write.bounds[0] for write in writes} != {place} or {
                (item.barrier.cta, item.barrier.offset) for item in event.completes
            } != {(write.cta, barrier) for write in writes}:
                return "other", (), ()
        else:
            place = self._place(place, writes[0].cta, event.cta)
            barrier = self._address(event.completes[0].barrier, event.cta)
        return "load", (place, number, barrier, mask), ()

    def _ask(self, event: ev.AsynchronousEvent) -> Reported:
        """Where the answer goes, and its barrier."""
        if len(event.effects) != 1 or len(event.completes) != 1:
            return "other", (), ()
        place = event.effects[0].footprint
        address = self._place(place.bounds[0], place.cta, event.cta)
        barrier = self._address(event.completes[0].barrier, event.cta)
        return "ask", (address, barrier), ()

    def _store(self, event: ev.AsynchronousEvent, kind: str) -> Reported:
        """Its place and map."""
        (read,) = (e.footprint for e in event.effects if e.footprint.space is MemorySpace.SHARED)
        number = self.map_number(event.tensor_map)
        return kind, (self._place(read.bounds[0], read.cta, event.cta), number), ()

    def _product(self, event: ev.AsynchronousEvent) -> Reported:
        """Whether its left operand is in registers, and whether it adds."""
        spans = tuple(self._bytes(effect.footprint, event.cta) for effect in event.effects)
        in_registers = int(bool(event.sources))
        complete = len(spans) == 2 - in_registers
        return "mma" if complete else "other", (in_registers, int(event.accumulates)), spans

    def _tensor_product(self, event: ev.AsynchronousEvent) -> Reported:
        """D, A, B, instruction descriptor, whether it adds, whether A is in tensor memory.

        Of a pair the same column of D in both CTAs, and the spans of each.
        """
        words = set(self._modifiers(event))
        if words <= _SCALED_PRODUCT and SCALED in words:
            return self._scaled_product(event)
        if not words <= _PLAIN_PRODUCT or len(event.operands) != 5:
            return "other", (), ()
        tensor = [e for e in event.effects if e.footprint.space is MemorySpace.TENSOR]
        reads = [effect for effect in tensor if effect.mode is ev.Mode.READ]
        writes = [effect for effect in tensor if effect.mode is not ev.Mode.READ]
        d, *others = [self._column(effect, effect.footprint.cta) for effect in writes]
        if event.cta_group > 1 and others != [d]:
            return "other", (), ()
        left = [self._column(effect, event.cta) for effect in reads]
        spans = tuple(
            self._bytes(effect.footprint, event.cta)
            for effect in event.effects
            if effect.footprint.space is MemorySpace.SHARED
        )
        a = left[0] if left else event.operands[1]
        numbers = (d, a, *event.operands[2:4], int(bool(event.operands[4])), int(bool(left)))
        return "tensor_mma", numbers, spans

    def _scaled_product(self, event: ev.AsynchronousEvent) -> Reported:
        """As a plain one, and the first columns of the scales of A and of B, alike in all CTAs."""
        tensor = [e for e in event.effects if e.footprint.space is MemorySpace.TENSOR]
        scales = [effect for effect in tensor if effect.mode is ev.Mode.READ]
        writes = [effect for effect in tensor if effect.mode is not ev.Mode.READ]
        shared = [e for e in event.effects if e.footprint.space is MemorySpace.SHARED]
        ctas = event.cta_group
        whole = (len(writes), len(scales), len(shared)) == (ctas, 2 * ctas, 2 * ctas)
        if len(event.operands) != 7 or not whole:
            return "other", (), ()
        groups = writes, scales[:ctas], scales[ctas:]  # of each the CTAs one after the other
        columns = [{self._column(one, one.footprint.cta) for one in group} for group in groups]
        if any(len(found) != 1 for found in columns):
            return "other", (), ()
        d, *of_scales = (min(found) for found in columns)
        numbers = (d, *event.operands[1:4], int(bool(event.operands[4])), 0, *of_scales)
        return "tensor_mma", numbers, tuple(self._bytes(e.footprint, event.cta) for e in shared)

    def _scale_copy(self, event: ev.AsynchronousEvent) -> Reported:
        """The first of four columns in all lanes, the same in each CTA, and the bytes that it reads
        in each."""
        reads = [e for e in event.effects if e.footprint.space is MemorySpace.SHARED]
        writes = [e for e in event.effects if e.footprint.space is MemorySpace.TENSOR]
        columns = {self._column(write, write.footprint.cta) for write in writes}
        if (len(reads), len(writes), len(columns)) != (event.cta_group, event.cta_group, 1):
            return "other", (), ()
        spans = tuple(self._bytes(read.footprint, event.cta) for read in reads)
        return "scale_copy", (columns.pop(),), spans

    def _column(self, effect: ev.RecordedEffect, cta: int) -> int:
        """Lane and column of a rectangle, as an address; the allocation begins at TENSOR_BASE."""
        lane, rest = divmod(effect.footprint.boxes[0].start, TENSOR_LANE_BYTES)
        first = self.first_column.get(self.ranks[cta], TENSOR_BASE)
        return (lane << 16) + rest // 4 - first + TENSOR_BASE

    def _tensor_commit(self, event: ev.TensorCommitEvent) -> Reported:
        """Its barrier; of a multicast the place in each CTA, and the mask of these."""
        address = self._address(event.barriers[0], event.cta)
        if "multicast::cluster" not in self._modifiers(event):
            return "tensor_commit", (address,), ()
        offset = event.barriers[0].offset
        if any(barrier.offset != offset for barrier in event.barriers):
            return "other", (), ()
        mask = sum(1 << self.ranks[barrier.cta] for barrier in event.barriers)
        return "tensor_commit", (offset, mask), ()

    def _allocate(self, event: ev.TensorAllocate) -> Reported:
        self.first_column.setdefault(self.ranks[event.cta], event.column)
        return "tensor_alloc", (TENSOR_BASE, event.columns), ()

    def _free(self, event: ev.TensorDeallocate) -> Reported:
        first = self.first_column.get(self.ranks[event.cta], TENSOR_BASE)
        return "tensor_free", (event.column - first + TENSOR_BASE, event.columns), ()

    def _relinquish(self, event: ev.TensorRelinquish) -> Reported:
        return "tensor_relinquish", (), ()

    def _skip(self, event: ev.Skipped) -> None:
        arm = event.instruction + 1, event.until
        if arm not in self.corrects:
            self.corrects[arm] = only_corrects(self.instructions, *arm)
        if not self.corrects[arm]:
            self.skipped = event.instruction

    def _poll(self, event: ev.Poll) -> None:
        return None

    def _fault(self, text: str, event: ev.Event) -> None:
        here = self.instructions[event.instruction]
        reported = f"line {here.line}: {text}"
        if reported not in self.faults:
            self.faults.append(reported)

    def _misuse(self, event: ev.BarrierMisuse) -> None:
        words = event.misuse.name.lower().replace("_", " ")
        self._fault(f"an mbarrier is misused: {words}", event)

    def _memory_fault(self, event: ev.MemoryFault) -> None:
        words = event.fault.name.lower().replace("_", " ")
        self._fault(f"a memory access is wrong: {words}", event)

    def _breach(self, event: ev.RegisterBreach) -> None:
        self._fault(f"{event.register} is touched while an operation owns it", event)


_READERS: dict[type, Callable[..., Reported | None]] = {
    ev.AccessEvent: EventReader._access,
    ev.AsynchronousEvent: EventReader._asynchronous,
    ev.BarrierInit: EventReader._init,
    ev.ArriveEvent: EventReader._arrive,
    ev.ExpectBytes: EventReader._expect,
    ev.WaitEvent: EventReader._wait,
    ev.Poll: EventReader._poll,
    ev.CommitEvent: EventReader._commit,
    ev.QueueWaitEvent: EventReader._queue_wait,
    ev.FenceEvent: EventReader._fence,
    ev.RendezvousEvent: EventReader._meeting,
    ev.RegisterCount: EventReader._registers,
    ev.TensorCommitEvent: EventReader._tensor_commit,
    ev.TensorAllocate: EventReader._allocate,
    ev.TensorDeallocate: EventReader._free,
    ev.TensorRelinquish: EventReader._relinquish,
    ev.Skipped: EventReader._skip,
    ev.BarrierMisuse: EventReader._misuse,
    ev.MemoryFault: EventReader._memory_fault,
    ev.RegisterBreach: EventReader._breach,
}
