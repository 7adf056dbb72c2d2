"""What a run of the SIMT machine records: one event for everything that synchronises or touches
memory that others can see.

**Order.** Events are in the order in which the machine performed them; `sequence` is the index in
the recording. The events of one lane are in its program order. Two lanes of a warp that are not in
the same event are ordered by nothing but `RendezvousEvent` events of kind WARP (and what else
orders two threads): the machine does not claim that a warp runs in lock step.

**Who and where.** `cta` is the linear index in the grid (x fastest), `warp` the index in the CTA,
`lanes` the mask of the lanes that took part (bit 0 is lane 0). `instruction` indexes
`Module.instructions` (`titan.isa.ptx.module`), which gives line, column and the `.loc` chain.
An event of several lanes means that each of them did it; where counts matter the field says
whether it is a lane's or the sum.

**Asynchronous operations** have a number `operation`, unique in the run. `AsynchronousEvent` is
recorded when the operation starts, `Finish` when the machine let it complete. `Finish` is of this
schedule only; what holds in every schedule follows from `completes`, `queue` and the waits.

**Registers** are numbered as in the decoded program; a breach names them as the PTX text does.

Conditions of confluence (why one run may represent all interleavings) are in `outcome.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from titan.isa.simt.footprints import Footprint


class Mode(IntEnum):
    """ATOMIC reads and writes in one step (atom, red, the reducing bulk copies)."""

    READ = 0
    WRITE = 1
    ATOMIC = 2


class AccessProxy(IntEnum):
    """The path to memory (PTX memory model, "Proxies")."""

    GENERIC = 0
    ASYNC = 1
    TENSORMAP = 2
    CONSTANT = 3
    TENSOR = 4  # tensor memory has one path; ordered by the tcgen05 rules


class AccessSemantics(IntEnum):
    """`.sem` of an access, an arrival or a fence. VOLATILE is relaxed with system scope."""

    WEAK = 0
    RELAXED = 1
    ACQUIRE = 2
    RELEASE = 3
    ACQUIRE_RELEASE = 4
    SEQUENTIAL = 5
    VOLATILE = 6


class AccessScope(IntEnum):
    """`.scope`; NONE for weak accesses."""

    NONE = 0
    CTA = 1
    CLUSTER = 2
    GPU = 3
    SYSTEM = 4


class RecordedQueue(IntEnum):
    """Asynchronous operations that are waited for by count or as a whole.

    BULK and COPY (cp.async) are queues of each thread, WGMMA of each warp, all grouped by
    `CommitEvent`. TENSOR_LOAD and TENSOR_STORE (tcgen05.ld, .st) are of each warp and waited for as
    a whole. TENSOR_CORE (tcgen05.mma, .cp, .shift) is of the issuing thread and observed by
    `TensorCommitEvent`.
    """

    BULK = 0
    COPY = 1
    WGMMA = 2
    TENSOR_LOAD = 3
    TENSOR_STORE = 4
    TENSOR_CORE = 5


class RecordedOperation(IntEnum):
    """What an asynchronous operation is."""

    BULK_COPY = 0
    TENSOR_COPY = 1  # tiled, im2col, gather, scatter: see the effects
    BULK_REDUCE = 2
    TENSOR_REDUCE = 3
    COPY = 4  # cp.async
    STORE = 5  # st.async
    REDUCE = 6  # red.async
    WGMMA = 7
    TENSOR_MULTIPLY = 8  # tcgen05.mma, all kinds
    TENSOR_MEMORY_COPY = 9  # tcgen05.cp
    TENSOR_SHIFT = 10
    TENSOR_LOAD = 11
    TENSOR_STORE = 12
    TRY_CANCEL = 13  # clusterlaunchcontrol.try_cancel


@dataclass(frozen=True, slots=True, order=True)
class BarrierAddress:
    """An mbarrier object: the CTA that owns it and its offset in that CTA's shared window."""

    cta: int
    offset: int


@dataclass(frozen=True, slots=True)
class RecordedEffect:
    """One access of an asynchronous operation."""

    footprint: Footprint
    mode: Mode
    proxy: AccessProxy


@dataclass(frozen=True, slots=True)
class RecordedCompletion:
    """The operation takes `bytes` off the transaction count of the barrier when it is finished."""

    barrier: BarrierAddress
    bytes: int


@dataclass(frozen=True, slots=True)
class Event:
    """What all events have; see the module's docstring."""

    sequence: int
    cta: int
    warp: int
    lanes: int
    instruction: int


# ------------------------------------------------------------------------------- memory


