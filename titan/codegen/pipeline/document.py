"""A kernel file as data: declarations and statements, as pipelines build and edit them.

Each class is one construct of the kernel language (`docs/reference/language.md`), with its options
as fields; an empty field is an option that is not written. Indices, phases, bounds and conditions
are expressions of the language, as text. Nothing here is checked: what is printed (`printer.py`) is
decoded, lowered and verified like a file written by hand.

Two levels share the classes. With rings a stage is acquired, produced, waited for and released;
with primitives it is a barrier that is waited for and arrived at, and a copy that completes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """A stage of a ring, a barrier or a buffer: `name[index, ...]@cta = content`.

    `content` is the tile that is meant to lie there; `cta` the CTA of a cluster whose copy it is.
    """

    name: str
    indices: tuple[str, ...] = ()
    content: str = ""
    cta: str = ""


def slot(name: str, *indices: str, content: str = "", cta: str = "") -> Slot:
    """A slot with its indices one after the other."""
    return Slot(name, indices, content, cta)


# ------------------------------------------------------------------------------------ statements


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStatement:
    """What all statements have: the condition under which they run; empty for always."""

    when: str = ""


Block = tuple[DocumentStatement, ...]


@dataclass(frozen=True, slots=True)
class ForStatement(DocumentStatement):
    """`body` for each value of `variable` in `first..last`, the last one left out."""

    variable: str
    first: str
    last: str
    body: Block


@dataclass(frozen=True, slots=True)
class IfStatement(DocumentStatement):
    """`then` where the condition holds, `otherwise` where it does not."""

    condition: str
    then: Block
    otherwise: Block = ()


@dataclass(frozen=True, slots=True)
class WhenPoisonedStatement(DocumentStatement):
    """`then` where the stage that was waited for is poisoned, `otherwise` where it may be read."""

    slot: Slot
    then: Block
    otherwise: Block


@dataclass(frozen=True, slots=True)
class FinalizeStatement(DocumentStatement):
    """The end of a role: nothing that it started is in flight any more."""


@dataclass(frozen=True, slots=True)
class ComputeStatement(DocumentStatement):
    """An operation of the tile program, of iteration `tile`."""

    operation: str
    tile: str = ""


@dataclass(frozen=True, slots=True)
class CountStatement(DocumentStatement):
    """A counter of the role goes up by one."""

    counter: str


@dataclass(frozen=True, slots=True)
class AcquireStatement(DocumentStatement):
    """Waits until a stage of a ring may be filled."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class ProduceStatement(DocumentStatement):
    """Fills a stage of a ring, or the given buffers of it, and hands it over.

    `last`: whether the stage is handed over with it. `stored`: threads fill it, where the ring is
    otherwise filled by bulk copies. Where `poison` holds it is handed over unfilled, as poison.
    """

    slot: Slot
    buffers: tuple[str, ...] = ()
    last: bool = True
    stored: bool = False
    poison: str = ""


@dataclass(frozen=True, slots=True)
class WaitStatement(DocumentStatement):
    """Waits for a stage of a ring, or for a phase of a barrier."""

    slot: Slot
    phase: str = ""
    scope: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseStatement(DocumentStatement):
    """Gives a stage of a ring back; `after` the issued operation of this name where it is given."""

    slot: Slot
    after: str = ""


@dataclass(frozen=True, slots=True)
class ReadStatement(DocumentStatement):
    """Threads read a stage of a ring, or the given buffers of it."""

    slot: Slot
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IssueStatement(DocumentStatement):
    """A matrix multiplication under a name; `accumulates` is the stage that it adds to, `reads` are
    buffers of no ring."""

    operands: tuple[Slot, ...]
    name: str
    accumulates: Slot | None = None
    reads: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class DrainStatement(DocumentStatement):
    """Waits until at most `leaving` of a queue are in flight, or have reads that are."""

    queue: str
    leaving: str = ""
    until_read: bool = False


@dataclass(frozen=True, slots=True)
class FenceStatement(DocumentStatement):
    """Orders accesses of threads before those of the asynchronous proxy."""


