"""Asynchronous copies: cp.async, bulk and tensor copies, st.async, launch control."""

from __future__ import annotations

from dataclasses import dataclass

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import (
    ATOMIC_WINDOWS,
    PLAIN_READ,
    PLAIN_WRITE,
    Located,
    any_known,
    fault,
    locate,
    outside,
    read_value,
    record,
    shared_of,
    within,
    write_value,
)
from titan.isa.simt.arithmetic import signed
from titan.isa.simt.copied_words import Sources, copied, sizes_read, sources_of
from titan.isa.simt.decode_async import (
    GATHER,
    IM2COL,
    IM2COL_W,
    LOAD,
    PREFETCH,
    REDUCE,
    SCATTER,
    TILE,
)
from titan.isa.simt.footprints import NO_CTA, Footprint, MemorySpace, merged
from titan.isa.simt.lane_order import clash_of_stores, clash_within, order_effects, order_lanes
from titan.isa.simt.lane_uses import LaneAccess
from titan.isa.simt.launch import MAP_BYTES, LaunchTensorMap
from titan.isa.simt.layout import resolve, to_generic
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.map_bytes import (
    BLANK,
    EditedTensorMap,
    editable,
    filled,
    map_named,
    replaced,
    unpacked,
)
from titan.isa.simt.memory import BARRIER
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.outcome import Policy, Steering
from titan.isa.simt.queues import enqueue
from titan.isa.simt.rendezvous import barrier_place
from titan.isa.simt.state import Cta, Fragment, InFlight, StoredNumber
from titan.isa.simt.tensor_maps import TensorAccess, counted_bytes, im2col, rows, tile, wraps
from titan.isa.simt.values import Opaque, Scalar, lanes_of, opaque_at, uniform

TENSOR_ALIGNMENT = 128
BULK_ALIGNMENT = START_BYTES = 16
READ, WRITE, BOTH = ev.Mode.READ, ev.Mode.WRITE, ev.Mode.ATOMIC


@dataclass(frozen=True, slots=True)
class AsynchronousWork:
    """What an instruction hands to an asynchronous unit.

    `queue`: the queue that a later wait names; None where only mbarriers are signalled.
    `tensor_map`: the generic address of the map, -1 without one. `group`: the `cta_group`, 0
    without one. `clipped`: a box that reaches over the edge of its tensor. `operands`: the numbers
    that a multiplication is given.
    """

    kind: ev.RecordedOperation
    effects: tuple[ev.RecordedEffect, ...]
    completes: tuple[ev.RecordedCompletion, ...] = ()
    queue: ev.RecordedQueue | None = None
    tensor_map: int = -1
    group: int = 0
    clipped: bool = False
    operands: tuple[int, ...] = ()


def start(machine: SimtMachine, fragment: Fragment, lanes: int, work: AsynchronousWork) -> InFlight:
    """Record an asynchronous operation and put it in flight."""
    number = machine.next_number()
    machine.record(
        ev.AsynchronousEvent, fragment, lanes, number, work.kind, work.effects, work.completes,
        work.queue, (), (), work.tensor_map, work.group, work.clipped, False, work.operands,
    )  # fmt: skip
    writes = tuple(e.footprint for e in work.effects if e.mode is not READ)
    for footprint in writes:
        _check_barriers(machine, fragment, lanes, footprint)
    operation = InFlight(
        number, work.kind, fragment.warp, lanes, fragment.pc, writes, work.completes, work.queue
    )
    if work.kind is not ev.RecordedOperation.COPY:
        order_effects(machine, fragment, lanes, work.effects)
    if work.queue is not None:
        enqueue(fragment.warp, work.queue, lanes, operation)
    machine.issue(operation)
    return operation


