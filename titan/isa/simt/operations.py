"""The flat program that the machine executes: one `DecodedStep` for each instruction of the module.

Everything that the text leaves to modifiers is settled here once, so that the Python machine and
the native core read the same numbers. Operands are register numbers only: constants and special
registers are registers too, set before the first instruction (`Code.presets`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from titan.isa.simt.footprints import MemorySpace

SINK = -1  # a result that is discarded


class Kind(IntEnum):
    """What the bits of an operand mean."""

    PREDICATE = 0
    BITS = 1
    UNSIGNED = 2
    SIGNED = 3
    FLOAT = 4  # f16, f32, f64 by width
    BFLOAT = 5


class Op(IntEnum):
    """`out` are results, `args` sources, `flags` constants of the step; see the comments.

    Arithmetic works on `bits` bits of kind `kind`.
    """

    NOP = 0
    OPAQUE = 1  # a result that this domain of values does not compute
    MOV = 2
    ADD = 3
    SUB = 4
    MUL_LOW = 5
    MUL_HIGH = 6
    MUL_WIDE = 7
    MAD_LOW = 8
    MAD_HIGH = 9
    MAD_WIDE = 10
    DIV = 11
    REM = 12
    ABS = 13
    NEG = 14
    MIN = 15
    MAX = 16
    AND = 17
    OR = 18
    XOR = 19
    NOT = 20
    CNOT = 21
    SHL = 22
    SHR = 23
    FUNNEL = 24  # flags (right, clamp); args a, b, c
    BFE = 25
    BFI = 26
    BREV = 27
    CLZ = 28
    POPC = 29
    BFIND = 30  # flags (shift amount,)
    PRMT = 31  # flags (mode,)
    LOP3 = 32
    SETP = 33  # flags (comparison, combination, c negated, float result, flush); args a, b[, c]
    SET = 34  # the same; out is a mask of ones, or 1.0
    SELP = 35
    SLCT = 36
    CVT = 37  # flags (from kind, from bits, saturate, bits of the register)
    SAD = 38
    FMA = 39
    PACK = 40  # flags (bits of a part,)
    UNPACK = 41
    TO_GENERIC = 42  # flags (space,)
    FROM_GENERIC = 43
    IS_SPACE = 44  # flags (space, of the CTA alone)
    MAPA = 45  # flags (generic,); args address, rank
    GET_RANK = 46  # flags (generic,)
    BMSK = 47
    SZEXT = 48
    FNS = 49
    HALVES = 50  # two integers of 16 bits; flags (ADD, MIN or MAX, relu)
    # Sums of several words; flags (ADD, SUB, MAD_LOW or MAD_HIGH, adds the carry); out d[, carry];
    # args a, b[, c][, carry].
    CARRIED = 51
    TO_FLOAT = 52  # of an integer, to nearest, of `bits`; flags (from kind, from bits)
    TO_INTEGER = 53  # of a float, clamped to `bits`; flags (from bits, INTEGER_ROUNDINGS, flush)

    BRANCH = 60  # flags (target, uniform)
    BRANCH_INDEXED = 61  # flags targets; args index
    CALL = 62  # flags (target,)
    RETURN = 63
    EXIT = 64
    TRAP = 65

    SHUFFLE = 70  # flags (mode,); out d, p; args a, b, c, members
    VOTE = 71  # flags (mode, negated); args p, members
    MATCH = 72  # flags (all,); out d, p; args a, members
    REDUX = 73  # flags (operation,); args a, members
    ELECT = 74  # out d, p; args members
    ACTIVE_MASK = 75
    WARP_SYNC = 76
    COLLECTIVE = 77  # all lanes together, opaque results (mma.sync, movmatrix)

    LOAD = 80  # flags (space, offset, semantics, scope, bits, kind, bits of the register)
    STORE = 81  # the same; args address, values
    ATOMIC = 82  # flags (.., operation); args address, values[, compared]; out may be SINKs
    LOAD_MATRIX = 83  # flags (space, offset, bytes a row, rows, bytes of a lane, alignment)
    STORE_MATRIX = 84
    PREFETCH = 85  # flags (space, offset, alignment or 0, of a tensor map); args address, bytes
    TENSORMAP_REPLACE = 86
    TENSORMAP_COPY = 87

    BARRIER_INIT = 90  # flags (space, offset); args address, count
    BARRIER_INVALIDATE = 91
    BARRIER_ARRIVE = (
        92  # flags (space, offset, semantics, scope, expects, drop, noComplete, remote)
    )
    BARRIER_EXPECT = 93  # flags (space, offset, scope, cluster, sign); args address, bytes
    BARRIER_WAIT = 94  # flags (space, offset, semantics, scope, parity form, try, branches); out p
    BARRIER_PENDING = 95

    COPY = 100  # cp.async: flags (destination offset, source offset, bytes, space); args dst, src
    COPY_COMMIT = 101
    COPY_WAIT = 102  # flags (pending,)
    COPY_WAIT_ALL = 103
    COPY_ARRIVE = 104  # flags (space, offset, no increment)
    BULK_COPY = 105  # flags see decode_copies; args dst, src, bytes, barrier|-1, mask|-1
    TENSOR_COPY = 106  # args shared, map, barrier|-1, mask|-1, coordinates, im2col offsets
    BULK_COMMIT = 107
    BULK_WAIT = 108  # flags (pending, reads only)
    # flags (space, offset, barrier offset, bytes, reduces, bits of a number, operation or -1); args
    # address, barrier, values
    STORE_ASYNC = 109

    WGMMA_FENCE = 120
    WGMMA = 121  # flags (N, bits of A, bits of B, A transposed, B transposed, A registers)
    WGMMA_COMMIT = 122
    WGMMA_WAIT = 123

    TENSOR_ALLOCATE = 130  # flags (cta group, space, offset); args address, columns
    TENSOR_DEALLOCATE = 131  # flags (cta group,); args address, columns
    TENSOR_RELINQUISH = 132
    TENSOR_MULTIPLY = 133  # see decode_tensor
    TENSOR_MEMORY_COPY = 134
    TENSOR_SHIFT = 135
    TENSOR_LOAD = 136  # flags (lanes, columns, halves offset, offset)
    TENSOR_STORE = 137
    TENSOR_WAIT = 138  # flags (store,)
    TENSOR_COMMIT = 139  # flags (cta group, space, offset); args barrier, mask|-1

    BARRIER_NAMED = 150  # flags (side, aligned, reduction); args id, threads|-1[, p]; out
    CLUSTER_ARRIVE = 151  # flags (semantics, aligned)
    CLUSTER_WAIT = 152
    FENCE = 153  # flags (kind, semantics, scope, space number); args address
    GRID_CONTROL = 154  # flags (waits,)
    REGISTER_COUNT = 155  # flags (increase, registers)
    TRY_CANCEL = 156  # flags (address offset, barrier offset, multicast); args address, barrier
    QUERY_CANCEL = 157


# Operations that do nothing but compute registers from registers.
PURE = frozenset(op for op in Op if op < Op.BRANCH)

# Done or not done by each lane where a guard is opaque: accesses that order nothing.
UNCERTAIN = PURE | {Op.LOAD, Op.STORE, Op.ATOMIC, Op.PREFETCH}

# Allowed in an arm of a branch on opaque data that is run without a decision.
SKIPPABLE = UNCERTAIN | {Op.BRANCH}

# The same where all lanes of the warp take one way: operations of the whole warp that no other warp
# waits for. In loops only those that are over at once.
LOOPED_TOGETHER = frozenset(
    {
        Op.SHUFFLE, Op.VOTE, Op.MATCH, Op.REDUX, Op.ELECT, Op.WARP_SYNC, Op.COLLECTIVE,
        Op.LOAD_MATRIX, Op.STORE_MATRIX,
    }
)  # fmt: skip
SKIPPABLE_TOGETHER = LOOPED_TOGETHER | {Op.TENSOR_LOAD, Op.TENSOR_STORE, Op.TENSOR_WAIT}
_TOUCHING = frozenset(
    {
        Op.LOAD, Op.STORE, Op.ATOMIC, Op.LOAD_MATRIX, Op.STORE_MATRIX, Op.TENSOR_LOAD,
        Op.TENSOR_STORE, Op.TENSOR_WAIT,
    }
)  # fmt: skip
_PRIVATE = (MemorySpace.LOCAL, MemorySpace.PARAMETER, MemorySpace.CONSTANT)


def touches(step: DecodedStep) -> bool:
    """Whether the step changes memory, its own too, reads what others write, or waits for them."""
    private = step.op is Op.LOAD and step.flags[0] in _PRIVATE
    return step.op in _TOUCHING and not private


# What a region that only waits may hold (besides PURE).
WAITING = PURE | {Op.BARRIER_WAIT, Op.BRANCH}
WAIT_FLAGS = 6  # of a BARRIER_WAIT, before the branches whose arms do nothing but wait here

# All live lanes of the warp take part together (`.sync.aligned`).
ALIGNED = frozenset(
    {
        Op.COLLECTIVE, Op.LOAD_MATRIX, Op.STORE_MATRIX, Op.WGMMA_FENCE, Op.WGMMA, Op.WGMMA_COMMIT,
        Op.WGMMA_WAIT, Op.TENSOR_ALLOCATE, Op.TENSOR_DEALLOCATE, Op.TENSOR_RELINQUISH,
        Op.TENSOR_LOAD, Op.TENSOR_STORE, Op.TENSOR_WAIT, Op.REGISTER_COUNT, Op.TENSORMAP_COPY,
    }
)  # fmt: skip

# Barriers of the CTA and the cluster; flags[1]: `.aligned`.
MEETINGS = frozenset({Op.BARRIER_NAMED, Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT})

# Lanes of a member mask take part together; the mask is the last argument.
MEMBERS = frozenset({Op.SHUFFLE, Op.VOTE, Op.MATCH, Op.REDUX, Op.ELECT, Op.WARP_SYNC})
COLLECTIVE = ALIGNED | MEETINGS | MEMBERS

COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
    "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
COMBINATIONS = ("", "and", "or", "xor")
ATOMICS = (
    "add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", "load", "store",
)  # fmt: skip
SHUFFLES = ("up", "down", "bfly", "idx")
INTEGER_ROUNDINGS = ("rni", "rzi", "rmi", "rpi")
VOTES = ("all", "any", "uni", "ballot")


# How many sources an operation has, where the decoder does not fix it: (fewest, most).
ARITY: dict[Op, tuple[int, int]] = {
    **dict.fromkeys(
        (
            Op.MOV, Op.ABS, Op.NEG, Op.NOT, Op.CNOT, Op.BREV, Op.CLZ, Op.POPC, Op.BFIND, Op.CVT,
            Op.TO_FLOAT, Op.TO_INTEGER,
            Op.UNPACK, Op.TO_GENERIC, Op.FROM_GENERIC, Op.IS_SPACE, Op.GET_RANK, Op.ELECT,
        ),
        (1, 1),
    ),
    **dict.fromkeys(
        (
            Op.ADD, Op.SUB, Op.MUL_LOW, Op.MUL_HIGH, Op.MUL_WIDE, Op.DIV, Op.REM, Op.MIN, Op.MAX,
            Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.MAPA, Op.BMSK, Op.SZEXT, Op.VOTE, Op.MATCH,
            Op.REDUX, Op.HALVES,
        ),
        (2, 2),
    ),
    **dict.fromkeys(
        (
            Op.MAD_LOW, Op.MAD_HIGH, Op.MAD_WIDE, Op.FUNNEL, Op.BFE, Op.PRMT, Op.LOP3, Op.SELP,
            Op.SLCT, Op.SAD, Op.FMA, Op.FNS,
        ),
        (3, 3),
    ),
    Op.SETP: (2, 3),
    Op.SET: (2, 3),
    Op.BFI: (4, 4),
    Op.SHUFFLE: (4, 4),
    Op.CARRIED: (2, 4),
    Op.PACK: (1, 8),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DecodedStep:
    """One decoded instruction; `guard` is a register or -1."""

    op: Op
    guard: int = -1
    negated: bool = False
    kind: Kind = Kind.BITS
    bits: int = 32
    flags: tuple[int, ...] = ()
    out: tuple[int, ...] = ()
    args: tuple[int, ...] = ()


class PresetKind(IntEnum):
    """What a register holds at the start: a constant, or a special register's value."""

    CONSTANT = 0
    SPECIAL = 1
    OPAQUE = 2


