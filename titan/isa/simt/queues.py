"""Groups of asynchronous operations: commit, wait, and the queues of tcgen05.

A wgmma is one operation of four warps, and so is the group that it belongs to: a warp that waits
for a group continues when each warp of its warpgroup has committed it (PTX, wgmma.commit_group: "a
new wgmma-group per warpgroup").
"""

from __future__ import annotations

import itertools

from titan.isa.simt import events as ev
from titan.isa.simt.lane_order import order_copies
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.outcome import WGMMA_GROUPS, Waiter
from titan.isa.simt.rendezvous import find, places, record_faults
from titan.isa.simt.state import WARP_LANE, Blocked, Fragment, InFlight, Warp
from titan.isa.simt.values import lanes_of

WARPGROUP_WARPS = 4
_COMMITTED = {
    Op.BULK_COMMIT: ev.RecordedQueue.BULK,
    Op.COPY_COMMIT: ev.RecordedQueue.COPY,
    Op.COPY_WAIT_ALL: ev.RecordedQueue.COPY,
    Op.WGMMA_COMMIT: ev.RecordedQueue.WGMMA,
}
_WAITED = {
    Op.BULK_WAIT: ev.RecordedQueue.BULK,
    Op.COPY_WAIT: ev.RecordedQueue.COPY,
    Op.COPY_WAIT_ALL: ev.RecordedQueue.COPY,
    Op.WGMMA_WAIT: ev.RecordedQueue.WGMMA,
}


def owners(queue: ev.RecordedQueue, mask: int) -> list[int]:
    """The queues that lanes use: their own, or the warp's."""
    if queue in (ev.RecordedQueue.BULK, ev.RecordedQueue.COPY, ev.RecordedQueue.TENSOR_CORE):
        return lanes_of(mask)
    return [WARP_LANE]


def enqueue(warp: Warp, queue: ev.RecordedQueue, mask: int, operation: InFlight) -> None:
    """Add an operation to the open group of each lane's queue, or of the warp's."""
    for owner in owners(queue, mask):
        warp.queue(queue, owner).open.append(operation)