def _check_barriers(
    machine: SimtMachine, fragment: Fragment, lanes: int, footprint: Footprint
) -> None:
    """A copy onto a live mbarrier."""
    cta = machine.ctas.get(footprint.cta) if footprint.space is MemorySpace.SHARED else None
    if cta is None or not cta.barriers:
        return
    for low, high in footprint.ranges():
        if cta.shared.has(low, high - low, BARRIER):
            for offset in sorted(cta.barriers):
                if low <= offset < high:
                    barrier = ev.BarrierAddress(cta.number, offset)
                    machine.record(ev.BarrierMisuse, fragment, lanes, barrier,
                                   ev.Misuse.OVERWRITTEN)  # fmt: skip


def shared_range(
    machine: SimtMachine, fragment: Fragment, lanes: int, address: int, count: int, alignment: int
) -> tuple[Cta, int] | None:
    """CTA and offset of bytes of shared memory; faults are recorded. None if they are outside."""
    cta, offset = shared_of(machine, fragment.warp, address & 0xFFFFFFFF)
    where = (MemorySpace.SHARED, cta, offset)
    if offset % alignment:
        fault(machine, fragment, lanes, ev.MemoryFaultKind.MISALIGNED, where, alignment)
    if cta is None or outside(machine, cta, MemorySpace.SHARED, offset, count):
        fault(machine, fragment, lanes, ev.MemoryFaultKind.OUTSIDE, where, count)
        return None
    return cta, offset


def bytes_of(machine: SimtMachine, cta: Cta, offset: int, count: int) -> Footprint:
    """The footprint of `count` bytes of a CTA's shared memory from `offset`."""
    return machine.footprint(MemorySpace.SHARED, cta.number, ((offset, offset + count),))


def whole_warp(machine: SimtMachine, fragment: Fragment, lanes: int) -> None:
    """Identical bulk operations of several lanes touch memory as one does.

    What they complete on an mbarrier is counted for each lane: PTX has each thread make a copy.
    """
    if lanes & (lanes - 1):
        machine.assume(fragment, lanes, Policy.WHOLE_WARP_BULK)


def global_range(
    machine: SimtMachine, fragment: Fragment, lanes: int, address: int, count: int, alignment: int
) -> Footprint:
    """The footprint of global bytes; records a fault if misaligned or outside an allocation."""
    address = signed(address, 64)
    where = (MemorySpace.GLOBAL, None, address)
    if address % alignment:
        fault(machine, fragment, lanes, ev.MemoryFaultKind.MISALIGNED, where, alignment)
    if outside(machine, None, MemorySpace.GLOBAL, address, count):
        fault(machine, fragment, lanes, ev.MemoryFaultKind.OUTSIDE, where, count)
    return machine.footprint(MemorySpace.GLOBAL, NO_CTA, ((address, address + count),))


# ---------------------------------------------------------------------------------- cp.async


