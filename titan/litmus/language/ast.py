"""A litmus test as data: locations, threads with placements, instructions, and the asked outcome.

Everything here is immutable and free of solver terms, so that the same test can be decided by
either engine, printed in both file formats, or rendered as a kernel. Addresses are static: an
instruction names a location. One litmus location represents one naturally aligned word, or for one
tile when only bulk operations touch it; sizes and partial overlap are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from titan.foundation.source.span import Span
from titan.litmus.model.dialect import Dialect


class Proxy(StrEnum):
    """The method of access (PTX memory consistency model, Proxies)."""

    GENERIC = "generic"
    CONSTANT = "constant"
    TEXTURE = "texture"
    SURFACE = "surface"
    ASYNC = "async"
    TENSORMAP = "tensormap"


class Semantics(StrEnum):
    """Ordering qualifier of an access or fence; `volatile` is read as `relaxed.sys`."""

    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SC = "sc"

    @property
    def acquires(self) -> bool:
        """Whether an operation of these semantics acquires."""
        return self in (Semantics.ACQUIRE, Semantics.ACQ_REL, Semantics.SC)

    @property
    def releases(self) -> bool:
        """Whether an operation of these semantics releases."""
        return self in (Semantics.RELEASE, Semantics.ACQ_REL, Semantics.SC)


class Scope(StrEnum):
    """The set of threads that an operation may interact with directly, smallest first.

    AMDGPU spells its scopes wavefront, workgroup (CTA), agent (GPU) and system (SYS) and has no
    cluster; PTX has no wavefront.
    """

    WAVEFRONT = "wavefront"
    CTA = "cta"
    CLUSTER = "cluster"
    GPU = "gpu"
    SYS = "sys"


PTX_SCOPES = (Scope.CTA, Scope.CLUSTER, Scope.GPU, Scope.SYS)


class Space(StrEnum):
    """State spaces. A location is global or shared; a fence may mean its own CTA's part only."""

    GLOBAL = "global"
    SHARED = "shared"
    OWN_SHARED = "shared::cta"


@dataclass(frozen=True, slots=True, order=True)
class ThreadPlacement:
    """Where a thread runs; `cta` is unique within a `gpu`, CTAs of one `cluster` share an id.

    For AMDGPU: the agent, the XCD (the CUs behind one L2), the work-group; `wave` is unique within
    the work-group. PTX tests leave it at 0.
    """

    gpu: int = 0
    cluster: int = 0
    cta: int = 0
    wave: int = 0

    @property
    def group(self) -> ThreadPlacement:
        """The CTA or work-group, whichever wave of it the thread is in."""
        return ThreadPlacement(self.gpu, self.cluster, self.cta)

    def shares(self, scope: Scope, other: ThreadPlacement) -> bool:
        """Whether both placements lie in the same instance of `scope`."""
        if scope is Scope.SYS:
            return True
        if scope is Scope.GPU:
            return self.gpu == other.gpu
        if scope is Scope.CLUSTER:
            return (self.gpu, self.cluster) == (other.gpu, other.cluster)
        if self.group != other.group:
            return False
        return scope is Scope.CTA or self.wave == other.wave


@dataclass(frozen=True, slots=True)
class Location:
    """One named address.

    `alias_of` names another location of the same memory: through another proxy it is the same
    virtual address, through the generic proxy a second virtual address (a virtual alias).
    `home` is the CTA that owns a shared location. `count` makes the location an mbarrier: its
    arrival count if the test starts with it initialised, 0 if a thread initialises it.
    """

    name: str
    initial: int = 0
    space: Space = Space.GLOBAL
    proxy: Proxy = Proxy.GENERIC
    alias_of: str | None = None
    home: ThreadPlacement | None = None
    count: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def is_mbarrier(self) -> bool:
        """Whether the location is an mbarrier, which has an arrival count."""
        return self.count is not None


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one thread."""

    name: str

    def __str__(self) -> str:
        return self.name


Operand = int | Register


@dataclass(frozen=True, slots=True)
class LitmusInstruction:
    """Base of all instructions; `span` is where the instruction was read, `text` its spelling."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Load(LitmusInstruction):
    """`ld`: the value of a location into a register."""

    destination: str
    location: str
    semantics: Semantics = Semantics.WEAK
    scope: Scope | None = None
    proxy: Proxy = Proxy.GENERIC


@dataclass(frozen=True, slots=True)
class Store(LitmusInstruction):
    """`st`: a value into a location."""

    location: str
    value: Operand
    semantics: Semantics = Semantics.WEAK
    scope: Scope | None = None
    proxy: Proxy = Proxy.GENERIC


