"""Decodes accesses of memory, warp collectives, mbarriers, fences, and hardware barriers."""

from __future__ import annotations

from titan.isa.ptx import module as ptx
from titan.isa.ptx.warp_matrices import ALIGNMENT_BYTES, warp_matrix
from titan.isa.simt.decode_arithmetic import outputs
from titan.isa.simt.decode_context import (
    DecodeContext,
    Unsupported,
    scope_of,
    semantics_of,
    space_of,
    type_of,
)
from titan.isa.simt.events import AccessScope, AccessSemantics, RecordedFence, Side
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.map_bytes import BYTE_STRIDES_SINCE, FIELDS, MapField
from titan.isa.simt.operations import ATOMICS, SHUFFLES, SINK, VOTES, DecodedStep, Kind, Op

_PACKED = {"f16x2": 32, "bf16x2": 32, "f32x2": 64, "e4m3x2": 16, "e5m2x2": 16, "b128": 128}
WARP_LANES = 32
ROW_BYTES = 16  # of ldmatrix and stmatrix; of elements of 6 and 4 bits some are padding
PRIORITY_ALIGNMENT = 128  # of what applypriority names
FENCE_SPACES = ("", "shared::cta", "shared::cluster", "global")


def element(instruction: ptx.Instruction) -> tuple[Kind, int]:
    """The type of a memory access: the last modifier."""
    word = instruction.modifiers[-1]
    type_ = type_of(word)
    if type_ is None and word in _PACKED:
        return Kind.BITS, _PACKED[word]
    if type_ is None:
        raise Unsupported("the type")
    return type_


