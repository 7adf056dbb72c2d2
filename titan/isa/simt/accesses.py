"""Synchronous accesses of memory: ld, st, atom, red, ldmatrix, stmatrix."""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.isa.simt import events as ev
from titan.isa.simt.arithmetic import signed
from titan.isa.simt.asking import ask
from titan.isa.simt.footprints import NO_CTA, Footprint, MemorySpace, PlacedBytes, merged
from titan.isa.simt.lane_order import (
    clash_of_stores,
    clash_within,
    order_lanes,
    strong_or_plain,
)
from titan.isa.simt.lane_uses import LaneAccess
from titan.isa.simt.layout import (
    GRID_WORKSPACE,
    GRID_WORKSPACE_BYTES,
    HIGHEST_GLOBAL,
    LOWEST_GLOBAL,
    OFFSET_MASK,
    RANK_SHIFT,
    RESERVED_BYTES,
    resolve,
)
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.memory import BARRIER, KNOWN, OPAQUE, Bytes
from titan.isa.simt.operations import ATOMICS, DecodedStep, Kind
from titan.isa.simt.outcome import Policy, Steering
from titan.isa.simt.provenance import reaches
from titan.isa.simt.recorder import Recorder
from titan.isa.simt.state import ATOMIC, Cta, Fragment, Warp
from titan.isa.simt.tensor_maps import whole, wraps
from titan.isa.simt.values import Opaque, Scalar, Value, lane, lanes_of, opaque_at, uniform

COMMUTING = ATOMICS[:6]  # with themselves: add, min, max, and, or, xor
RECORDED = (MemorySpace.SHARED, MemorySpace.GLOBAL)
PRIVATE = (MemorySpace.LOCAL, MemorySpace.PARAMETER, MemorySpace.CONSTANT)
NOTED_BYTES_MAX = 512  # of what a write is known to write


@dataclass(frozen=True, slots=True)
class AccessForm:
    """What an instruction says of its access, the same in all lanes.

    `returns`: an atomic one whose old value goes to a register.
    """

    mode: ev.Mode
    semantics: ev.AccessSemantics = ev.AccessSemantics.WEAK
    scope: ev.AccessScope = ev.AccessScope.NONE
    returns: bool = False


# The windows in which an instruction may find its memory, whatever address it is given: parameters
# and constants are never written, atomics and whole rows of matrices stay in some memories.
WRITTEN_WINDOWS = frozenset({MemorySpace.SHARED, MemorySpace.GLOBAL, MemorySpace.LOCAL})
ATOMIC_WINDOWS = frozenset({MemorySpace.SHARED, MemorySpace.GLOBAL})
SHARED_WINDOW = frozenset({MemorySpace.SHARED})

PLAIN_READ, PLAIN_WRITE = AccessForm(ev.Mode.READ), AccessForm(ev.Mode.WRITE)


def form_of(mode: ev.Mode, semantics: int, scope: int, *, returns: bool = False) -> AccessForm:
    """The form with semantics and scope as the flags of a step hold them."""
    return AccessForm(mode, ev.AccessSemantics(semantics), ev.AccessScope(scope), returns)


def local_memory(machine: SimtMachine, warp: Warp, index: int) -> Bytes:
    """The local memory of one lane."""
    memory = warp.local.get(index)
    if memory is None:
        memory = warp.local[index] = machine.own_memory(max(machine.code.local_bytes, 1))
    return memory


def shared_of(machine: SimtMachine, warp: Warp, address: int) -> tuple[Cta | None, int]:
    """The CTA and offset of an address in the shared window of a cluster."""
    ctas = warp.cta.cluster.ctas
    if len(ctas) == 1:
        return warp.cta, address
    rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
    return (ctas[rank] if rank < len(ctas) else None), offset


def place(
    machine: SimtMachine, warp: Warp, space: int, address: int
) -> tuple[int, Cta | None, int]:
    """Memory, CTA (shared memory only) and offset of an address as an instruction means it."""
    if space == MemorySpace.GENERIC:
        space, address = resolve(address)
    if space == MemorySpace.SHARED:
        cta, offset = shared_of(machine, warp, address & 0xFFFFFFFF)
        return space, cta, offset
    if space in PRIVATE and address >> 32 == 1:
        address &= 0xFFFFFFFF  # registers of 32 bits wrap: a place less a number, and an offset
    return space, None, signed(address, 64)


