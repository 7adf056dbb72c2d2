"""A decoded kernel: the content of the file for one choice of its sizes. Data only."""

from __future__ import annotations

from dataclasses import field

from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.language.protocol.model import Protocol
from titan.sync.program import SyncProgram


@dataclass(frozen=True, slots=True)
class Allowance:
    """A warning that the author accepts, and why."""

    rule: str
    reason: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RoleShape:
    """How many agents of how many threads a role is, for the scope of a verdict."""

    name: str
    agents: int
    threads: int
    registers: int = 0
    span: Span | None = field(default=None, compare=False)
    outside: bool = False  # it runs elsewhere, and is no part of the cluster


@dataclass(frozen=True, slots=True)
class Layout:
    """How one buffer lies in memory; None where the file does not say, bytes throughout.

    `stride` is the distance from one stage to the next, `base` the offset of the first stage in
    shared memory, `lane_bytes` what one lane copies in one direct-to-LDS instruction.
    """

    name: str
    tile: tuple[int, ...] = ()
    dtype: str = ""
    swizzle: str = "none"
    alignment: int | None = None
    base: int | None = None
    stride: int | None = None
    lane_bytes: int | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """One descriptor for bulk tensor copies, as `cuTensorMapEncodeTiled` or `...Im2col` takes it.

    Extents and strides go from the innermost dimension outwards; `global_strides` leaves out the
    innermost one, which is dense. None and () where the file does not say. `places` are the keys.
    """

    name: str
    buffer: str
    dtype: str
    global_shape: tuple[int, ...]
    global_strides: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: str = "none"
    oob_fill: str = "zero"
    mode: str = "tile"
    channels: int | None = None
    pixels: int | None = None
    lower_corner: tuple[int, ...] = ()
    upper_corner: tuple[int, ...] = ()
    global_alignment: int | None = None
    span: Span | None = field(default=None, compare=False)
    places: tuple[tuple[str, Span], ...] = field(default=(), compare=False)

    def place(self, key: str) -> Span | None:
        """Where the key stands, or the map itself."""
        return dict(self.places).get(key, self.span)


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """A matrix instruction that the kernel is generated with: `shape` is (M, N, K)."""

    name: str
    kind: str
    shape: tuple[int, ...]
    a: str
    b: str
    accumulator: str
    cta_group: int = 1
    role: str = ""
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Placement:
    """What the file says of places and kinds, which the semantics does not need.

    `kinds` are those of queues and pools; `barrier_bases` byte offsets of mbarriers.
    """

    layouts: tuple[Layout, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
    instructions: tuple[MatrixInstruction, ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    barrier_bases: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel with concrete numbers for its sizes; exactly one level is not None.

    `sizes` are the numbers chosen, in the order of the file; parameters (`any`) are not among them.
    `placed` False: where the threads of an agent meet, and where memory lies, is decided by a later
    pass of the compiler that the kernel comes from. The threads are one here, and what is not alive
    at the same time may share memory.
    """

    name: str
    target: str
    path: str
    sizes: tuple[tuple[str, int], ...]
    roles: tuple[RoleShape, ...]
    protocol: Protocol | None = None
    program: SyncProgram | None = None
    note: str = ""
    source: str = ""
    ctas: int = 1
    placement: Placement = field(default_factory=Placement)
    allowances: tuple[Allowance, ...] = ()
    placed: bool = True
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Family:
    """All kernels that one file represents: one for every combination of its sizes."""

    name: str
    path: str
    kernels: tuple[Kernel, ...]
