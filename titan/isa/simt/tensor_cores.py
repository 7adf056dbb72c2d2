"""wgmma and tcgen05: tensor cores and tensor memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from titan.isa.simt import accesses
from titan.isa.simt import events as ev
from titan.isa.simt.copies import AsynchronousWork, multicast, start, whole_warp
from titan.isa.simt.decode_async import KINDS
from titan.isa.simt.descriptors import MatrixDescriptor, decode, operand
from titan.isa.simt.footprints import Box, Footprint, MemorySpace, tensor_box
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.mbarriers import BYTES
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.outcome import PEER_ALLOCATION, Policy, Waiter
from titan.isa.simt.queues import WARPGROUP_WARPS, enqueue
from titan.isa.simt.rendezvous import barrier_place
from titan.isa.simt.state import TENSOR_COLUMNS, Blocked, Cta, Fragment, InFlight
from titan.isa.simt.values import lanes_of, opaque_at, uniform

READ, WRITE, BOTH = ev.Mode.READ, ev.Mode.WRITE, ev.Mode.ATOMIC
TENSOR_LANES = 128
QUARTER_LANES = 32  # which one warp of a warpgroup reaches
SCALE_ROWS = 32  # whose scales stand in one column of tensor memory
K_BYTES = 32  # along K, of each operand of one tcgen05.mma and wgmma
ELEMENT_BITS = {"f16": 16, "tf32": 32}  # others are of 8 bits in shared memory


@dataclass(frozen=True, slots=True)
class OperandForm:
    """How an operand lies in shared memory: `extent` rows (or columns) of `k_bytes` along K.

    `tensor`: the descriptor is one of tcgen05, not of wgmma.
    """

    extent: int
    k_bytes: int
    mn_major: bool
    bits: int
    tensor: bool


class TensorRectangle(NamedTuple):
    """Lanes and 32-bit columns of tensor memory: the first of each, and how many."""

    lane: int
    lanes: int
    column: int
    columns: int


def shared_operand(
    machine: SimtMachine, fragment: Fragment, lanes: int, value: int, form: OperandForm,
    ctas: list[Cta],
) -> list[ev.RecordedEffect]:  # fmt: skip
    """The reads of an operand in shared memory, in each CTA."""
    descriptor = decode(value, tensor=form.tensor)
    if descriptor is None:
        place = machine.footprint(MemorySpace.SHARED, fragment.warp.cta.number, ())
        machine.record(ev.MemoryFault, fragment, lanes, ev.MemoryFaultKind.DESCRIPTOR, place, 0)
        return []
    boxes = operand(descriptor, form.extent, form.k_bytes, form.mn_major, form.bits)
    found = []
    for cta in ctas:
        key = ("operand", cta.number, descriptor, form)
        footprint = machine.footprints.get(key)
        if footprint is None:
            footprint = machine.footprints[key] = Footprint(MemorySpace.SHARED, cta.number, boxes)
        low, high = footprint.bounds
        in_hole = machine.layout.in_hole(MemorySpace.SHARED, low, high - low) and any(
            machine.layout.in_hole(MemorySpace.SHARED, start, end - start)
            for start, end in footprint.ranges()
        )
        if low < 0 or high > cta.shared.size or in_hole:
            machine.record(ev.MemoryFault, fragment, lanes, ev.MemoryFaultKind.OUTSIDE, footprint,
                           0)  # fmt: skip
        found.append(ev.RecordedEffect(footprint, READ, ev.AccessProxy.ASYNC))
    return found


# ------------------------------------------------------------------------------------ wgmma


def wgmma(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """wgmma.mma_async; each warp of the warpgroup records the whole operands."""
    columns, k_bytes, transposed_a, transposed_b, a_registers, bits, sparse = step.flags
    warp = fragment.warp
    what = "a matrix descriptor"
    value = machine.known(fragment, step.args[1], mask, what)
    cta = [warp.cta]
    effects: list[ev.RecordedEffect] = []
    if not a_registers:
        a = machine.known(fragment, step.args[2], mask, what)
        form = OperandForm(64, k_bytes // sparse, bool(transposed_a), bits, tensor=False)
        effects += shared_operand(machine, fragment, mask, a, form, cta)
    form = OperandForm(columns, k_bytes, bool(transposed_b), bits, tensor=False)
    effects += shared_operand(machine, fragment, mask, value, form, cta)
    accumulates = uniform(warp.registers[step.args[0]], mask) != 0
    sources = step.args[2:] if a_registers else step.args[3:]
    number = machine.next_number()
    machine.record(
        ev.AsynchronousEvent,
        fragment,
        mask,
        number,
        ev.RecordedOperation.WGMMA,
        tuple(effects),
        (),
        ev.RecordedQueue.WGMMA,
        step.out,
        sources,
        -1,
        0,
        False,
        accumulates,
    )
    operation = InFlight(
        number,
        ev.RecordedOperation.WGMMA,
        warp,
        mask,
        fragment.pc,
        queue=ev.RecordedQueue.WGMMA,
        registers=step.out,
        sources=sources,
    )
    own(machine, fragment, operation, mask)
    enqueue(warp, ev.RecordedQueue.WGMMA, mask, operation)
    machine.issue(operation)
    return False


def own(machine: SimtMachine, fragment: Fragment, operation: InFlight, mask: int) -> None:
    """The registers of the operation must not be touched until it is waited for."""
    warp = fragment.warp
    for register in operation.registers:
        machine.write(warp, register, opaque_at(fragment.pc), mask)
        if register >= 0:
            warp.owned[register] = operation
    for register in operation.sources:
        if register >= 0 and register not in warp.owned:
            warp.owned[register] = operation


def wgmma_fence(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute wgmma.fence, which orders registers only."""
    fragment.warp.uses.fence(mask, ev.RecordedFence.WGMMA, fragment.warp.live)
    machine.record(ev.FenceEvent, fragment, mask, ev.RecordedFence.WGMMA, ev.AccessSemantics.WEAK,
                   ev.AccessScope.NONE)  # fmt: skip
    return False