@dataclass(frozen=True, slots=True)
class AccessEvent(Event):
    """A synchronous access through the generic proxy: ld, st, atom, red, ldmatrix, stmatrix ...

    `footprint` is the union over the lanes, of shared or global memory; an access of several CTAs'
    shared memory is several events. Local, constant and parameter memory is not recorded.
    `known`: a read gave concrete bytes of memory that a thread can change, so its value may steer
    control or an address. `collides`: two lanes of this event write a common byte.
    `returns`: an atomic whose old value goes to a register. `value`: the bytes that a write of all
    its lanes to one place writes, where they are known: writes of equal bytes do not race.
    """

    footprint: Footprint
    mode: Mode
    semantics: AccessSemantics
    scope: AccessScope
    known: bool = False
    collides: bool = False
    returns: bool = False
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class AsynchronousEvent(Event):
    """An asynchronous operation starts.

    `effects`: what it accesses; a multicast has one write for each CTA. `completes`: mbarriers that
    it completes (one for each CTA of a multicast). `queue`: where it is waited for by count, or
    None. `registers`: written by it (wgmma accumulators, tcgen05.ld destinations), `sources`: read
    by it (wgmma A in registers). `tensor_map`: address of the map in generic form, or -1.
    `cta_group`: 1 or 2 for tcgen05 and `.cta_group` copies, else 0. `clipped`: part of its box is
    outside of the tensor (filled, or not stored). `accumulates`: an mma that also reads what it
    writes (an effect of mode ATOMIC for tensor memory says the same). `operands`: the numbers that
    a tcgen05.mma is given, in the order of the text: D, A, B, instruction descriptor, whether it
    adds to D, then addresses of scales; offsets written at an address are not in them.
    """

    operation: int
    kind: RecordedOperation
    effects: tuple[RecordedEffect, ...]
    completes: tuple[RecordedCompletion, ...] = ()
    queue: RecordedQueue | None = None
    registers: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    tensor_map: int = -1
    cta_group: int = 0
    clipped: bool = False
    accumulates: bool = False
    operands: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish(Event):
    """The machine let operation `operation` complete; `phases` are the phases of the barriers of
    its completions that its bytes counted for. Of this schedule only.
    """

    operation: int
    phases: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Prefetch(Event):
    """A prefetch or a hint of a cache; no ordering follows. `footprint` None: not of memory that
    is recorded (a tensor map in a parameter).
    """

    footprint: Footprint | None


# ----------------------------------------------------------------------------- mbarriers


@dataclass(frozen=True, slots=True)
class BarrierInit(Event):
    """`mbarrier.init`; `live`: an object was there already (undefined behaviour)."""

    barrier: BarrierAddress
    count: int
    live: bool = False


@dataclass(frozen=True, slots=True)
class BarrierInvalidate(Event):
    """`mbarrier.inval`: the object ends, its bytes can be used for other data."""

    barrier: BarrierAddress


@dataclass(frozen=True, slots=True)
class ArriveEvent(Event):
    """An arrival of each lane. `count` and `expect_bytes` are each lane's.

    `drop`: arrive_drop. `no_complete`: `.noComplete`. `phase`: the number of the phase that the
    arrival counted for, from 0. `completed`: it completed that phase (in this schedule).
    `remote`: `.shared::cluster` form. A fault of counting is a `BarrierMisuse` next to it.
    """

    barrier: BarrierAddress
    count: int
    expect_bytes: int
    semantics: AccessSemantics
    scope: AccessScope
    phase: int
    completed: bool = False
    drop: bool = False
    no_complete: bool = False
    remote: bool = False


@dataclass(frozen=True, slots=True)
class ExpectBytes(Event):
    """`mbarrier.expect_tx` (bytes > 0) or `mbarrier.complete_tx` (bytes < 0) by each lane.

    Both are relaxed by themselves; `semantics` is what a fence before it makes of it.
    """

    barrier: BarrierAddress
    bytes: int
    scope: AccessScope
    phase: int
    completed: bool = False
    semantics: AccessSemantics = AccessSemantics.RELAXED


@dataclass(frozen=True, slots=True)
class CopyArrive(Event):
    """`cp.async.mbarrier.arrive`: each lane arrives when its earlier cp.async are complete.

    Without `no_increment` the pending count is raised by one first. `operations`: the cp.async of
    the lanes that they neither waited for nor arrived for before. `operation`: the number of the
    asynchronous arrival; a Finish says when it took place.
    """

    barrier: BarrierAddress
    no_increment: bool
    operations: tuple[int, ...]
    operation: int