def commit(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Close the open groups."""
    queue = _COMMITTED[step.op]
    for lanes in _events_of(machine, queue, mask):
        found: dict[int, InFlight] = {}
        for owner in owners(queue, lanes):
            groups = fragment.warp.queue(queue, owner)
            for operation in groups.open:
                found[operation.number] = operation
            groups.closed.append(groups.open)
            groups.commits += 1
            groups.open = []
        machine.record(ev.CommitEvent, fragment, lanes, queue, tuple(sorted(found)))
    return False


def _events_of(machine: SimtMachine, queue: ev.RecordedQueue, mask: int) -> list[int]:
    """The lanes of each event: all, or one where the accesses of lanes are recorded apart."""
    if machine.apart and queue is ev.RecordedQueue.COPY:
        return [1 << lane for lane in lanes_of(mask)]
    return [mask]


def wait(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """At most `pending` of the newest groups are left; the machine completes the others now."""
    queue = _WAITED[step.op]
    pending = 0 if step.op is Op.COPY_WAIT_ALL else step.flags[0]
    reads = bool(step.flags[1]) if step.op is Op.BULK_WAIT else False
    if step.op is Op.WGMMA_WAIT:
        blocked = _blocked_by_warpgroup(fragment, pending, mask)
        if blocked is not None:
            return machine.block(fragment, blocked)
    for lanes in _events_of(machine, queue, mask):
        found: dict[int, InFlight] = {}
        for owner in owners(queue, lanes):
            groups = fragment.warp.queue(queue, owner)
            covered = groups.closed[: max(0, len(groups.closed) - pending)]
            by = lanes if owner == WARP_LANE else 1 << owner
            for group in covered:
                _see(found, group, by, reads)
            if not reads:
                del groups.closed[: len(covered)]
        _done(machine, fragment, lanes, queue, pending, reads, found)
    return False


def _blocked_by_warpgroup(fragment: Fragment, pending: int, mask: int) -> Blocked | None:
    """What a wait for wgmma groups waits for, if a warp of the warpgroup has yet to commit one."""
    warp, pc = fragment.warp, fragment.pc
    groups = warp.queue(ev.RecordedQueue.WGMMA, WARP_LANE)
    needed = groups.commits - min(pending, len(groups.closed))
    first = warp.index - warp.index % WARPGROUP_WARPS
    members = warp.cta.warps[first : first + WARPGROUP_WARPS]

    def ready() -> bool:
        return all(
            other.queue(ev.RecordedQueue.WGMMA, WARP_LANE).commits >= needed for other in members
        )

    def waiter() -> Waiter:
        return Waiter(warp.cta.number, warp.index, mask, pc, WGMMA_GROUPS, pending=needed)

    return None if ready() else Blocked(ready, lambda: None, waiter)


def wait_all(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """cp.async.wait_all: commit_group, and wait_group 0."""
    commit(machine, fragment, step, mask)
    return wait(machine, fragment, step, mask)


def tensor_wait(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """tcgen05.wait::ld and ::st."""
    queue = ev.RecordedQueue(step.flags[0])
    groups = fragment.warp.queue(queue, WARP_LANE)
    found: dict[int, InFlight] = {}
    machine.check_arm(fragment, groups.open)
    _see(found, groups.open, mask, False)
    groups.open = []
    _done(machine, fragment, mask, queue, 0, False, found)
    return False


def _see(found: dict[int, InFlight], group: list[InFlight], lanes: int, reads: bool) -> None:
    for operation in group:
        before = operation.reads_seen | operation.seen if reads else operation.seen
        if lanes & operation.lanes & ~before:
            found[operation.number] = operation
        if reads:
            operation.reads_seen |= lanes
        else:
            operation.seen |= lanes


def _done(
    machine: SimtMachine,
    fragment: Fragment,
    mask: int,
    queue: ev.RecordedQueue,
    pending: int,
    reads: bool,
    found: dict[int, InFlight],
) -> None:
    if queue is ev.RecordedQueue.COPY:
        order_copies(machine, fragment, ((found[n], found[n].seen & mask) for n in sorted(found)))
    for number in sorted(found):
        machine.finish(found[number])
        release_registers(fragment.warp, found[number])
    machine.record(ev.QueueWaitEvent, fragment, mask, queue, pending, reads, tuple(sorted(found)))


def release_registers(warp: Warp, operation: InFlight) -> None:
    """The registers of the operation may be used again."""
    for register in (*operation.registers, *operation.sources):
        if warp.owned.get(register) is operation:
            del warp.owned[register]


def copy_arrive(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """cp.async.mbarrier.arrive: an arrival of each lane when its copies are complete."""
    no_increment = bool(step.flags[2])
    warp = fragment.warp
    groups = [
        (lanes, place)
        for all_lanes, place, _ in places(machine, fragment, step, step.args, mask)
        for lanes in _events_of(machine, ev.RecordedQueue.COPY, all_lanes)
    ]
    for lanes, place in groups:
        barrier = find(machine, fragment, lanes, place)
        if barrier is None:
            continue
        count = lanes.bit_count()
        if not no_increment:
            barrier.pending += count
        found: dict[int, InFlight] = {}
        for owner in lanes_of(lanes):
            own = warp.queue(ev.RecordedQueue.COPY, owner)
            for operation in (*itertools.chain(*own.closed), *own.open):
                if not operation.arrived & 1 << owner:
                    operation.arrived |= 1 << owner
                    found[operation.number] = operation
            own.open = [o for o in own.open if not o.done]
        operations = tuple(sorted(found))
        order_copies(machine, fragment, ((found[n], found[n].arrived & lanes) for n in operations))
        number = machine.next_number()
        machine.record(ev.CopyArrive, fragment, lanes, place, no_increment, operations, number)
        record_faults(machine, fragment, lanes, place, barrier)
        machine.issue(
            InFlight(
                number,
                ev.RecordedOperation.COPY,
                warp,
                lanes,
                fragment.pc,
                arrives=(place,),
                arrive_count=count,
                after=tuple(found[n] for n in operations),
            )
        )
    return False