# ---------------------------------------------------------------------------- tensor memory


def allocate(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tcgen05.alloc: blocks until columns are free, and of a pair until the peer allocates."""
    group, space, offset = step.flags
    cta = fragment.warp.cta
    address = machine.known(fragment, step.args[0], mask, "the address for an allocation")
    columns = machine.known(fragment, step.args[1], mask, "the number of columns")
    if columns not in (32, 64, 128, 256, 512):
        machine.fault(fragment, f"{columns} columns of tensor memory cannot be allocated")
    highest = machine.options.highest_columns
    column = cta.allocate(columns, highest)
    if column is None:

        def waiter() -> Waiter:
            return Waiter(cta.number, fragment.warp.index, mask, fragment.pc, "tensor memory",
                          pending=columns)  # fmt: skip

        def ready() -> bool:
            free = cta.allocate(columns, highest)
            if free is None:
                return False
            del cta.columns[free]
            return True

        return machine.block(fragment, Blocked(ready, lambda: None, waiter))
    cta.in_pair = group == 2
    machine.record(ev.TensorAllocate, fragment, mask, column, columns, group)
    where = accesses.place(machine, fragment.warp, space, address + offset)
    if where[0] != MemorySpace.SHARED:
        accesses.fault(machine, fragment, mask, ev.MemoryFaultKind.WRONG_SPACE, where, 4)
        return False
    accesses.record(machine, fragment, [(mask, where)], 4, accesses.PLAIN_WRITE, together=True)
    accesses.write_value(machine, fragment, lanes_of(mask)[0], where, 4, column)
    return group == 2 and _wait_for_peer(machine, fragment, mask)


def _wait_for_peer(machine: SimtMachine, fragment: Fragment, mask: int) -> bool:
    """Both CTAs of a pair perform an allocation: the first waits for the second (if there is one).

    Which orders their execution alone (titan/frontends/ptx/pair_allocations.py).
    """
    cta = fragment.warp.cta
    cta.pair_allocations += 1
    number, peer = cta.pair_allocations, cta.rank ^ 1
    if peer >= len(cta.cluster.ctas) or cta.cluster.ctas[peer].pair_allocations >= number:
        return False

    def ready() -> bool:
        return cta.cluster.ctas[peer].pair_allocations >= number

    def resume() -> None:
        fragment.pc += 1

    def waiter() -> Waiter:
        return Waiter(cta.number, fragment.warp.index, mask, fragment.pc, PEER_ALLOCATION,
                      pending=1)  # fmt: skip

    return machine.block(fragment, Blocked(ready, resume, waiter))


def deallocate(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute tcgen05.dealloc; columns not allocated so are recorded with `known` False."""
    cta = fragment.warp.cta
    address = machine.known(fragment, step.args[0], mask, "the address of tensor memory")
    columns = machine.known(fragment, step.args[1], mask, "the number of columns")
    column = address & 0xFFFF
    known = cta.columns.get(column) == columns
    machine.record(ev.TensorDeallocate, fragment, mask, column, columns, step.flags[0], known)
    if known:
        del cta.columns[column]
    return False


def relinquish(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute tcgen05.relinquish_alloc_permit: record only."""
    machine.record(ev.TensorRelinquish, fragment, mask, step.flags[0])
    return False


def tensor_range(
    machine: SimtMachine, fragment: Fragment, mask: int, cta: Cta, rectangle: TensorRectangle
) -> Footprint:
    """A rectangle of tensor memory; a fault is recorded if it is not allocated."""
    key = ("tensor memory", cta.number, rectangle)
    footprint = machine.footprints.get(key)
    if footprint is None:
        footprint = machine.footprints[key] = tensor_box(cta.number, *rectangle)
    if not _allocated(cta, rectangle.column, rectangle.columns):
        machine.record(ev.MemoryFault, fragment, mask, ev.MemoryFaultKind.NOT_ALLOCATED_TENSOR,
                       footprint, 0)  # fmt: skip
    elif rectangle.lane + rectangle.lanes > TENSOR_LANES:
        machine.record(ev.MemoryFault, fragment, mask, ev.MemoryFaultKind.OUTSIDE, footprint, 0)
    return footprint


def _allocated(cta: Cta, column: int, columns: int) -> bool:
    """Whether one allocation holds the columns, or several together."""
    return any(
        first <= column and column + columns <= first + size for first, size in cta.columns.items()
    ) or _covered(cta, column, columns)


def _covered(cta: Cta, column: int, columns: int) -> bool:
    """Whether several allocations together hold the columns."""
    held = {c for first, size in cta.columns.items() for c in range(first, first + size)}
    return columns <= TENSOR_COLUMNS and all(c in held for c in range(column, column + columns))


def _own_lanes(machine: SimtMachine, fragment: Fragment, mask: int, address: int) -> int:
    """The address with the lanes of the warp's own quarter.

    Warp n of a warpgroup reaches lanes 32n to 32n + 31 (PTX, "Access restrictions"). Lanes from 0
    on mean those of its quarter, as in DeepGEMM's kernels; in the second CTA of a pair those
    from 128 on are the rows of the pair that it holds.
    """
    warp = fragment.warp
    if warp.cta.in_pair and warp.cta.rank & 1 and address >> 23 == 1:
        machine.assume(fragment, mask, Policy.PAIR_LANES)
        address -= TENSOR_LANES << 16
    quarter = warp.index % WARPGROUP_WARPS
    if quarter and address >> 16 < QUARTER_LANES:
        machine.assume(fragment, mask, Policy.QUARTER_LANES)
        address += quarter * QUARTER_LANES << 16
    return address


def access(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tcgen05.ld and .st: the lanes of the warp's quarter."""
    lanes, columns, half, offset = step.flags
    warp = fragment.warp
    address = machine.known(fragment, step.args[0], mask, "an address of tensor memory") + offset
    address = _own_lanes(machine, fragment, mask, address)
    lane, column = address >> 16, address & 0xFFFF
    reads = step.op is Op.TENSOR_LOAD
    mode = READ if reads else WRITE
    footprints = [
        tensor_range(
            machine, fragment, mask, warp.cta, TensorRectangle(lane, lanes, column, columns)
        )
    ]
    within = lane % QUARTER_LANES + lanes <= QUARTER_LANES
    reached = lane // QUARTER_LANES == warp.index % WARPGROUP_WARPS and within
    if lane < TENSOR_LANES and not reached:
        machine.record(ev.MemoryFault, fragment, mask, ev.MemoryFaultKind.WRONG_SPACE,
                       footprints[0], 0)  # fmt: skip
    if half >= 0:
        part = TensorRectangle(lane, lanes, column + half, columns)
        footprints.append(tensor_range(machine, fragment, mask, warp.cta, part))
    effects = tuple(ev.RecordedEffect(f, mode, ev.AccessProxy.TENSOR) for f in footprints)
    queue = ev.RecordedQueue.TENSOR_LOAD if reads else ev.RecordedQueue.TENSOR_STORE
    kind = ev.RecordedOperation.TENSOR_LOAD if reads else ev.RecordedOperation.TENSOR_STORE
    number = machine.next_number()
    machine.record(
        ev.AsynchronousEvent, fragment, mask, number, kind, effects, (), queue, step.out, (), -1, 0,
        False, False,
    )  # fmt: skip
    operation = InFlight(number, kind, warp, mask, fragment.pc, queue=queue, registers=step.out)
    own(machine, fragment, operation, mask)
    enqueue(warp, queue, mask, operation)
    machine.issue(operation)
    return False


# ----------------------------------------------------------------------- tensor-core work


def pair(fragment: Fragment, group: int) -> list[Cta]:
    """The CTAs that an instruction of a cta_group works in."""
    cta = fragment.warp.cta
    if group == 1:
        return [cta]
    ctas = cta.cluster.ctas
    return [c for c in (ctas[cta.rank & ~1], *ctas[cta.rank | 1 : (cta.rank | 1) + 1])]


def launch_work(
    machine: SimtMachine, fragment: Fragment, mask: int, kind: ev.RecordedOperation,
    effects: list[ev.RecordedEffect], group: int, operands: tuple[int, ...] = (),
) -> None:  # fmt: skip
    """Work of a tensor core, which is done in order of issue."""
    warp = fragment.warp
    lane = lanes_of(mask)[0]
    groups = warp.queue(ev.RecordedQueue.TENSOR_CORE, lane)
    after = tuple(groups.open[-1:])
    work = AsynchronousWork(
        kind, tuple(effects), queue=ev.RecordedQueue.TENSOR_CORE, group=group, operands=operands
    )
    start(machine, fragment, mask, work).after = after


def multiply(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tcgen05.mma, by one lane in a correct program."""
    group, kind, in_tensor, stationary, scaled, sparse, d_offset, a_offset = step.flags[:8]
    ctas = pair(fragment, group)
    names = step.args
    for lanes, values in machine.grouped(fragment, names, mask, "an operand of tcgen05.mma"):
        whole_warp(machine, fragment, lanes)
        d, a, b, descriptor, accumulate = values[:5]
        bits = ELEMENT_BITS.get(KINDS[kind], 8)
        rows, columns = (descriptor >> 24 & 31) << 4, (descriptor >> 17 & 63) << 3
        if not rows or not columns:
            place = machine.footprint(MemorySpace.TENSOR, fragment.warp.cta.number, ())
            machine.record(ev.MemoryFault, fragment, lanes, ev.MemoryFaultKind.DESCRIPTOR, place,
                           0)  # fmt: skip
            continue
        effects: list[ev.RecordedEffect] = []
        mode = BOTH if accumulate else WRITE
        for cta in ctas:
            for part in accumulator(d + d_offset, rows, columns, group, bool(stationary)):
                found = tensor_range(machine, fragment, lanes, cta, part)
                effects.append(ev.RecordedEffect(found, mode, ev.AccessProxy.TENSOR))
            if in_tensor:
                for part in left_operand(a + a_offset, rows, K_BYTES // 4, bool(stationary)):
                    found = tensor_range(machine, fragment, lanes, cta, part)
                    effects.append(ev.RecordedEffect(found, READ, ev.AccessProxy.TENSOR))
            if sparse:
                metadata = values[-1] + step.flags[11]
                for part in left_operand(metadata, rows, metadata_columns(kind), bool(stationary)):
                    found = tensor_range(machine, fragment, lanes, cta, part)
                    effects.append(ev.RecordedEffect(found, READ, ev.AccessProxy.TENSOR))
        if not in_tensor:
            form = OperandForm(
                rows // group, K_BYTES, bool(descriptor >> 15 & 1), bits, tensor=True
            )
            effects += shared_operand(machine, fragment, lanes, a, form, ctas)
        transposed = bool(descriptor >> 16 & 1)
        form = OperandForm(columns // group, K_BYTES << sparse, transposed, bits, tensor=True)
        effects += shared_operand(machine, fragment, lanes, b, form, ctas)
        if scaled:
            effects += _scales(machine, fragment, step, lanes, values, (rows, columns), ctas)
        launch_work(machine, fragment, lanes, ev.RecordedOperation.TENSOR_MULTIPLY, effects, group,
                    tuple(values))  # fmt: skip
    return False


def accumulator(
    address: int, rows: int, columns: int, group: int, stationary: bool
) -> list[TensorRectangle]:
    """Where D lies in one CTA (PTX, "Data path layouts")."""
    lane, column = address >> 16, address & 0xFFFF
    rows //= group
    if stationary:
        return [TensorRectangle(0, TENSOR_LANES, column, columns * rows // TENSOR_LANES)]
    if rows == 128:
        return [TensorRectangle(lane, 128, column, columns)]
    if group == 2:  # 64 rows in each CTA: the columns in two halves
        return [TensorRectangle(lane, 128, column, columns // 2)]
    return [TensorRectangle(lane + 32 * quarter, 16, column, columns) for quarter in range(4)]


def left_operand(address: int, rows: int, columns: int, stationary: bool) -> list[TensorRectangle]:
    """Where A lies in one CTA: its rows are where those of D are, 64 rows in 16 lanes of each
    quarter (Triton keeps two such operands side by side).
    """
    lane, column = address >> 16, address & 0xFFFF
    if rows == 64 and not stationary:
        return [TensorRectangle(lane + 32 * quarter, 16, column, columns) for quarter in range(4)]
    return [TensorRectangle(lane, min(TENSOR_LANES, rows), column, columns)]


def metadata_columns(kind: int) -> int:
    """Columns of the metadata of a sparse A for one product: two bits for each number that is kept,
    four of tf32 (CUTLASS, "metadata TMEM fragments")."""
    return 1 if KINDS[kind] in ("f16", "tf32") else 2


def _scales(
    machine: SimtMachine,
    fragment: Fragment,
    step: DecodedStep,
    lanes: int,
    values: tuple[int, ...],
    extents: tuple[int, int],
    ctas: list[Cta],
) -> list[ev.RecordedEffect]:
    """Scale factors: 32-bit columns of four bytes, for 32 rows in each; in all 128 lanes. Each CTA
    of a pair has those of its own rows of A, and of all columns of B.
    """
    group = step.flags[0]
    effects = []
    for place, extent in enumerate((extents[0] // group, extents[1])):
        address = values[5 + place] + step.flags[8 + place]
        columns = max(1, -(-extent // SCALE_ROWS))
        for cta in ctas:
            part = TensorRectangle(0, TENSOR_LANES, address & 0xFFFF, columns)
            found = tensor_range(machine, fragment, lanes, cta, part)
            effects.append(ev.RecordedEffect(found, READ, ev.AccessProxy.TENSOR))
    return effects


def memory_copy(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tcgen05.cp: shared memory to tensor memory."""
    group, offset, rows, width, lanes_written = step.flags
    for lanes, (start_, value) in machine.grouped(fragment, step.args, mask, "an operand"):
        whole_warp(machine, fragment, lanes)
        address = start_ + offset
        descriptor = decode(value, tensor=True)
        effects: list[ev.RecordedEffect] = []
        for cta in pair(fragment, group):
            if descriptor is not None:
                boxes = copy_source(descriptor, rows, width)
                effects.append(
                    ev.RecordedEffect(
                        Footprint(MemorySpace.SHARED, cta.number, boxes), READ, ev.AccessProxy.ASYNC
                    )
                )
            lane = 0 if lanes_written == TENSOR_LANES else address >> 16
            part = TensorRectangle(lane, lanes_written, address & 0xFFFF, width // 4)
            found = tensor_range(machine, fragment, lanes, cta, part)
            effects.append(ev.RecordedEffect(found, WRITE, ev.AccessProxy.TENSOR))
        launch_work(
            machine, fragment, lanes, ev.RecordedOperation.TENSOR_MEMORY_COPY, effects, group
        )
    return False


def copy_source(descriptor: MatrixDescriptor, rows: int, width: int) -> tuple[Box, ...]:
    """The shared bytes that tcgen05.cp reads: `rows` rows of `width` bytes, K-major."""
    return operand(descriptor, rows, width, False, 8)


def shift(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tcgen05.shift: rows move down by one in 32 bytes of columns."""
    group, offset = step.flags
    for lanes, (start_,) in machine.grouped(fragment, step.args, mask, "an address"):
        whole_warp(machine, fragment, lanes)
        address = start_ + offset
        part = TensorRectangle(0, TENSOR_LANES, address & 0xFFFF, 8)
        effects = [
            ev.RecordedEffect(
                tensor_range(machine, fragment, lanes, cta, part), BOTH, ev.AccessProxy.TENSOR
            )
            for cta in pair(fragment, group)
        ]
        launch_work(machine, fragment, lanes, ev.RecordedOperation.TENSOR_SHIFT, effects, group)
    return False


def commit(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tcgen05.commit: an arrival when the thread's earlier work is complete."""
    group, space, offset = step.flags
    registers = step.args if step.args[1] >= 0 else step.args[:1]
    warp = fragment.warp
    for lane in lanes_of(mask):
        lanes = 1 << lane
        ((_, values),) = machine.grouped(fragment, registers, lanes, "an operand of a commit")
        place = barrier_place(machine, fragment, space, values[0] + offset)
        barriers: tuple[ev.BarrierAddress, ...] = (place,)
        if len(values) > 1:
            barriers = tuple(
                ev.BarrierAddress(cta.number, place.offset)
                for _, cta in multicast(machine, fragment, lanes, values[1], place.offset, BYTES)
            )
        groups = warp.queue(ev.RecordedQueue.TENSOR_CORE, lane)
        work = groups.open
        for earlier in work:
            earlier.seen |= earlier.lanes
        number = machine.next_number()
        operations = tuple(earlier.number for earlier in work)
        machine.record(ev.TensorCommitEvent, fragment, lanes, barriers, group, operations, number)
        previous = tuple(groups.closed[-1]) if groups.closed else ()
        operation = InFlight(number, ev.RecordedOperation.TENSOR_MULTIPLY, warp, lanes, fragment.pc,
                             arrives=barriers, after=(*previous, *work))  # fmt: skip
        groups.closed = [[operation]]
        groups.open = []
        machine.issue(operation)
    return False
