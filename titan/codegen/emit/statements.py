"""What a kernel in CUDA C++ is made of: the statements that the templates spell, as data.

The `kind` of a statement names a macro of backends/sm_90a/statements.cu.j2, its fields are the
texts and numbers that the macro puts together. All texts are made from checked names and numbers.
Offsets and strides are in bytes unless declared otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from titan.codegen.emit.masks import MaskCondition
from titan.codegen.emit.register_array import RegisterArray

# --------------------------------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class RowsOffset:
    """From the rows of one group to those of the next, and from one block of rows to the next."""

    of_group: int
    of_block: int


@dataclass(frozen=True, slots=True)
class SharedOperand:
    """A tile in shared memory that a tensor core reads, with the numbers of its descriptor."""

    tile: str
    swizzle: int
    type: str
    rows: int
    columns: int
    k_rows: bool
    panel: int
    panel_stride: int
    leading: int
    stride: int
    step: int
    panel_columns: int
    offsets: RowsOffset | None = None
    registers: ClassVar[bool] = False
    tensor: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class TensorOperand:
    """Pairs of numbers in tensor memory that a tensor core reads."""

    type: str
    columns: int
    place: str
    tensor: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class GlobalRegion:
    """The last dimensions of a tensor from where a view begins; `outer` counts the others.

    `below`: the row of the tensor from which on nothing is written, beside its extent.
    """

    pointer: str
    type: str
    outer: str
    inside: str
    extents: tuple[str, ...]
    offsets: tuple[str, ...]
    below: str = ""


@dataclass(frozen=True, slots=True)
class PanelCopy:
    """A copy by a tensor map, one panel of `panel_columns` columns after the other."""

    tile: str
    map: str
    first: str
    others: tuple[str, ...]
    panels: int
    panel_stride: int
    panel_columns: int
    note: str


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """How a tile lies in shared memory: panels as wide as the swizzle."""

    swizzle: int
    panel_stride: int
    type_in: str
    element: int


# ------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class SpelledStatement:
    """What all statements have: `kind`, of the class or, where it varies, of the statement."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class SpelledCall(SpelledStatement):
    """A call without arguments: `call` names it."""

    call: str
    kind: ClassVar[str] = "call"


@dataclass(frozen=True, slots=True)
class SpelledVariable(SpelledStatement):
    """The declaration of a counter."""

    name: str
    value: str
    kind: ClassVar[str] = "variable"


@dataclass(frozen=True, slots=True)
class SpelledAssignment(SpelledStatement):
    """A counter takes another value."""

    name: str
    value: str
    kind: ClassVar[str] = "assign"


@dataclass(frozen=True, slots=True)
class SpelledPosition(SpelledStatement):
    """The declaration of a place in a ring of `depth` stages, and where it begins."""

    name: str
    depth: int
    stage: int
    parity: int
    kind: ClassVar[str] = "position"


@dataclass(frozen=True, slots=True)
class SpelledAdvance(SpelledStatement):
    """A place in a ring goes one further, or is where `source` was."""

    name: str
    source: str
    kind: ClassVar[str] = "advance"


@dataclass(frozen=True, slots=True)
class SpelledCoordinates(SpelledStatement):
    """The work coordinates of an item."""

    item: str
    kind: ClassVar[str] = "coordinates"


@dataclass(frozen=True, slots=True)
class SpelledLeader(SpelledStatement):
    """What one thread of the agent does."""

    body: tuple[SpelledStatement, ...]
    kind: ClassVar[str] = "leader"


@dataclass(frozen=True, slots=True)
class SpelledBranch(SpelledStatement):
    """Statements under a condition, and otherwise others."""

    condition: str
    then: tuple[SpelledStatement, ...]
    otherwise: tuple[SpelledStatement, ...]
    kind: ClassVar[str] = "branch"


@dataclass(frozen=True, slots=True)
class SpelledLoop(SpelledStatement):
    """A loop; `work`: over the work items of the CTA. `note`: what stands above it."""

    variable: str
    start: str
    stop: str
    body: tuple[SpelledStatement, ...]
    work: bool
    note: str = ""
    kind: ClassVar[str] = "loop"


@dataclass(frozen=True, slots=True)
class SpelledWait(SpelledStatement):
    """All threads wait for a phase of an mbarrier; `cluster`: at the scope of the cluster.

    `relaxed`: what the arrivals published is not acquired.
    """

    barrier: str
    parity: str
    cluster: bool
    relaxed: bool
    note: str
    kind: ClassVar[str] = "wait"


@dataclass(frozen=True, slots=True)
class SpelledArrive(SpelledStatement):
    """One lane of each warp arrives (`by`); with `remote`, at the barriers of those CTAs in turn.

    `relaxed`: the arrival publishes nothing. `mapped`: the address in the cluster. `met`: nothing
    has happened since the warp has met for the arrival before this one.
    """

    barrier: str
    bytes: int
    warps: bool
    several: bool
    note: str
    remote: tuple[str, ...]
    relaxed: bool
    by: str = "titan::elect_one()"
    mapped: str = ""
    met: bool = False
    kind: ClassVar[str] = "arrive"

    @property
    def spread(self) -> bool:
        """Whether lane n of each warp arrives at CTA n, all in one instruction."""
        count = len(self.remote)
        return count > 1 and self.remote == tuple(str(cta) for cta in range(count))