def load(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """ld, ldu and their vectors."""
    kind, bits = element(instruction)
    target, place = context.vector(instruction.operands[0]), instruction.operands[1]
    register, offset, space = context.address(place, space_of(instruction.modifiers))
    semantics = semantics_of(instruction.modifiers)
    scope = scope_of(instruction.modifiers)
    flags = (space, offset, semantics, scope, bits, kind, context.width(target))
    return DecodedStep(Op.LOAD, kind=kind, bits=bits, flags=flags, out=context.results(target),
                args=(register,))  # fmt: skip


def store(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode st and st.async; flags: space, offset, semantics, scope, element bits, kind."""
    if "async" in instruction.modifiers:
        return store_async(context, instruction)
    kind, bits = element(instruction)
    place, value = instruction.operands[0], context.vector(instruction.operands[1])
    register, offset, space = context.address(place, space_of(instruction.modifiers))
    semantics = semantics_of(instruction.modifiers)
    flags = (space, offset, semantics, scope_of(instruction.modifiers), bits, kind)
    items = value.items if isinstance(value, ptx.Vector) else (value,)
    values = tuple(context.source(item, bits, kind) for item in items)
    return DecodedStep(Op.STORE, kind=kind, bits=bits, flags=flags, args=(register, *values))


def atomic(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """atom and red, of registers and vectors; multimem forms are atomics without a result.

    red.async without an mbarrier (to global memory, PTX ISA, red.async) is an ordinary reduction.
    """
    modifiers = instruction.modifiers
    if "async" in modifiers and len(instruction.operands) > 2:
        return store_async(context, instruction)
    kind, bits = element(instruction)
    operands = list(instruction.operands)
    out: tuple[int, ...] = ()
    if instruction.opcode == "atom":
        out = context.results(context.vector(operands.pop(0)))
    operation = next((word for word in modifiers if word in ATOMICS), None)
    if operation is None:
        raise Unsupported("the operation")
    register, offset, space = context.address(operands[0], space_of(modifiers))
    values: list[int] = []
    for operand in map(context.vector, operands[1:]):
        if isinstance(operand, ptx.Vector):
            values.extend(context.source(item, bits, kind) for item in operand.items)
        else:
            values.append(context.source(operand, bits, kind))
    count = len(operands[1].items) if isinstance(operands[1], ptx.Vector) else 1
    values = values[: 2 if operation == "cas" else count]  # a cache policy may follow
    if len(values) != (2 if operation == "cas" else count) or len(out) not in (0, count):
        raise Unsupported("the number of values")
    semantics = semantics_of(modifiers, AccessSemantics.RELAXED)
    scope = scope_of(modifiers, AccessScope.GPU)
    flags = (space, offset, semantics, scope, bits, kind, ATOMICS.index(operation), count)
    return DecodedStep(
        Op.ATOMIC, kind=kind, bits=bits, flags=flags, out=out, args=(register, *values)
    )


def multimem(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """multimem.ld_reduce, .st and .red: accesses whose values are not computed.

    Without words the first two are weak, the last relaxed in the system (PTX ISA, multimem).
    """
    modifiers = instruction.modifiers
    kind, bits = element(instruction)
    operands = instruction.operands
    if "ld_reduce" in modifiers:
        register, offset, space = context.address(operands[1], space_of(modifiers))
        loaded = (space, offset, semantics_of(modifiers), scope_of(modifiers), bits, kind, bits)
        return DecodedStep(Op.LOAD, kind=kind, bits=bits, flags=loaded,
                    out=context.results(context.vector(operands[0])),
                    args=(register,))  # fmt: skip
    register, offset, space = context.address(operands[0], space_of(modifiers))
    values = context.sources(context.vector(operands[1]), bits)
    if "red" in modifiers:
        operation = next((word for word in modifiers if word in ATOMICS), None)
        if operation is None:
            raise Unsupported("the operation")
        semantics = semantics_of(modifiers, AccessSemantics.RELAXED)
        scope = scope_of(modifiers, AccessScope.SYSTEM)
        return DecodedStep(Op.ATOMIC, kind=kind, bits=bits,
                    flags=(space, offset, semantics, scope, bits, kind, ATOMICS.index(operation),
                           len(values)),
                    args=(register, *values))  # fmt: skip
    flags = (space, offset, semantics_of(modifiers), scope_of(modifiers), bits, kind)
    return DecodedStep(Op.STORE, kind=kind, bits=bits, flags=flags, args=(register, *values))


def load_matrix(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode ldmatrix; flags: space, offset, bytes of a row, lanes that give row addresses,
    `_pieces`, and the alignment of a row in bytes.
    """
    target, place = instruction.operands[:2]
    register, offset, space = context.address(place, space_of(instruction.modifiers))
    bytes_, rows = _matrices(instruction)
    return DecodedStep(
        Op.LOAD_MATRIX,
        flags=(space, offset, bytes_, rows, _pieces(instruction), ROW_BYTES),
        out=context.results(target),
        args=(register,),
    )


def store_matrix(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode stmatrix; flags as of ldmatrix, the stored registers follow the address."""
    place, value = instruction.operands[:2]
    register, offset, space = context.address(place, space_of(instruction.modifiers))
    bytes_, rows = _matrices(instruction)
    flags = (space, offset, bytes_, rows, _pieces(instruction), ROW_BYTES)
    return DecodedStep(Op.STORE_MATRIX, flags=flags,
                args=(register, *context.sources(value)))  # fmt: skip


def _matrices(instruction: ptx.Instruction) -> tuple[int, int]:
    """Bytes of a row, and how many lanes give row addresses."""
    words = instruction.modifiers
    count = next((int(word[1:]) for word in words if word in ("x1", "x2", "x4")), 1)
    shape = next((word for word in words if word.startswith("m")), "m8n8")
    # A column of a stored m16n8 is consecutive: `.trans` is mandatory there.
    addresses = {"m8n8": 8, "m8n16": 8, "m16n8": 8, "m16n16": 16}.get(shape)
    if addresses is not None and addresses * count <= WARP_LANES:
        return ROW_BYTES, addresses * count
    raise Unsupported("the shape")


def _pieces(instruction: ptx.Instruction) -> int:
    """Bytes of a row that are of one lane: a word, or an element of a transposed matrix. 0: a shape
    other than 8 by 8, of which no lane is known."""
    if any(word.startswith("m") and word != "m8n8" for word in instruction.modifiers):
        return 0
    return 2 if "trans" in instruction.modifiers else 4


def warp_matrices(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode wmma: a product, or a matrix whose rows lie at the addresses of the first lanes
    (titan/isa/ptx/warp_matrices.py); flags as of ldmatrix.
    """
    if instruction.modifiers[0] == "mma":
        return collective(context, instruction)
    matrix = warp_matrix(instruction)
    if matrix is None:
        raise Unsupported("the form")
    if len(instruction.operands) != 2:
        raise Unsupported("the address")
    values, place = instruction.operands
    register, offset, space = context.address(place, space_of(instruction.modifiers))
    flags = (space, offset, matrix.row_bytes, matrix.rows, 0, ALIGNMENT_BYTES)
    if instruction.modifiers[0] == "load":
        return DecodedStep(
            Op.LOAD_MATRIX, flags=flags, out=context.results(values), args=(register,)
        )
    args = (register, *context.sources(values))
    return DecodedStep(Op.STORE_MATRIX, flags=flags, args=args)


def prefetch(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode prefetch and applypriority."""
    space = space_of(instruction.modifiers)
    register, offset, space = context.address(instruction.operands[0], space)
    alignment = PRIORITY_ALIGNMENT if instruction.opcode == "applypriority" else 0
    flags = (space, offset, alignment, int("tensormap" in instruction.modifiers))
    return DecodedStep(Op.PREFETCH, flags=flags, args=(register,))


def tensormap(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """tensormap.replace writes a map; tensormap.cp_fenceproxy copies and fences."""
    modifiers = instruction.modifiers
    if "replace" in modifiers:
        register, offset, space = context.address(
            instruction.operands[0], space_of(modifiers[2:]) or space_of(modifiers)
        )
        field = FIELDS.get(modifiers[2], MapField.UNKNOWN)
        if field is MapField.STRIDE and context.module.version < BYTE_STRIDES_SINCE:
            field = MapField.UNKNOWN
        ordinal = 0
        if len(instruction.operands) > 2:
            given = instruction.operands[1]
            ordinal = given.value if isinstance(given, ptx.Immediate) else -1
        value = context.source(instruction.operands[-1])
        return DecodedStep(
            Op.TENSORMAP_REPLACE, flags=(space, offset, field, ordinal),
            args=(register, value),
        )  # fmt: skip
    target, source = instruction.operands[:2]
    to, to_offset, _ = context.address(target, MemorySpace.GLOBAL)
    at, at_offset, _ = context.address(source, MemorySpace.SHARED)
    semantics = semantics_of(modifiers, AccessSemantics.RELEASE)
    scope = scope_of(modifiers, AccessScope.GPU)
    flags = (MemorySpace.GLOBAL, to_offset, MemorySpace.SHARED, at_offset, semantics, scope)
    return DecodedStep(Op.TENSORMAP_COPY, flags=flags, args=(to, at))


# ------------------------------------------------------------------------------ collectives


def shuffle(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode shfl.sync; raises Unsupported for the form without `.sync`."""
    if "sync" not in instruction.modifiers:
        raise Unsupported("shfl without .sync")
    mode = next(word for word in instruction.modifiers if word in SHUFFLES)
    args = tuple(context.source(operand, 32) for operand in instruction.operands[1:])
    out = outputs(context, instruction.operands[0])
    return DecodedStep(Op.SHUFFLE, flags=(SHUFFLES.index(mode),), out=(*out, SINK)[:2], args=args)


def vote(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode vote.sync; flags: mode, negated; raises Unsupported without `.sync`."""
    if "sync" not in instruction.modifiers:
        raise Unsupported("vote without .sync")
    mode = next(word for word in instruction.modifiers if word in VOTES)
    value, negated = instruction.operands[1], 0
    if isinstance(value, ptx.Negated):
        value, negated = value.operand, 1
    args = (context.source(value, 1, Kind.PREDICATE), context.source(instruction.operands[2], 32))
    return DecodedStep(Op.VOTE, flags=(VOTES.index(mode), negated),
                out=context.results(instruction.operands[0]), args=args)  # fmt: skip


def match(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode match.sync; flag: `.all`, whose second result is a predicate."""
    _, bits = element(instruction) if "sync" not in instruction.modifiers[-1:] else (Kind.BITS, 32)
    out = outputs(context, instruction.operands[0])
    args = (context.source(instruction.operands[1], bits),
            context.source(instruction.operands[2], 32))  # fmt: skip
    return DecodedStep(Op.MATCH, bits=bits, flags=(int("all" in instruction.modifiers),),
                out=(*out, SINK)[:2], args=args)  # fmt: skip


def reduce(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode redux.sync; raises Unsupported for an operation that atomics do not have."""
    kind, bits = element(instruction)
    word = next((w for w in instruction.modifiers if w in ATOMICS), "")
    if not word:
        raise Unsupported("the operation")
    args = tuple(context.source(operand, 32) for operand in instruction.operands[1:3])
    return DecodedStep(Op.REDUX, kind=kind, bits=bits, flags=(ATOMICS.index(word),),
                out=context.results(instruction.operands[0]), args=args)  # fmt: skip


def elect(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode elect.sync; results: leader lane, predicate; SINK where not wanted."""
    out = outputs(context, instruction.operands[0])
    return DecodedStep(
        Op.ELECT, out=(*out, SINK)[:2], args=(context.source(instruction.operands[1], 32),)
    )


def active_mask(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode activemask, whose only operand is its result."""
    return DecodedStep(Op.ACTIVE_MASK, out=context.results(instruction.operands[0]))


def collective(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """mma.sync, movmatrix, wmma.mma: a whole warp, results not computed."""
    out = context.results(instruction.operands[0])
    args: list[int] = []
    for operand in instruction.operands[1:]:
        if isinstance(operand, ptx.Vector | ptx.PtxRegister):
            args.extend(context.sources(operand))
    return DecodedStep(Op.COLLECTIVE, out=out, args=tuple(args))


# -------------------------------------------------------------------------------- mbarriers


def mbarrier(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode an mbarrier instruction by its first modifier (PTX ISA, "mbarrier")."""
    modifiers, operands = instruction.modifiers, instruction.operands
    verb = modifiers[0]
    space = space_of(modifiers)
    cluster = int("shared::cluster" in modifiers)
    if verb in ("init", "inval"):
        register, offset, space = context.address(operands[0], space)
        if verb == "inval":
            return DecodedStep(Op.BARRIER_INVALIDATE, flags=(space, offset), args=(register,))
        count = context.source(operands[1], 32)
        return DecodedStep(Op.BARRIER_INIT, flags=(space, offset), args=(register, count))
    if verb in ("arrive", "arrive_drop"):
        return _arrive(context, instruction, space, cluster)
    if verb in ("expect_tx", "complete_tx"):
        register, offset, space = context.address(operands[0], space)
        sign = 1 if verb == "expect_tx" else -1
        counted = (space, offset, scope_of(modifiers, AccessScope.CTA), cluster, sign)
        return DecodedStep(Op.BARRIER_EXPECT, flags=counted,
                    args=(register, context.source(operands[1], 32)))  # fmt: skip
    if verb in ("test_wait", "try_wait"):
        register, offset, space = context.address(operands[1], space)
        parity = int("parity" in modifiers)
        flags = (
            space, offset, semantics_of(modifiers, AccessSemantics.ACQUIRE),
            scope_of(modifiers, AccessScope.CTA), parity, int(verb == "try_wait"),
        )  # fmt: skip
        value = context.source(operands[2], 32 if parity else 64)
        return DecodedStep(Op.BARRIER_WAIT, flags=flags, out=outputs(context, operands[0])[:1],
                    args=(register, value))  # fmt: skip
    if verb == "pending_count":
        return DecodedStep(Op.BARRIER_PENDING, out=context.results(operands[0]),
                    args=(context.source(operands[1], 64),))  # fmt: skip
    raise Unsupported(f"mbarrier.{verb}")


def _arrive(
    context: DecodeContext, instruction: ptx.Instruction, space: MemorySpace, cluster: int
) -> DecodedStep:
    modifiers, operands = instruction.modifiers, list(instruction.operands)
    state = SINK
    if not isinstance(operands[0], ptx.Address):
        state = context.result(operands.pop(0))
    register, offset, space = context.address(operands[0], space)
    expects = int("expect_tx" in modifiers)
    flags = (
        space,
        offset,
        semantics_of(modifiers, AccessSemantics.RELEASE),
        scope_of(modifiers, AccessScope.CTA),
        expects,
        int("arrive_drop" in modifiers),
        int("noComplete" in modifiers),
        cluster,
    )
    count = context.source(operands[1], 32) if len(operands) > 1 else context.constant(1)
    return DecodedStep(Op.BARRIER_ARRIVE, flags=flags, out=(state,), args=(register, count))


def store_async(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """st.async and red.async: a store that completes bytes of an mbarrier.

    The forms without an mbarrier (st.async.release to global memory) are ordinary strong stores.
    """
    modifiers, operands = instruction.modifiers, instruction.operands
    kind, bits = element(instruction)
    register, offset, _ = context.address(operands[0], MemorySpace.SHARED)
    items = operands[1].items if isinstance(operands[1], ptx.Vector) else (operands[1],)
    values = tuple(context.source(item, bits, kind) for item in items)
    reduces = int(instruction.opcode == "red")
    if len(operands) < 3 or not isinstance(operands[2], ptx.Address):
        raise Unsupported("a form without an mbarrier")
    barrier, barrier_offset, _ = context.address(operands[2], MemorySpace.SHARED)
    space = space_of(modifiers)
    if space is MemorySpace.GENERIC:
        raise Unsupported("the space")
    operation = -1
    if reduces:
        operation = ATOMICS.index(next(word for word in modifiers if word in ATOMICS))
    flags = (space, offset, barrier_offset, len(items) * bits // 8, reduces, bits, operation)
    return DecodedStep(
        Op.STORE_ASYNC, kind=kind, bits=bits, flags=flags, args=(register, barrier, *values)
    )


# ------------------------------------------------------------------- barriers and fences


def barrier(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """bar, barrier, and barrier.cluster."""
    modifiers, operands = instruction.modifiers, instruction.operands
    if "cluster" in modifiers:
        aligned = int("aligned" in modifiers)
        if "arrive" in modifiers:
            semantics = semantics_of(modifiers, AccessSemantics.RELEASE)
            return DecodedStep(Op.CLUSTER_ARRIVE, flags=(semantics, aligned))
        return DecodedStep(Op.CLUSTER_WAIT, flags=(AccessSemantics.ACQUIRE, aligned))
    if "warp" in modifiers:
        return DecodedStep(Op.WARP_SYNC, args=(context.source(operands[0], 32),))
    aligned = int(instruction.opcode == "bar" or "aligned" in modifiers)
    side = Side.ARRIVE if "arrive" in modifiers else Side.SYNC
    reduction = 0
    rest = list(operands)
    out: tuple[int, ...] = ()
    if "red" in modifiers:
        word = next(w for w in modifiers if w in ("popc", "and", "or"))
        reduction = ("popc", "and", "or").index(word) + 1
        out = context.results(rest.pop(0))
    negated = 0
    args = [context.source(rest.pop(0), 32)]
    if reduction:
        value = rest.pop()
        if isinstance(value, ptx.Negated):
            value, negated = value.operand, 1
        threads = context.source(rest[0], 32) if rest else -1
        args += [threads, context.source(value, 1, Kind.PREDICATE)]
    else:
        args.append(context.source(rest[0], 32) if rest else -1)
    flags = (side, aligned, reduction, negated)
    return DecodedStep(Op.BARRIER_NAMED, flags=flags, out=out, args=tuple(args))


def fence(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """fence and membar, of all kinds."""
    modifiers, operands = instruction.modifiers, instruction.operands
    joined = ".".join(modifiers)
    scope = scope_of(modifiers)
    semantics = semantics_of(modifiers, AccessSemantics.ACQUIRE_RELEASE)
    space = next((n for n, word in enumerate(FENCE_SPACES) if n and word in modifiers), 0)
    args: tuple[int, ...] = ()
    if instruction.opcode == "membar" and "proxy" not in modifiers:
        levels = {"cta": AccessScope.CTA, "gl": AccessScope.GPU, "sys": AccessScope.SYSTEM}
        scope, semantics = levels.get(modifiers[-1], AccessScope.SYSTEM), AccessSemantics.SEQUENTIAL
        kind = RecordedFence.MEMORY
    elif "mbarrier_init" in modifiers:
        kind = RecordedFence.BARRIER_INIT
    elif "tensormap::generic" in joined:
        kind = RecordedFence.TENSORMAP_RELEASE
        if "acquire" in modifiers:
            kind = RecordedFence.TENSORMAP_ACQUIRE
            register, offset, own = context.address(operands[0], MemorySpace.GENERIC)
            return DecodedStep(Op.FENCE, flags=(kind, semantics, scope, space, own, offset),
                        args=(register,))  # fmt: skip
    elif "async::generic" in joined:
        kind = (
            RecordedFence.ASYNC_ACQUIRE if "acquire" in modifiers else RecordedFence.ASYNC_RELEASE
        )
    elif "proxy" in modifiers and any(word.startswith("async") for word in modifiers):
        kind = RecordedFence.PROXY_ASYNC
        space = _fence_space(modifiers)
    elif "alias" in modifiers:
        kind = RecordedFence.PROXY_ALIAS
    elif "proxy" in modifiers:
        raise Unsupported("the proxy")
    else:
        kind = RecordedFence.MEMORY
    return DecodedStep(Op.FENCE, flags=(kind, semantics, scope, space, 0, 0), args=args)


def _fence_space(modifiers: tuple[str, ...]) -> int:
    return next((n for n, word in enumerate(FENCE_SPACES) if n and word in modifiers), 0)
