"""Decodes asynchronous copies, wgmma, tcgen05 and what belongs to them."""

from __future__ import annotations

import re

from titan.isa.ptx import module as ptx
from titan.isa.simt.decode_arithmetic import outputs
from titan.isa.simt.decode_context import DecodeContext, Unsupported, space_of, type_of
from titan.isa.simt.events import AccessScope, AccessSemantics, RecordedFence, RecordedQueue
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import ATOMICS, DecodedStep, Kind, Op

LOAD, STORE, REDUCE, PREFETCH = range(4)
PREFETCH_ALIGNMENT = 16  # of the address and the bytes
TILE, IM2COL, GATHER, SCATTER, IM2COL_W = range(5)
ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1,
}  # fmt: skip
# tcgen05 kinds; an operand of one instruction has 32 bytes along K in all of them
KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
# tcgen05.ld and .st: lanes, and columns of 32 bits for .x1
SHAPES = {"32x32b": (32, 1), "16x64b": (16, 2), "16x128b": (16, 4), "16x256b": (16, 8),
          "16x32bx2": (16, 1)}  # fmt: skip
# of tcgen05.ld and .st: each column of 32 bits holds 16 bits, and a register two of them
PACKED = ("pack::16b", "unpack::16b")
# tcgen05.cp: rows of the shared matrix, bytes of a row, lanes it is written to in all
COPY_SHAPES = {"128x256b": (128, 32, 128), "4x256b": (4, 32, 4), "128x128b": (128, 16, 128),
               "64x128b": (64, 16, 128), "32x128b": (32, 16, 128)}  # fmt: skip


def number(operand: ptx.Operand) -> int:
    """An operand that must be a constant."""
    if not isinstance(operand, ptx.Immediate):
        raise Unsupported("an operand that must be a constant")
    return operand.value


