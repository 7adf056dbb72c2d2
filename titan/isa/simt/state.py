"""The state of a run: clusters, CTAs, warps, fragments of warps, operations in flight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from titan.isa.simt.events import (
    BarrierAddress,
    RecordedCompletion,
    RecordedOperation,
    RecordedQueue,
)
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.lane_uses import LaneUses
from titan.isa.simt.mbarriers import MBarrier
from titan.isa.simt.memory import Bytes
from titan.isa.simt.outcome import Waiter
from titan.isa.simt.values import Scalar, Value

WARP_LANE = -1  # the queue of a whole warp
# Marks of values: made from a poll's result, from an atomic's old value. Polls have a bit more for
# each barrier that the warp has polled, in the order of first polls; the last bit is that of all
# further ones.
POLL, ATOMIC = 1, 2
FIRST_BARRIER, LAST_BARRIER = 8, 63
TENSOR_COLUMNS = 512


@dataclass(eq=False, slots=True)
class Join:
    """Where the lanes of a divergent branch meet again: `expected` are those that are alive."""

    pc: int
    depth: int
    expected: int
    arrived: int
    parent: Join | None
    warp: Warp


@dataclass(eq=False, slots=True)
class Blocked:
    """Why a fragment waits. `ready` says whether it may continue, `resume` does what follows.

    `waiter` describes it if the run hangs.
    """

    ready: Callable[[], bool]
    resume: Callable[[], None]
    waiter: Callable[[], Waiter]
    collective: bool = False


@dataclass(eq=False, slots=True)
class Fragment:
    """Lanes of a warp that run together. `stack`: (return instruction, copies of results)."""

    warp: Warp
    mask: int
    pc: int
    join: Join | None = None
    stack: tuple[tuple[int, tuple[int, ...]], ...] = ()
    blocked: Blocked | None = None
    polled: tuple[int, BarrierAddress, int] | None = (
        None  # (pc, barrier, its phase) of a false result
    )
    polls: int = 0
    peeked: tuple[tuple[int, BarrierAddress, int], ...] = ()  # the last that were false on purpose
    spared: tuple[int, int] | None = None  # polls behind a branch that might have spared a wait; it
    dead: bool = False


LanePlace = tuple[int, "Cta | None", int]  # memory, CTA (shared memory only) and offset


class StoredNumber(NamedTuple):
    """A known number of `size` bytes that goes to the shared memory of a CTA."""

    cta: int
    at: int
    size: int
    value: int


@dataclass(eq=False, slots=True)
class InFlight:
    """An asynchronous operation that was issued.

    `lanes` issued it. `after`: operations that are complete when it is.
    """

    number: int
    kind: RecordedOperation
    warp: Warp
    lanes: int
    instruction: int
    writes: tuple[Footprint, ...] = ()
    completes: tuple[RecordedCompletion, ...] = ()
    queue: RecordedQueue | None = None
    due: int = 0
    done: bool = False
    seen: int = 0  # lanes that waited for it
    reads_seen: int = 0  # lanes that waited for its reads
    arrived: int = 0  # lanes that arrived for it (cp.async.mbarrier.arrive)
    breached: int = 0  # bit 0: its registers were read too early, bit 1: written
    answer: int | None = None  # writes this instead of something unknown
    stored: tuple[StoredNumber, ...] = ()  # what is known of what it writes
    registers: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    arrives: tuple[BarrierAddress, ...] = ()  # arrivals of a tcgen05.commit or cp.async arrive
    arrive_count: int = 1
    after: tuple[InFlight, ...] = ()  # must be done first
    places: list[tuple[int, LanePlace]] = field(
        default_factory=list
    )  # what lanes copy, by cp.async
    place_bytes: int = 0
    landed: int = 0  # lanes that waited for what they copy, or arrived for it


@dataclass(eq=False, slots=True)
class CopyGroups:
    """A queue of groups: operations since the last commit, and the committed groups.

    `closed` are those that have not been waited for; `commits` counts all.
    """

    open: list[InFlight] = field(default_factory=list)
    closed: list[list[InFlight]] = field(default_factory=list)
    commits: int = 0


@dataclass(eq=False, slots=True)
class Warp:
    """The state of a warp: `live` lanes, `registers` by number, `fragments` that run apart.

    `launched`: the lanes that it began with.
    """

    cta: Cta
    index: int
    launched: int
    live: int
    registers: list[Value]
    marks: dict[int, int] = field(default_factory=dict)
    sticky: dict[int, int] = field(default_factory=dict)
    polled: dict[BarrierAddress, int] = field(default_factory=dict)  # the mark of each barrier
    owned: dict[int, InFlight] = field(default_factory=dict)
    local: dict[int, Bytes] = field(default_factory=dict)
    fragments: list[Fragment] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    groups: dict[tuple[RecordedQueue, int], CopyGroups] = field(default_factory=dict)
    meetings: dict[int, int] = field(default_factory=dict)  # member mask -> generation
    issued: list[InFlight] = field(default_factory=list)
    arrivals: dict[int, int] = field(default_factory=dict)  # lane -> phase of the cluster barrier
    uses: LaneUses = field(default_factory=LaneUses)  # what its lanes access, and where they meet
    decided: int = 0  # how many of `Launch.decisions` it has gone by

    def queue(self, queue: RecordedQueue, lane: int) -> CopyGroups:
        """The groups of a lane (of the warp: lane -1)."""
        found = self.groups.get((queue, lane))
        if found is None:
            found = self.groups[(queue, lane)] = CopyGroups()
        return found


@dataclass(eq=False, slots=True)
class NamedBarrierState:
    """A hardware barrier of a CTA: threads that arrived, how many it expects (0: not used)."""

    arrived: int = 0
    expected: int = 0
    generation: int = 0
    values: list[Scalar] = field(default_factory=list)  # of a reduction, so far
    last: list[Scalar] = field(default_factory=list)  # of the meeting before


@dataclass(eq=False, slots=True)
class Cta:
    """`columns`: allocated columns of tensor memory, first to count; `in_pair`: the last allocation
    was by both CTAs of a pair; `pair_allocations`: how many of those this CTA has come to.
    """

    number: int
    rank: int
    cluster: Cluster
    shared: Bytes
    warps: list[Warp] = field(default_factory=list)
    barriers: dict[int, MBarrier] = field(default_factory=dict)
    named: dict[int, NamedBarrierState] = field(default_factory=dict)
    columns: dict[int, int] = field(default_factory=dict)
    in_pair: bool = False
    pair_allocations: int = 0

    @property
    def live_threads(self) -> int:
        """Threads of the CTA that have not exited."""
        return sum(warp.live.bit_count() for warp in self.warps)

    def allocate(self, count: int, highest: bool = False) -> int | None:
        """The first free columns, or None; `highest`: those below all that are taken."""
        at = 0
        if highest:
            at = min(self.columns, default=TENSOR_COLUMNS) - count
            if at >= 0:
                self.columns[at] = count
            return at if at >= 0 else None
        for start, size in sorted(self.columns.items()):
            if start - at >= count:
                break
            at = start + size
        if at + count > TENSOR_COLUMNS:
            return None
        self.columns[at] = count
        return at


@dataclass(eq=False, slots=True)
class Cluster:
    """CTAs by rank. The cluster barrier: threads that arrived in this phase."""

    ctas: list[Cta] = field(default_factory=list)
    arrived: int = 0
    generation: int = 0
    cancelled: int = 0  # clusters that it has obtained
