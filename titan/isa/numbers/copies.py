"""cp.async, bulk and tensor copies, st.async and floating-point atomics with their numbers."""

from __future__ import annotations

from titan.isa.numbers import transfers
from titan.isa.numbers.formats import BF16, F16, F32, F64, FloatFormat
from titan.isa.numbers.machine import Commit, Memory, NumbersMachine, Transfer
from titan.isa.numbers.transfers import Write
from titan.isa.simt.copies import tensor_map_at
from titan.isa.simt.decode_async import LOAD, REDUCE
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.layout import OFFSET_MASK, to_generic
from titan.isa.simt.memory import KNOWN, OPAQUE, Bytes
from titan.isa.simt.operations import ATOMICS, DecodedStep, Kind
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import Opaque, lane, lanes_of

Place = tuple[Memory, int]
_FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64, "f16x2": F16, "bf16x2": BF16}


def committed(writes: list[Write]) -> Commit:
    """Puts bytes where they belong."""

    def commit() -> None:
        for item in writes:
            transfers.write(item.memory, item.at, item.data, item.state)

    return commit


def copy(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """cp.async; what is not read is filled with zeros."""
    to_offset, at_offset, count, ignore = step.flags
    registers = fragment.warp.registers
    moves: list[tuple[Place, Place | None, int]] = []
    for index in lanes_of(mask):
        given = [lane(registers[r], index) for r in step.args]
        numbers = [item for item in given if not isinstance(item, Opaque)]
        if len(numbers) != len(given):
            continue
        to, at, *rest = numbers
        reads = count
        if rest:
            reads = (0 if rest[0] & 1 else count) if ignore else min(rest[0], count)
        target = machine.where(fragment, MemorySpace.SHARED, to + to_offset)
        source = machine.where(fragment, MemorySpace.GLOBAL, at + at_offset) if reads else None
        if target is not None:
            moves.append((target, source, reads))

    def transfer() -> Commit:
        writes = []
        for (memory, place), source, reads in moves:
            data, state = (b"", b"") if source is None else transfers.read(*source, reads)
            zeros = count - len(data)
            known = bytes((KNOWN,)) * zeros
            writes.append(Write(memory, place, data + bytes(zeros), state + known))
        return committed(writes)

    for operation in machine.recorded(fragment, step, mask):
        machine.transfers[operation.number] = transfer
    return False


def bulk_copy(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """cp.async.bulk, and the sums of cp.reduce.async.bulk."""
    kind, to_space, at_space, to_offset, at_offset = step.flags[:5]
    registers = tuple(register for register in step.args if register >= 0)
    groups = machine.grouped(fragment, registers, mask, "an operand of a bulk copy")
    form, size = _sum_of(machine.words(fragment)) if kind == REDUCE else (None, 0)
    operations = machine.recorded(fragment, step, mask)
    for operation, (_, values) in zip(operations, groups, strict=False):
        given = dict(zip((n for n, r in enumerate(step.args) if r >= 0), values, strict=True))
        source = machine.where(fragment, at_space, given[1] + at_offset)
        targets: list[Place] = []
        if 4 in given:
            offset = (given[0] + to_offset) & OFFSET_MASK
            ctas = fragment.warp.cta.cluster.ctas
            targets += [(c.shared, offset) for rank, c in enumerate(ctas) if given[4] >> rank & 1]
        else:
            target = machine.where(fragment, to_space, given[0] + to_offset)
            targets += [] if target is None else [target]
        if source is not None and (kind != REDUCE or size):
            moved = _moved(source, targets, given[2], form, size)
            machine.transfers[operation.number] = moved
    return False


def _moved(
    source: Place, targets: list[Place], count: int, form: FloatFormat | None, size: int
) -> Transfer:
    """A copy, or with a size of elements a sum onto what is there."""

    def transfer() -> Commit:
        new = transfers.read(*source, count)
        writes = []
        for memory, at in targets:
            data = (
                transfers.sums(transfers.read(memory, at, count), new, form, size) if size else new
            )
            writes.append(Write(memory, at, *data))
        return committed(writes)

    return transfer


def _sum_of(words: tuple[str, ...]) -> tuple[FloatFormat | None, int]:
    """Format and bytes of the elements of a sum; no bytes for other reductions."""
    if "add" not in words:
        return None, 0
    form = _FORMATS.get(words[-1])
    if form is not None:
        return form, form.bits // 8
    return (None, int(words[-1][1:]) // 8) if words[-1][1:].isdigit() else (None, 0)


def tensor_copy(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Loads and stores of boxes (tiled, of gathered rows, im2col), and sums onto boxes."""
    kind, _, mode, _, shared_offset, map_offset, _, count, space = step.flags[:9]
    names = tuple(n for n, register in enumerate(step.args) if register >= 0)
    registers = tuple(register for register in step.args if register >= 0)
    groups = machine.grouped(fragment, registers, mask, "an operand of a tensor copy")
    operations = machine.recorded(fragment, step, mask)
    adds = kind == REDUCE
    if adds and "add" not in machine.words(fragment):
        return False
    for operation, (_, values) in zip(operations, groups, strict=False):
        given = dict(zip(names, values, strict=True))
        address = given[1] + map_offset
        if space in (MemorySpace.PARAMETER, MemorySpace.CONSTANT):
            address = to_generic(MemorySpace(space), address)
        map_ = tensor_map_at(machine, fragment, address)
        coordinates = tuple(_signed(given[4 + n]) for n in range(count))
        offsets = tuple(given[n] for n in range(4 + count, len(step.args)))
        box = transfers.TensorBox(map_, coordinates, mode, offsets)
        if not transfers.computable(box, loads=kind == LOAD, adds=adds):
            continue
        shared = given[0] + shared_offset
        places = _places(machine, fragment, shared, given.get(3) if kind == LOAD else None)
        if kind == LOAD:
            machine.transfers[operation.number] = _loaded(machine, places, box)
        elif places:
            machine.transfers[operation.number] = _stored(machine, places[0], box, adds)
    return False


def _places(
    machine: NumbersMachine, fragment: Fragment, shared: int, mask: int | None
) -> list[tuple[Bytes, int]]:
    """Where a box lies in the shared memory of one CTA, or of those of a multicast mask."""
    if mask is not None:
        ctas = fragment.warp.cta.cluster.ctas
        return [(c.shared, shared & OFFSET_MASK) for r, c in enumerate(ctas) if mask >> r & 1]
    own = machine.where(fragment, MemorySpace.SHARED, shared)
    return [(own[0], own[1])] if own is not None and isinstance(own[0], Bytes) else []


def _loaded(
    machine: NumbersMachine, places: list[tuple[Bytes, int]], box: transfers.TensorBox
) -> Transfer:
    return lambda: committed(transfers.load_box(machine.memory, places, box))


def _stored(
    machine: NumbersMachine, place: tuple[Bytes, int], box: transfers.TensorBox, adds: bool
) -> Transfer:
    return lambda: committed(transfers.store_box(machine.memory, *place, box, adds=adds))


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def store_async(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """st.async; reductions stay opaque."""
    space, offset, _, count, reduces = step.flags[:5]
    registers = fragment.warp.registers
    values = step.args[2:]
    writes: list[Write] = []
    for index in lanes_of(mask):
        address = lane(registers[step.args[0]], index)
        if isinstance(address, Opaque):
            continue
        place = machine.where(fragment, space, address + offset)
        size = count // max(len(values), 1)
        for number, register in enumerate(values):
            item = lane(registers[register], index)
            if place is None:
                continue
            data = 0 if isinstance(item, Opaque) else item & ((1 << 8 * size) - 1)
            state = OPAQUE if isinstance(item, Opaque) else KNOWN
            writes.append(
                Write(place[0], place[1] + number * size, data.to_bytes(size, "little"),
                      bytes((state,)) * size)
            )  # fmt: skip
    operations = machine.recorded(fragment, step, mask)
    if operations and not reduces:
        machine.transfers[operations[-1].number] = lambda: committed(writes)
    return False


def atomic(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Sums of floating-point numbers, lane after lane; the machine does all others."""
    space, offset, _, _, _, _, operation, count = step.flags
    form = _FORMATS.get(machine.words(fragment)[-1])
    if step.kind not in (Kind.FLOAT, Kind.BFLOAT) and form is None:
        machine.recorded(fragment, step, mask)
        return False
    registers = fragment.warp.registers
    size = step.bits // 8
    wanted: list[tuple[Place, list[int | None]]] = []
    for index in lanes_of(mask):
        address = lane(registers[step.args[0]], index)
        place = (
            None
            if isinstance(address, Opaque)
            else machine.where(fragment, space, address + offset)
        )
        operands = [lane(registers[r], index) for r in step.args[1 : 1 + count]]
        if place is not None:
            known = [None if isinstance(item, Opaque) else item for item in operands]
            wanted.append((place, known))
    before = [transfers.read(*place, size * count) for place, _ in wanted]
    machine.recorded(fragment, step, mask)
    if ATOMICS[operation] != "add" or form is None:
        return False
    for (place, _), (data, state) in zip(wanted, before, strict=True):
        transfers.write(*place, data, state)
    for (memory, at), numbers in wanted:
        for number, item in enumerate(numbers):
            where = at + number * size
            old = transfers.read(memory, where, size)
            state = bytes((OPAQUE if item is None else KNOWN,)) * size
            new = ((item or 0).to_bytes(size, "little"), state)
            transfers.write(memory, where, *transfers.sums(old, new, form, form.bits // 8))
    return False