@dataclass(frozen=True, slots=True)
class Preset:
    """A register filled before the run: `value` for a constant, `name` for a special one."""

    register: int
    kind: PresetKind
    value: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class SkippedRegion:
    """What lies between a branch and the place where its arms meet.

    `refused`: a step in it that cannot be passed over without a decision, or -1 (what all lanes of
    a warp do together cannot unless the branch is the same for all of them). `accesses`: it changes
    memory, or reads what others write. `waits`: it does nothing but wait, and holds a wait.
    `written`: the registers it writes; where it waits, those that are read after it and that the
    number of rounds may change.
    `blocks`: of a loop that accesses memory, first instructions and ends in turn. `alike`: the
    branch is shown to be the same for all lanes. `trapped`: from some blocks every way leads to a
    trap, as from a failed assertion; the other fields are about the other blocks.
    `stores`: to memory of a thread, where the arms are not executed: register of the address (-1:
    the region writes it), offset and bytes in turn.
    """

    cyclic: bool
    refused: int
    accesses: bool
    waits: bool
    alike: bool
    written: tuple[int, ...]
    blocks: tuple[int, ...] = ()
    trapped: bool = False
    stores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnfencedProduct:
    """A wgmma that touches registers no wgmma.fence has ordered (`register_fences.py`).

    `certain`: on every way through the code.
    """

    instruction: int
    certain: bool


@dataclass(frozen=True, slots=True)
class DecodedCode:
    """The decoded module for one entry. `steps[i]` is instruction i of the module.

    `joins[i]`, for branches: the instruction at which the arms meet, or -1 if they do not.
    `regions` are of conditional branches. `functions`: the first instruction and the end of each.
    `local_bytes`: each thread's local memory (variables of functions, and their parameters).
    """

    steps: tuple[DecodedStep, ...]
    joins: tuple[int, ...]
    regions: dict[int, SkippedRegion]
    start: int
    registers: int
    names: tuple[str, ...]
    presets: tuple[Preset, ...]
    local_bytes: int
    functions: tuple[tuple[int, int], ...]
    unfenced: tuple[UnfencedProduct, ...] = ()