def copy(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """cp.async, cp.async.bulk, cp.reduce.async.bulk and their groups."""
    modifiers, operands = instruction.modifiers, instruction.operands
    if "bulk" in modifiers:
        if "commit_group" in modifiers:
            return DecodedStep(Op.BULK_COMMIT)
        if "wait_group" in modifiers:
            return DecodedStep(Op.BULK_WAIT, flags=(number(operands[0]), int("read" in modifiers)))
        if "tensor" in modifiers:
            return _tensor_copy(context, instruction)
        return _bulk_copy(context, instruction)
    if "commit_group" in modifiers:
        return DecodedStep(Op.COPY_COMMIT)
    if "wait_group" in modifiers:
        return DecodedStep(Op.COPY_WAIT, flags=(number(operands[0]),))
    if "wait_all" in modifiers:
        return DecodedStep(Op.COPY_WAIT_ALL)
    if "mbarrier" in modifiers:
        register, offset, space = context.address(operands[0], space_of(modifiers))
        return DecodedStep(Op.COPY_ARRIVE, flags=(space, offset, int("noinc" in modifiers)),
                    args=(register,))  # fmt: skip
    to, to_offset, _ = context.address(operands[0], MemorySpace.SHARED)
    at, at_offset, _ = context.address(operands[1], MemorySpace.GLOBAL)
    bytes_ = number(operands[2])
    args = [to, at]
    ignore = 0
    if len(operands) > 3:
        if context.is_predicate(operands[3]):
            ignore = 1
            args.append(context.source(operands[3], 1, Kind.PREDICATE))
        elif not _policy(operands, 3, modifiers):
            args.append(context.source(operands[3], 32))
    flags = (to_offset, at_offset, bytes_, ignore)
    return DecodedStep(Op.COPY, flags=flags, args=tuple(args))


def _policy(operands: tuple[ptx.Operand, ...], place: int, modifiers: tuple[str, ...]) -> bool:
    """Whether the operand is a cache policy (the last one of a form with a cache hint)."""
    return "L2::cache_hint" in modifiers and place == len(operands) - 1


def _without_policy(instruction: ptx.Instruction) -> list[ptx.Operand]:
    operands = list(instruction.operands)
    if "L2::cache_hint" in instruction.modifiers:
        operands.pop()
    return operands


def _bulk_copy(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """flags (kind, destination space, source space, destination offset, source offset, barrier
    offset, completes mbarrier, destination in the cluster, operation of a reduction, kind and
    bits of its numbers); args dst, src, bytes, barrier, mask.
    """
    modifiers = instruction.modifiers
    operands = _without_policy(instruction)
    if "prefetch" in modifiers:
        at, offset, _ = context.address(operands[0], MemorySpace.GLOBAL)
        args = (at, context.source(operands[1], 32))
        asked = (MemorySpace.GLOBAL, offset, PREFETCH_ALIGNMENT, 0)
        return DecodedStep(Op.PREFETCH, flags=asked, args=args)
    kind = REDUCE if "reduce" in modifiers else LOAD
    spaces = [m for m in modifiers if m.startswith("shared") or m == "global"]
    if len(spaces) < 2:
        raise Unsupported("the spaces")
    to_space = MemorySpace.GLOBAL if spaces[0] == "global" else MemorySpace.SHARED
    at_space = MemorySpace.GLOBAL if spaces[1] == "global" else MemorySpace.SHARED
    to, to_offset, _ = context.address(operands[0], to_space)
    at, at_offset, _ = context.address(operands[1], at_space)
    bytes_ = context.source(operands[2], 32)
    completes = int(any("mbarrier" in m for m in modifiers))
    barrier = barrier_offset = mask = -1
    if completes:
        barrier, barrier_offset, _ = context.address(operands[3], MemorySpace.SHARED)
        if any("multicast" in m for m in modifiers):
            mask = context.source(operands[4], 16)
    flags = (kind, to_space, at_space, to_offset, at_offset, barrier_offset, completes,
             int(spaces[0] == "shared::cluster"), _reduction(kind, modifiers),
             *(type_of(modifiers[-1]) or (Kind.BITS, 0)))  # fmt: skip
    return DecodedStep(Op.BULK_COPY, flags=flags, args=(to, at, bytes_, barrier, mask))


def _reduction(kind: int, modifiers: tuple[str, ...]) -> int:
    """The number of the operation among ATOMICS; -1 of what is no reduction."""
    if kind != REDUCE:
        return -1
    word = next((word for word in modifiers if word in ATOMICS), None)
    if word is None:
        raise Unsupported("the operation")
    return ATOMICS.index(word)


def _tensor_copy(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """flags (kind, dimensions, mode, cta group, shared offset, map offset, barrier offset, number
    of coordinates, space of the map, operation of a reduction); args shared, map, barrier|-1,
    mask|-1, coordinates, im2col offsets.
    """
    modifiers = instruction.modifiers
    operands = _without_policy(instruction)
    dimensions = next((int(m[0]) for m in modifiers if re.fullmatch(r"[1-5]d", m)), 0)
    mode = TILE
    for word in modifiers:
        if word.startswith("tile::gather"):
            mode = GATHER
        elif word.startswith("tile::scatter"):
            mode = SCATTER
        elif word in ("im2col", "im2col_no_offs"):
            mode = IM2COL
        elif word.startswith("im2col::w"):
            raise Unsupported("the mode")  # how many pixels it reads is not in the map alone
    group = 2 if "cta_group::2" in modifiers else 1 if "cta_group::1" in modifiers else 0
    shared = context.constant(0)
    shared_offset = 0
    if "prefetch" in modifiers:
        kind, place = PREFETCH, operands.pop(0)
    elif modifiers[0] == "reduce" or "reduce" in modifiers or "bulk_group" in modifiers:
        kind = REDUCE if "reduce" in modifiers else STORE
        place = operands.pop(0)
        shared, shared_offset, _ = context.address(operands.pop(0), MemorySpace.SHARED)
    else:
        kind = LOAD
        shared, shared_offset, _ = context.address(operands.pop(0), MemorySpace.SHARED)
        place = operands.pop(0)
    if not isinstance(place, ptx.Address) or place.coordinates is None:
        raise Unsupported("the coordinates")
    map_, map_offset, space = context.address(
        ptx.Address(place.base, place.offset), MemorySpace.GENERIC
    )
    barrier = mask = -1
    barrier_offset = 0
    if kind == LOAD:
        barrier, barrier_offset, _ = context.address(operands.pop(0), MemorySpace.SHARED)
    offsets: tuple[int, ...] = ()
    if operands and isinstance(operands[0], ptx.Vector):
        offsets = context.sources(operands.pop(0), 16)
    if any("multicast" in m for m in modifiers):
        mask = context.source(operands.pop(0), 16)
    coordinates = tuple(context.source(item, 32) for item in place.coordinates)
    if not 1 <= len(coordinates) <= 5 or len(offsets) > 3:
        raise Unsupported("the coordinates")
    flags = (kind, dimensions, mode, group, shared_offset, map_offset, barrier_offset,
             len(coordinates), space, _reduction(kind, modifiers))  # fmt: skip
    return DecodedStep(Op.TENSOR_COPY, flags=flags,
                args=(shared, map_, barrier, mask, *coordinates, *offsets))  # fmt: skip


# ------------------------------------------------------------------------------------ wgmma


def wgmma(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """flags (N, bytes of K of B, transposed A, transposed B, A registers, elements' bits, 2 if
    sparse); args scale-d, B, then A (a descriptor or registers), then the metadata of a sparse A.
    """
    modifiers, operands = instruction.modifiers, instruction.operands
    verb = modifiers[0]
    if verb == "fence":
        return DecodedStep(Op.WGMMA_FENCE)
    if verb == "commit_group":
        return DecodedStep(Op.WGMMA_COMMIT)
    if verb == "wait_group":
        return DecodedStep(Op.WGMMA_WAIT, flags=(number(operands[0]),))
    shape = re.search(r"\bm64n(\d+)k(\d+)\b", ".".join(modifiers))
    types = [ELEMENT_BITS[m] for m in modifiers if m in ELEMENT_BITS]
    if shape is None or len(types) < 2 or not isinstance(operands[0], ptx.Vector):
        raise Unsupported("the shape or types")
    bits = types[-1]
    columns, depth = int(shape.group(1)), int(shape.group(2))
    sparse = 2 if "sp" in modifiers else 1
    a_registers = isinstance(operands[1], ptx.Vector)
    rest = list(operands[3:])
    metadata: tuple[int, ...] = ()
    if sparse == 2:
        metadata = context.sources(rest[0])
        rest = rest[2:]  # behind the metadata its selector
    constants = [item.value for item in rest[1:] if isinstance(item, ptx.Immediate)]
    transposed = constants[2:]
    transposed_a = 0 if a_registers or not transposed else transposed[0]
    transposed_b = transposed[-1] if transposed else 0
    scale = context.source(rest[0], 1, Kind.PREDICATE) if rest else context.constant(1)
    a = context.sources(operands[1]) if a_registers else (context.source(operands[1], 64),)
    flags = (columns, depth * bits // 8, transposed_a, transposed_b, int(a_registers), bits, sparse)
    return DecodedStep(Op.WGMMA, flags=flags, out=context.results(operands[0]),
                args=(scale, context.source(operands[2], 64), *a, *metadata))  # fmt: skip


# ---------------------------------------------------------------------------------- tcgen05


def tcgen05(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode a tcgen05 instruction by its first modifier (PTX ISA, "TensorCore 5th Generation")."""
    modifiers, operands = instruction.modifiers, instruction.operands
    verb = modifiers[0]
    group = 2 if "cta_group::2" in modifiers else 1
    if verb.startswith("fence"):
        before = verb.endswith("before_thread_sync")
        kind = RecordedFence.TENSOR_BEFORE if before else RecordedFence.TENSOR_AFTER
        return DecodedStep(Op.FENCE, flags=(kind, AccessSemantics.WEAK, AccessScope.NONE, 0, 0, 0))
    if verb.startswith("wait"):
        queue = RecordedQueue.TENSOR_STORE if verb.endswith("st") else RecordedQueue.TENSOR_LOAD
        return DecodedStep(Op.TENSOR_WAIT, flags=(queue,))
    if verb == "alloc":
        register, offset, space = context.address(operands[0], space_of(modifiers))
        return DecodedStep(Op.TENSOR_ALLOCATE, flags=(group, space, offset),
                    args=(register, context.source(operands[1], 32)))  # fmt: skip
    if verb == "dealloc":
        args = (context.source(operands[0], 32), context.source(operands[1], 32))
        return DecodedStep(Op.TENSOR_DEALLOCATE, flags=(group,), args=args)
    if verb == "relinquish_alloc_permit":
        return DecodedStep(Op.TENSOR_RELINQUISH, flags=(group,))
    if verb == "commit":
        register, offset, space = context.address(operands[0], space_of(modifiers))
        many = any("multicast" in m for m in modifiers)
        mask = context.source(operands[1], 16) if many else -1
        return DecodedStep(Op.TENSOR_COMMIT, flags=(group, space, offset), args=(register, mask))
    if verb in ("ld", "st"):
        return _tensor_access(context, instruction)
    if verb == "mma":
        return _tensor_multiply(context, instruction, group)
    if verb == "cp":
        shape = next((m for m in modifiers if m in COPY_SHAPES), None)
        if shape is None:
            raise Unsupported("the shape")
        register, offset, _ = context.address(operands[0], MemorySpace.TENSOR)
        flags = (group, offset, *COPY_SHAPES[shape])
        return DecodedStep(Op.TENSOR_MEMORY_COPY, flags=flags,
                    args=(register, context.source(operands[1], 64)))  # fmt: skip
    if verb == "shift":
        register, offset, _ = context.address(operands[0], MemorySpace.TENSOR)
        return DecodedStep(Op.TENSOR_SHIFT, flags=(group, offset), args=(register,))
    raise Unsupported(f"tcgen05.{verb}")


def _tensor_access(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """flags (lanes, columns, distance of the second half or -1, address offset); args address,
    values of a store. Where 16 bits of a column are packed, a register is of two columns.
    """
    modifiers, operands = instruction.modifiers, list(instruction.operands)
    shape = next((m for m in modifiers if m in SHAPES), None)
    times = next((int(m[1:]) for m in modifiers if re.fullmatch(r"x\d+", m)), None)
    if shape is None or times is None or "red" in modifiers:
        raise Unsupported("the shape")
    lanes, columns = SHAPES[shape]
    if any(word in PACKED for word in modifiers):
        columns *= 2
    if modifiers[0] == "ld":
        out = context.results(operands.pop(0))
        place = operands.pop(0)
        values: tuple[int, ...] = ()
    else:
        place = operands.pop(0)
        out = ()
        values = context.sources(operands.pop())
    half = number(operands[0]) if shape == "16x32bx2" else -1
    register, offset, _ = context.address(place, MemorySpace.TENSOR)
    op = Op.TENSOR_LOAD if modifiers[0] == "ld" else Op.TENSOR_STORE
    return DecodedStep(
        op, flags=(lanes, columns * times, half, offset), out=out, args=(register, *values)
    )


def _tensor_multiply(
    context: DecodeContext, instruction: ptx.Instruction, group: int
) -> DecodedStep:
    """flags (cta group, kind, A in tensor memory, weight stationary, block scaled, sparse, offset
    of D, offset of A, offsets of the scales, scales of a row along K, offset of the metadata); args
    D, A, B, instruction descriptor, accumulate, then the two scales, then metadata of a sparse A.
    """
    modifiers, operands = instruction.modifiers, list(instruction.operands)
    kind = next((m.removeprefix("kind::") for m in modifiers if m.startswith("kind::")), "")
    if kind not in KINDS:
        raise Unsupported("the kind")
    d, d_offset, _ = context.address(operands.pop(0), MemorySpace.TENSOR)
    a_operand = operands.pop(0)
    in_tensor = isinstance(a_operand, ptx.Address)
    a, a_offset, _ = context.address(a_operand, MemorySpace.TENSOR)
    b = context.source(operands.pop(0), 64)
    sparse, metadata_offset = int("sp" in modifiers), 0
    metadata: list[int] = []
    if sparse:
        register, metadata_offset, _ = context.address(operands.pop(0), MemorySpace.TENSOR)
        metadata.append(register)
    descriptor = context.source(operands.pop(0), 32)
    scaled = int("block_scale" in modifiers)
    scales: list[int] = []
    offsets = [0, 0]
    if scaled:
        for place in range(2):
            register, offsets[place], _ = context.address(operands.pop(0), MemorySpace.TENSOR)
            scales.append(register)
    accumulate = context.constant(1)
    for mask in operands:
        if isinstance(mask, ptx.Vector):  # of lanes of D that are switched off
            context.output_masks.append((instruction, context.sources(mask)))
    for operand in operands:
        if context.is_predicate(operand):
            accumulate = context.source(operand)
            break
        if isinstance(operand, ptx.Immediate):
            accumulate = context.constant(int(operand.value != 0))
            break
    depth = 64 if kind.startswith("mxf4") else 32
    times = depth // (16 if "scale_vec::4X" in modifiers or "block16" in modifiers else 32)
    flags = (group, KINDS.index(kind), int(in_tensor), int("ws" in modifiers), scaled, sparse,
             d_offset, a_offset, offsets[0], offsets[1], times, metadata_offset)  # fmt: skip
    args = (d, a, b, descriptor, accumulate, *scales, *metadata)
    return DecodedStep(Op.TENSOR_MULTIPLY, flags=flags, args=args)


# -------------------------------------------------------------------------------- resources


def register_count(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode setmaxnreg; flags: `.inc`, then the number of registers for each thread."""
    flags = (int("inc" in instruction.modifiers), number(instruction.operands[0]))
    return DecodedStep(Op.REGISTER_COUNT, flags=flags)


def grid_control(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """Decode griddepcontrol; flag: `.wait`, not `.launch_dependents`."""
    return DecodedStep(Op.GRID_CONTROL, flags=(int("wait" in instruction.modifiers),))


def launch_control(context: DecodeContext, instruction: ptx.Instruction) -> DecodedStep:
    """clusterlaunchcontrol: try_cancel is asynchronous, query_cancel reads its response."""
    modifiers, operands = instruction.modifiers, instruction.operands
    if "try_cancel" in modifiers:
        if "shared::cta" not in modifiers:
            raise Unsupported("the space")
        register, offset, _ = context.address(operands[0], MemorySpace.SHARED)
        barrier, barrier_offset, _ = context.address(operands[1], MemorySpace.SHARED)
        many = int(any("multicast" in m for m in modifiers))
        return DecodedStep(
            Op.TRY_CANCEL, flags=(offset, barrier_offset, many), args=(register, barrier)
        )
    asked = {"is_canceled": 0, "get_first_ctaid::y": 2, "get_first_ctaid::z": 3}
    first = next((asked[name] for name in modifiers if name in asked), 1)
    return DecodedStep(Op.QUERY_CANCEL, flags=(first,), out=outputs(context, operands[0]),
                args=(context.source(operands[1]),))  # fmt: skip