@dataclass(frozen=True, slots=True)
class WaitEvent(Event):
    """A test_wait or try_wait gave true: the lanes observed the completion of phase `phase`.

    `phase` is -1 for a fresh barrier whose wait of parity 1 passes at once. `parity` is as written
    (not reduced to a bit), None for the token form, whose token was of phase `phase`.
    `current`: the barrier's phase at that moment (phase + 1 unless a token is stale). False results
    are recorded as `Poll`, and what they steer as `PollSteered`. `polls`: false results before,
    since the lanes' last event.
    """

    barrier: BarrierAddress
    parity: int | None
    phase: int
    current: int
    semantics: AccessSemantics
    scope: AccessScope
    polls: int = 0


@dataclass(frozen=True, slots=True)
class Poll(Event):
    """A test_wait or try_wait gave false for the first time at its place; retries are not recorded.

    `phase` is the number of the phase that it asks for. With `Options.first_poll_fails` the phase
    may be complete all the same.
    """

    barrier: BarrierAddress
    parity: int | None
    phase: int


@dataclass(frozen=True, slots=True)
class PollSteered(Event):
    """A result of test_wait or try_wait (or a value made from one) steered something other than
    waiting: `use` is "branch", "address", "guard" or "store". The run represents itself only.
    """

    use: str


class Misuse(IntEnum):
    """How an mbarrier was used against its rules."""

    NOT_INITIALISED = 0
    COUNT_UNDERFLOW = 1  # more arrivals than the phase has pending
    BYTES_RANGE = 2  # transaction count outside of +-(2^20 - 1)
    COUNT_RANGE = 3  # init count outside of 1 .. 2^20 - 1
    NO_COMPLETE_COMPLETED = 4
    OVERWRITTEN = 5  # an ordinary or asynchronous write into a live object
    MISALIGNED = 6
    OUTSIDE = 7
    REINITIALISED = 8
    FOREIGN_STATE = 9  # a wait for a state that no arrival at this object has given


@dataclass(frozen=True, slots=True)
class BarrierMisuse(Event):
    """A use of an mbarrier against its rules; the run continues, `misuse` says which rule."""

    barrier: BarrierAddress
    misuse: Misuse


# ------------------------------------------------------------------------ groups and queues


@dataclass(frozen=True, slots=True)
class CommitEvent(Event):
    """Closes the open group of the queue (of each lane; of the warp for WGMMA)."""

    queue: RecordedQueue
    operations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueWaitEvent(Event):
    """At most `pending` of the newest groups are left. `reads_only`: `.read`. `operations`: those
    that this wait was the first to cover. tcgen05.wait::ld and ::st have pending 0.
    """

    queue: RecordedQueue
    pending: int
    reads_only: bool = False
    operations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorCommitEvent(Event):
    """tcgen05.commit: arrives once at each of `barriers` when the thread's earlier tcgen05 work
    (mma, cp, shift) is complete. `operations`: the work since its last commit.
    """

    barriers: tuple[BarrierAddress, ...]
    cta_group: int
    operations: tuple[int, ...]
    operation: int  # its number; a Finish says when it arrived, and for which phases


# ------------------------------------------------------------------------------- rendezvous


class Meeting(IntEnum):
    """NAMED: bar, barrier with `number` 0 to 15; `number` is the lane mask for WARP."""

    NAMED = 0
    CLUSTER = 1
    WARP = 2
    WARPGROUP = 3  # the implicit meeting of wgmma and setmaxnreg: no memory is ordered by it


class Side(IntEnum):
    """What a `RendezvousEvent` records: an announcement or the passing of the meeting."""

    ARRIVE = 0  # announced, goes on
    SYNC = 1  # announced, and will wait
    PASS = 2  # the meeting took place; follows a SYNC, or is a barrier.cluster.wait


@dataclass(frozen=True, slots=True)
class RendezvousEvent(Event):
    """A step at a hardware barrier. A `bar.sync` gives SYNC, then PASS of the same `generation`.

    `threads`: the number of threads that the barrier expects (NAMED), or of the cluster; 0 if all
    of the CTA. `aligned`: all lanes must run it together. `generation` counts from 0 for each
    barrier. `semantics` matter for CLUSTER (`.relaxed` arrivals carry no memory).
    """

    meeting: Meeting
    side: Side
    number: int
    threads: int
    generation: int
    semantics: AccessSemantics
    aligned: bool = True


# ---------------------------------------------------------------------------------- fences


class RecordedFence(IntEnum):
    """The kind of a `FenceEvent`: what it orders and between which proxies."""

    MEMORY = 0  # fence.{sc,acq_rel,acquire,release}, membar
    PROXY_ASYNC = 1  # fence.proxy.async of `space` (all if None)
    PROXY_ALIAS = 2
    TENSORMAP_ACQUIRE = 3
    TENSORMAP_RELEASE = 4
    BARRIER_INIT = 5  # fence.mbarrier_init.release.cluster
    WGMMA = 6  # orders registers only
    TENSOR_BEFORE = 7  # tcgen05.fence::before_thread_sync
    TENSOR_AFTER = 8
    ASYNC_ACQUIRE = 9  # fence.proxy.async::generic.acquire...
    ASYNC_RELEASE = 10
    PROXY_CONSTANT = 11