def outside(machine: SimtMachine, cta: Cta | None, space: int, at: int, count: int) -> bool:
    """Whether bytes are in no allocation."""
    if machine.layout.in_hole(space, at, count):
        return True
    if space == MemorySpace.SHARED:
        return cta is None or not RESERVED_BYTES <= at <= cta.shared.size - count
    if space == MemorySpace.GLOBAL:
        bounds = global_bounds(machine)
        if not bounds:
            return not LOWEST_GLOBAL <= at < HIGHEST_GLOBAL
        return not any(low <= at and at + count <= high for low, high in bounds)
    size = {
        MemorySpace.LOCAL: machine.code.local_bytes,
        MemorySpace.PARAMETER: machine.parameters.size,
        MemorySpace.CONSTANT: machine.constants.size,
    }.get(MemorySpace(space), 0)
    return not 0 <= at <= size - count


def global_bounds(machine: Recorder) -> tuple[tuple[int, int], ...]:
    """The ranges of global memory that may be touched; empty: no bounds are known. Those of the
    variables of a module always are."""
    if machine.bounds is None:
        found = [(a.start, a.start + a.size_bytes) for a in machine.launch.allocations]
        variables = [(at, at + size) for at, size, _ in machine.layout.module_globals]
        if found:
            maps = machine.launch.tensor_maps.values()
            found += [whole(map_) for map_ in maps if not wraps(map_)]
            found += variables
            found.append((GRID_WORKSPACE, GRID_WORKSPACE + GRID_WORKSPACE_BYTES))
        elif variables and all(low < high for low, high in variables):  # alone in their window
            found = [(LOWEST_GLOBAL, GRID_WORKSPACE + GRID_WORKSPACE_BYTES), *variables]
        machine.bounds = merged(found)
    return machine.bounds


def reach_of(machine: Recorder) -> dict[int, tuple[int, int]]:
    """The ranges in which accesses of unknown index stay, by instruction."""
    if machine.reaches is None:
        variables = [(at, at + size) for at, size, _ in machine.layout.module_globals]
        machine.reaches = reaches(
            machine.code, machine.launch.pointed, machine.parameters, variables
        )
    return machine.reaches


def fault(
    machine: SimtMachine, fragment: Fragment, mask: int, kind: ev.MemoryFaultKind,
    place_: tuple[int, Cta | None, int], count: int,
) -> None:  # fmt: skip
    """Record a MemoryFault on `count` bytes at (space, CTA, offset); the run continues."""
    space, cta, at = place_
    number = NO_CTA if cta is None else cta.number
    footprint = machine.footprint(MemorySpace(space), number, ((at, at + count),))
    machine.record(ev.MemoryFault, fragment, mask, kind, footprint, count)


def read_value(
    machine: SimtMachine, warp: Warp, index: int, where: tuple[int, Cta | None, int], count: int,
    site: int,
) -> Scalar:  # fmt: skip
    """The number in memory."""
    space, cta, at = where
    if space == MemorySpace.SHARED and cta is not None:
        return cta.shared.read(at, count, site)
    if space == MemorySpace.GLOBAL:
        return machine.memory.read(at, count, site)
    if space == MemorySpace.LOCAL:
        return local_memory(machine, warp, index).read(at, count, site)
    if space == MemorySpace.PARAMETER:
        return machine.parameters.read(at, count, site)
    return machine.constants.read(at, count, site)


def write_value(
    machine: SimtMachine, fragment: Fragment, index: int, where: tuple[int, Cta | None, int],
    count: int, value: Scalar,
) -> None:  # fmt: skip
    """Write `count` bytes for lane `index`; opaque where the execution itself is uncertain."""
    space, cta, at = where
    if machine.maybe:
        value = opaque_at(fragment.pc)
    if space == MemorySpace.SHARED and cta is not None:
        if cta.barriers and cta.shared.has(at, count, BARRIER):
            overwrite(machine, fragment, cta, at, count)
        cta.shared.write(at, count, value)
    elif space == MemorySpace.GLOBAL:
        machine.memory.write(at, count, value)
    elif space == MemorySpace.LOCAL:
        local_memory(machine, fragment.warp, index).write(at, count, value)


