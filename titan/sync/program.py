"""The sync program: what the hardware executes, one agent a warp, warpgroup or thread.

This is the meeting point of all front ends and all backends, and the only level at which "verified"
is stated. Every operation corresponds to an instruction (or a short fixed sequence) of a real
target. Meaning: `titan/sync/interpreter.py` executes it step by step and is the definition; the
text is docs/explanation/semantics.md.

A program is data: frozen dataclasses, no behaviour. `span` fields point into the user's file (None
where a program was made by a tool) and take no part in equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from enum import StrEnum

from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.sync.expression import ONE, ZERO, Expression
from titan.sync.policies import BarrierInit, FenceRule, Permission, PipeOrder, TensorReading


class Proxy(StrEnum):
    """The path by which an access reaches memory (PTX memory model, "Proxies")."""

    GENERIC = "generic"
    ASYNC = "async"
    TENSORMAP = "tensormap"
    CONSTANT = "constant"
    TEXTURE = "texture"
    SURFACE = "surface"


CACHED = (Proxy.CONSTANT, Proxy.TEXTURE, Proxy.SURFACE)  # a cache of each CTA stands in the path
REDUCING = (Proxy.GENERIC, Proxy.ASYNC)  # the proxies that reductions are made through


class Space(StrEnum):
    """Where a buffer lies; the values are the words of kernel files."""

    SHARED = "shared"
    TENSOR = "tensor"
    GLOBAL = "global"
    REGISTER = "register"


class Order(StrEnum):
    """Memory order of a synchronising operation; only RELAXED carries no visibility."""

    SYNCHRONISING = "synchronising"
    RELAXED = "relaxed"


class Scope(StrEnum):
    """How far an order reaches: the threads of one CTA, or of its whole cluster."""

    CTA = "cta"
    CLUSTER = "cluster"


class FenceKind(StrEnum):
    """`*_RELEASE` and `*_ACQUIRE` are the halves of a fence from generic to the proxy."""

    ASYNC = "proxy.async"
    ASYNC_RELEASE = "proxy.async.release"
    ASYNC_ACQUIRE = "proxy.async.acquire"
    TENSORMAP_RELEASE = "proxy.tensormap.release"
    TENSORMAP_ACQUIRE = "proxy.tensormap.acquire"
    BARRIER_INIT = "mbarrier_init"
    CONSTANT = "proxy.constant"
    TEXTURE = "proxy.texture"
    SURFACE = "proxy.surface"


CACHED_FENCES = {
    FenceKind.CONSTANT: Proxy.CONSTANT,
    FenceKind.TEXTURE: Proxy.TEXTURE,
    FenceKind.SURFACE: Proxy.SURFACE,
}


class Until(StrEnum):
    """What a wait on a queue waits for: the operation, or only its reads (`wait_group.read`)."""

    DONE = "done"
    READ = "read"


# ------------------------------------------------------------------------------ declarations


@dataclass(frozen=True, slots=True)
class Parameter:
    """A size that the program does not fix, such as the number of tiles.

    `value` None means any number from `minimum` upwards. With `per`, every value of that loop
    variable has a separate number (each output tile its own number of k-tiles).
    """

    name: str
    value: int | None = None
    minimum: int = 0
    per: str | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """An array of mbarriers. `count` is the number of arrivals of each phase.

    `initialised` False means that the program itself executes `Init` and the fence.
    """

    name: str
    count: int
    stages: int = 1
    initialised: bool = True
    cta: int = 0
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NamedBarrier:
    """An array of hardware barriers (`bar.sync id, threads`; a cluster barrier; `s_barrier`)."""

    name: str
    stages: int = 1
    scope: Scope = Scope.CTA
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Buffer:
    """`stages` x `parts` regions of memory. Two buffers of one `storage` may overlap.

    Region (stage, part) covers the units `offset + (stage * parts + part) * units` to that plus
    `units - 1` of its storage. `initial` is the tile held before the program starts; None means
    undefined content. `contents`: the buffers that tiles of its storage are numbered by, where they
    are (titan/sync/contents.py).
    """

    name: str
    stages: int = 1
    parts: int = 1
    space: Space = Space.SHARED
    storage: str = ""
    offset: int = 0
    units: int = 1
    initial: int | None = None
    bytes_per_stage: int = 0
    cta: int = 0
    span: Span | None = field(default=None, compare=False)
    contents: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Queue:
    """Asynchronous operations of one agent that are waited for by count.

    `grouped`: operations gather in an open group until `Commit` (wgmma, bulk and cp.async groups);
    otherwise each operation is a group of its own (wait counters, tcgen05). Groups retire in order
    unless `ordered` is False (scalar loads in lgkmcnt). `pipelined`: the data path itself keeps the
    order of matrix instructions that write one accumulator, region for region, and of the other
    pairs of `titan/sync/pipe_order.py`; of nothing else.
    """

    name: str
    grouped: bool = True
    ordered: bool = True
    pipelined: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Pool:
    """A counted resource that is taken and given back (registers of setmaxnreg, tensor memory)."""

    name: str
    available: int
    span: Span | None = field(default=None, compare=False)


# -------------------------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Reference:
    """One element of a declared array: a barrier of a stage, a named barrier of an id."""

    name: str
    index: Expression = ZERO


@dataclass(frozen=True, slots=True)
class Effect:
    """One access to a buffer. `part` None means all parts of the stage.

    A cached proxy (`CACHED`) reaches global memory by a cache of the CTA that makes the access.
    `tile` of a write is what the buffer holds afterwards; of a read, what the reader means to see.
    None: a write of something that nobody checks, a read that may see anything. `accumulates`: the
    write of a matrix instruction to its accumulator, which others of its pipelined queue may write
    next without waiting. `reduction`: the operator of a write that adds to what is there. It keeps
    the tile that the region holds, which must be `tile` where that is given, and is atomic to whom
    `reach` holds (titan/sync/reductions.py).
    """

    buffer: str
    stage: Expression = ZERO
    write: bool = False
    tile: Expression | None = None
    part: Expression | None = None
    proxy: Proxy = Proxy.GENERIC
    accumulates: bool = False
    reduction: str = ""
    reach: Scope = Scope.CLUSTER

    def __post_init__(self) -> None:
        if self.reduction and (self.accumulates or not self.write or self.proxy not in REDUCING):
            raise ValueError("a reduction is a plain write through the generic or async proxy")


@dataclass(frozen=True, slots=True)
class Completion:
    """`complete_tx`: the operation takes `bytes` off the transaction count when it has finished.

    `publishes`: to whom it shows what its issuer knows, as of a thread that completes bytes behind
    a fence. None: nobody, as of an engine.
    """

    barrier: Reference
    bytes: Expression
    publishes: Scope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Base of all operations; `span` and `label` serve reports and not comparisons.

    `by`: "thread" or "warp" where one of the agent's threads or warps executes it for all, "all"
    where each does; empty: as the instruction is used. Engines take an agent as one; the rule
    `titan/verify/legality/elected.py` examines the threads.
    """

    span: Span | None = field(default=None, compare=False, repr=False)
    label: str = field(default="", compare=False)
    by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Access(Operation):
    """Synchronous accesses of one instruction (ld, st, ldmatrix, ds_read with its wait)."""

    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Asynchronous(Operation):
    """An operation that starts here and finishes later: bulk copy, cp.async, wgmma, LDS DMA ...

    It holds its footprint from start to finish. Without a queue it is observed only by what it
    completes. `chunks`: its bytes may be completed in so many equal instalments.
    """

    effects: tuple[Effect, ...]
    queue: str | None = None
    completes: tuple[Completion, ...] = ()
    chunks: int = 1

    def __post_init__(self) -> None:
        if any(effect.proxy in CACHED for effect in self.effects):
            raise ValueError("an asynchronous operation does not use a cached proxy")


