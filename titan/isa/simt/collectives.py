"""Operations over the lanes of a warp, address windows, and resources."""

from __future__ import annotations

from collections.abc import Callable

from titan.isa.simt import events as ev
from titan.isa.simt.arithmetic import signed
from titan.isa.simt.control_flow import NO_JOIN
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.joins import member_groups, split
from titan.isa.simt.layout import OFFSET_MASK, RANK_SHIFT, resolve, to_generic
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import ATOMICS, SHUFFLES, VOTES, DecodedStep, Kind
from titan.isa.simt.outcome import Policy
from titan.isa.simt.state import Fragment
from titan.isa.simt.values import Opaque, Scalar, Value, lane, lanes_of, opaque_at, uniform


def put(machine: SimtMachine, fragment: Fragment, register: int, value: Value, mask: int,
        marks: int = 0) -> None:  # fmt: skip
    """Write a result, as one value if all lanes have the same."""
    found = uniform(value, mask)
    machine.write(fragment.warp, register, value if found is None else found, mask, marks)


def marks(machine: SimtMachine, fragment: Fragment, step: DecodedStep) -> int:
    """The marks of what a step reads, guard included; 0 at once in a warp without marks."""
    warp = fragment.warp
    return machine.marks_of(warp, step) if warp.marks or warp.sticky else 0