def overwrite(machine: SimtMachine, fragment: Fragment, cta: Cta, at: int, count: int) -> None:
    """An ordinary write into live mbarriers: they are gone."""
    for offset in [o for o in cta.barriers if o < at + count and at < o + 8]:
        del cta.barriers[offset]
        cta.shared.fill(offset, 8, OPAQUE)
        barrier = ev.BarrierAddress(cta.number, offset)
        machine.record(ev.BarrierMisuse, fragment, fragment.mask, barrier, ev.Misuse.OVERWRITTEN)


# --------------------------------------------------------------------------- locating lanes


Located = list[tuple[int, tuple[int, Cta | None, int]]]


def locate(
    machine: SimtMachine, fragment: Fragment, register: int, space: int, offset: int, count: int,
    mask: int,
) -> Located | None:  # fmt: skip
    """(lanes, place) for each different address, in the order of the first lanes; bad addresses
    are recorded as faults and left out. None: an address is opaque.
    """
    form = PlacedBytes(space, offset, count, count)
    return locate_aligned(machine, fragment, register, form, mask)


def locate_aligned(
    machine: SimtMachine, fragment: Fragment, register: int, form: PlacedBytes, mask: int
) -> Located | None:
    """As `locate`."""
    space, offset, count, alignment = form
    warp = fragment.warp
    value = warp.registers[register]
    if warp.marks or warp.sticky:
        marks = machine.mark_of(warp, register)
        if marks and space not in (MemorySpace.LOCAL, MemorySpace.PARAMETER):
            machine.steered(fragment, marks, "address", mask)
    addresses: dict[int, int] = {}
    if isinstance(value, list):
        for index in lanes_of(mask):
            item = value[index]
            if isinstance(item, Opaque):
                return None
            addresses[item] = addresses.get(item, 0) | 1 << index
    elif isinstance(value, Opaque):
        return None
    else:
        addresses[value] = mask
    found: Located = []
    for address, lanes in addresses.items():
        where = place(machine, warp, space, (address + offset) & 0xFFFFFFFFFFFFFFFF)
        if where[2] % alignment:
            fault(machine, fragment, lanes, ev.MemoryFaultKind.MISALIGNED, where, alignment)
        if outside(machine, where[1], where[0], where[2], count):
            fault(machine, fragment, lanes, ev.MemoryFaultKind.OUTSIDE, where, count)
            continue
        found.append((lanes, where))
    return found


def within(
    machine: SimtMachine, fragment: Fragment, located: Located | None, count: int,
    windows: frozenset[MemorySpace],
) -> Located | None:  # fmt: skip
    """Of what was located, what lies in these windows; the rest is recorded as faults."""
    for lanes, where in located or ():
        if where[0] not in windows:
            fault(machine, fragment, lanes, ev.MemoryFaultKind.WRONG_SPACE, where, count)
    return located and [item for item in located if item[1][0] in windows]


def anywhere(
    machine: SimtMachine, fragment: Fragment, space: int, mask: int, form: AccessForm
) -> None:
    """An access at an address that is not known: any byte of the memory it may reach."""
    reach = reach_of(machine).get(fragment.pc)
    warp = fragment.warp
    if space not in PRIVATE:
        machine.assume(fragment, mask, Policy.OPAQUE_INDEX if reach else Policy.OPAQUE_ADDRESS)
    else:
        if form.mode is not ev.Mode.READ:
            for index in lanes_of(mask):
                memory = local_memory(machine, warp, index)
                memory.fill(0, memory.size, OPAQUE)
        return
    footprints = []
    if space in (MemorySpace.GLOBAL, MemorySpace.GENERIC):
        bounds = (reach,) if reach else global_bounds(machine) or ((0, 1 << 56),)
        footprints.append(machine.footprint(MemorySpace.GLOBAL, NO_CTA, bounds))
    if reach:
        space = MemorySpace.GLOBAL
    if space in (MemorySpace.SHARED, MemorySpace.GENERIC):
        cta = warp.cta
        footprints.append(
            machine.footprint(MemorySpace.SHARED, cta.number, ((0, cta.shared.size),))
        )
    for footprint in footprints:
        _event(machine, fragment, mask, footprint, form, False, False)
    if form.mode is ev.Mode.READ:
        return
    if space in (MemorySpace.GLOBAL, MemorySpace.GENERIC):
        machine.memory.make_opaque()
    if space in (MemorySpace.SHARED, MemorySpace.GENERIC):
        table = bytes((OPAQUE, OPAQUE, OPAQUE, BARRIER)) + bytes(252)
        warp.cta.shared.state = warp.cta.shared.state.translate(table)


