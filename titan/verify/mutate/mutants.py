"""Every mutant of a sync program: one synchronising operation deleted, weakened, shifted or moved.

What memory is meant to hold (accesses, tiles, phases) stays as it is: that is the
specification. What is mutated is the synchronisation: waits, arrivals, bytes, commits, fences,
barriers, pools, and the order of an operation and its neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Constant, Expression, binary
from titan.sync.parts import effects_of
from titan.verify.mutate.site import MutationSite, replaced, sites
from titan.verify.mutate.wording import operation_text


class Change(StrEnum):
    """What a mutation does to the synchronisation."""

    DELETED = "deleted"  # an operation is gone
    WEAKENED = "weakened"  # it carries less, or something waits for less: a wait can end earlier
    STRENGTHENED = "strengthened"  # something waits for more: a wait can only end later
    SHIFTED = "shifted"  # it does the same to something else
    REORDERED = "reordered"  # it changed places with its neighbour


@dataclass(frozen=True, slots=True)
class Mutant:
    """`site` None: a declaration was changed. `what` says the mutation, `where` the operation."""

    what: str
    change: Change
    where: str
    program: ir.SyncProgram
    site: MutationSite | None = None
    subject: str = ""  # role or declaration


Variant = tuple[str, Change, ir.Block]
SYNCHRONISING = (
    ir.Commit, ir.QueueWait, ir.QueueArrive, ir.Init, ir.Invalidate, ir.Arrive,
    ir.ExpectTransaction, ir.Wait, ir.TokenWait, ir.BarrierSync, ir.BarrierArrive, ir.BarrierWait,
    ir.Fence, ir.PoolTake, ir.PoolGive,
)  # fmt: skip
_CONTROL = (ir.Loop, ir.Branch, ir.Assign)


def mutants_of(program: ir.SyncProgram) -> Iterator[Mutant]:
    """All mutants, in program order, declarations last."""
    for site in sites(program):
        subject = program.roles[site.role].name
        where = operation_text(site.operation)
        for what, change, block in _variants(program, site.operation):
            mutated = replaced(program, site, block)
            yield Mutant(what, change, where, mutated, site, subject)
        swap = _swapped(site)
        if swap is not None:
            mutated = replaced(program, site, swap, width=2)
            assert site.following is not None
            what = f"swapped with the next: {operation_text(site.following)}"
            yield Mutant(what, Change.REORDERED, where, mutated, site, subject)
    yield from _declarations(program)


def _swapped(site: MutationSite) -> ir.Block | None:
    """The operation and its neighbour in the other order, where that is a mutation."""
    one, other = site.operation, site.following
    if other is None or isinstance(one, _CONTROL) or isinstance(other, _CONTROL):
        return None
    if not isinstance(one, SYNCHRONISING) and not isinstance(other, SYNCHRONISING):
        return None
    return (other, one)


def _variants(program: ir.SyncProgram, operation: ir.Operation) -> Iterator[Variant]:
    if isinstance(operation, SYNCHRONISING):
        yield "deleted", Change.DELETED, ()
    match operation:
        case ir.Wait() | ir.TokenWait():
            yield from _wait(program, operation)
        case ir.Arrive():
            yield from _arrive(program, operation)
        case ir.ExpectTransaction(bytes=size):
            for text, change, other in _amounts(size, Change.STRENGTHENED):
                yield f"bytes {text}", change, (replace(operation, bytes=other),)
            for text, moved in _moved(program, operation.barrier):
                yield text, Change.SHIFTED, (replace(operation, barrier=moved),)
        case ir.Access():
            yield from _cached_reads(program, operation)
        case ir.Asynchronous(completes=completes):
            yield from _completions(program, operation, completes)
        case ir.QueueWait():
            yield from _queue_wait(program, operation)
        case ir.QueueArrive() | ir.Init():
            more = Change.STRENGTHENED if isinstance(operation, ir.Init) else Change.WEAKENED
            for text, change, other in _amounts(operation.count, more):
                yield f"count {text}", change, (replace(operation, count=other),)
            for text, moved in _moved(program, operation.barrier):
                yield text, Change.SHIFTED, (replace(operation, barrier=moved),)
        case ir.Commit():
            yield "repeated", Change.STRENGTHENED, (operation, replace(operation))
        case ir.BarrierSync() | ir.BarrierArrive() | ir.BarrierWait():
            yield from _named(program, operation)
        case ir.Fence():
            yield from _fence(program, operation)
        case ir.PoolTake() | ir.PoolGive():
            takes = isinstance(operation, ir.PoolTake)
            more = Change.STRENGTHENED if takes else Change.WEAKENED
            for text, change, other in _amounts(operation.amount, more):
                yield f"amount {text}", change, (replace(operation, amount=other),)


def _amounts(value: Expression, more: Change) -> Iterator[tuple[str, Change, Expression]]:
    """The value plus and minus one; `more` is what a larger value does to the synchronisation."""
    less = Change.WEAKENED if more is Change.STRENGTHENED else Change.STRENGTHENED
    yield "+ 1", more, binary("+", value, ONE)
    yield "- 1", less, binary("-", value, ONE)


def _moved(program: ir.SyncProgram, reference: ir.Reference) -> Iterator[tuple[str, ir.Reference]]:
    """The neighbours of a barrier in its array, which wraps around."""
    declared = {barrier.name: barrier.stages for barrier in program.barriers}
    declared |= {barrier.name: barrier.stages for barrier in program.named_barriers}
    stages = declared.get(reference.name, 1)
    offsets = {1: (), 2: (1,)}.get(stages, (1, stages - 1))
    for offset in offsets:
        index = binary("%", binary("+", reference.index, Constant(offset)), Constant(stages))
        text = "index + 1" if offset == 1 else "index - 1"
        yield text, replace(reference, index=index)


def _wait(program: ir.SyncProgram, operation: ir.Wait | ir.TokenWait) -> Iterator[Variant]:
    if isinstance(operation, ir.Wait):
        flipped = replace(operation, parity=binary("+", operation.parity, ONE))
        yield "parity flipped", Change.SHIFTED, (flipped,)
    for text, moved in _moved(program, operation.barrier):
        yield text, Change.SHIFTED, (replace(operation, barrier=moved),)
    if operation.order is ir.Order.SYNCHRONISING:
        relaxed = replace(operation, order=ir.Order.RELAXED)
        yield "relaxed", Change.WEAKENED, (relaxed,)


def _arrive(program: ir.SyncProgram, operation: ir.Arrive) -> Iterator[Variant]:
    for text, change, other in _amounts(operation.count, Change.WEAKENED):
        yield f"count {text}", change, (replace(operation, count=other),)
    if operation.transaction != ZERO:
        for text, change, other in _amounts(operation.transaction, Change.STRENGTHENED):
            yield f"bytes {text}", change, (replace(operation, transaction=other),)
        yield "expects no bytes", Change.WEAKENED, (replace(operation, transaction=ZERO),)
    for text, moved in _moved(program, operation.barrier):
        yield text, Change.SHIFTED, (replace(operation, barrier=moved),)
    if operation.order is ir.Order.SYNCHRONISING:
        relaxed = replace(operation, order=ir.Order.RELAXED)
        yield "relaxed", Change.WEAKENED, (relaxed,)


def _completions(
    program: ir.SyncProgram, operation: ir.Asynchronous, completes: tuple[ir.Completion, ...]
) -> Iterator[Variant]:
    for number, completion in enumerate(completes):
        name = completion.barrier.name

        def with_completion(
            changed: tuple[ir.Completion, ...], number: int = number
        ) -> tuple[ir.Operation, ...]:
            rest = (*completes[:number], *changed, *completes[number + 1 :])
            return (replace(operation, completes=rest),)

        yield f"completion on {name} deleted", Change.DELETED, with_completion(())
        for text, change, size in _amounts(completion.bytes, Change.WEAKENED):
            other = replace(completion, bytes=size)
            yield f"bytes completed on {name} {text}", change, with_completion((other,))
        for text, moved in _moved(program, completion.barrier):
            other = replace(completion, barrier=moved)
            yield f"completion on {name} {text}", Change.SHIFTED, with_completion((other,))


def _queue_wait(program: ir.SyncProgram, operation: ir.QueueWait) -> Iterator[Variant]:
    more = replace(operation, pending=binary("+", operation.pending, ONE))
    yield "pending + 1", Change.WEAKENED, (more,)
    if operation.pending != ZERO:
        fewer = replace(operation, pending=binary("max", ZERO, binary("-", operation.pending, ONE)))
        yield "pending - 1", Change.STRENGTHENED, (fewer,)
    if operation.until is ir.Until.READ:
        yield "until done", Change.STRENGTHENED, (replace(operation, until=ir.Until.DONE),)
    elif any(q.name == operation.queue and q.grouped and not q.pipelined for q in program.queues):
        # Only bulk groups have a wait for their reads; tensor cores and counters have none.
        yield "reads only", Change.WEAKENED, (replace(operation, until=ir.Until.READ),)


def _named(
    program: ir.SyncProgram, operation: ir.BarrierSync | ir.BarrierArrive | ir.BarrierWait
) -> Iterator[Variant]:
    if not isinstance(operation, ir.BarrierWait):
        step = _threads_of_an_agent(program, operation)
        for sign, change in (("+", Change.STRENGTHENED), ("-", Change.WEAKENED)):
            threads = binary(sign, operation.threads, Constant(step))
            yield f"threads {sign} {step}", change, (replace(operation, threads=threads),)
    if isinstance(operation, ir.BarrierSync):
        arrive = ir.BarrierArrive(operation.barrier, operation.threads, operation.order,
                                  span=operation.span, label=operation.label)  # fmt: skip
        yield "arrives without waiting", Change.WEAKENED, (arrive,)
    for text, moved in _moved(program, operation.barrier):
        yield text, Change.SHIFTED, (replace(operation, barrier=moved),)
    if operation.order is ir.Order.SYNCHRONISING:
        yield "relaxed", Change.WEAKENED, (replace(operation, order=ir.Order.RELAXED),)


def _threads_of_an_agent(program: ir.SyncProgram, operation: ir.Operation) -> int:
    for role in program.roles:
        if any(found is operation for found in ir.walk(role.body)):
            return role.threads
    return 1


def _fence(program: ir.SyncProgram, operation: ir.Fence) -> Iterator[Variant]:
    for kind in ir.FenceKind:
        if kind is not operation.kind and (kind not in ir.CACHED_FENCES or _is_cached(program)):
            yield f"kind {kind}", Change.WEAKENED, (replace(operation, kind=kind),)
    if operation.kind is ir.FenceKind.BARRIER_INIT:
        return
    used = {buffer.space for buffer in program.buffers}
    named = [space for space in ir.Space if space in (operation.spaces or used)]
    if len(named) > 1 or (named and not operation.spaces):
        for space in named:
            kept = tuple(other for other in ir.Space if other is not space)
            if operation.spaces:
                kept = tuple(other for other in operation.spaces if other is not space)
            yield f"not for {space}", Change.WEAKENED, (replace(operation, spaces=kept),)


def _is_cached(program: ir.SyncProgram) -> bool:
    """Whether some access goes through a cached proxy."""
    return any(
        effect.proxy in ir.CACHED
        for role in program.roles
        for operation in ir.walk(role.body)
        for effect in effects_of(operation)
    )


def _cached_reads(program: ir.SyncProgram, operation: ir.Access) -> Iterator[Variant]:
    """What the program writes to global memory is read by the non-coherent path (ld.global.nc)."""
    found = {buffer.name: buffer for buffer in program.buffers}
    storages = {name: buffer.storage or name for name, buffer in found.items()}
    written = {
        storages[effect.buffer]
        for role in program.roles
        for other in ir.walk(role.body)
        for effect in effects_of(other)
        if effect.write
    }
    effects = tuple(
        replace(effect, proxy=ir.Proxy.TEXTURE)
        if not effect.write
        and effect.proxy is ir.Proxy.GENERIC
        and found[effect.buffer].space is ir.Space.GLOBAL
        and storages[effect.buffer] in written
        else effect
        for effect in operation.effects
    )
    if effects != operation.effects:
        what = "read through the texture proxy"
        yield what, Change.WEAKENED, (replace(operation, effects=effects),)


def _declarations(program: ir.SyncProgram) -> Iterator[Mutant]:
    for number, barrier in enumerate(program.barriers):
        if not barrier.initialised:
            continue
        for step, change in ((1, Change.STRENGTHENED), (-1, Change.WEAKENED)):
            if barrier.count + step < 1:
                continue
            declared = list(program.barriers)
            declared[number] = replace(barrier, count=barrier.count + step)
            mutated = replace(program, barriers=tuple(declared))
            where = f"barrier {barrier.name} of count {barrier.count}"
            what = "count + 1" if step > 0 else "count - 1"
            yield Mutant(what, change, where, mutated, None, barrier.name)
    for named in program.named_barriers:
        yield from _whole_named_barrier(program, named)


def _whole_named_barrier(program: ir.SyncProgram, named: ir.NamedBarrier) -> Iterator[Mutant]:
    """All operations of a named barrier count another number of threads."""
    users = [
        site
        for site in sites(program)
        if isinstance(site.operation, ir.BarrierSync | ir.BarrierArrive)
        and site.operation.barrier.name == named.name
    ]
    if not users:
        return
    step = program.roles[users[0].role].threads
    for sign, change in (("+", Change.STRENGTHENED), ("-", Change.WEAKENED)):
        mutated = program
        for site in users:
            assert isinstance(site.operation, ir.BarrierSync | ir.BarrierArrive)
            threads = binary(sign, site.operation.threads, Constant(step))
            mutated = replaced(mutated, site, (replace(site.operation, threads=threads),))
        what, where = f"threads {sign} {step} everywhere", f"named barrier {named.name}"
        yield Mutant(what, change, where, mutated, None, named.name)