@dataclass(frozen=True, slots=True)
class Atomic(LitmusInstruction):
    """`atom` (with a destination) or `red` (without); `cas` takes compare and swap operands."""

    operation: str
    location: str
    operands: tuple[Operand, ...]
    semantics: Semantics
    scope: Scope
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Fence(LitmusInstruction):
    """`fence`; `space` is a `.sync_restrict`: it orders accesses of that shared memory only."""

    semantics: Semantics
    scope: Scope
    space: Space | None = None

    def covers(self, place: ThreadPlacement, location: Location) -> bool:
        """Whether the fence, executed at `place`, orders accesses of the location's memory."""
        if self.space is None:
            return True
        if location.home is None:
            return False
        if self.space is Space.OWN_SHARED:
            return location.home == place
        return location.home.shares(Scope.CLUSTER, place)


@dataclass(frozen=True, slots=True)
class MbarrierInitFence(LitmusInstruction):
    """`fence.mbarrier_init.release.cluster`."""


@dataclass(frozen=True, slots=True)
class AliasFence(LitmusInstruction):
    """`fence.proxy.alias`."""


class Direction(StrEnum):
    """Which half of a proxy fence an instruction is."""

    BOTH = "both"
    RELEASE = "release"
    ACQUIRE = "acquire"


@dataclass(frozen=True, slots=True)
class ProxyFence(LitmusInstruction):
    """`fence.proxy.*` between the generic proxy and `proxy`.

    `BOTH` is the bi-directional per-thread form. A `RELEASE` or `ACQUIRE` form is one half of
    the generic-to-`proxy` direction and carries a scope; the tensormap acquire names its map.
    `space` limits the effect: `OWN_SHARED` to the shared memory of the executing CTA, `SHARED` to
    that of the cluster, None means no limit. `reads_only` is the `::read` release half: it covers
    the executing thread's own reads, and is not cumulative.
    """

    proxy: Proxy
    direction: Direction = Direction.BOTH
    scope: Scope | None = None
    space: Space | None = None
    location: str | None = None
    reads_only: bool = False


@dataclass(frozen=True, slots=True)
class DescriptorCopy(LitmusInstruction):
    """`tensormap.cp_fenceproxy`: a generic copy of a descriptor, then its release half."""

    destination: str
    source: str
    scope: Scope


def copy_fence(copy: DescriptorCopy) -> ProxyFence:
    """The release half that a copy of a descriptor ends with."""
    return ProxyFence(Proxy.TENSORMAP, Direction.RELEASE, copy.scope, span=copy.span)


@dataclass(frozen=True, slots=True)
class Barrier(LitmusInstruction):
    """`bar.sync` or `bar.arrive`.

    `count` is how many litmus threads take part; None synchronises all threads of the CTA that
    execute the barrier. `instance` distinguishes static barriers of the same id (None: all are
    one).
    """

    identifier: Operand
    waits: bool = True
    count: Operand | None = None
    instance: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterBarrier(LitmusInstruction):
    """`barrier.cluster.arrive` (`waits` false) or `.wait`; one phase per arrive in each thread."""

    waits: bool
    semantics: Semantics


@dataclass(frozen=True, slots=True)
class MbarrierInit(LitmusInstruction):
    """`mbarrier.init` with the arrivals of a phase."""

    location: str
    count: int


@dataclass(frozen=True, slots=True)
class MbarrierArrive(LitmusInstruction):
    """An arrive-on; `expect` bytes are added to the transaction count before it arrives."""

    location: str
    semantics: Semantics = Semantics.RELEASE
    scope: Scope = Scope.CTA
    count: int = 1
    expect: int = 0


@dataclass(frozen=True, slots=True)
class MbarrierExpect(LitmusInstruction):
    """`mbarrier.expect_tx`: bytes that the phase waits for in addition."""

    location: str
    expect: int


@dataclass(frozen=True, slots=True)
class MbarrierWait(LitmusInstruction):
    """A parity wait: with a destination one test (1 when the phase is complete), else the loop."""

    location: str
    parity: int
    semantics: Semantics = Semantics.ACQUIRE
    scope: Scope = Scope.CTA
    destination: str | None = None


class GroupKind(StrEnum):
    """The three per-thread queues of asynchronous operations."""

    BULK = "cp.async.bulk"
    COPY = "cp.async"
    WGMMA = "wgmma"


@dataclass(frozen=True, slots=True)
class BulkCopy(LitmusInstruction):
    """`cp.async.bulk`: reads `source`, writes every destination, then completes.

    With `barriers` (one per destination) completion is complete_tx of `size` bytes, else it is
    tracked by the bulk group. `tensormap` names the descriptor; a tensor copy without a source
    delivers the descriptor's own value, which represents the tile that it describes. With a
    `reduction` it is `cp.reduce.async.bulk`: each element of the one destination is updated by an
    atomic operation that is relaxed at gpu scope.
    """

    destinations: tuple[str, ...]
    source: str | None
    barriers: tuple[str, ...] = ()
    tensormap: str | None = None
    size: int = 16
    reduction: str | None = None


@dataclass(frozen=True, slots=True)
class AsyncStore(LitmusInstruction):
    """`st.async`: a weak, asynchronous store; completes `size` bytes on an mbarrier next to it.

    With a `reduction` it is `red.async`: an atomic operation, relaxed at cluster scope.
    """

    location: str
    value: Operand
    barrier: str
    size: int = 4
    reduction: str | None = None