def record(
    machine: SimtMachine, fragment: Fragment, located: Located, count: int, form: AccessForm, *,
    known: bool = False, together: bool = False,
) -> None:  # fmt: skip
    """Access events: one for each memory (and each CTA's shared memory). `together`: lanes make one
    access, also where each has an event of its own."""
    if machine.apart and not together:
        for lanes, where in located:
            for index in lanes_of(lanes) if where[0] in RECORDED else ():
                number = NO_CTA if where[1] is None else where[1].number
                run = ((where[2], where[2] + count),)
                footprint = machine.footprint(MemorySpace(where[0]), number, run)
                _event(machine, fragment, 1 << index, footprint, form, known, False)
        return
    writes = form.mode is ev.Mode.WRITE
    if len(located) == 1:
        lanes, (space, cta, at) = located[0]
        if space in RECORDED:
            number = NO_CTA if cta is None else cta.number
            footprint = machine.footprint(MemorySpace(space), number, ((at, at + count),))
            collides = writes and lanes & (lanes - 1) != 0
            _event(machine, fragment, lanes, footprint, form, known, collides)
        return
    by_memory: dict[tuple[int, int], tuple[int, list[tuple[int, int]], int]] = {}
    for lanes, (space, cta, at) in located:
        if space not in RECORDED:
            continue
        key = (space, NO_CTA if cta is None else cta.number)
        old = by_memory.get(key, (0, [], 0))
        old[1].append((at, at + count))
        by_memory[key] = (old[0] | lanes, old[1], old[2] + lanes.bit_count())
    for (space, number), (lanes, runs, writers) in by_memory.items():
        ranges = merged(runs)
        size = sum(high - low for low, high in ranges)
        footprint = machine.footprint(MemorySpace(space), number, ranges)
        _event(machine, fragment, lanes, footprint, form, known, writes and size < writers * count)


def _event(
    machine: SimtMachine, fragment: Fragment, lanes: int, footprint: Footprint, form: AccessForm,
    known: bool, collides: bool,
) -> None:  # fmt: skip
    polled = machine.looping and form.semantics is not ev.AccessSemantics.WEAK
    if known or polled:
        machine.steering.append(Steering(len(machine.events), fragment.pc, footprint))
    if form.semantics is not ev.AccessSemantics.WEAK and not machine.maybe:
        warp = fragment.warp
        warp.uses.access(lanes, form.mode, form.semantics, warp.live)
    machine.record(ev.AccessEvent, fragment, lanes, footprint, form.mode, form.semantics,
                   form.scope, known, collides, form.returns)  # fmt: skip


# --------------------------------------------------------------------------------- handlers


