"""mbarriers, hardware barriers of CTAs and clusters, fences."""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import shared_of
from titan.isa.simt.decode_memory import FENCE_SPACES
from titan.isa.simt.footprints import NO_CTA, MemorySpace
from titan.isa.simt.joins import gather
from titan.isa.simt.layout import resolve
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.mbarriers import BYTES, LIMIT, MBarrier
from titan.isa.simt.memory import BARRIER, OPAQUE
from titan.isa.simt.operations import WAIT_FLAGS, DecodedStep
from titan.isa.simt.outcome import Policy, Waiter
from titan.isa.simt.state import POLL, Blocked, Cta, Fragment, NamedBarrierState, Warp
from titan.isa.simt.values import Opaque, Value, lane, lanes_of, opaque_at

# A state of an mbarrier (the result of an arrival): a mark, the object and the number of its phase.
TOKEN, OBJECT_BITS, OBJECT_AT = 1 << 62, 30, 32


def barrier_place(
    machine: SimtMachine, fragment: Fragment, space: int, address: int
) -> ev.BarrierAddress:
    """The mbarrier at an address. Ends the run if it is not in shared memory."""
    if space == MemorySpace.GENERIC:
        found, address = resolve(address)
        if found is not MemorySpace.SHARED:
            machine.fault(fragment, "an mbarrier outside of shared memory")
    cta, offset = shared_of(machine, fragment.warp, address & 0xFFFFFFFF)
    if cta is None:
        machine.fault(fragment, "an mbarrier of a CTA that the cluster does not have")
    return ev.BarrierAddress(cta.number, offset)


def places(
    machine: SimtMachine,
    fragment: Fragment,
    step: DecodedStep,
    registers: tuple[int, ...],
    mask: int,
) -> list[tuple[int, ev.BarrierAddress, tuple[int, ...]]]:
    """(lanes, barrier, the other operands) for each different barrier and operands."""
    warp = fragment.warp
    if warp.marks or warp.sticky:
        marks = 0
        for register in registers[:1]:
            marks |= machine.mark_of(warp, register)
        if marks:
            machine.steered(fragment, marks, "address", mask)
    space, offset = step.flags[:2]
    return [
        (lanes, barrier_place(machine, fragment, space, values[0] + offset), values[1:])
        for lanes, values in machine.grouped(
            fragment, registers, mask, "the operand of an mbarrier"
        )
    ]


def find(
    machine: SimtMachine, fragment: Fragment, lanes: int, place: ev.BarrierAddress
) -> MBarrier | None:
    """The live object, or None with a misuse recorded."""
    cta = machine.ctas[place.cta]
    barrier = cta.barriers.get(place.offset)
    if barrier is None:
        misuse(machine, fragment, lanes, place, ev.Misuse.NOT_INITIALISED)
    return barrier


def misuse(
    machine: SimtMachine, fragment: Fragment, lanes: int, place: ev.BarrierAddress, what: ev.Misuse
) -> None:
    """Record a BarrierMisuse of the lanes; the run continues."""
    machine.record(ev.BarrierMisuse, fragment, lanes, place, what)


def record_faults(
    machine: SimtMachine,
    fragment: Fragment,
    lanes: int,
    place: ev.BarrierAddress,
    barrier: MBarrier,
) -> None:
    """Record the faults of counting that an operation made."""
    for fault in barrier.faults:
        misuse(machine, fragment, lanes, place, fault)
    barrier.faults.clear()