@dataclass(frozen=True, slots=True)
class Commit(Operation):
    """Close the open group of a grouped queue."""

    queue: str


@dataclass(frozen=True, slots=True)
class QueueWait(Operation):
    """Enabled when at most `pending` of the agent's committed groups are unfinished."""

    queue: str
    pending: Expression = ZERO
    until: Until = Until.DONE


@dataclass(frozen=True, slots=True)
class QueueArrive(Operation):
    """Arrive once everything issued to the queue before is done (tcgen05.commit, noinc arrive)."""

    queue: str
    barrier: Reference
    count: Expression = ONE


@dataclass(frozen=True, slots=True)
class Init(Operation):
    """Initialises an mbarrier for `count` arrivals in each phase."""

    barrier: Reference
    count: Expression


@dataclass(frozen=True, slots=True)
class Invalidate(Operation):
    """Ends the life of an mbarrier, which must be live and not in use."""

    barrier: Reference


@dataclass(frozen=True, slots=True)
class Arrive(Operation):
    """`mbarrier.arrive`; with `transaction` bytes, `arrive.expect_tx`.

    `drop`: the expected count falls by `count` for all later phases. `token`: the agent keeps the
    state of the phase for a `TokenWait`.
    """

    barrier: Reference
    count: Expression = ONE
    transaction: Expression = ZERO
    drop: bool = False
    token: bool = False
    order: Order = Order.SYNCHRONISING
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class ExpectTransaction(Operation):
    """Raises the bytes that the current phase awaits; it is not an arrival."""

    barrier: Reference
    bytes: Expression