def shuffle(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """shfl.sync (PTX, "shfl.sync": the pseudo-code of the source lane)."""
    registers, pc = fragment.warp.registers, fragment.pc
    a, b, c = (registers[number] for number in step.args[:3])
    values: list[Scalar] = [0] * 32
    inside: list[Scalar] = [0] * 32
    for index in lanes_of(mask):
        found_in = shuffled_from(step, b, c, index)
        if found_in is None:
            values[index] = inside[index] = opaque_at(pc)
            continue
        source, valid = found_in
        inside[index] = int(valid)
        values[index] = lane(a, source) if mask >> source & 1 else opaque_at(pc)
        if not mask >> source & 1:
            machine.undefined.add(pc)
    found = marks(machine, fragment, step)
    put(machine, fragment, step.out[0], values, mask, found)
    put(machine, fragment, step.out[1], inside, mask, found)
    return False


def shuffled_from(step: DecodedStep, b: Value, c: Value, index: int) -> tuple[int, bool] | None:
    """The lane whose value a lane gets in a shfl.sync, and whether it asked for one in its segment;
    None where that is not known.
    """
    distance, clamp = lane(b, index), lane(c, index)
    if isinstance(distance, Opaque) or isinstance(clamp, Opaque):
        return None
    mode = SHUFFLES[step.flags[0]]
    source, valid = _source(mode, index, distance & 31, clamp & 31, clamp >> 8 & 31)
    return source if valid else index, valid


def _source(mode: str, index: int, distance: int, clamp: int, segment: int) -> tuple[int, bool]:
    last = (index & segment) | (clamp & ~segment & 31)
    if mode == "up":
        return index - distance, index - distance >= last
    if mode == "down":
        return index + distance, index + distance <= last
    if mode == "bfly":
        return index ^ distance, index ^ distance <= last
    source = (index & segment) | (distance & ~segment & 31)
    return source, source <= last


def vote(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """vote.sync; known lanes may decide alone."""
    mode, negated = step.flags
    value = fragment.warp.registers[step.args[0]]
    items: list[Scalar] = []
    for index in lanes_of(mask):
        item = lane(value, index)
        items.append(item if isinstance(item, Opaque) else (item & 1) ^ negated)
    known = [item for item in items if isinstance(item, int)]
    whole = len(known) == len(items)
    word = VOTES[mode]
    result: Scalar = opaque_at(fragment.pc)
    if word == "all" and (0 in known or whole):
        result = int(0 not in known)
    elif word == "any" and (1 in known or whole):
        result = int(1 in known)
    elif word == "uni" and (len(set(known)) == 2 or whole):
        result = int(len(set(known)) < 2)
    elif word == "ballot" and whole:
        result = sum(item << index for item, index in zip(known, lanes_of(mask), strict=True))
    machine.write(fragment.warp, step.out[0], result, mask, marks(machine, fragment, step))
    return False


def match(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute match.sync: lane masks of equal values; opaque if any lane's value is opaque."""
    value = fragment.warp.registers[step.args[0]]
    lanes = lanes_of(mask)
    items = [lane(value, index) for index in lanes]
    found = marks(machine, fragment, step)
    if any(isinstance(item, Opaque) for item in items):
        for register in step.out:
            machine.write(fragment.warp, register, opaque_at(fragment.pc), mask, found)
        return False
    if step.flags[0]:
        same = len(set(items)) == 1
        machine.write(fragment.warp, step.out[0], mask if same else 0, mask, found)
        machine.write(fragment.warp, step.out[1], int(same), mask, found)
        return False
    result: list[Scalar] = [0] * 32
    for index, item in zip(lanes, items, strict=True):
        result[index] = sum(1 << other for other, o in zip(lanes, items, strict=True) if o == item)
    put(machine, fragment, step.out[0], result, mask, found)
    return False


def reduce(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute redux.sync over the lanes; opaque for floats or if any lane's value is opaque."""
    value = fragment.warp.registers[step.args[0]]
    items = [lane(value, index) for index in lanes_of(mask)]
    known = [item for item in items if isinstance(item, int)]
    result: Scalar = opaque_at(fragment.pc)
    if len(known) == len(items) and step.kind is not Kind.FLOAT:
        result = _reduction(ATOMICS[step.flags[0]], known, step)
    machine.write(fragment.warp, step.out[0], result, mask, marks(machine, fragment, step))
    return False


def _reduction(word: str, items: list[int], step: DecodedStep) -> int:
    if word == "add":
        return sum(items) & 0xFFFFFFFF
    if word in ("min", "max"):
        key: Callable[[int], int] = (
            (lambda v: signed(v, 32)) if step.kind is Kind.SIGNED else (lambda v: v)
        )
        return min(items, key=key) if word == "min" else max(items, key=key)
    result = items[0]
    for item in items[1:]:
        result = {"and": result & item, "or": result | item, "xor": result ^ item}[word]
    return result


def elect(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """elect.sync: the lowest lane of the mask."""
    members = lane(fragment.warp.registers[step.args[0]], lanes_of(mask)[0])
    assert isinstance(members, int)
    leader = lanes_of(mask & members or mask)[0]
    machine.record(ev.Elect, fragment, mask, members, leader)
    machine.assume(fragment, mask, Policy.ELECTED_LANE)
    machine.write(fragment.warp, step.out[0], leader, mask)
    chosen: Value = [int(index == leader) for index in range(32)]
    put(machine, fragment, step.out[1], chosen, mask)
    return False


def active_mask(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute activemask: the lanes of the fragment, which are those that run converged."""
    lanes = lanes_of(fragment.mask)
    if machine.options.lone_lanes and fragment.join is not None and len(lanes) > 1:
        split(fragment, [(1 << index, fragment.pc) for index in lanes], NO_JOIN)
        return True
    machine.write(fragment.warp, step.out[0], fragment.mask, mask)
    return False


def warp_sync(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """bar.warp.sync orders the memory accesses of its lanes.

    Lanes may name different masks, as those of halves and tiles do: a meeting for each.
    """
    warp = fragment.warp
    named = member_groups(machine, fragment, step.args[0], mask)
    for members, lanes in named.items():
        warp.uses.meet(members, warp.live)
        generation = warp.meetings.get(members, 0)
        warp.meetings[members] = generation + 1
        machine.record(
            ev.RendezvousEvent,
            fragment,
            lanes,
            ev.Meeting.WARP,
            ev.Side.PASS,
            members,
            (members & warp.live).bit_count(),
            generation,
            ev.AccessSemantics.ACQUIRE_RELEASE,
            True,
        )
    return False


def collective(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """mma.sync, movmatrix: results that are not computed."""
    for register in step.out:
        machine.write(fragment.warp, register, opaque_at(fragment.pc), mask)
    return False


# -------------------------------------------------------------------------- address windows


def mapped(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int, make: Callable[..., int]
) -> bool:
    """A result of each lane from its operands."""
    values = [fragment.warp.registers[number] for number in step.args]
    result: list[Scalar] = [0] * 32
    for index in lanes_of(mask):
        items = [lane(value, index) for value in values]
        opaque = next((item for item in items if isinstance(item, Opaque)), None)
        result[index] = make(*items) if opaque is None else opaque
    put(machine, fragment, step.out[0], result, mask, marks(machine, fragment, step))
    return False


def to_generic_address(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int
) -> bool:
    """Execute cvta: a window's address becomes a generic one of 64 bits."""
    space = MemorySpace(step.flags[0])
    return mapped(machine, fragment, step, mask, lambda a: to_generic(space, a) & (1 << 64) - 1)


def from_generic(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute cvta.to: a generic address becomes the offset in its window."""
    return mapped(machine, fragment, step, mask, lambda a: resolve(a)[1])


def is_space(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute isspacep: 1 where the generic address lies in the window asked for."""
    space, own = step.flags
    cta = fragment.warp.cta
    own = own and len(cta.cluster.ctas) > 1

    def make(address: int) -> int:
        found, at = resolve(address)
        return int(found == space and (not own or at >> RANK_SHIFT == cta.rank))

    return mapped(machine, fragment, step, mask, make)


def map_address(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """mapa: the same offset in the window of another rank."""

    def make(address: int, rank: int) -> int:
        generic = step.flags[0]
        offset = (resolve(address)[1] if generic else address) & OFFSET_MASK
        found = (rank << RANK_SHIFT) | offset
        return to_generic(MemorySpace.SHARED, found) if generic else found

    return mapped(machine, fragment, step, mask, make)


def get_rank(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute getctarank: the CTA rank held in the high bits of a shared address."""

    def make(address: int) -> int:
        return (resolve(address)[1] if step.flags[0] else address) >> RANK_SHIFT

    return mapped(machine, fragment, step, mask, make)


# -------------------------------------------------------------------------------- resources


def register_count(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """setmaxnreg; whether it may block is left to the judgement of the run."""
    machine.record(ev.RegisterCount, fragment, mask, step.flags[1], bool(step.flags[0]))
    return False


def grid_control(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute griddepcontrol: record only whether it waits or launches dependents."""
    machine.record(ev.GridControl, fragment, mask, bool(step.flags[0]))
    return False
