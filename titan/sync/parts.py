"""The parts that operations have in common: effects, barriers, queue, pool, scope, order.

Each function gives what an operation has of them, and nothing where it has none, so that nobody has
to ask an operation for a field that it may lack. The match is over all kinds of operations; a test
holds it against the fields of the classes.
"""

from __future__ import annotations

from titan.sync import program as ir

GRID = "end of a grid"  # label of what belongs to the arrival or wait that stands for one


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
