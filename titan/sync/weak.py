"""Whether some synchronisation of a program may order execution without carrying visibility.

Where none does, an engine that knows execution order only decides everything. Where some may, rule
TTN305 is open: happens-before decides it, and the explorer where nothing rests on what such
operations would have to carry (`quiet_operations`). What an arrival of CTA scope makes visible
comes to waiters of its own CTA only, and a wait of CTA scope takes it from its own CTA only. What
an engine completes counts as made in the CTA of the barrier (PTX, mbarrier scopes).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.parts import effects_of, queue_of, scope_of

Synchronising = (
    ir.Arrive | ir.BarrierArrive | ir.BarrierSync | ir.Wait | ir.TokenWait | ir.BarrierWait
)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """An operation at a barrier, with its CTA and whether its scope is the cluster."""

    cta: int
    wide: bool
    operation: Synchronising | None


@dataclass(frozen=True, slots=True)
class Weak:
    """An operation that may carry no visibility: what it lacks, and the edit, in words."""

    operation: Synchronising
    lack: str
    edit: str


_ARRIVING = (ir.Arrive, ir.BarrierArrive, ir.BarrierSync)
_WAITING = (ir.Wait, ir.TokenWait, ir.BarrierSync, ir.BarrierWait)


def may_be_weak(program: ir.SyncProgram) -> bool:
    """Whether an operation is relaxed, or of too narrow a scope for who meets at its barrier."""
    return weak_operation(program) is not None


def weak_operation(program: ir.SyncProgram) -> Synchronising | None:
    """The first operation that is relaxed, or of too narrow a scope for its barrier."""
    return next((item.operation for item in weak_operations(program)), None)


def weak_operations(program: ir.SyncProgram) -> list[Weak]:
    """All operations that are relaxed, or of too narrow a scope for who meets at their barrier."""
    found = [
        Weak(operation, "relaxed", "leave out `order: relaxed`")
        for role in program.roles
        for operation in ir.walk(role.body)
        if isinstance(operation, _ARRIVING + _WAITING) and operation.order is ir.Order.RELAXED
    ]
    for wait, arrival in _far_pairs(program):
        found += _narrow(arrival) + _narrow(wait)
    return list({id(item.operation): item for item in found}.values())


def quiet_operations(program: ir.SyncProgram) -> set[int]:
    """The identities of operations that are to publish nothing, or to learn nothing.

    Relaxed ones, and arrivals of which some waiter of another CTA would not learn all. With these
    left out, whatever else reaches an agent is visible to it.
    """
    quiet = {
        id(item.operation)
        for item in weak_operations(program)
        if item.operation.order is ir.Order.RELAXED
    }
    for wait, arrival in _far_pairs(program):
        if arrival.operation is not None and (_narrow(arrival) or _narrow(wait)):
            quiet.add(id(arrival.operation))
    return quiet


def _far_pairs(program: ir.SyncProgram) -> Iterator[tuple[_Meeting, _Meeting]]:
    """A wait and an arrival at one barrier, where their CTAs differ."""
    wide = {item.name for item in program.named_barriers if item.scope is ir.Scope.CLUSTER}
    arriving: dict[str, list[_Meeting]] = defaultdict(list)
    waiting: dict[str, list[_Meeting]] = defaultdict(list)
    for barrier in program.barriers:
        arriving[barrier.name].append(_Meeting(barrier.cta, True, None))  # engines
    for role in program.roles:
        for operation in ir.walk(role.body):
            if not isinstance(operation, _ARRIVING + _WAITING):
                continue
            name = operation.barrier.name
            scope = scope_of(operation)
            meeting = _Meeting(role.cta, name in wide or scope is ir.Scope.CLUSTER, operation)
            if isinstance(operation, _ARRIVING):
                arriving[name].append(meeting)
            if isinstance(operation, _WAITING):
                waiting[name].append(meeting)
    for name, meetings in waiting.items():
        for wait in meetings:
            for arrival in arriving[name]:
                if wait.cta != arrival.cta:
                    yield wait, arrival


def _narrow(meeting: _Meeting) -> list[Weak]:
    if meeting.wide or meeting.operation is None:
        return []
    return [Weak(meeting.operation, "of CTA scope", "write `scope: cluster`")]


def asks_for_tensor_fences(program: ir.SyncProgram) -> bool:
    """Whether operands of tcgen05 products are overwritten by threads, and need fences by policy.

    Happens-before alone decides that.
    """
    if program.policies.tensor != "fence":
        return False
    queues = {queue.name for queue in program.queues if queue.pipelined and not queue.grouped}
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    read: set[str] = set()
    written: set[str] = set()
    for role in program.roles:
        for operation in ir.walk(role.body):
            for effect in effects_of(operation):
                if effect.write and effect.proxy is ir.Proxy.GENERIC:
                    written.add(storages[effect.buffer])
                elif not effect.write and queue_of(operation) in queues:
                    read.add(storages[effect.buffer])
    return bool(read & written)
