"""The parts that operations have in common: effects, barriers, queue, pool, scope, order, values.

Each function gives what an operation has of them, and nothing where it has none, so that nobody has
to ask an operation for a field that it may lack. The match is over all kinds of operations; a test
holds it against the fields of the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from titan.sync import program as ir
from titan.sync.expression import Expression

GRID = "end of a grid"  # label of what belongs to the arrival or wait that represents one


def effects_of(operation: ir.Operation) -> tuple[ir.Effect, ...]:
    """The accesses to memory that the operation makes, or starts."""
    match operation:
        case ir.Access(effects=effects) | ir.Asynchronous(effects=effects):
            return effects
    return ()


def completions_of(operation: ir.Operation) -> tuple[ir.Completion, ...]:
    """What the operation completes when it has finished."""
    return operation.completes if isinstance(operation, ir.Asynchronous) else ()


def barriers_of(operation: ir.Operation) -> tuple[ir.Reference, ...]:
    """The mbarriers and named barriers that the operation names, its completions included."""
    match operation:
        case (
            ir.Init(barrier=barrier)
            | ir.Invalidate(barrier=barrier)
            | ir.Arrive(barrier=barrier)
            | ir.ExpectTransaction(barrier=barrier)
            | ir.Wait(barrier=barrier)
            | ir.TokenWait(barrier=barrier)
            | ir.QueueArrive(barrier=barrier)
            | ir.BarrierSync(barrier=barrier)
            | ir.BarrierArrive(barrier=barrier)
            | ir.BarrierWait(barrier=barrier)
        ):
            return (barrier,)
    return tuple(completion.barrier for completion in completions_of(operation))


def queue_of(operation: ir.Operation) -> str | None:
    """The queue that the operation is put into, closes a group of, or waits for."""
    match operation:
        case ir.Asynchronous(queue=queue):
            return queue
        case ir.Commit(queue=queue) | ir.QueueWait(queue=queue) | ir.QueueArrive(queue=queue):
            return queue
    return None


def pool_of(operation: ir.Operation) -> str | None:
    """The pool that the operation takes from or gives back to."""
    return operation.pool if isinstance(operation, ir.PoolTake | ir.PoolGive) else None


def scope_of(operation: ir.Operation) -> ir.Scope:
    """How far the operation's synchronisation reaches; that of the CTA where it names none."""
    match operation:
        case ir.Arrive(scope=scope) | ir.Wait(scope=scope) | ir.TokenWait(scope=scope):
            return scope
    return ir.Scope.CTA


def order_of(operation: ir.Operation) -> ir.Order:
    """The memory order of the operation; SYNCHRONISING where it names none."""
    match operation:
        case (
            ir.Arrive(order=order)
            | ir.Wait(order=order)
            | ir.TokenWait(order=order)
            | ir.BarrierSync(order=order)
            | ir.BarrierArrive(order=order)
            | ir.BarrierWait(order=order)
        ):
            return order
    return ir.Order.SYNCHRONISING


def values_of(operation: ir.Operation) -> tuple[Expression | None, ...]:
    """The numbers that the operation is given, in the order of its fields; of a loop none.

    None: the number of a phase that is not known.
    """
    match operation:
        case ir.QueueWait(pending=value) | ir.Assign(value=value) | ir.Compute(index=value):
            return (value,)
        case ir.QueueArrive(count=value) | ir.Init(count=value):
            return (value,)
        case ir.ExpectTransaction(bytes=value):
            return (value,)
        case ir.BarrierSync(threads=value) | ir.BarrierArrive(threads=value):
            return (value,)
        case ir.PoolTake(amount=value) | ir.PoolGive(amount=value):
            return (value,)
        case ir.Arrive(count=count, transaction=transaction):
            return count, transaction
        case ir.Wait(parity=parity, phase=phase):
            return parity, phase
    return ()


def words_of(operation: ir.Operation) -> tuple[object, ...]:
    """The variant of the operation: what it is given that is not a number, name or access."""
    match operation:
        case ir.Arrive(drop=drop, token=token, order=order, scope=scope):
            return drop, token, order, scope
        case ir.Wait(order=order, scope=scope) | ir.TokenWait(order=order, scope=scope):
            return order, scope
        case ir.BarrierSync(order=order) | ir.BarrierArrive(order=order):
            return (order,)
        case ir.BarrierWait(order=order):
            return (order,)
        case ir.QueueWait(until=until):
            return (until,)
        case ir.Asynchronous(chunks=chunks):
            return (chunks,)
        case ir.Fence(kind=kind, spaces=spaces):
            return kind, spaces
        case ir.Assign(variable=variable):
            return (variable,)
        case ir.Compute(what=what):
            return (what,)
    return ()