@dataclass(frozen=True, slots=True)
class SpelledExpect(SpelledStatement):
    """Bytes that copies will complete at an mbarrier."""

    barrier: str
    bytes: int
    kind: ClassVar[str] = "expect"


@dataclass(frozen=True, slots=True)
class SpelledNamed(SpelledStatement):
    """A named barrier: `sync` waits for it, else it is arrived at."""

    sync: bool
    id: str
    threads: int
    note: str
    kind: ClassVar[str] = "named"


@dataclass(frozen=True, slots=True)
class SpelledHold:
    """Registers that a wait for tensor cores releases: `m` blocks of them."""

    name: str
    m: int


@dataclass(frozen=True, slots=True)
class SpelledGroupWait(SpelledStatement):
    """Waits until at most `pending` groups of tensor-core operations are unfinished."""

    pending: int
    holds: tuple[SpelledHold, ...]
    note: str
    kind: ClassVar[str] = "wgmma_wait"


@dataclass(frozen=True, slots=True)
class SpelledBulkWait(SpelledStatement):
    """Waits for groups of bulk copies; `read`: only for their reads."""

    pending: int
    read: bool
    kind: ClassVar[str] = "bulk_wait"


@dataclass(frozen=True, slots=True)
class SpelledLoad(SpelledStatement):
    """A bulk copy into shared memory; `mask`: the CTAs that receive it, 0 for this one alone;
    `policy`: the variable of the policy of the L2 cache, if there is one; `led`: it completes at
    the barrier of CTA 0."""

    copy: PanelCopy
    barrier: str
    bytes: int
    mask: int
    policy: str = ""
    led: bool = False
    kind: ClassVar[str] = "load"


@dataclass(frozen=True, slots=True)
class SpelledSend(SpelledStatement):
    """A bulk copy to global memory; `adds`: to what is there."""

    copy: PanelCopy
    adds: bool = False
    kind: ClassVar[str] = "send"


@dataclass(frozen=True, slots=True)
class SpelledTileFill(SpelledStatement):
    """Threads copy a tile from global memory, guarded by the extents of the tensor."""

    tile: str
    swizzle: int
    panel_stride: int
    rows: int
    columns: int
    threads: int
    thread: str
    source: GlobalRegion
    note: str
    kind: ClassVar[str] = "fill_tile"


@dataclass(frozen=True, slots=True)
class SpelledFill(SpelledStatement):
    """Every element becomes a number."""

    target: RegisterArray
    number: str
    kind: ClassVar[str] = "fill"


@dataclass(frozen=True, slots=True)
class SpelledCopy(SpelledStatement):
    """One value becomes another one that is kept alike."""

    target: RegisterArray
    source: RegisterArray
    kind: ClassVar[str] = "copy"


@dataclass(frozen=True, slots=True)
class SpelledReduction(SpelledStatement):
    """The maximum or the sum of each row. `partial`: of the columns that a lane has."""

    function: str
    target: RegisterArray
    operands: tuple[RegisterArray, ...]
    partial: bool = False
    kind: ClassVar[str] = "reduction"


@dataclass(frozen=True, slots=True)
class SpelledWholeSum(SpelledStatement):
    """The sums of rows of which each lane has a part, in all lanes that share the rows."""

    target: RegisterArray
    kind: ClassVar[str] = "whole_sum"


@dataclass(frozen=True, slots=True)
class SpelledElementwise(SpelledStatement):
    """A function of each element; `number` is its constant, where it has one."""

    function: str
    target: RegisterArray
    operands: tuple[RegisterArray, ...]
    number: str = ""
    condition: MaskCondition | None = None
    kind: ClassVar[str] = "elementwise"


@dataclass(frozen=True, slots=True)
class SpelledPacked(SpelledStatement):
    """A function of two neighbouring columns at once, in one instruction: of a fragment and
    another one, a row value or a number.

    `scale_subtract`: a fragment times `number` minus a row value. `exp2`: `share` of every
    `SHARES` pairs by a polynomial, the others by the special function unit.
    """

    function: str
    target: RegisterArray
    operands: tuple[RegisterArray, ...]
    number: str = ""
    share: int = 0
    shares: int = 1
    kind: ClassVar[str] = "packed"


@dataclass(frozen=True, slots=True)
class SpelledPackedSum(SpelledStatement):
    """The sum of each row, two neighbouring columns at once."""

    target: RegisterArray
    source: RegisterArray
    kind: ClassVar[str] = "packed_sum"


@dataclass(frozen=True, slots=True)
class SpelledApart(SpelledStatement):
    """What the assembler does not move in front of what is before: under a condition that holds.

    It would begin all long computations at once, which takes more registers than there are.
    """

    body: tuple[SpelledStatement, ...]
    kind: ClassVar[str] = "apart"