@dataclass(frozen=True, slots=True)
class ArriveStatement(DocumentStatement):
    """Arrives at a barrier; `bytes_expected` are those that copies will complete."""

    slot: Slot
    bytes_expected: int = 0
    scope: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class SyncStatement(DocumentStatement):
    """Arrives at a named barrier and waits for it."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class LoadStatement(DocumentStatement):
    """Threads read a buffer."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class StoreStatement(DocumentStatement):
    """Threads write a buffer."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class BulkLoadStatement(DocumentStatement):
    """The copy engine fills a buffer and completes bytes at a barrier.

    `bytes_copied` where they are not those of the whole buffer; `multicast` to all CTAs of the
    cluster.
    """

    slot: Slot
    completes: Slot
    bytes_copied: int = 0
    multicast: bool = False


@dataclass(frozen=True, slots=True)
class AskStatement(DocumentStatement):
    """Asks the hardware for another work item; the answer fills a buffer, off a barrier."""

    slot: Slot
    completes: Slot
    bytes_copied: int


@dataclass(frozen=True, slots=True)
class BulkStoreStatement(DocumentStatement):
    """The copy engine writes a buffer to global memory, counted by a queue."""

    slot: Slot
    queue: str


@dataclass(frozen=True, slots=True)
class MultiplyStatement(DocumentStatement):
    """A matrix multiplication of buffers on a queue; `into` is the accumulator in memory, `peers`
    those of other CTAs that multiply together with this one."""

    operands: tuple[Slot, ...]
    queue: str
    into: Slot | None = None
    peers: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitStatement(DocumentStatement):
    """Closes a group of a queue; where `arrives` is given, its end arrives at that barrier."""

    queue: str
    arrives: Slot | None = None


@dataclass(frozen=True, slots=True)
class CopyToLdsStatement(DocumentStatement):
    """Direct copies from global memory to LDS, one operation of a queue."""

    slots: tuple[Slot, ...]
    queue: str


@dataclass(frozen=True, slots=True)
class AsynchronousStatement(DocumentStatement):
    """Accesses that a queue counts: of threads through the generic proxy, or of an `engine`."""

    queue: str
    reads: tuple[Slot, ...] = ()
    writes: tuple[Slot, ...] = ()
    engine: bool = False


# ----------------------------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class BufferDeclaration:
    """A buffer of tiles of `rows` x `columns`.

    `stages` is a size of the kernel or a number; `parts` how many agents or CTAs share a tile;
    `storage` names memory that buffers share, of which a part of a stage has so many `units` (0:
    one); `lane_bytes` what a lane of a wave copies at once; `stride` the bytes from one stage to
    the next where stages are padded; `bytes_each` those of a stage that is no tile.
    """

    name: str
    rows: int
    columns: int
    dtype: str
    space: str = ""
    stages: str = ""
    parts: int = 0
    swizzle: str = ""
    storage: str = ""
    units: int = 0
    lane_bytes: int = 0
    stride: int = 0
    bytes_each: int = 0


@dataclass(frozen=True, slots=True)
class RingDeclaration:
    """Buffers that are filled and given back together, by `transport` if not by bulk copies."""

    name: str
    buffers: tuple[str, ...]
    depth: str
    transport: str = ""


@dataclass(frozen=True, slots=True)
class BarrierDeclaration:
    """An mbarrier for each stage, of `count` arrivals a phase; `cta`: the only CTA that has it."""

    name: str
    count: int
    stages: str = ""
    cta: str = ""


@dataclass(frozen=True, slots=True)
class NamedBarrierDeclaration:
    """A barrier of threads: one of the CTA for each stage, or that of the cluster."""

    name: str
    threads: int
    stages: int = 0
    scope: str = ""


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """What counts asynchronous operations: `kind` is a word of the language."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class RoleDeclaration:
    """Warps or warpgroups with one program. `counters` begin at 0; `registers` per thread, 0: as
    compiled; `cta`: the only CTA that has the role."""

    name: str
    warps: int = 0
    warpgroups: int = 0
    registers: int = 0
    counters: tuple[str, ...] = ()
    cta: str = ""


BUFFER_KEYS = (
    "space", "stages", "parts", "tile", "dtype", "swizzle", "storage", "units",
    "lane_bytes", "stride", "bytes",
)  # fmt: skip
ROLE_KEYS = ("warps", "warpgroups", "cta", "registers", "counters")


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """In which order the options of a declaration are printed.

    Part of the document because packages are compared byte for byte: a form that has written its
    declarations in one order keeps to it.
    """

    buffer: tuple[str, ...] = BUFFER_KEYS
    role: tuple[str, ...] = ROLE_KEYS


@dataclass(frozen=True, slots=True)
class DocumentSizes:
    """The sizes of a pipeline: stages, and any number of tiles from `tiles_min` on.

    `over_work`: any number of work items as well, each with a number of tiles of its own, from
    `work_min` items on.
    """

    depth: int
    over_work: bool = False
    tiles_min: int = 1
    work_min: int = 0


@dataclass(frozen=True, slots=True)
class PipelineDocument:
    """A whole kernel file; `program` holds the roles' bodies in the order of the file."""

    kernel: str
    target: str
    sizes: DocumentSizes
    buffers: tuple[BufferDeclaration, ...]
    roles: tuple[RoleDeclaration, ...]
    program: tuple[tuple[str, Block], ...]
    rings: tuple[RingDeclaration, ...] = ()
    barriers: tuple[BarrierDeclaration, ...] = ()
    named_barriers: tuple[NamedBarrierDeclaration, ...] = ()
    queues: tuple[QueueDeclaration, ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    ctas: int = 1
    order: KeyOrder = KeyOrder()