def copy(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """cp.async: each lane copies 4, 8 or 16 bytes; one operation for the warp."""
    to_offset, _, count, _ = step.flags
    warp = fragment.warp
    to = locate(machine, fragment, step.args[0], MemorySpace.SHARED, to_offset, count, mask)
    if to is None:
        machine.refuse(fragment, "the destination of a copy is not known")
    sizes = sizes_read(machine, fragment, step, mask)
    at = sources_of(machine, fragment, step, sizes)
    if at is None:
        machine.assume(fragment, mask, Policy.OPAQUE_ADDRESS)
    parts = [1 << index for index in lanes_of(mask)] if machine.apart else [mask]
    for lanes in parts:
        mine = [(by & lanes, where) for by, where in to if by & lanes]
        source = at and [item for item in at if item[0] & lanes]
        work = _copy_work(machine, warp.cta, mine, source, count)
        if source and any(any_known(machine, where, size) for _, where, size in source):
            steering = Steering(len(machine.events), fragment.pc, work.effects[0].footprint)
            machine.steering.append(steering)
        operation = start(machine, fragment, lanes, work)
        operation.places, operation.place_bytes = mine, count
        if not machine.maybe:
            operation.stored = copied(machine, mine, source or [], sizes, count)
    order_lanes(machine, fragment, to, count, LaneAccess.WRITE, fragment.pc)
    for lanes, where in to:
        sources = () if at is None else at
        found = {next((one for one in sources if one[0] >> n & 1), None) for n in lanes_of(lanes)}
        if len(found) > 1:
            clash_within(machine, fragment, lanes, where, count)
    return False


def _copy_work(
    machine: SimtMachine, cta: Cta, to: Located, at: Sources | None, count: int
) -> AsynchronousWork:
    effects: list[ev.RecordedEffect] = []
    if at is None:
        whole = machine.footprint(MemorySpace.GLOBAL, NO_CTA, ((0, 1 << 56),))
        effects.append(ev.RecordedEffect(whole, READ, ev.AccessProxy.GENERIC))
    elif at:
        runs = merged((where[2], where[2] + size) for _, where, size in at)
        footprint = machine.footprint(MemorySpace.GLOBAL, NO_CTA, runs)
        effects.append(ev.RecordedEffect(footprint, READ, ev.AccessProxy.GENERIC))
    if to:
        runs = merged((where[2], where[2] + count) for _, where in to)
        footprint = machine.footprint(MemorySpace.SHARED, cta.number, runs)
        effects.append(ev.RecordedEffect(footprint, WRITE, ev.AccessProxy.GENERIC))
    return AsynchronousWork(ev.RecordedOperation.COPY, tuple(effects), queue=ev.RecordedQueue.COPY)


# --------------------------------------------------------------------------------- bulk copies


def bulk_copy(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """cp.async.bulk and cp.reduce.async.bulk of plain bytes."""
    kind, to_space, at_space, to_offset, at_offset, barrier_offset, completes = step.flags[:7]
    registers = tuple(register for register in step.args if register >= 0)
    for lanes, values in machine.grouped(fragment, registers, mask, "an operand of a bulk copy"):
        whole_warp(machine, fragment, lanes)
        given = dict(zip((n for n, r in enumerate(step.args) if r >= 0), values, strict=True))
        count = given[2]
        if count % BULK_ALIGNMENT:
            where = (MemorySpace.SHARED, fragment.warp.cta, count)
            fault(machine, fragment, lanes, ev.MemoryFaultKind.MISALIGNED, where, BULK_ALIGNMENT)
        effects: list[ev.RecordedEffect] = []
        source = _bulk_side(machine, fragment, lanes, at_space, given[1] + at_offset, count)
        if source is not None:
            effects.append(ev.RecordedEffect(source, READ, ev.AccessProxy.ASYNC))
        mode = BOTH if kind == REDUCE else WRITE
        completions: list[ev.RecordedCompletion] = []
        place_ = None
        if completes:
            place_ = barrier_place(machine, fragment, MemorySpace.SHARED, given[3] + barrier_offset)
        if 4 in given:
            offset = (given[0] + to_offset) & 0xFFFFFF
            for _, cta in multicast(machine, fragment, lanes, given[4], offset, count):
                if not outside(machine, cta, MemorySpace.SHARED, offset, count):
                    effects.append(ev.RecordedEffect(bytes_of(machine, cta, offset, count), mode,
                                             ev.AccessProxy.ASYNC))  # fmt: skip
                if place_ is not None:
                    barrier = ev.BarrierAddress(cta.number, place_.offset)
                    completions.append(ev.RecordedCompletion(barrier, count * lanes.bit_count()))
        else:
            target = _bulk_side(machine, fragment, lanes, to_space, given[0] + to_offset, count)
            if target is not None:
                effects.append(ev.RecordedEffect(target, mode, ev.AccessProxy.ASYNC))
            if place_ is not None:
                completions.append(ev.RecordedCompletion(place_, count * lanes.bit_count()))
        operation = (
            ev.RecordedOperation.BULK_REDUCE if kind == REDUCE else ev.RecordedOperation.BULK_COPY
        )
        queue = None if completes else ev.RecordedQueue.BULK
        work = AsynchronousWork(operation, tuple(effects), tuple(completions), queue)
        start(machine, fragment, lanes, work)
    return False


def _bulk_side(
    machine: SimtMachine, fragment: Fragment, lanes: int, space: int, address: int, count: int
) -> Footprint | None:
    if space == MemorySpace.GLOBAL:
        space, address = resolve(address & (1 << 64) - 1)
    if space != MemorySpace.SHARED:
        return global_range(machine, fragment, lanes, address, count, BULK_ALIGNMENT)
    found = shared_range(machine, fragment, lanes, address, count, BULK_ALIGNMENT)
    return None if found is None else bytes_of(machine, *found, count)


def multicast(
    machine: SimtMachine, fragment: Fragment, lanes: int, mask: int, offset: int, count: int
) -> list[tuple[int, Cta]]:
    """The CTAs that a multicast mask names; one that the cluster does not have is a fault.

    `offset`, `count`: the bytes of each CTA's shared memory that are meant.
    """
    ctas = fragment.warp.cta.cluster.ctas
    if mask >> len(ctas):
        where = (MemorySpace.SHARED, None, offset)
        fault(machine, fragment, lanes, ev.MemoryFaultKind.NO_SUCH_CTA, where, count)
    return [(rank, cta) for rank, cta in enumerate(ctas) if mask >> rank & 1]


# ------------------------------------------------------------------------------- tensor copies


def map_of(machine: SimtMachine, data: bytes) -> LaunchTensorMap | None:
    """The map that 128 bytes name or hold."""
    found = map_named(machine.launch.tensor_maps, data) or machine.edited_maps.get(data)
    if found is None:
        made = unpacked(data)
        if made is not None:
            machine.edited_maps[data] = made
        found = made
    return found


def replace_in_map(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tensormap.replace: the map stays known where its bytes and the value are.

    It is a weak access to the whole map (PTX).
    """
    space, offset, field_, ordinal = step.flags
    marks = machine.mark_of(fragment.warp, step.args[1])
    if marks:
        machine.steered(fragment, marks, "store", mask)
    located = _map_places(machine, fragment, step, space, offset, mask)
    order_lanes(machine, fragment, located, MAP_BYTES, LaneAccess.WRITE, fragment.pc)
    for lanes, where in located:
        data = _map_read(machine, fragment, where)
        known = None if data is None else map_of(machine, data)
        whole = None if data is None else editable(data, known)
        if whole is BLANK:
            machine.assume(fragment, lanes, Policy.ZEROED_MAP)
        value = uniform(fragment.warp.registers[step.args[1]], lanes)
        made = None
        if whole is not None and isinstance(value, int):
            made = replaced(whole, field_, ordinal, value)
        _map_write(machine, fragment, where, made)
    return False


def copy_map(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tensormap.cp_fenceproxy: the whole warp copies a map and releases it.

    Each lane reads what is copied; the copy is one write, in which all have had their part.
    """
    space, offset, source_space, source_offset, semantics, scope = step.flags
    sources = locate(machine, fragment, step.args[1], source_space, source_offset, MAP_BYTES, mask)
    if sources:
        known = any(any_known(machine, where, MAP_BYTES) for _, where in sources)
        record(machine, fragment, sources, MAP_BYTES, PLAIN_READ, known=known)
        order_lanes(machine, fragment, sources, MAP_BYTES, LaneAccess.READ, fragment.pc)
    places = _map_places(machine, fragment, step, space, offset, mask)
    order_effects(machine, fragment, mask, _written(machine, places))
    one = sources is not None and len(sources) == 1 and sources[0][0] == mask
    data = _map_read(machine, fragment, sources[0][1]) if one and sources else None
    for _, where in places:
        _map_write(machine, fragment, where, data)
    kind = ev.RecordedFence.TENSORMAP_RELEASE
    fragment.warp.uses.fence(mask, kind, fragment.warp.live)
    machine.record(ev.FenceEvent, fragment, mask, kind,
                   ev.AccessSemantics(semantics), ev.AccessScope(scope))  # fmt: skip
    return False


def _map_places(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, space: int, offset: int, mask: int
) -> Located:
    """Where maps are written, which is recorded."""
    located = locate(machine, fragment, step.args[0], space, offset, MAP_BYTES, mask)
    located = within(machine, fragment, located, MAP_BYTES, ATOMIC_WINDOWS)
    if located is None:
        machine.refuse(fragment, "the address of a tensor map is not known")
    record(machine, fragment, located, MAP_BYTES, PLAIN_WRITE)
    return located


def _written(machine: SimtMachine, places: Located) -> list[ev.RecordedEffect]:
    found = []
    for _, (space, cta, at) in places:
        number = NO_CTA if cta is None else cta.number
        whole = machine.footprint(MemorySpace(space), number, ((at, at + MAP_BYTES),))
        found.append(ev.RecordedEffect(whole, WRITE, ev.AccessProxy.GENERIC))
    return found


def _map_read(
    machine: SimtMachine, fragment: Fragment, where: tuple[int, Cta | None, int]
) -> bytes | None:
    parts: list[bytes] = []
    for at in range(where[2], where[2] + MAP_BYTES, 8):
        part = (where[0], where[1], at)
        value = read_value(machine, fragment.warp, 0, part, 8, fragment.pc)
        if isinstance(value, Opaque):
            return filled(None, b"".join(parts))
        parts.append(value.to_bytes(8, "little"))
    return b"".join(parts)


def _map_write(
    machine: SimtMachine, fragment: Fragment, where: tuple[int, Cta | None, int],
    data: bytes | None,
) -> None:  # fmt: skip
    for at in range(0, MAP_BYTES, 8):
        part = (where[0], where[1], where[2] + at)
        value: Scalar = opaque_at(fragment.pc)
        if data is not None:
            value = int.from_bytes(data[at : at + 8], "little")
        write_value(machine, fragment, 0, part, 8, value)


def tensor_map_at(machine: SimtMachine, fragment: Fragment, address: int) -> LaunchTensorMap:
    """The map whose 128 bytes lie at a generic address. Ends the run if it is not known."""
    space, at = resolve(address)
    data: bytes | None = None
    if space is MemorySpace.GLOBAL:
        half = machine.memory.bytes_at(at, MAP_BYTES // 2)
        data = filled(machine.memory.bytes_at(at, MAP_BYTES), half)
    elif space in (MemorySpace.PARAMETER, MemorySpace.CONSTANT):
        memory = machine.parameters if space is MemorySpace.PARAMETER else machine.constants
        if at + MAP_BYTES <= memory.size:
            value = memory.read(at, MAP_BYTES, -1)
            data = None if isinstance(value, Opaque) else value.to_bytes(MAP_BYTES, "little")
    found = None if data is None else map_of(machine, data)
    if found is None:
        if space is MemorySpace.PARAMETER:
            machine.map_offset = at
        where = f"{space.name.lower()} offset {at}" if space is not MemorySpace.GLOBAL else hex(at)
        machine.refuse(fragment, f"the tensor map at {where} is not known")
    return found


def tensor_copy(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Loads, stores, reductions and prefetches of boxes of tensors."""
    registers = tuple(register for register in step.args if register >= 0)
    names = tuple(n for n, register in enumerate(step.args) if register >= 0)
    for lanes, values in machine.grouped(fragment, registers, mask, "an operand of a tensor copy"):
        whole_warp(machine, fragment, lanes)
        given = dict(zip(names, values, strict=True))
        _tensor_copy(machine, fragment, step, lanes, given)
    return False


def _negative_start(
    machine: SimtMachine, fragment: Fragment, lanes: int, map_: LaunchTensorMap
) -> None:
    """Record that a box of a store begins before its tensor: parts of it may lie outside, as those
    of a load, but its corner may have no negative index (CUDA programming guide, tensor copies)."""
    begin = machine.footprint(MemorySpace.GLOBAL, NO_CTA, ((map_.base, map_.base + START_BYTES),))
    machine.record(ev.MemoryFault, fragment, lanes, ev.MemoryFaultKind.NEGATIVE_START, begin, 0)


def _tensor_copy(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, lanes: int, given: dict[int, int]
) -> None:
    kind, _, mode, group, shared_offset, map_offset, barrier_offset, count, space = step.flags[:9]
    address = given[1] + map_offset
    if space in (MemorySpace.PARAMETER, MemorySpace.CONSTANT):
        address = to_generic(MemorySpace(space), address)
    map_ = tensor_map_at(machine, fragment, address)
    coordinates = tuple(_signed(given[4 + n]) for n in range(count))
    offsets = tuple(given[4 + count + n] for n in range(len(step.args) - 4 - count))
    access = _access(machine, fragment, map_, mode, coordinates, offsets)
    if kind == PREFETCH:
        machine.record(ev.Prefetch, fragment, lanes, access.footprint)
        return
    effects = _map_effects(machine, fragment, lanes, address, map_, access)
    shared = given[0] + shared_offset
    found = shared_range(machine, fragment, lanes, shared, access.bytes, TENSOR_ALIGNMENT)
    if kind != LOAD:
        if mode == TILE and min(coordinates) < 0:
            _negative_start(machine, fragment, lanes, map_)
        if found is not None:
            effects.append(ev.RecordedEffect(bytes_of(machine, *found, access.bytes), READ,
                                     ev.AccessProxy.ASYNC))  # fmt: skip
        to = BOTH if kind == REDUCE else WRITE
        if access.footprint.boxes:
            effects.append(ev.RecordedEffect(access.footprint, to, ev.AccessProxy.ASYNC))
        operation = (
            ev.RecordedOperation.TENSOR_REDUCE
            if kind == REDUCE
            else ev.RecordedOperation.TENSOR_COPY
        )
        work = AsynchronousWork(
            operation, tuple(effects), (), ev.RecordedQueue.BULK, address, group, access.clipped
        )
        start(machine, fragment, lanes, work)
        return
    if access.footprint.boxes:
        effects.append(ev.RecordedEffect(access.footprint, READ, ev.AccessProxy.ASYNC))
    place_ = barrier_place(machine, fragment, MemorySpace.SHARED, given[2] + barrier_offset)
    completions: list[ev.RecordedCompletion] = []
    counted = counted_bytes(map_, access.bytes) * lanes.bit_count()
    if 3 in given:
        offset = shared & 0xFFFFFF
        for rank, cta in multicast(machine, fragment, lanes, given[3], offset, access.bytes):
            if not outside(machine, cta, MemorySpace.SHARED, offset, access.bytes):
                effects.append(
                    ev.RecordedEffect(
                        bytes_of(machine, cta, offset, access.bytes), WRITE, ev.AccessProxy.ASYNC
                    )
                )
            owner = cta
            if group == 2:  # the barrier may be in the other CTA of the pair
                odd = machine.ctas[place_.cta].rank & 1
                members = fragment.warp.cta.cluster.ctas
                if (rank & ~1) | odd < len(members):
                    owner = members[(rank & ~1) | odd]
            completions.append(
                ev.RecordedCompletion(ev.BarrierAddress(owner.number, place_.offset), counted)
            )
    else:
        if found is not None:
            effects.append(ev.RecordedEffect(bytes_of(machine, *found, access.bytes), WRITE,
                                     ev.AccessProxy.ASYNC))  # fmt: skip
        completions.append(ev.RecordedCompletion(place_, counted))
    work = AsynchronousWork(
        ev.RecordedOperation.TENSOR_COPY, tuple(effects), tuple(completions), None, address, group,
        access.clipped,
    )  # fmt: skip
    start(machine, fragment, lanes, work)


def _map_effects(
    machine: SimtMachine, fragment: Fragment, lanes: int, address: int, map_: LaunchTensorMap,
    access: TensorAccess,
) -> list[ev.RecordedEffect]:  # fmt: skip
    """The read of a map in global memory, where the kernel may edit it. What a copy through an
    edited map, or one of all addresses, touches outside of all allocations is recorded.
    """
    unsure = isinstance(map_, EditedTensorMap) or wraps(map_)
    for box in access.footprint.boxes if unsure else ():
        count = box.length + sum((many - 1) * distance for many, distance in box.steps)
        if outside(machine, None, MemorySpace.GLOBAL, box.start, count):
            where = (MemorySpace.GLOBAL, None, box.start)
            fault(machine, fragment, lanes, ev.MemoryFaultKind.OUTSIDE, where, count)
    if resolve(address)[0] is not MemorySpace.GLOBAL:
        return []
    read = machine.footprint(MemorySpace.GLOBAL, NO_CTA, ((address, address + MAP_BYTES),))
    return [ev.RecordedEffect(read, READ, ev.AccessProxy.TENSORMAP)]


def _access(
    machine: SimtMachine, fragment: Fragment, map_: LaunchTensorMap, mode: int,
    coordinates: tuple[int, ...], offsets: tuple[int, ...],
) -> TensorAccess:  # fmt: skip
    key = ("tensor", id(map_), mode, coordinates, offsets)
    found = machine.tensor_accesses.get(key)
    if found is None:
        wanted = 2 if mode in (GATHER, SCATTER) else len(coordinates)
        if map_.rank != wanted:
            machine.fault(fragment, f"{wanted} coordinates for {map_.rank} dimensions")
        if mode in (GATHER, SCATTER):
            found = rows(map_, coordinates[0], coordinates[1:])
        elif mode in (IM2COL, IM2COL_W):
            if not map_.pixels:
                machine.refuse(fragment, "an im2col copy through a map that is not im2col")
            found = im2col(map_, coordinates, offsets)
        else:
            found = tile(map_, coordinates)
        machine.tensor_accesses[key] = found
    return found


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


# ------------------------------------------------------------------------------- st.async


def store_async(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """st.async and red.async to shared memory of the cluster."""
    space, offset, barrier_offset, count, reduces = step.flags[:5]
    for lanes, (address,) in machine.grouped(fragment, (step.args[1],), mask, "an mbarrier"):
        place_ = barrier_place(machine, fragment, MemorySpace.SHARED, address + barrier_offset)
        located = locate(machine, fragment, step.args[0], space, offset, count, lanes)
        if located is None:
            machine.refuse(fragment, "the destination of an asynchronous store is not known")
        if not reduces:
            clash_of_stores(machine, fragment, located, step.args[2:], count // len(step.args[2:]))
        by_cta: dict[int, list[tuple[int, int]]] = {}
        for _, (_, cta, at) in located:
            if cta is not None:
                by_cta.setdefault(cta.number, []).append((at, at + count))
        mode = BOTH if reduces else WRITE
        effects = tuple(
            ev.RecordedEffect(machine.footprint(MemorySpace.SHARED, number, merged(runs)), mode,
                      ev.AccessProxy.GENERIC)
            for number, runs in by_cta.items()
        )  # fmt: skip
        operation = ev.RecordedOperation.REDUCE if reduces else ev.RecordedOperation.STORE
        completion = ev.RecordedCompletion(place_, count * lanes.bit_count())
        work = AsynchronousWork(operation, effects, (completion,))
        stores = start(machine, fragment, lanes, work)
        if not reduces and not machine.maybe:
            stores.stored = _stored(fragment, step, located, count // len(step.args[2:]))
    return False


def _stored(
    fragment: Fragment, step: DecodedStep, located: Located, size: int
) -> tuple[StoredNumber, ...]:
    """The numbers of `size` bytes that are known of those that lanes store."""
    found, ones = [], (1 << 8 * size) - 1
    for lanes, (_, cta, at) in located:
        for number, register in enumerate(step.args[2:] if cta is not None else ()):
            value = uniform(fragment.warp.registers[register], lanes)
            if isinstance(value, int) and cta is not None:
                found.append(StoredNumber(cta.number, at + number * size, size, value & ones))
    return tuple(found)
