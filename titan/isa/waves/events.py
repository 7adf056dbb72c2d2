"""What a run of waves records: operations that a counter counts, waits, barriers, faults.

Events are in the order in which the machine performed them; those of one wave are in its program
order, and the machine claims no other order. `warp` of an event is the wave, `lanes` the mask of
the 64 lanes that took part. An operation joins a queue of its wave when it is issued:

`vector`: vector memory, loads, stores and copies to LDS; in order (CDNA3, 4.4).
`lds`: LDS instructions; in order among themselves.
`scalar`: scalar memory; in no order, and known to be done only when nothing of lgkmcnt is left.
`flat`: accesses at flat addresses. vmcnt and lgkmcnt both count them, and they return in no order;
what they do in LDS is done when nothing of lgkmcnt is left, in global memory of vmcnt. They are two
operations, one for each counter. Those of one wave keep their order where they meet.

gfx1250 counts loads, stores, LDS and scalar memory apart (loadcnt, storecnt, dscnt, kmcnt), copies
between global memory and LDS (asynccnt), and what the tensor data mover does (tensorcnt). Each
counter returns in order, but for scalar memory, flat accesses, and copies to LDS among copies from
it; no two counters are in order (LLVM AMDGPU usage, memory model of gfx125x; CDNA5, 10.11.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from titan.isa.simt.events import Event
from titan.isa.simt.footprints import Footprint, MemorySpace


class WaveQueue(StrEnum):
    """A queue of one wave; the values are its names in sync programs."""

    VECTOR = "vmcnt"
    LDS = "lgkmcnt (LDS)"
    SCALAR = "lgkmcnt (scalar)"
    FLAT_LDS = "lgkmcnt (flat)"
    FLAT_GLOBAL = "vmcnt (flat)"
    # Of gfx1250.
    LOADS = "loadcnt"
    STORES = "storecnt"
    SCRATCH_STORES = "storecnt (private)"  # in no order with the others
    DS = "dscnt"
    KM = "kmcnt"
    ASYNC_LOADS = "asynccnt (loads)"
    ASYNC_STORES = "asynccnt (stores)"
    TENSOR = "tensorcnt"
    FLAT_DS = "dscnt (flat)"
    FLAT_LOADS = "loadcnt (flat)"
    FLAT_STORES = "storecnt (flat)"
    BY_CACHE = "loadcnt and storecnt"  # in sync programs: all of the four


OLDER_QUEUES = (
    WaveQueue.VECTOR, WaveQueue.LDS, WaveQueue.SCALAR, WaveQueue.FLAT_LDS, WaveQueue.FLAT_GLOBAL,
)  # fmt: skip
GFX1250_QUEUES = (
    WaveQueue.BY_CACHE, WaveQueue.DS, WaveQueue.KM, WaveQueue.ASYNC_LOADS, WaveQueue.ASYNC_STORES,
    WaveQueue.TENSOR, WaveQueue.FLAT_DS,
)  # fmt: skip
# By the vector cache of gfx1250: those of one wave keep their order where they meet.
BY_CACHE_GFX1250 = frozenset(
    (WaveQueue.LOADS, WaveQueue.STORES, WaveQueue.FLAT_LOADS, WaveQueue.FLAT_STORES)
)
# They return in no order: a wait that leaves any of their counter ends none of them.
UNORDERED = frozenset(
    (
        WaveQueue.SCALAR, WaveQueue.FLAT_LDS, WaveQueue.FLAT_GLOBAL, WaveQueue.KM,
        WaveQueue.FLAT_DS, WaveQueue.FLAT_LOADS, WaveQueue.FLAT_STORES,
    )
)  # fmt: skip
SCALAR_QUEUES = frozenset((WaveQueue.SCALAR, WaveQueue.KM))
# They need a wait even where two operations of one of them meet.
APART = frozenset((WaveQueue.ASYNC_LOADS, WaveQueue.ASYNC_STORES, WaveQueue.TENSOR))
# Queues of which accesses to global memory go through the cache of the work-group's unit.
BY_VECTOR_CACHE = frozenset((WaveQueue.VECTOR, WaveQueue.FLAT_GLOBAL))


@dataclass(frozen=True, slots=True)
class WaveUse:
    """One access of an operation. `atomic`: it reads and writes in one step.

    `shared_by_device`: it is coherent for all work-groups of the device (sc1; glc on gfx90a).
    `returns`: what it reads goes to registers. `value`: a mark of what is written, where it is
    known: of two writes with one mark every byte that both write gets the same. `word`: of an
    atomic, the operation if it leaves the same in any order with others of it and returns nothing;
    `IN_TURN` where it returns something to several lanes of one place. `by_data`: data decide
    whether it takes place.
    """

    footprint: Footprint
    write: bool
    atomic: bool = False
    shared_by_device: bool = False
    returns: bool = False
    value: bytes = b""
    word: str = ""
    by_data: bool = False


IN_TURN = "in turn"


@dataclass(frozen=True, slots=True)
class OperationIssued(Event):
    """An operation joins a queue; `number` counts those of its wave and queue from 0."""

    queue: WaveQueue
    number: int
    uses: tuple[WaveUse, ...]


@dataclass(frozen=True, slots=True)
class LanesByData(Event):
    """Arms whose lanes data choose are followed for their accesses (`skipped_lanes.py`)."""


@dataclass(frozen=True, slots=True)
class LoopByData(Event):
    """A loop whose rounds data decide is followed, and taken to end (`arm_loops.py`)."""


@dataclass(frozen=True, slots=True)
class LoadUnused(Event):
    """A load of which nothing is used (`used_loads.py`); it stands behind the run."""


def lds_uses(events: Iterable[Event]) -> Iterator[tuple[OperationIssued, WaveUse]]:
    """What operations do in LDS, in the order of the events; what one of them reads comes first."""
    for event in events:
        if isinstance(event, OperationIssued):
            for use in sorted(event.uses, key=lambda use: use.write):
                if use.footprint.space is MemorySpace.SHARED:
                    yield event, use


@dataclass(frozen=True, slots=True)
class CounterWait(Event):
    """At most the `pending` newest operations of the queue are unfinished behind it."""

    queue: WaveQueue
    pending: int


@dataclass(frozen=True, slots=True)
class CounterFull(CounterWait):
    """An operation is issued when its counter has room: the older ones beyond that are done."""


@dataclass(frozen=True, slots=True)
class WaveBarrier(Event):
    """`s_barrier`; `generation` counts those of the wave from 0."""

    generation: int


@dataclass(frozen=True, slots=True)
class WaveSignal(Event):
    """`s_barrier_signal`: the wave arrives at the barrier for the `generation`-th time, from 0.

    `again`: it has not waited since its last arrival.
    """

    generation: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class WaveSignalWait(Event):
    """`s_barrier_wait`: the wave goes on when the generation is complete. `hangs`: it never is."""

    generation: int
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class EndsSignalled(Event):
    """A wave ends behind `s_barrier_signal`, without having waited."""


@dataclass(frozen=True, slots=True)
class WaveEnd(Event):
    """`s_endpgm`, which waits for all operations of the wave (CDNA3, S_ENDPGM)."""


@dataclass(frozen=True, slots=True)
class PendingRegister(Event):
    """A register is used while the operation issued at `issued_at` has not been waited for."""

    register: str
    write: bool
    issued_at: int
    counter: str


@dataclass(frozen=True, slots=True)
class WaitStatesMissing(Event):
    """The instruction is `passed` wait states behind `first`, and needs `needed` of them.

    `why` says what is done to `register`.
    """

    first: int
    needed: int
    passed: int
    register: str
    why: str


@dataclass(frozen=True, slots=True)
class LanesDiffer(Event):
    """Lanes write different values to the same bytes with one instruction."""

    footprint: Footprint


@dataclass(frozen=True, slots=True)
class LanesAlike(Event):
    """Lanes write values that are not known to the same bytes with one instruction."""


@dataclass(frozen=True, slots=True)
class LanesShown(Event):
    """The same, where all of them are shown to be equal (`lane_values.py`)."""


@dataclass(frozen=True, slots=True)
class ScalarCacheInvalidated(Event):
    """`s_dcache_inv`: what the wave loads by the scalar unit from here on comes from memory."""


@dataclass(frozen=True, slots=True)
class OutsideLds(Event):
    """An access beyond the LDS of the work-group."""

    footprint: Footprint
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MisalignedAtomic(Event):
    """An atomic at addresses that are no multiples of the bytes of its operand."""

    footprint: Footprint
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutsidePrivate(Event):
    """An access beyond the private memory of a lane: its bytes, and those that the lane has."""

    start: int
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class UnknownAddress(Event):
    """A load from global memory at an address that is not known."""