def load(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute ld: record the read, extend each element to its register; opaque if unplaced."""
    space, offset, semantics, scope, bits, kind, width = step.flags
    size, form = bits // 8, form_of(ev.Mode.READ, semantics, scope)
    count = size * len(step.out)
    warp, pc = fragment.warp, fragment.pc
    located = locate(machine, fragment, step.args[0], space, offset, count, mask)
    if located is None:
        anywhere(machine, fragment, space, mask, form)
        for register in step.out:
            machine.write(warp, register, opaque_at(pc), mask)
        return False
    asked = ask(machine, fragment, located, count, semantics)
    known = False
    results: list[Value] = [opaque_at(pc)] * len(step.out)
    single = len(located) == 1 and located[0][0] == mask
    for lanes, where in located:
        private = where[0] == MemorySpace.LOCAL
        known = known or (where[0] in RECORDED and any_known(machine, where, count))
        for place_ in range(len(step.out)):
            part = (where[0], where[1], where[2] + place_ * size)
            if single and not private:
                results[place_] = _extended(
                    read_value(machine, warp, 0, part, size, pc), kind, bits, width
                )
                continue
            items = results[place_]
            if not isinstance(items, list):
                items = results[place_] = [items] * 32
            shared = (
                None
                if private
                else _extended(read_value(machine, warp, 0, part, size, pc), kind, bits, width)
            )
            for index in lanes_of(lanes):
                items[index] = (
                    _extended(read_value(machine, warp, index, part, size, pc), kind, bits, width)
                    if shared is None
                    else shared
                )
    record(machine, fragment, located, count, form, known=known)
    if asked:
        machine.memory.write(located[0][1][2], count, opaque_at(pc))
    access = strong_or_plain(machine, form.mode, form.semantics)
    if machine.idle_lanes:
        located = [(lanes & ~machine.idle_lanes, where) for lanes, where in located]
        located = [(lanes, where) for lanes, where in located if lanes]
    order_lanes(machine, fragment, located, count, access, pc)
    for register, value in zip(step.out, results, strict=True):
        found = uniform(value, mask)
        machine.write(warp, register, value if found is None else found, mask)
    return False


def any_known(machine: SimtMachine, where: tuple[int, Cta | None, int], count: int) -> bool:
    """Whether some byte of a place is known."""
    space, cta, at = where
    if space == MemorySpace.SHARED and cta is not None:
        return cta.shared.has(at, count, KNOWN)
    return machine.memory.has(at, count, KNOWN)


def _extended(value: Scalar, kind: int, bits: int, width: int) -> Scalar:
    """Signed types are extended to the register."""
    if kind != Kind.SIGNED or isinstance(value, Opaque) or width <= bits:
        return value
    return signed(value, bits) & ((1 << width) - 1)


def store(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute st: record the write once for all lanes, then write each lane's bytes."""
    space, offset, semantics, scope, bits, _ = step.flags
    size, values = bits // 8, step.args[1:]
    count, form = size * len(values), form_of(ev.Mode.WRITE, semantics, scope)
    warp = fragment.warp
    if warp.marks or warp.sticky:
        marks = 0
        for register in values:
            marks |= machine.mark_of(warp, register)
        if marks:
            machine.steered(fragment, marks, "store", mask)
    located = locate(machine, fragment, step.args[0], space, offset, count, mask)
    located = within(machine, fragment, located, count, WRITTEN_WINDOWS)
    if located is None:
        anywhere(machine, fragment, space, mask, form)
        return False
    access = strong_or_plain(machine, form.mode, form.semantics)
    order_lanes(machine, fragment, located, count, access, fragment.pc)
    if access is LaneAccess.WRITE and len(located) < mask.bit_count():
        clash_of_stores(machine, fragment, located, values, size)
    record(machine, fragment, located, count, form)
    _note_value(machine, warp, located, values, size)
    for lanes, where in located:
        writers = lanes_of(lanes)
        private = where[0] == MemorySpace.LOCAL
        for place_, register in enumerate(values):
            part = (where[0], where[1], where[2] + place_ * size)
            value = warp.registers[register]
            if private:
                for index in writers:
                    write_value(machine, fragment, index, part, size, lane(value, index))
                continue
            common = uniform(value, lanes)
            item = machine.one_of(value, lanes, fragment.pc) if common is None else common
            write_value(machine, fragment, writers[0], part, size, item)
    return False


def _note_value(
    machine: SimtMachine, warp: Warp, located: Located, values: tuple[int, ...], size: int
) -> None:
    """The bytes of the write that has just been recorded, by address, where all are known and it is
    one event that writes no byte twice.
    """
    memories = {(space, cta) for _, (space, cta, _) in located}
    if machine.maybe or len(memories) != 1 or located[0][1][0] not in RECORDED:
        return
    if len(located) * len(values) * size > NOTED_BYTES_MAX:
        return
    written: dict[int, bytes] = {}
    end = -1
    for lanes, (_, _, at) in sorted(located, key=lambda item: item[1][2]):
        found = [uniform(warp.registers[register], lanes) for register in values]
        if at < end or not all(isinstance(value, int) for value in found):
            return
        end = at + size * len(values)
        written[at] = b"".join(
            (value % (1 << 8 * size)).to_bytes(size, "little")
            for value in found
            if isinstance(value, int)
        )
    last = machine.events[-1]
    if isinstance(last, ev.AccessEvent):
        machine.events[-1] = replace(last, value=b"".join(written.values()))


def atomic(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """atom and red: lane after lane. A known old value is marked: it depends on the schedule."""
    space, offset, semantics, scope, bits, _, operation, count = step.flags
    size = bits // 8
    warp, pc = fragment.warp, fragment.pc
    returns = any(register >= 0 for register in step.out)
    form = form_of(ev.Mode.ATOMIC, semantics, scope, returns=returns)
    located = locate(machine, fragment, step.args[0], space, offset, size * count, mask)
    located = within(machine, fragment, located, size * count, ATOMIC_WINDOWS)
    if located is None:
        anywhere(machine, fragment, space, mask, form)
        for register in step.out:
            machine.write(warp, register, opaque_at(pc), mask)
        return False
    asked = returns and ask(machine, fragment, located, size * count, semantics)
    commutes = not returns and ATOMICS[operation] in COMMUTING
    access = strong_or_plain(machine, form.mode, form.semantics, commutes=commutes)
    order_lanes(machine, fragment, located, size * count, access, pc)
    for lanes, where in located if access is LaneAccess.WRITE else ():
        if lanes & (lanes - 1):
            clash_within(machine, fragment, lanes, where, size * count)
    record(machine, fragment, located, size * count, form)
    if machine.launch.answers is not None and count == 1:
        _note_value(machine, warp, located[:1], step.args[1:], size)
    olds: list[list[Scalar]] = [[opaque_at(pc)] * 32 for _ in range(count)]
    order = sorted((index, where) for lanes, where in located for index in lanes_of(lanes))
    for index, where in order:
        for place_ in range(count):
            part = (where[0], where[1], where[2] + place_ * size)
            old = read_value(machine, warp, index, part, size, pc)
            olds[place_][index] = opaque_at(pc) if machine.maybe else old
            operands = step.args[1 + place_ :] if count > 1 else step.args[1:]
            values = [lane(warp.registers[r], index) for r in operands]
            if machine.launch.in_turn and returns and count == 1 and part[0] == MemorySpace.GLOBAL:
                old, new = _in_turn(machine, warp, step, old, values, part[2], pc)
                olds[place_][index] = opaque_at(pc) if machine.maybe else old
            else:
                new = _combined(step, operation, old, values, pc)
            write_value(machine, fragment, index, part, size, new)
    if asked:
        machine.memory.write(located[0][1][2], size * count, opaque_at(pc))
    for place_, register in enumerate(step.out):
        old_values = olds[place_]
        known = any(isinstance(old_values[index], int) for index in lanes_of(mask))
        machine.write(warp, register, list(old_values), mask, ATOMIC if known else 0)
    return False


def _in_turn(
    machine: SimtMachine, warp: Warp, step: DecodedStep, old: Scalar, operands: list[Scalar],
    at: int, pc: int,
) -> tuple[Scalar, Scalar]:  # fmt: skip
    """The old and the new value of a counter that all clusters raise, in turn or as the launch
    says."""
    operation = step.flags[6]
    new = _combined(step, operation, old, operands, pc)
    if ATOMICS[operation] != "add" or isinstance(old, Opaque) or isinstance(new, Opaque):
        return old, new
    mask, launch = (1 << step.bits) - 1, machine.launch
    raised, made = new - old, machine.counters.get(at, 0)
    machine.counters[at] = made + 1
    numbers = launch.draws.get(at, ())
    if not made:
        first = numbers[0] if numbers else launch.cluster_number(warp.cta.cluster.ctas[0].number)
        old = old + raised * first & mask
    given = made + 1 < len(numbers)
    apart = numbers[made + 1] - numbers[made] if given else launch.clusters
    return old, old + raised * apart & mask


def _combined(
    step: DecodedStep, operation: int, old: Scalar, operands: list[Scalar], pc: int
) -> Scalar:
    """The new value of memory."""
    word, bits = ATOMICS[operation], step.bits
    first = operands[0] if operands else opaque_at(pc)
    if word in ("exch", "store"):
        return first
    if word == "load":
        return old
    if isinstance(old, Opaque) or isinstance(first, Opaque):
        return opaque_at(pc)
    if word == "cas":
        second = operands[1]
        return second if old == first else old
    if step.kind in (Kind.FLOAT, Kind.BFLOAT):
        return opaque_at(pc)
    mask = (1 << bits) - 1
    if word in ("min", "max"):
        key = (lambda v: signed(v, bits)) if step.kind is Kind.SIGNED else (lambda v: v)
        return min(old, first, key=key) if word == "min" else max(old, first, key=key)
    if word == "inc":
        return 0 if old >= first else old + 1
    if word == "dec":
        return first if old == 0 or old > first else old - 1
    return {"add": old + first, "and": old & first, "or": old | first, "xor": old ^ first}[
        word
    ] & mask