@dataclass(frozen=True, slots=True)
class AsyncCopy(LitmusInstruction):
    """Non-bulk `cp.async`: a weak, asynchronous copy through the generic proxy."""

    destination: str
    source: str


@dataclass(frozen=True, slots=True)
class AsyncCopyArrive(LitmusInstruction):
    """`cp.async.mbarrier.arrive`: arrives when the thread's prior `cp.async` are done."""

    location: str
    noinc: bool = False


@dataclass(frozen=True, slots=True)
class MatrixRead(LitmusInstruction):
    """The shared-memory operand read of `wgmma.mma_async` or `tcgen05.mma`, observed in a register.

    The accumulator represents the operand value, so the register shows what the matrix unit read.
    """

    destination: str
    location: str
    tensor_memory: bool = False


@dataclass(frozen=True, slots=True)
class TensorCommit(LitmusInstruction):
    """`tcgen05.commit`: arrives on an mbarrier when the thread's prior `tcgen05.mma` are done."""

    location: str


@dataclass(frozen=True, slots=True)
class CommitGroup(LitmusInstruction):
    """Close the group of asynchronous operations that is open."""

    kind: GroupKind


@dataclass(frozen=True, slots=True)
class WaitGroup(LitmusInstruction):
    """Wait until at most `pending` groups are left; `read` waits for source reads only.

    `commits`: what is not committed yet is a group, too (`cp.async.wait_all`).
    """

    kind: GroupKind
    pending: int = 0
    read: bool = False
    commits: bool = False


@dataclass(frozen=True, slots=True)
class NoEffect(LitmusInstruction):
    """An instruction that orders registers only (`wgmma.fence`, `tcgen05.fence`)."""

    spelling: str


@dataclass(frozen=True, slots=True)
class Assign(LitmusInstruction):
    """`mov` (one operand) or a two-operand arithmetic instruction."""

    destination: str
    operation: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Label(LitmusInstruction):
    """The target of branches."""

    name: str


@dataclass(frozen=True, slots=True)
class Branch(LitmusInstruction):
    """Jump to `target` if `left relation right` holds; relation None is an unconditional jump."""

    target: str
    relation: str | None = None
    left: Operand = 0
    right: Operand = 0


@dataclass(frozen=True, slots=True)
class LitmusThread:
    """A thread: its place, its instructions, and registers with initial values."""

    name: str
    placement: ThreadPlacement
    instructions: tuple[LitmusInstruction, ...]
    registers: tuple[tuple[str, int], ...] = ()


# Conditions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FinalRegister:
    """A register of a thread at the end."""

    thread: str
    register: str

    def __str__(self) -> str:
        return f"{self.thread}:{self.register}"


@dataclass(frozen=True, slots=True)
class FinalMemory:
    """A location at the end."""

    location: str

    def __str__(self) -> str:
        return self.location


Term = int | FinalRegister | FinalMemory


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two terms; `relation` is one of `== != < <= > >=`."""

    left: Term
    relation: str
    right: Term


@dataclass(frozen=True, slots=True)
class Undefined:
    """An mbarrier operation on `location` may not see its initialisation."""

    location: str


@dataclass(frozen=True, slots=True)
class Race:
    """Two conflicting accesses to `location` that are neither ordered nor morally strong."""

    location: str


@dataclass(frozen=True, slots=True)
class Connective:
    """`and`, `or` (any number of parts) or `not` (one part)."""

    kind: str
    parts: tuple[Condition, ...]


Condition = Compare | Undefined | Race | Connective


class Quantifier(StrEnum):
    """Whether the condition is asked of some execution, of none, or of all."""

    EXISTS = "exists"
    NOT_EXISTS = "~exists"
    FORALL = "forall"


@dataclass(frozen=True, slots=True)
class LitmusTest:
    """One litmus test. `filter` restricts the executions that count (herd's `filter` clause)."""

    name: str
    locations: tuple[Location, ...]
    threads: tuple[LitmusThread, ...]
    quantifier: Quantifier
    condition: Condition
    comment: str = ""
    filter: Condition | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    dialect: Dialect = Dialect.PTX

    def location(self, name: str) -> Location:
        """The location of a name. Raises KeyError."""
        for location in self.locations:
            if location.name == name:
                return location
        raise KeyError(name)

    def address(self, name: str) -> str:
        """The generic virtual address of a name: proxy views resolve, virtual aliases do not."""
        location = self.location(name)
        while location.alias_of is not None and location.proxy is not Proxy.GENERIC:
            location = self.location(location.alias_of)
        return location.name

    def memory(self, name: str) -> str:
        """The physical location behind a name: every alias resolves."""
        location = self.location(name)
        while location.alias_of is not None:
            location = self.location(location.alias_of)
        return location.name

    @property
    def asked(self) -> Condition:
        """The outcome that is searched for: the condition, or its negation under `forall`."""
        if self.quantifier is Quantifier.FORALL:
            return Connective("not", (self.condition,))
        return self.condition