@dataclass(frozen=True, slots=True)
class SpelledUnlessOne(SpelledStatement):
    """What a warp does only where a row value is not 1 in some of its rows."""

    rows: RegisterArray
    body: tuple[SpelledStatement, ...]
    kind: ClassVar[str] = "unless_one"


@dataclass(frozen=True, slots=True)
class SpelledVector(SpelledStatement):
    """A row or column of numbers from global memory; `every`: one number at each place."""

    target: RegisterArray
    source: GlobalRegion
    every: bool = False
    kind: ClassVar[str] = "vector"


@dataclass(frozen=True, slots=True)
class SpelledDirectStore(SpelledStatement):
    """Registers to global memory."""

    source: RegisterArray
    target: GlobalRegion
    kind: ClassVar[str] = "direct_store"


@dataclass(frozen=True, slots=True)
class SpelledRead(SpelledStatement):
    """A tile of shared memory to registers."""

    target: RegisterArray
    tile: str
    layout: PanelLayout
    step: int
    kind: ClassVar[str] = "read"


@dataclass(frozen=True, slots=True)
class SpelledStage(SpelledStatement):
    """Registers to the shared buffer of a store, whose first column is their column `origin`."""

    source: RegisterArray
    tile: str
    layout: PanelLayout
    step: int
    origin: int = 0
    kind: ClassVar[str] = "stage"


@dataclass(frozen=True, slots=True)
class SpelledProduct(SpelledStatement):
    """A wgmma for each block of rows and step along K; `adds` to what the registers hold.

    `left`, `right`: the descriptors of operands in shared memory; `again`: that of the left one
    behind the first `kept` products, so that a compiler does not keep those of all steps.
    """

    target: RegisterArray
    a: RegisterArray | SharedOperand
    b: SharedOperand
    left: str
    right: str
    steps: int
    type: str
    transpose_a: bool
    transpose_b: bool
    adds: bool
    note: str
    again: str = ""
    kept: int = 0
    kind: ClassVar[str] = "mma"


@dataclass(frozen=True, slots=True)
class DirectOperand:
    """A tile in global memory that threads multiply: `along_rows` where its rows run along the
    contraction."""

    source: GlobalRegion
    along_rows: bool


@dataclass(frozen=True, slots=True)
class SpelledDirectProduct(SpelledStatement):
    """Threads add the product of two tiles in global memory, `steps` deep, to `target`."""

    target: RegisterArray
    a: DirectOperand
    b: DirectOperand
    steps: int
    note: str
    kind: ClassVar[str] = "direct_mma"


@dataclass(frozen=True, slots=True)
class SpelledTensorProduct(SpelledStatement):
    """A tcgen05.mma for each step along K; `accumulate`: when a step adds to what is there;
    `left`, `right`: the descriptors of operands in shared memory, to which the steps add;
    `together`: by a pair of CTAs; `opaque`: addresses are not kept from one product to the next."""

    a: SharedOperand | TensorOperand
    b: SharedOperand
    steps: int
    type: str
    transpose_b: bool
    columns: int
    place: str
    accumulate: str
    note: str
    left: str
    right: str
    together: bool = False
    opaque: bool = False
    kind: ClassVar[str] = "tensor_mma"


@dataclass(frozen=True, slots=True)
class SpelledFetch(SpelledStatement):
    """Tensor memory to registers."""

    target: RegisterArray
    place: str
    kind: ClassVar[str] = "fetch"


@dataclass(frozen=True, slots=True)
class SpelledPut(SpelledStatement):
    """Registers to tensor memory."""

    source: RegisterArray
    place: str
    kind: ClassVar[str] = "put"


@dataclass(frozen=True, slots=True)
class SpelledRowsFetch(SpelledStatement):
    """A number a row from shared memory, where another role has put it."""

    target: RegisterArray
    rows: str
    kind: ClassVar[str] = "fetch_rows"


@dataclass(frozen=True, slots=True)
class SpelledRowsPut(SpelledStatement):
    """A number a row to shared memory, for another role."""

    source: RegisterArray
    rows: str
    kind: ClassVar[str] = "put_rows"


@dataclass(frozen=True, slots=True)
class SpelledTensorCommit(SpelledStatement):
    """The end of all tcgen05 operations so far arrives at an mbarrier; `mask`: at that of each of
    these CTAs, 0 for this one alone."""

    barrier: str
    note: str
    mask: int = 0
    kind: ClassVar[str] = "tensor_commit"


@dataclass(frozen=True, slots=True)
class SpelledRole:
    """A role of the kernel: its title, who runs it, its constants, registers and statements.

    `descriptors`: names and texts of the matrix descriptors that are made once, for all stages.
    """

    title: str
    guard: str
    constants: tuple[str, ...]
    arrays: tuple[RegisterArray, ...]
    descriptors: tuple[tuple[str, str], ...]
    statements: tuple[SpelledStatement, ...]