@dataclass(frozen=True, slots=True)
class FenceEvent(Event):
    """`space` is "", "shared::cta", "shared::cluster" or "global" for PROXY_ASYNC, and
    `footprint` the 128 bytes of a TENSORMAP_ACQUIRE.
    """

    kind: RecordedFence
    semantics: AccessSemantics
    scope: AccessScope
    space: str = ""
    footprint: Footprint | None = None


# ---------------------------------------------------------------- tensor memory, resources


@dataclass(frozen=True, slots=True)
class TensorAllocate(Event):
    """tcgen05.alloc gave `columns` columns at `column`, and wrote the address to shared memory (an
    `AccessEvent` next to it).
    """

    column: int
    columns: int
    cta_group: int


@dataclass(frozen=True, slots=True)
class TensorDeallocate(Event):
    """`known`: the columns were allocated so. Without: a fault."""

    column: int
    columns: int
    cta_group: int
    known: bool = True


@dataclass(frozen=True, slots=True)
class TensorRelinquish(Event):
    """`tcgen05.relinquish_alloc_permit`: the CTA must not allocate tensor memory again."""

    cta_group: int


@dataclass(frozen=True, slots=True)
class RegisterCount(Event):
    """setmaxnreg; `increase` False for `.dec`."""

    registers: int
    increase: bool


@dataclass(frozen=True, slots=True)
class GridControl(Event):
    """griddepcontrol; `waits` False for `.launch_dependents`."""

    waits: bool


@dataclass(frozen=True, slots=True)
class Elect(Event):
    """elect.sync chose `leader` among the lanes of `mask`."""

    mask: int
    leader: int


@dataclass(frozen=True, slots=True)
class PartialCollective(Event):
    """A collective instruction that `lanes` execute, and not as its text requires: `expected` have
    to execute it together (all that the warp was launched with for `.aligned`), or are those that
    it names as its members, which lack some of `lanes`.
    """

    expected: int


# ------------------------------------------------------------------------- faults and the rest


@dataclass(frozen=True, slots=True)
class RegisterBreach(Event):
    """A register was touched while operation `operation` owned it: an accumulator of wgmma or a
    destination of tcgen05.ld was read or written, or a register source of wgmma was written.

    `write`: the touch wrote it. `register` is its name in the text. Recorded for the first register
    only of each operation. A plain `mov` of one register is not a touch: the copy is owned too.
    """

    register: str
    operation: int
    write: bool


class MemoryFaultKind(IntEnum):
    """What is wrong with an access or a descriptor in a `MemoryFault`."""

    OUTSIDE = 0  # no allocation holds the bytes
    MISALIGNED = 1
    NOT_ALLOCATED_TENSOR = 2
    WRONG_SPACE = 3  # a window that the instruction cannot use
    DESCRIPTOR = 4  # a descriptor or instruction descriptor that has no meaning
    NO_SUCH_CTA = 5  # a multicast to a CTA that the cluster does not have
    NEGATIVE_START = 6  # a box that is stored begins at a negative coordinate


@dataclass(frozen=True, slots=True)
class MemoryFault(Event):
    """An access outside of its allocation, or misaligned. The run continues; reads are opaque."""

    fault: MemoryFaultKind
    footprint: Footprint
    alignment: int = 0


@dataclass(frozen=True, slots=True)
class LaneClash(Event):
    """Lanes of one warp access common bytes and have not met in between; one event an instruction.

    `footprint`: what the lanes of the event read or write (`mode`); `other`: the instruction of the
    earlier access by other lanes. Of plain ld and st alone (lane_order.py). `rounding`: with one
    store, numbers that are close together.
    """

    footprint: Footprint
    mode: Mode
    other: int
    rounding: bool = False


@dataclass(frozen=True, slots=True)
class Exit(Event):
    """The lanes ended. `in_flight`: operations that they issued and no lane had seen complete.

    An operation that a barrier completes is listed if the barrier's phase was not complete.
    """

    in_flight: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumption(Event):
    """A policy was used here; see `outcome.Policy` for the names."""

    policy: str


@dataclass(frozen=True, slots=True)
class Skipped(Event):
    """A branch on opaque data: both arms, up to instruction `until`, were passed over, and what
    they write was made opaque: `registers` (count) and `writes` (None: any global memory).
    """

    until: int
    registers: int
    writes: tuple[Footprint, ...] = ()