@dataclass(frozen=True, slots=True)
class Wait(Operation):
    """Parity wait: enabled when the phase bit differs from `parity` (its lowest bit counts).

    `phase`, where known, is the number of the phase that is meant, counted from 0; -1 is the one
    before the first. Passing on another phase, or missing it, is then a fault.
    """

    barrier: Reference
    parity: Expression
    phase: Expression | None = None
    order: Order = Order.SYNCHRONISING
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class TokenWait(Operation):
    """State wait: enabled when the phase of the agent's last `Arrive(token=True)` is complete."""

    barrier: Reference
    order: Order = Order.SYNCHRONISING
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class BarrierSync(Operation):
    """`bar.sync`: arrive with the agent's threads, continue when `threads` have arrived."""

    barrier: Reference
    threads: Expression
    order: Order = Order.SYNCHRONISING


@dataclass(frozen=True, slots=True)
class BarrierArrive(Operation):
    """`bar.arrive`, `barrier.cluster.arrive`: arrive and continue."""

    barrier: Reference
    threads: Expression
    order: Order = Order.SYNCHRONISING


@dataclass(frozen=True, slots=True)
class BarrierWait(Operation):
    """`barrier.cluster.wait`: continue when the generation of the agent's arrival is complete."""

    barrier: Reference
    order: Order = Order.SYNCHRONISING