def renamed(operation: ir.Operation, names: Mapping[str, str]) -> ir.Operation:
    """The operation, no loop or branch, with other names of what is declared.

    Raises KeyError for a name that is not in `names`.
    """

    def moved(reference: ir.Reference) -> ir.Reference:
        return replace(reference, name=names[reference.name])

    match operation:
        case ir.Access() | ir.Asynchronous():
            effects = tuple(replace(e, buffer=names[e.buffer]) for e in operation.effects)
            if isinstance(operation, ir.Access):
                return replace(operation, effects=effects)
            completes = tuple(
                replace(done, barrier=moved(done.barrier)) for done in operation.completes
            )
            queue = names[operation.queue] if operation.queue is not None else None
            return replace(operation, effects=effects, completes=completes, queue=queue)
        case ir.QueueArrive(queue=queue, barrier=barrier):
            return replace(operation, queue=names[queue], barrier=moved(barrier))
        case ir.Commit() | ir.QueueWait():
            return replace(operation, queue=names[operation.queue])
        case ir.PoolTake() | ir.PoolGive():
            return replace(operation, pool=names[operation.pool])
        case ir.Init() | ir.Invalidate() | ir.Arrive() | ir.ExpectTransaction() | ir.Wait():
            return replace(operation, barrier=moved(operation.barrier))
        case ir.TokenWait() | ir.BarrierSync() | ir.BarrierArrive() | ir.BarrierWait():
            return replace(operation, barrier=moved(operation.barrier))
    return operation


def peer_commits(program: ir.SyncProgram) -> dict[str, tuple[ir.Role, ir.QueueArrive]]:
    """The barriers at which engines of another CTA arrive, each with the first commit that says so.

    `exit_in_flight` "allow" asks for none of them. Where a queue executes all in order, so do its
    commits: who has waited for the last one at a barrier of a CTA needs none before it.
    """
    found: dict[str, tuple[ir.Role, ir.QueueArrive]] = {}
    if program.policies.exit_in_flight == "allow":
        return found
    homes = {barrier.name: barrier.cta for barrier in program.barriers}
    for role in program.roles:
        if not role.agents:
            continue
        commits: Iterable[ir.Operation] = ir.walk(role.body)
        if program.policies.tensor_pipe == "in_order":
            commits = _last_commits(role.body, homes)
        for operation in commits:
            if not isinstance(operation, ir.QueueArrive):
                continue
            name = operation.barrier.name
            if homes.get(name, role.cta) != role.cta:
                found.setdefault(name, (role, operation))
    return found


def _last_commits(block: ir.Block, homes: Mapping[str, int]) -> Iterator[ir.QueueArrive]:
    """Those behind which the queue has no further one at a barrier of the same CTA.

    All of them where the block is not a plain sequence.
    """
    commits = [item for item in ir.walk(block) if isinstance(item, ir.QueueArrive)]
    if any(isinstance(item, ir.Loop | ir.Branch) for item in block):
        yield from commits
        return
    later: set[tuple[str, int | None]] = set()
    last: list[ir.QueueArrive] = []
    for item in reversed(commits):
        pair = item.queue, homes.get(item.barrier.name)
        if pair not in later:
            last.append(item)
        later.add(pair)
    yield from reversed(last)


def state_parts(program: ir.SyncProgram) -> int:
    """How many numbers a state of the program has, to an order of magnitude."""
    units = sum(abs(b.stages * b.parts * b.units) for b in program.buffers)
    stages = sum(abs(b.stages) for b in program.barriers)
    stages += sum(abs(b.stages) for b in program.named_barriers)
    return units + stages + sum(abs(r.agents) for r in program.roles) * (1 + len(program.queues))


def storages_reached(program: ir.SyncProgram, *proxies: ir.Proxy) -> frozenset[str]:
    """Memory that some operation reaches through one of the proxies."""
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    operations = (operation for role in program.roles for operation in ir.walk(role.body))
    effects = (effect for operation in operations for effect in effects_of(operation))
    return frozenset(storages[effect.buffer] for effect in effects if effect.proxy in proxies)