def init(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute mbarrier.init: record the misuses, then put a fresh object at each place inside."""
    for lanes, place, (count,) in places(machine, fragment, step, step.args, mask):
        cta = machine.ctas[place.cta]
        if place.offset % BYTES:
            misuse(machine, fragment, lanes, place, ev.Misuse.MISALIGNED)
        beyond = not 0 <= place.offset <= cta.shared.size - BYTES
        if beyond or machine.layout.in_hole(MemorySpace.SHARED, place.offset, BYTES):
            misuse(machine, fragment, lanes, place, ev.Misuse.OUTSIDE)
            continue
        if not 1 <= count <= LIMIT:
            misuse(machine, fragment, lanes, place, ev.Misuse.COUNT_RANGE)
        live = place.offset in cta.barriers
        machine.record(ev.BarrierInit, fragment, lanes, place, count, live)
        machine.barriers_made += 1
        cta.barriers[place.offset] = MBarrier(count, count, number=machine.barriers_made)
        cta.shared.fill(place.offset, BYTES, BARRIER)
    return False


def invalidate(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute mbarrier.inval: drop the object and leave its bytes opaque."""
    for lanes, place, _ in places(machine, fragment, step, step.args, mask):
        if find(machine, fragment, lanes, place) is None:
            continue
        cta = machine.ctas[place.cta]
        machine.record(ev.BarrierInvalidate, fragment, lanes, place)
        del cta.barriers[place.offset]
        cta.shared.fill(place.offset, BYTES, OPAQUE)
    return False


def arrive(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute mbarrier.arrive in all forms; its state names the object and its phase."""
    semantics, scope, expects, drop, no_complete, remote = step.flags[2:]
    fragment.peeked = fragment.peeked[-1:]  # a loop that polls several barriers does not arrive
    state: list[int] = [0] * 32
    for lanes, place, (value,) in places(machine, fragment, step, step.args, mask):
        barrier = find(machine, fragment, lanes, place)
        if barrier is None:
            continue
        count, bytes_ = (1, value) if expects else (value, 0)
        number, phase = lanes.bit_count(), barrier.phase
        if bytes_ > LIMIT:
            barrier.faults.append(ev.Misuse.BYTES_RANGE)
        barrier.expect(bytes_ * number)
        barrier.arrive(count * number, bool(drop))
        completed = barrier.settle()
        if completed and no_complete:
            barrier.faults.append(ev.Misuse.NO_COMPLETE_COMPLETED)
        warp = fragment.warp
        warp.uses.arrive(lanes, ev.AccessSemantics(semantics), warp.live)
        machine.record(
            ev.ArriveEvent, fragment, lanes, place, count, bytes_, ev.AccessSemantics(semantics),
            ev.AccessScope(scope), phase, completed, bool(drop), bool(no_complete), bool(remote),
        )  # fmt: skip
        record_faults(machine, fragment, lanes, place, barrier)
        for index in lanes_of(lanes):
            state[index] = TOKEN | _object(barrier) << OBJECT_AT | phase
    value_: Value = list(state)
    machine.write(fragment.warp, step.out[0], value_, mask)
    return False


def expect(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute expect_tx (sign 1) or complete_tx (sign -1), bytes of each lane."""
    scope, _, sign = step.flags[2:]
    fragment.peeked = fragment.peeked[-1:]
    for lanes, place, (value,) in places(machine, fragment, step, step.args, mask):
        barrier = find(machine, fragment, lanes, place)
        if barrier is None:
            continue
        phase = barrier.phase
        barrier.expect(sign * value * lanes.bit_count())
        completed = barrier.settle()
        fragment.warp.uses.arrive(lanes, ev.AccessSemantics.RELAXED, fragment.warp.live)
        machine.record(ev.ExpectBytes, fragment, lanes, place, sign * value, ev.AccessScope(scope),
                       phase, completed)  # fmt: skip
        record_faults(machine, fragment, lanes, place, barrier)
    return False


def wait(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """test_wait and try_wait. Lanes that poll the same failing barrier again go to sleep."""
    semantics, scope, by_parity = step.flags[2:5]
    warp, pc = fragment.warp, fragment.pc
    groups = places(machine, fragment, step, step.args, mask)
    marks = _note_attempt(machine, fragment, step, groups)
    if machine.maybe:
        return _attempt_in_arm(machine, fragment, step, groups, mask, marks)
    passed: list[int] = [0] * 32
    failing: tuple[ev.BarrierAddress, MBarrier | None, int] | None = None
    # Of lanes that poll several barriers at once, what was seen last would never be the same.
    fails_first = machine.options.first_poll_fails and len(groups) == 1
    early_lanes = 0  # for which the phase is complete, and it is not recorded yet
    for lanes, place, (value,) in groups:
        barrier = machine.ctas[place.cta].barriers.get(place.offset)
        if barrier is None:
            if fragment.polled is None or fragment.polled[:2] != (pc, place):
                misuse(machine, fragment, lanes, place, ev.Misuse.NOT_INITIALISED)
            failing = (place, None, 0)
            continue
        true, phase = _complete(barrier, value, by_parity)
        first = fragment.polled is None or fragment.polled[:2] != (pc, place)
        if first and not by_parity and not _of_object(barrier, value):
            misuse(machine, fragment, lanes, place, ev.Misuse.FOREIGN_STATE)
        peek = (pc, place, barrier.phase)
        early = first and fails_first and peek not in fragment.peeked
        if not true or early:
            if first:
                asked = phase if true else barrier.phase
                machine.record(
                    ev.Poll, fragment, lanes, place,
                    _as_written(value) if by_parity else None, asked,
                )  # fmt: skip
            if true:
                fragment.peeked = (*fragment.peeked[1 - PEEKS :], peek)
                fragment.polled = (pc, place, barrier.phase)
                early_lanes |= lanes
            else:
                failing = (place, barrier, barrier.phase)
            continue
        if by_parity and value > 1:
            machine.assume(fragment, lanes, Policy.PARITY_REDUCED)
        polls, fragment.polls = fragment.polls, 0
        machine.record(
            ev.WaitEvent, fragment, lanes, place, _as_written(value) if by_parity else None, phase,
            barrier.phase, ev.AccessSemantics(semantics), ev.AccessScope(scope), polls,
        )  # fmt: skip
        for index in lanes_of(lanes):
            passed[index] = 1
    if failing is not None:
        poll = (pc, failing[0], failing[2])
        if fragment.polled == poll:
            return _sleep(machine, fragment, failing)
        fragment.polled = poll
        fragment.polls += 1
    found: Value = list(passed)
    if failing is None and not early_lanes:
        found = 1
    elif sum(passed) == 0:
        found = 0
    machine.write(warp, step.out[0] if step.out else -1, found, mask, marks)
    fragment.pc += 1
    return True


def _note_attempt(
    machine: SimtMachine,
    fragment: Fragment,
    step: DecodedStep,
    groups: list[tuple[int, ev.BarrierAddress, tuple[int, ...]]],
) -> int:
    """The marks of what an attempt gives. One that a branch on other attempts might have spared has
    to be at a barrier of theirs: otherwise they have decided more than when this one passes."""
    marks = POLL
    for _, place, _ in groups:
        marks |= machine.poll_mark(fragment.warp, place)
    if fragment.spared is not None:
        known, branch = fragment.spared
        fragment.spared = None
        if marks & ~known and branch in step.flags[WAIT_FLAGS:]:
            machine.steered(fragment, POLL, "branch")
    return marks


def _complete(barrier: MBarrier, value: int, by_parity: int) -> tuple[bool, int]:
    """Whether the phase is complete that a parity or a token asks for, and its number."""
    if by_parity:
        return barrier.observed(value & 1), barrier.phase - 1
    phase = value % (1 << OBJECT_AT) if value & TOKEN else barrier.phase
    return barrier.phase > phase, phase


def _object(barrier: MBarrier) -> int:
    return barrier.number % (1 << OBJECT_BITS)


def _of_object(barrier: MBarrier, value: int) -> bool:
    """Whether a state is the result of an arrival at the object, as PTX asks of those that are
    waited for (mbarrier.test_wait)."""
    return value >> OBJECT_AT == TOKEN >> OBJECT_AT | _object(barrier)


def _attempt_in_arm(
    machine: SimtMachine,
    fragment: Fragment,
    step: DecodedStep,
    groups: list[tuple[int, ev.BarrierAddress, tuple[int, ...]]],
    mask: int,
    marks: int,
) -> bool:
    """An attempt in the arm of a branch on data, by all lanes at one barrier. It does not block; it
    passes only in runs in which first attempts may, as if the arm were taken."""
    semantics, scope, by_parity = step.flags[2:5]
    lanes, place, (value,) = groups[0]
    barrier = machine.ctas[place.cta].barriers.get(place.offset)
    if len(groups) > 1 or barrier is None:
        machine.refuse(fragment, "an arm of a branch on opaque data waits for no single barrier")
    true, phase = _complete(barrier, value, by_parity)
    if not by_parity and not _of_object(barrier, value):
        misuse(machine, fragment, lanes, place, ev.Misuse.FOREIGN_STATE)
    parity = _as_written(value) if by_parity else None
    passes = true and not machine.options.first_poll_fails
    if passes:
        machine.passed_in_arms += 1
        machine.record(
            ev.WaitEvent, fragment, lanes, place, parity, phase, barrier.phase,
            ev.AccessSemantics(semantics), ev.AccessScope(scope), 0,
        )  # fmt: skip
    else:
        machine.record(ev.Poll, fragment, lanes, place, parity, phase if true else barrier.phase)
    machine.write(fragment.warp, step.out[0] if step.out else -1, int(passes), mask, marks)
    fragment.pc += 1
    return True


PEEKS = 8  # polls of several barriers in one loop


def _as_written(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _sleep(
    machine: SimtMachine,
    fragment: Fragment,
    failing: tuple[ev.BarrierAddress, MBarrier | None, int],
) -> bool:
    place, _, phase = failing
    warp = fragment.warp
    cta = machine.ctas[place.cta]

    def ready() -> bool:
        now = cta.barriers.get(place.offset)
        return now is not None and (now.phase != phase or failing[1] is not now)

    def resume() -> None:
        fragment.polled = None

    def waiter() -> Waiter:
        now = cta.barriers.get(place.offset)
        pending, bytes_ = (now.pending, now.bytes) if now is not None else (0, 0)
        return Waiter(warp.cta.number, warp.index, fragment.mask, fragment.pc, "mbarrier", place,
                      phase=phase, pending=pending, bytes=bytes_)  # fmt: skip

    return machine.block(fragment, Blocked(ready, resume, waiter))


def pending_count(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute mbarrier.pending_count; its result is opaque, whatever the token."""
    machine.write(fragment.warp, step.out[0], opaque_at(fragment.pc), mask)
    return False


# ---------------------------------------------------------------------------- named barriers


def named(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """bar and barrier: arrive, sync, red."""
    side, aligned, reduction, negated = step.flags
    warp = fragment.warp
    cta = warp.cta
    if aligned and warp.live & ~fragment.mask:
        if not gather(fragment, warp.live):
            return True
        mask = fragment.mask
    number = machine.known(fragment, step.args[0], mask, "the number of a barrier")
    threads = 0
    if step.args[1] >= 0:
        threads = machine.known(fragment, step.args[1], mask, "the thread count of a barrier")
    if not 0 <= number < 16:
        machine.fault(fragment, f"a CTA has no barrier {number}")
    barrier = cta.named.setdefault(number, NamedBarrierState())
    if barrier.arrived == 0:
        barrier.expected = threads
    barrier.arrived += 32 if mask == warp.live else mask.bit_count()
    generation = barrier.generation
    fragment.warp.uses.all_meet()
    machine.record(
        ev.RendezvousEvent, fragment, mask, ev.Meeting.NAMED, ev.Side(side), number, threads,
        generation, ev.AccessSemantics.ACQUIRE_RELEASE, bool(aligned),
    )  # fmt: skip
    if reduction:
        value = warp.registers[step.args[2]]
        barrier.values.extend(_truth(lane(value, index), negated) for index in lanes_of(mask))
    if side == ev.Side.ARRIVE:
        settle_barriers(machine, cta)
        return False

    def resume() -> None:
        fragment.warp.uses.all_meet()
        machine.record(
            ev.RendezvousEvent, fragment, mask, ev.Meeting.NAMED, ev.Side.PASS, number, threads,
            generation, ev.AccessSemantics.ACQUIRE_RELEASE, bool(aligned),
        )  # fmt: skip
        if reduction:
            machine.write(warp, step.out[0], _reduced(barrier, reduction, fragment.pc), mask)
        fragment.pc += 1

    def waiter() -> Waiter:
        missing = _needed(cta, barrier) - barrier.arrived
        return Waiter(cta.number, warp.index, mask, fragment.pc, "named barrier", number=number,
                      phase=generation, pending=missing)  # fmt: skip

    blocked = Blocked(lambda: barrier.generation > generation, resume, waiter)
    machine.block(fragment, blocked)
    settle_barriers(machine, cta)
    return True


def _truth(value: int | Opaque, negated: int) -> int | Opaque:
    return value if isinstance(value, Opaque) else (value & 1) ^ negated


def _reduced(barrier: NamedBarrierState, reduction: int, pc: int) -> Value:
    known = [value for value in barrier.last if isinstance(value, int)]
    whole = len(known) == len(barrier.last)
    if reduction == 1:
        return sum(known) if whole else opaque_at(pc)
    if reduction == 2:
        return 0 if 0 in known else 1 if whole else opaque_at(pc)
    return 1 if 1 in known else 0 if whole else opaque_at(pc)


def _needed(cta: Cta, barrier: NamedBarrierState) -> int:
    if barrier.expected:
        return barrier.expected
    return 32 * sum(1 for warp in cta.warps if warp.live)


def forget_arrivals(warp: Warp, mask: int) -> None:
    """The cluster barrier expects live threads only: one that arrived and exits counts no more."""
    cluster = warp.cta.cluster
    at = [warp.arrivals.get(index) for index in lanes_of(mask)]
    cluster.arrived -= at.count(cluster.generation)


def settle_barriers(machine: SimtMachine, cta: Cta) -> None:
    """Let the barriers go whose threads are all there; called when threads arrive or exit."""
    for barrier in cta.named.values():
        if barrier.arrived and barrier.arrived >= _needed(cta, barrier):
            barrier.arrived = 0
            barrier.generation += 1
            barrier.last, barrier.values = barrier.values, []
    cluster = cta.cluster
    live = sum(member.live_threads for member in cluster.ctas)
    if cluster.arrived and cluster.arrived >= live:
        cluster.arrived = 0
        cluster.generation += 1


# -------------------------------------------------------------------------- cluster barrier


def cluster_arrive(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute barrier.cluster.arrive: note each lane's generation for its later wait."""
    semantics, aligned = step.flags
    warp = fragment.warp
    cluster = warp.cta.cluster
    threads = sum(len(cta.warps) for cta in cluster.ctas) and machine.launch.threads
    fragment.warp.uses.all_meet()
    machine.record(
        ev.RendezvousEvent,
        fragment,
        mask,
        ev.Meeting.CLUSTER,
        ev.Side.ARRIVE,
        0,
        threads * len(cluster.ctas),
        cluster.generation,
        ev.AccessSemantics(semantics),
        bool(aligned),
    )
    cluster.arrived += mask.bit_count()
    for index in lanes_of(mask):
        warp.arrivals[index] = cluster.generation
    settle_barriers(machine, warp.cta)
    return False


def cluster_wait(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute barrier.cluster.wait: block until the generation arrived for is over."""
    semantics, aligned = step.flags
    warp = fragment.warp
    cluster = warp.cta.cluster
    generation = warp.arrivals.get(lanes_of(mask)[0], -1)
    threads = machine.launch.threads * len(cluster.ctas)

    def resume() -> None:
        fragment.warp.uses.all_meet()
        machine.record(
            ev.RendezvousEvent, fragment, mask, ev.Meeting.CLUSTER, ev.Side.PASS, 0, threads,
            generation, ev.AccessSemantics(semantics), bool(aligned),
        )  # fmt: skip
        fragment.pc += 1

    if cluster.generation > generation:
        resume()
        return True

    def waiter() -> Waiter:
        live = sum(cta.live_threads for cta in cluster.ctas)
        return Waiter(warp.cta.number, warp.index, mask, fragment.pc, "cluster barrier",
                      phase=generation, pending=live - cluster.arrived)  # fmt: skip

    blocked = Blocked(lambda: cluster.generation > generation, resume, waiter)
    return machine.block(fragment, blocked)


# ----------------------------------------------------------------------------------- fences


def fence(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute a fence: record it; a tensor map's acquire needs a known uniform address."""
    kind, semantics, scope, space, own, offset = step.flags
    footprint = None
    if kind == ev.RecordedFence.TENSORMAP_ACQUIRE:
        address = machine.known(fragment, step.args[0], mask, "the address of a tensor map")
        found, at = (
            resolve(address + offset) if own == MemorySpace.GENERIC else (own, address + offset)
        )
        footprint = machine.footprint(MemorySpace(found), NO_CTA, ((at, at + 128),))
    fragment.warp.uses.fence(mask, ev.RecordedFence(kind), fragment.warp.live)
    for lanes in [1 << index for index in lanes_of(mask)] if machine.apart else [mask]:
        machine.record(
            ev.FenceEvent,
            fragment,
            lanes,
            ev.RecordedFence(kind),
            ev.AccessSemantics(semantics),
            ev.AccessScope(scope),
            FENCE_SPACES[space],
            footprint,
        )
    return False
