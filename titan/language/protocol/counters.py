"""Facts of a sync program that are the hardware's, not the user's: counters, group barriers, grids.

Two declared queues of one counter are one queue of the hardware: a wait for either counts the
operations of both. And where a cluster barrier counts work-groups, one wave of each signals and all
wait, so that it behaves as an mbarrier with a phase and not as a barrier of all threads.

The end of a grid, and what waits for it (griddepcontrol.wait, the next launch of a stream), is a
barrier at which every agent of the grid arrives once. All that an agent has done is performed and
visible by every path then (PTX, griddepcontrol): what it has in flight is over, and the proxy
fences of both sides are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from titan.sync import program as ir
from titan.sync.expression import ONE, Constant, Name, binary
from titan.sync.parts import GRID, effects_of, queue_of
from titan.target.completion import Waits
from titan.target.description import target_of

NOWHERE = 16  # beyond every CTA: in no memory of one, it does not end with one
_QUEUED = (ir.Asynchronous, ir.Commit, ir.QueueWait, ir.QueueArrive)


def with_hardware_counters(
    program: ir.SyncProgram, kinds: Iterable[tuple[str, str]] = ()
) -> ir.SyncProgram:
    """The program with one queue a counter, and with group barriers as what they are."""
    known = dict(kinds)
    program = _with_grid_boundaries(program, {name for name in known if known[name] == "grid"})
    return _with_group_barriers(_with_one_queue_a_counter(program, known))


def _with_grid_boundaries(program: ir.SyncProgram, grids: set[str]) -> ir.SyncProgram:
    """Arrivals at the end of a grid complete and publish everything; waits for it take it in."""
    if not grids:
        return program
    cached = {
        effect.proxy
        for role in program.roles
        for operation in ir.walk(role.body)
        for effect in effects_of(operation)
    }
    fences = [kind for kind, proxy in ir.CACHED_FENCES.items() if proxy in cached]
    releases = (ir.FenceKind.ASYNC, ir.FenceKind.TENSORMAP_RELEASE, *fences)
    acquires = (ir.FenceKind.ASYNC, ir.FenceKind.TENSORMAP_ACQUIRE, *fences)
    grouped = {queue.name for queue in program.queues if queue.grouped}
    roles = []
    for role in program.roles:
        issued = dict.fromkeys(
            queue
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.Asynchronous) and (queue := queue_of(operation))
        )

        def change(
            operation: ir.Operation, issued: Iterable[str] = tuple(issued)
        ) -> list[ir.Operation]:
            span = operation.span
            if isinstance(operation, ir.Arrive) and operation.barrier.name in grids:
                made: list[ir.Operation] = []
                for queue in issued:
                    if queue in grouped:
                        made.append(ir.Commit(queue, span=span, label=GRID))
                    made.append(ir.QueueWait(queue, span=span, label=GRID))
                made += [ir.Fence(kind, span=span, label=GRID) for kind in releases]
                return [*made, operation]
            if isinstance(operation, ir.Wait) and operation.barrier.name in grids:
                return [operation, *(ir.Fence(kind, span=span, label=GRID) for kind in acquires)]
            return [operation]

        roles.append(replace(role, body=_changed(role.body, change)))
    return replace(program, roles=tuple(roles))


def _with_one_queue_a_counter(program: ir.SyncProgram, kinds: dict[str, str]) -> ir.SyncProgram:
    """Queues of one kind that is waited for by count, declared alike, become the first of them."""
    table = target_of(program.target).completion
    counters = table.counters if table is not None else {}
    first: dict[tuple[str, bool, bool, bool], str] = {}
    renamed: dict[str, str] = {}
    for queue in program.queues:
        kind = kinds.get(queue.name) or queue.name  # queues that lowering makes are their kind
        row = counters.get(kind)
        if row is not None and row.waits is Waits.COUNT:
            alike = (kind, queue.grouped, queue.ordered, queue.pipelined)
            name = first.setdefault(alike, queue.name)
            if name != queue.name:
                renamed[queue.name] = name
    if not renamed:
        return program

    def rename(operation: ir.Operation) -> list[ir.Operation]:
        if isinstance(operation, _QUEUED) and operation.queue in renamed:
            return [replace(operation, queue=renamed[operation.queue])]
        return [operation]

    queues = tuple(queue for queue in program.queues if queue.name not in renamed)
    return replace(_rewritten(program, rename), queues=queues)


def _with_group_barriers(program: ir.SyncProgram) -> ir.SyncProgram:
    """Cluster barriers that count work-groups: arrivals by one wave of each, waits by phase."""
    if not target_of(program.target).cluster_barrier_counts_groups:
        return program
    cluster = {item.name for item in program.named_barriers if item.scope is ir.Scope.CLUSTER}
    operations = [item for role in program.roles for item in ir.walk(role.body)]
    synced = {item.barrier.name for item in operations if isinstance(item, ir.BarrierSync)}
    waited = {item.barrier.name for item in operations if isinstance(item, ir.BarrierWait)}
    split = {item for item in cluster & waited - synced if _single(program, item)}
    if not split:
        return program

    def as_phases(operation: ir.Operation) -> list[ir.Operation]:
        span, label = operation.span, operation.label
        match operation:
            case ir.BarrierArrive(barrier=barrier, order=order) if barrier.name in split:
                wide = ir.Scope.CLUSTER
                return [ir.Arrive(barrier, order=order, scope=wide, span=span, label=label)]
            case ir.BarrierWait(barrier=barrier, order=order) if barrier.name in split:
                phase = Name(_waits_at(barrier.name))
                parity = binary("%", phase, Constant(2))
                wait = ir.Wait(
                    barrier, parity, phase, order, ir.Scope.CLUSTER, span=span, label=label
                )
                return [wait, ir.Assign(phase.name, binary("+", phase, ONE), span=span)]
        return [operation]

    ctas = len({role.cta for role in program.roles})
    changed = _rewritten(program, as_phases)
    roles = []
    for role, before in zip(changed.roles, program.roles, strict=True):
        names = {
            item.barrier.name for item in ir.walk(before.body) if isinstance(item, ir.BarrierWait)
        }
        counters = tuple((_waits_at(name), 0) for name in sorted(names & split))
        roles.append(replace(role, variables=(*role.variables, *counters)))
    barriers = [
        ir.Barrier(item.name, ctas, cta=NOWHERE, span=item.span)
        for item in program.named_barriers
        if item.name in split
    ]
    return replace(
        changed,
        roles=tuple(roles),
        barriers=(*program.barriers, *barriers),
        named_barriers=tuple(item for item in program.named_barriers if item.name not in split),
    )


def _waits_at(barrier: str) -> str:
    """The counter of an agent's waits at a barrier."""
    return f"{barrier}_waits"


def _single(program: ir.SyncProgram, name: str) -> bool:
    return next(item.stages for item in program.named_barriers if item.name == name) == 1


def _rewritten(
    program: ir.SyncProgram, change: Callable[[ir.Operation], list[ir.Operation]]
) -> ir.SyncProgram:
    """The program with each operation replaced by what `change` makes of it."""

    roles = tuple(replace(role, body=_changed(role.body, change)) for role in program.roles)
    return replace(program, roles=roles)


def _changed(body: ir.Block, change: Callable[[ir.Operation], list[ir.Operation]]) -> ir.Block:
    made: list[ir.Operation] = []
    for operation in body:
        if isinstance(operation, ir.Loop):
            made.append(replace(operation, body=_changed(operation.body, change)))
        elif isinstance(operation, ir.Branch):
            then, otherwise = (
                _changed(operation.then, change),
                _changed(operation.otherwise, change),
            )
            made.append(replace(operation, then=then, otherwise=otherwise))
        else:
            made += change(operation)
    return tuple(made)