@dataclass(frozen=True, slots=True)
class Fence(Operation):
    """A proxy fence. `spaces` empty means all spaces; of no meaning where the kind fixes them.

    `ASYNC_RELEASE` covers the shared memory of its own CTA, `ASYNC_ACQUIRE` that of the cluster.
    """

    kind: FenceKind
    spaces: tuple[Space, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolTake(Operation):
    """Blocks until so much is available (`setmaxnreg.inc`, `tcgen05.alloc`)."""

    pool: str
    amount: Expression


@dataclass(frozen=True, slots=True)
class PoolGive(Operation):
    """Returns `amount` units to a pool, which agents that wait may take."""

    pool: str
    amount: Expression


@dataclass(frozen=True, slots=True)
class Assign(Operation):
    """A counter of the agent takes a new value; local, never blocks."""

    variable: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Compute(Operation):
    """What the agent computes here on values of its own; nothing that another agent could see.

    Only programs that are to be emitted hold it (`decode` with `computations`); no engine does.
    `index` is the iteration of the loop that the computation belongs to.
    """

    what: str
    index: Expression = ZERO


@dataclass(frozen=True, slots=True)
class Loop(Operation):
    """`variable` runs from `start` while it is below `stop`; `stop` is read again at every test."""

    variable: str
    start: Expression
    stop: Expression
    body: Block


@dataclass(frozen=True, slots=True)
class Branch(Operation):
    """Executes `then` where the condition is not zero, else `otherwise`."""

    condition: Expression
    then: Block
    otherwise: Block = ()


Block = tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """`agents` agents that run `body`. Each has the constant `agent_constant` = 0, 1, ... in scope.

    `threads` is what one agent counts for at a named barrier: 1, 32 (a warp) or 128 (a warpgroup).
    `variables` are the counters with their first values; loop variables need no declaration.
    """

    name: str
    body: Block
    agents: int = 1
    threads: int = 32
    cta: int = 0
    agent_constant: str = "self"
    variables: tuple[tuple[str, int], ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Policies:
    """Readings of the hardware contract on which sources differ; every verdict names them.

    `fence_rule`: "writer" (each thread that made generic accesses fences them itself) or "path" (a
    fence of any agent on the way suffices). `war_fence`: a generic read needs a proxy fence before
    an asynchronous write. `barrier_init`: "fence" asks for fence.mbarrier_init before another CTA
    or an engine uses a barrier that the program initialises; "assumed" does not.
    `exit_in_flight`: "refuse" or "allow" work in flight when a CTA ends.
    `unobserved_phase`: "refuse" or "allow" an arrival for the next phase of an mbarrier before any
    wait has passed for the last one.
    `tensor`: what tcgen05 products have read may be overwritten on the "order" of their commit's
    arrival, or through the generic proxy behind a "fence" only. `tensor_pipe`: of the tcgen05
    operations of one agent the pairs that PTX has "listed" need no wait, or all are executed
    "in_order" (`titan/sync/pipe_order.py`).
    """

    fence_rule: FenceRule = "writer"
    war_fence: bool = True
    barrier_init: BarrierInit = "fence"
    exit_in_flight: Permission = "refuse"
    unobserved_phase: Permission = "refuse"
    tensor: TensorReading = "order"
    tensor_pipe: PipeOrder = "listed"


DEFAULT_POLICIES = Policies()


@dataclass(frozen=True, slots=True)
class SyncProgram:
    """Roles over declared barriers, buffers, queues and pools, for one target."""

    name: str
    target: str
    roles: tuple[Role, ...]
    parameters: tuple[Parameter, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    named_barriers: tuple[NamedBarrier, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    queues: tuple[Queue, ...] = ()
    pools: tuple[Pool, ...] = ()
    policies: Policies = DEFAULT_POLICIES
    span: Span | None = field(default=None, compare=False)


def walk(block: Block) -> Iterator[Operation]:
    """Every operation of a block, loops and branches included, in program order."""
    for operation in block:
        yield operation
        if isinstance(operation, Loop):
            yield from walk(operation.body)
        elif isinstance(operation, Branch):
            yield from walk(operation.then)
            yield from walk(operation.otherwise)


def without_computations(block: Block) -> Block:
    """The block as the engines see it."""
    return tuple(
        _seen_by_engines(operation) for operation in block if not isinstance(operation, Compute)
    )


def _seen_by_engines(operation: Operation) -> Operation:
    if isinstance(operation, Loop):
        return replace(operation, body=without_computations(operation.body))
    if isinstance(operation, Branch):
        then, otherwise = map(without_computations, (operation.then, operation.otherwise))
        return replace(operation, then=then, otherwise=otherwise)
    return operation
