"""The state of a run: clusters, CTAs, warps, fragments of warps, operations in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from titan.isa.simt.events import (
    BarrierAddress,
    Mode,
    RecordedCompletion,
    RecordedOperation,
    RecordedQueue,
)
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.mbarriers import MBarrier
from titan.isa.simt.memory import Bytes
from titan.isa.simt.outcome import Waiter
from titan.isa.simt.values import LANES, Scalar, Value

WARP_LANE = -1  # the queue of a whole warp
POLL, ATOMIC = 1, 2  # marks of values: made from a poll's result, from an atomic's old value
TENSOR_COLUMNS = 512
LAYERS_MAX = 32  # of accesses of a warp, see lane_order.py


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
    peeked: tuple[int, BarrierAddress, int] | None = None  # the last one that was false on purpose
    dead: bool = False


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
    zeros: bool = False  # writes zeros instead of something unknown
    registers: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    arrives: tuple[BarrierAddress, ...] = ()  # arrivals of a tcgen05.commit or cp.async arrive
    arrive_count: int = 1
    after: tuple[InFlight, ...] = ()  # must be done first


@dataclass(eq=False, slots=True)
class CopyGroups:
    """A queue of groups: operations since the last commit, and the committed groups.

    `closed` are those that have not been waited for; `commits` counts all.
    """

    open: list[InFlight] = field(default_factory=list)
    closed: list[list[InFlight]] = field(default_factory=list)
    commits: int = 0


@dataclass(slots=True)
class LaneUse:
    """Which lanes have read and written a byte, and where, since the lanes of the warp met."""

    reads: int = 0
    writes: int = 0
    reader: int = 0
    writer: int = 0

    def clash(self, lanes: int, mode: Mode) -> int | None:
        """The instruction of an access by other lanes that this one is not ordered with."""
        if mode is Mode.READ:
            return self.writer if self.writes and lanes & ~self.writes else None
        written = self.writes and self.writes != lanes
        return self.writer if written else self.reader if self.reads & ~lanes else None

    def add(self, lanes: int, mode: Mode, instruction: int) -> None:
        """Note the access."""
        if mode is Mode.READ:
            self.reads, self.reader = self.reads | lanes, instruction
        else:
            self.writes, self.writer = self.writes | lanes, instruction

    def merge(self, newer: LaneUse) -> None:
        """Note the accesses of another layer."""
        if newer.reads:
            self.add(newer.reads, Mode.READ, newer.reader)
        if newer.writes:
            self.add(newer.writes, Mode.WRITE, newer.writer)

    def clash_before(self, lanes: int, mode: Mode, known: Sequence[int]) -> int | None:
        """As `clash`, where those in known[n] come after the accesses of lane n."""
        if mode is Mode.READ:
            return self.writer if _not_known(self.writes, lanes & ~self.writes, known) else None
        if self.writes != lanes and _not_known(self.writes, lanes, known):
            return self.writer
        return self.reader if _not_known(self.reads & ~lanes, lanes, known) else None


def _not_known(earlier: int, lanes: int, known: Sequence[int]) -> bool:
    return any(earlier >> lane & 1 and lanes & ~after for lane, after in enumerate(known))


@dataclass(slots=True)
class LaneLayer:
    """Accesses between two meetings of some lanes; known[n]: the lanes after those of lane n."""

    uses: dict[tuple[int, int], LaneUse]
    known: list[int] = field(default_factory=lambda: [1 << lane for lane in range(LANES)])


@dataclass(eq=False, slots=True)
class Warp:
    """The state of a warp: `live` lanes, `registers` by number, `fragments` that run apart."""

    cta: Cta
    index: int
    live: int
    registers: list[Value]
    marks: dict[int, int] = field(default_factory=dict)
    sticky: dict[int, int] = field(default_factory=dict)
    owned: dict[int, InFlight] = field(default_factory=dict)
    local: dict[int, Bytes] = field(default_factory=dict)
    fragments: list[Fragment] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    groups: dict[tuple[RecordedQueue, int], CopyGroups] = field(default_factory=dict)
    meetings: dict[int, int] = field(default_factory=dict)  # member mask -> generation
    issued: list[InFlight] = field(default_factory=list)
    arrivals: dict[int, int] = field(default_factory=dict)  # lane -> phase of the cluster barrier
    uses: dict[tuple[int, int], LaneUse] = field(default_factory=dict)  # since its lanes met
    layers: list[LaneLayer] = field(default_factory=list)  # before: some of them have met

    def lanes_meet(self) -> None:
        """What the lanes did so far comes before what they do now."""
        self.uses.clear()
        self.layers.clear()

    def some_lanes_meet(self, members: int) -> None:
        """The lanes of `members` meet."""
        if members & self.live == self.live:
            self.lanes_meet()
            return
        if self.uses:
            self.layers.append(LaneLayer(self.uses))
            self.uses = {}
        kept: list[LaneLayer] = []
        for layer in self.layers:
            layer.known = [now | members if now & members else now for now in layer.known]
        for layer in self.layers:
            same = next((one for one in kept if one.known == layer.known), None)
            if same is None and len(kept) < LAYERS_MAX:
                kept.append(layer)
                continue
            if same is None:  # one layer more than there are: a race may be missed
                same = kept[-1]
                same.known = [a | b for a, b in zip(same.known, layer.known, strict=True)]
            for place, use in layer.uses.items():
                same.uses.setdefault(place, LaneUse()).merge(use)
        self.layers = kept

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
    """`registers`: allocated tensor-memory columns as (first, count) are in `columns`."""

    number: int
    rank: int
    cluster: Cluster
    shared: Bytes
    warps: list[Warp] = field(default_factory=list)
    barriers: dict[int, MBarrier] = field(default_factory=dict)
    named: dict[int, NamedBarrierState] = field(default_factory=dict)
    columns: dict[int, int] = field(default_factory=dict)

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
