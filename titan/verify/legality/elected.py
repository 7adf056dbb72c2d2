"""Elected threads: what one thread of an agent does is not done by the others of its threads.

Engines take an agent of several warps as one: it stores, synchronises, copies and waits as a
whole. Here two of its threads are distinguished, the elected one and any other, along the text of
the role. Bulk copies, tcgen05 products, their commits and waits, and arrivals that expect bytes are
by one thread; everything else is by all, unless the file says otherwise (`by: thread`, `by: all`).
Between what the others have accessed and what the elected one does with it, and between what it
alone has waited for, stored or loaded and what the others do next, a barrier of all of them must
stand: in shared memory, in tensor memory where threads fetch and put what one thread multiplies,
and in global memory. A proxy fence by one thread covers what that thread has accessed, and nothing
of the others (it covers `cp.async` copies behind which all have met, and where the policy
`fence_rule` is `path` all such accesses); and after the fences of all threads they must synchronise
before one continues. So it is with the release of a tensor map.

Nothing is assumed of which thread accesses which bytes: a store by all and a later load by all are
not compared. In an agent of one warp it is the lanes that meet (`bar.warp.sync`; elect.sync orders
no memory): judged where the file says `by: thread` or `by: all` of one of its operations, otherwise
assumed, and a note of the verdict says where. At an mbarrier threads meet where all of them arrive
and then wait for that very arrival (`rendezvous.py`). Memory is distinguished by storage: buffers
that share one are one. Where a condition decides, both arms are followed, and what was done under a
condition is not held against what is done under its opposite, as long as its variables keep their
values.

Sources: PTX ISA, cp.async.bulk (groups are of the executing thread), tcgen05.mma and tcgen05.commit
(issued by one thread), mbarrier.arrive (publishes what its thread did), elect.sync, bar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.records import dataclass
from titan.sync.expression import Constant, Expression
from titan.sync.parts import effects_of
from titan.sync.program import (
    Access,
    Arrive,
    Assign,
    Asynchronous,
    BarrierArrive,
    BarrierSync,
    BarrierWait,
    Block,
    Branch,
    Commit,
    ExpectTransaction,
    Fence,
    FenceKind,
    Init,
    Loop,
    Operation,
    Order,
    PoolGive,
    PoolTake,
    Proxy,
    QueueArrive,
    QueueWait,
    Role,
    Space,
    TokenWait,
    Wait,
    walk,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.elected_facts import (
    Conditions,
    DataflowState,
    Fact,
    either,
    kept,
    value_for,
    ways_of,
)
from titan.verify.legality.elected_words import headline_of
from titan.verify.legality.rendezvous import meetings
from titan.verify.legality.rule import rule

_SOURCE = "PTX, cp.async.bulk: issued, committed and waited for by one thread; bar.sync"
_HELPS = (
    (
        "synchronise the threads (`sync`; lanes of one warp at a barrier of `scope: warp`) before "
        "one of them acts for all, and again after it has waited"
    ),
    "`{warpgroups: 1, agents: 4}` makes an agent of each warp, and `when: self == 0` names one",
)
_SINGLE_KINDS = ("bulk", "tcgen05")  # queues whose operations one thread issues and waits for
_PARTS_OF_THREADS = ("cp_async", "tcgen05_ld", "tcgen05_st")  # each thread or warp its own part
MEMORIES = (Space.SHARED, Space.TENSOR, Space.GLOBAL)
_OWN = ("own store", "own load")  # accesses of the elected thread alone
_UNFENCED = {
    "unfenced store": "left store",
    "unfenced load": "left load",
}  # by a fence of one thread
# Copies of all threads by cp.async: a fence of one thread counts once they have met behind them.
_COPIED = {**_UNFENCED, "unmet copy": "left store"}
_UNRELEASED = {"unreleased store": "left map"}  # the same of tensor maps and their release
_LATE = {"unfenced load": "late load", "left load": "late load"}  # of others: "late store"
_LEFT = frozenset((*_UNFENCED.values(), *_UNRELEASED.values()))
_LASTING = frozenset((*_UNFENCED, *_UNRELEASED, *_LEFT))  # no synchronisation ends them
_WHOLE_FENCES = (FenceKind.ASYNC, FenceKind.ASYNC_RELEASE, FenceKind.TENSORMAP_RELEASE)
_WAITED = {
    "copy": "read",
    "fill": "filled",
}  # in flight, and once waited for


@dataclass
class _Walk:
    """The text of one role, followed until nothing new is found."""

    case: Case
    role: Role
    used: frozenset[str]  # storages that other roles, or other agents of the role, use as well
    copied: frozenset[str]  # those of them that engines touch there
    brought: dict[str, frozenset[str]]  # by barrier: storages that a wait there may be about
    maps: frozenset[str] = frozenset()  # storages of tensor maps
    number: int = 0  # of the agent that is followed
    operations: dict[int, Operation] = field(default_factory=dict)
    found: dict[tuple[str, str, int], int] = field(default_factory=dict)
    own_parts: dict[str, Operation] = field(default_factory=dict)  # see `assume_own_parts`

    def block(self, body: Block, at: DataflowState, under: Conditions) -> DataflowState:
        for operation in body:
            at, under = self.step(operation, at, under)
        return at

    def step(
        self, operation: Operation, at: DataflowState, under: Conditions
    ) -> tuple[DataflowState, Conditions]:
        self.operations[id(operation)] = operation
        match operation:
            case Loop():
                return self.loop(operation, at, under), kept(under, self.changed(operation))
            case Branch():
                condition = self.folded(operation.condition)
                if isinstance(condition, Constant):
                    body = operation.then if condition.value else operation.otherwise
                    return self.block(body, at, under), kept(under, self.changed(operation))
                then = self.arm(operation.then, at, under, (condition, True))
                otherwise = self.arm(operation.otherwise, at, under, (condition, False))
                changed = self.changed(operation)
                return either(condition, then, otherwise, changed), kept(under, changed)
            case Assign():
                changed = self.changed(operation)
                return at.forgetting(changed), kept(under, changed)
        return self.plain(operation, at, under), under

    def arm(
        self, body: Block, at: DataflowState, under: Conditions, taken: tuple[Expression, bool]
    ) -> DataflowState:
        """One arm; what was done under the opposite condition was not done on this way."""
        opposite = (taken[0], not taken[1])
        at = at.without(fact for fact in at.facts if opposite in fact.under)
        return self.block(body, at, under | {taken})

    def loop(self, loop: Loop, at: DataflowState, under: Conditions) -> DataflowState:
        begun = self.changed(replace(loop, body=()))
        at, under = at.forgetting(begun), kept(under, self.changed(loop))
        ends = [self.folded(end) for end in (loop.start, loop.stop)]
        bounds = [end.value for end in ends if isinstance(end, Constant)]
        bounds = bounds if len(bounds) == 2 else []
        if bounds and bounds[0] >= bounds[1]:
            return at
        while True:
            turned = self.block(loop.body, at, under).forgetting(begun)
            again = at.join(turned)
            if again == at:
                break
            at = again
        return turned if bounds and bounds[0] < bounds[1] else at

    def folded(self, expression: Expression) -> Expression:
        """The expression, or its value where the agent's number alone decides that."""
        value = value_for(self.role, self.number, expression)
        return expression if value is None else Constant(value)

    def changed(self, operation: Operation) -> frozenset[str]:
        """The names that have another value behind it: what it assigns, and sizes that go along."""
        names = {item.variable for item in walk((operation,)) if isinstance(item, Assign | Loop)}
        parameters = self.case.program.parameters
        return frozenset(names | {item.name for item in parameters if item.per in names})

    # ------------------------------------------------------------------------- operations

    def plain(self, operation: Operation, at: DataflowState, under: Conditions) -> DataflowState:
        """An operation that is neither a loop nor a branch."""
        if operation.by != "warp" or isinstance(operation, Access | Fence):
            return self.executed(operation, at, under)
        lanes = frozenset(fact for fact in at.facts if fact.lanes)  # no others to their own warp
        after = self.executed(operation, at.without(lanes), under)
        return replace(after, facts=after.facts | lanes)

    def executed(self, operation: Operation, at: DataflowState, under: Conditions) -> DataflowState:
        """The same, with all that counts as done by others."""
        match operation:
            case BarrierSync(order=order, threads=threads):
                if order is Order.RELAXED:
                    return at
                if not isinstance(threads, Constant) or threads.value > self.role.threads:
                    self.handed_over(operation, at)  # others come there as well
                return self.meet(at)
            case BarrierArrive() | Arrive():
                return self.arrival(operation, at)
            case BarrierWait() | Wait() | TokenWait():
                return self.wait(operation, at, under)
            case Init(barrier=barrier) if self.single(operation):
                return self.add(at, "init", barrier.name, operation, under)
            case PoolTake() if self.single(operation):
                return self.add(at, "columns", "", operation, under)
            case PoolGive() if self.single(operation):
                for fact in at.facts:
                    if fact.what in ("store", "load") and fact.name in self.tensor:
                        self.report("freed", fact.name, operation, fact)
            case QueueWait(queue=queue):
                return self.queue_wait(operation, queue, at, under)
            case Access():
                return self.access(operation, at, under)
            case Fence(kind=kind) if kind in _WHOLE_FENCES:
                return self.fence(operation, at, under)
            case Asynchronous():
                return self.issue(operation, at, under)
        return at

    @cached_property
    def tensor(self) -> frozenset[str]:
        """The storages in tensor memory."""
        memories = self.case.memories.values()
        named = [item.buffer for item in memories if item.buffer.space is Space.TENSOR]
        return frozenset(plain(buffer.storage or buffer.name) for buffer in named)

    def meet(self, at: DataflowState) -> DataflowState:
        """All threads of the agent have come here; copies in flight stay in flight."""
        kept = {*_WAITED, *_LASTING}
        return DataflowState(frozenset(fact for fact in at.facts if fact.what in kept), ())

    def arrival(self, operation: Arrive | BarrierArrive, at: DataflowState) -> DataflowState:
        name = operation.barrier.name
        self.uses(operation, name, at)
        if operation.order is Order.RELAXED:
            return at
        for fact in at.facts if self.single(operation) else ():
            if fact.what in ("late store", "late load") and fact.name in self.copied:
                self.report("late", fact.name, operation, fact)
        self.handed_over(operation, at)
        met = frozenset(fact for fact in at.facts if fact.what not in {*_WAITED, *_LASTING})
        if self.single(operation):
            for fact in at.facts:
                if fact.what in ("store", "load") and fact.name in self.used:
                    self.report("arrival", fact.name, operation, fact)
            met = frozenset(fact for fact in met if fact.what in _OWN)
        reported = dict(at.arrived) | {id(operation): met}
        return replace(at, arrived=tuple(sorted(reported.items(), key=lambda item: item[0])))

    def handed_over(self, operation: Operation, at: DataflowState) -> None:
        """Others learn of accesses that a fence of one thread has left out."""
        if self.case.program.policies.fence_rule == "path" and self.fenced_elsewhere:
            return
        for fact in at.facts:
            if fact.what in _LEFT and fact.name in self.copied:
                what = "release" if fact.what in _UNRELEASED.values() else "fence"
                self.report(what, fact.name, operation, fact)

    @cached_property
    def fenced_elsewhere(self) -> bool:
        """Whether other agents execute fences, which count for what these threads leave out."""
        return any(
            isinstance(item, Fence) and item.kind in _WHOLE_FENCES
            for other, item in self.case.operations
            if other.agents > 1 or plain(other.name) != plain(self.role.name)
        )

    def wait(
        self, operation: Wait | TokenWait | BarrierWait, at: DataflowState, under: Conditions
    ) -> DataflowState:
        name = operation.barrier.name
        self.uses(operation, name, at)
        if self.single(operation):
            if operation.order is Order.RELAXED:
                return at
            for buffer in sorted(self.brought.get(name, frozenset())):
                at = self.add(at, "filled", buffer, operation, under)
            return at
        if operation.order is not Order.RELAXED:
            for arrival, met in at.arrived:
                if met and (id(operation), arrival) in self.meetings:
                    at = at.without(met)
        return at

    @cached_property
    def meetings(self) -> frozenset[tuple[int, int]]:
        """Waits that pass only when an arrival of all threads is counted, with that arrival."""
        return meetings(self.case.program, self.role)

    def uses(self, operation: Operation, barrier: str, at: DataflowState) -> None:
        """The others use a barrier that the elected thread has initialised."""
        if self.single(operation):
            return
        for fact in at.facts:
            if fact.what == "init" and fact.name == barrier:
                self.report("use", plain(barrier), operation, fact)

    def queue_wait(
        self, operation: QueueWait, queue: str, at: DataflowState, under: Conditions
    ) -> DataflowState:
        copied = [fact for fact in at.facts if fact.what in _WAITED and fact.queue == queue]
        if not self.single(operation):
            return at.without(copied)
        for fact in copied:
            at = self.add(at, _WAITED[fact.what], fact.name, operation, under)
        return at

    def access(self, operation: Access, at: DataflowState, under: Conditions) -> DataflowState:
        for name, write in self.touched(operation):
            what = "store" if write else "load"
            if self.single(operation):
                clashes = ("store", "load") if write else ("store",)
                for fact in at.facts:
                    own_warp = operation.by == "warp" and fact.lanes
                    if fact.name == name and fact.what in clashes and not own_warp:
                        self.report(f"own {what}", name, operation, fact)
                at = self.add(at, f"own {what}", name, operation, under)
                if operation.by != "warp":
                    continue
            else:
                self.found_by_all(name, write, operation, at)
            at = self.add(at, what, name, operation, under)
            policies = self.case.program.policies
            proxied = any(self.case.space_of(e) is not Space.TENSOR for e in operation.effects)
            if proxied and (write or policies.war_fence):
                at = self.add(at, f"unfenced {what}", name, operation, under)
            if name in self.maps and write:
                at = self.add(at, "unreleased store", name, operation, under)
        return at

    def found_by_all(self, name: str, write: bool, operation: Operation, at: DataflowState) -> None:
        """Report what the elected thread alone has done with what all threads access now."""
        for fact in at.facts:
            if fact.what == "columns" and name in self.tensor:
                self.report("taken", name, operation, fact)
            if fact.name != name:
                continue
            clash = fact.what == "store" or (fact.what == "load" and write)
            if clash and fact.operation != id(operation):
                self.own_parts.setdefault(name, operation)
            if fact.what == "filled" or (fact.what == "read" and write):
                self.report("store" if write else "load", name, operation, fact)
            elif fact.what == "own store" or (fact.what == "own load" and write):
                self.report("own use", name, operation, fact)

    def fence(self, operation: Fence, at: DataflowState, under: Conditions) -> DataflowState:
        """A proxy fence: of all threads for all accesses, of one thread for its own alone.

        By the policy `path` that of one thread counts for accesses behind which all have met.
        """
        begun = _UNRELEASED if operation.kind is FenceKind.TENSORMAP_RELEASE else _COPIED
        if self.case.program.policies.fence_rule == "path":
            unmet = {(f.name, f.operation) for f in at.facts if f.what in ("store", "load")}
            known = [f for f in at.facts if f.what in (*begun, *begun.values())]
            at = at.without(f for f in known if (f.name, f.operation) not in unmet)
        if not self.single(operation) or operation.by == "warp":
            ended = {fact for fact in at.facts if fact.what in (*begun, *begun.values())}
            ended = {fact for fact in ended if fact.lanes or not self.single(operation)}
            late = {replace(f, what=_LATE.get(f.what, "late store")) for f in ended}
            at = replace(at, facts=at.facts - ended | late)
            if not self.single(operation):
                return at
        left = {replace(f, what=begun[f.what]) for f in at.facts if f.what in begun}
        return replace(at, facts=at.facts | left)

    def issue(self, operation: Asynchronous, at: DataflowState, under: Conditions) -> DataflowState:
        alone = self.single(operation)
        kind = self.case.queue_kind(operation.queue)
        by_each = kind in _PARTS_OF_THREADS or not self.case.nvidia
        self.maps_used(operation, at)
        for name, write in self.touched(operation):
            if by_each:
                self.found_by_all(name, write, operation, at)
                at = self.add(at, "store" if write else "load", name, operation, under)
                if write and kind == "cp_async":
                    at = self.add(at, "unmet copy", name, operation, under)
                continue
            clashes = ("store", "load") if write else ("store",)
            facts = [fact for fact in at.facts if fact.name == name]
            unmet = any(fact.what in clashes for fact in facts)
            for fact in facts:
                if fact.what in clashes and not alone:
                    self.report(
                        "overwrite by all" if write else "use by all", name, operation, fact
                    )
                elif fact.what in clashes:
                    self.report("overwrite" if write else "copy", name, operation, fact)
                elif fact.what in [f"left {item}" for item in clashes]:
                    self.report("fence", name, operation, fact)
                elif not unmet and fact.what in [f"late {item}" for item in clashes]:
                    self.report("late", name, operation, fact)
                elif not alone and fact.what in [f"own {item}" for item in clashes]:
                    self.report("own use", name, operation, fact)
            if alone:
                queue = operation.queue or ""
                at = self.add(at, "fill" if write else "copy", name, operation, under, queue)
        return at

    def maps_used(self, operation: Asynchronous, at: DataflowState) -> None:
        """The tensor maps that one thread uses: all have written them, released them and met."""
        maps = {self.case.storage_of(e) for e in operation.effects if e.proxy is Proxy.TENSORMAP}
        found = {"store": "map", "left map": "release", "late store": "late"}
        for fact in at.facts if maps & self.maps else ():
            if fact.name in maps and fact.what in found:
                self.report(found[fact.what], fact.name, operation, fact)

    # ------------------------------------------------------------------------------ facts

    def add(
        self,
        at: DataflowState,
        what: str,
        name: str,
        operation: Operation,
        under: Conditions,
        queue: str = "",
    ) -> DataflowState:
        lanes = operation.by == "warp" and self.single(operation) and not what.startswith("own")
        fact = Fact(what, name, id(operation), queue, under, lanes)
        return replace(at, facts=at.facts | {fact})

    def report(self, what: str, name: str, operation: Operation, fact: Fact) -> None:
        self.found.setdefault((what, name, id(operation)), fact.operation)

    def single(self, operation: Operation) -> bool:
        """Whether one thread (or warp) executes it for the agent."""
        if operation.by:
            warp = self.role.threads <= self.case.target.threads_per_warp
            return operation.by == "thread" or (operation.by == "warp" and not warp)
        if isinstance(operation, ExpectTransaction):
            return True
        if isinstance(operation, Arrive):
            size = operation.transaction
            return not (isinstance(size, Constant) and size.value == 0)
        if isinstance(operation, Commit | QueueWait | QueueArrive | Asynchronous):
            kind = self.case.queue_kind(operation.queue)
            if kind == "" and isinstance(operation, Asynchronous):
                return any(effect.proxy is Proxy.ASYNC for effect in operation.effects)
            return kind in _SINGLE_KINDS
        return False

    def touched(self, operation: Operation) -> Iterator[tuple[str, bool]]:
        """The storages that the operation touches, and whether it writes them; no registers."""
        for effect in effects_of(operation):
            if self.case.space_of(effect) in MEMORIES and effect.proxy is not Proxy.TENSORMAP:
                yield self.case.storage_of(effect), effect.write

    def name_of(self, storage: str, *operations: Operation) -> str:
        """A storage by the name of the buffer that one of the operations has of it."""
        for operation in operations:
            for effect in effects_of(operation):
                if self.case.storage_of(effect) == storage:
                    return plain(effect.buffer)
        return storage


def used_elsewhere(
    case: Case, role: Role, by: type[Access | Asynchronous] | None = None
) -> frozenset[str]:
    """Storages that other roles, or other agents of this one, use as well.

    `by`: those that such operations use there.
    """
    return frozenset(
        case.storage_of(effect)
        for other in case.program.roles
        if other.agents > 1 or plain(other.name) != plain(role.name) or other.cta != role.cta
        for operation in walk(other.body)
        if by is None or isinstance(operation, by)
        for effect in effects_of(operation)
        if case.space_of(effect) in MEMORIES
    )


def tensor_maps_of(case: Case) -> frozenset[str]:
    """The storages that are read as tensor maps."""
    effects = [effect for _, item in case.asynchronous for effect in item.effects]
    return frozenset(case.storage_of(e) for e in effects if e.proxy is Proxy.TENSORMAP)


def brought_by(case: Case, role: Role) -> dict[str, frozenset[str]]:
    """Of each barrier: the buffers of which a wait there may publish something new.

    What engines touch that complete or arrive there; and where others arrive, all that they use.
    """
    found: dict[str, set[str]] = {}
    others = used_elsewhere(case, role)
    for other, item in case.operations:
        own = plain(other.name) == plain(role.name) and other.agents == 1 and other.cta == role.cta
        match item:
            case Asynchronous(completes=completes):
                names = {case.storage_of(effect) for effect in item.effects}
                for completion in completes:
                    found.setdefault(completion.barrier.name, set()).update(names)
            case QueueArrive(queue=queue, barrier=barrier):
                names = {
                    case.storage_of(effect)
                    for _, issued in case.asynchronous
                    if issued.queue == queue
                    for effect in issued.effects
                }
                found.setdefault(barrier.name, set()).update(names)
            case Arrive(barrier=barrier) | BarrierArrive(barrier=barrier) if not own:
                found.setdefault(barrier.name, set()).update(others)
    return {name: frozenset(buffers) for name, buffers in found.items()}


@rule("TTN432", "bulk_alignment")
def threads_meet_around_a_copy(case: Case) -> Iterator[Diagnostic]:
    """Threads of an agent synchronise before one acts for all, and after it has waited for all."""
    if not case.kernel.placed:
        return
    reported = set()
    for role in case.program.roles:
        if role.threads < case.target.threads_per_warp:
            continue
        used, copied = used_elsewhere(case, role), used_elsewhere(case, role, Asynchronous)
        lanes = role.threads > case.target.threads_per_warp or _distinguishes_lanes(role)
        maps = tensor_maps_of(case) if lanes else frozenset()
        walk_ = _Walk(case, role, used, copied, brought_by(case, role), maps)
        for walk_.number in ways_of(role):
            walk_.block(role.body, DataflowState(), frozenset())
        if role.threads == case.target.threads_per_warp and not _distinguishes_lanes(role):
            if case.nvidia:
                _assume_that_lanes_meet(case, role, walk_)
            continue
        _assume_own_parts(case, role, walk_)
        if not case.nvidia:
            continue
        for (what, storage, number), since in walk_.found.items():
            operation = walk_.operations[number]
            name = walk_.name_of(storage, operation, walk_.operations[since])
            if (what, name, operation.span) in reported:
                continue
            reported.add((what, name, operation.span))
            verb = "multiplies" if operation.label == "mma" else "copies"
            headline = headline_of(what, name, role.threads, verb)
            yield case.fault("TTN432", headline, operation.span, source=_SOURCE, helps=_HELPS)


def _assume_own_parts(case: Case, role: Role, found: _Walk) -> None:
    """A note of what all threads store and use again without a meeting: each its own part."""
    for storage, operation in found.own_parts.items():
        if any(case.space_of(effect) is Space.TENSOR for effect in effects_of(operation)):
            continue  # a warp reaches its own quarter of the lanes alone
        name, span = found.name_of(storage, operation), operation.span
        where = f" (line {span.start_line})" if span is not None else ""
        case.assume(
            f"between two meetings each of the {role.threads} threads of {plain(role.name)} uses "
            f"what it has itself accessed of {quoted(name)}{where}"
        )


def _distinguishes_lanes(role: Role) -> bool:
    return any(operation.by in ("thread", "all") for operation in walk(role.body))


def _assume_that_lanes_meet(case: Case, role: Role, found: _Walk) -> None:
    """A note of what one lane does with memory that all lanes of its warp use."""
    places: dict[str, int] = {}
    for (_, storage, number), since in found.found.items():
        operation = found.operations[number]
        span, name = operation.span, found.name_of(storage, operation, found.operations[since])
        places.setdefault(name, span.start_line if span is not None else 0)
    if places:
        where = ", ".join(f"{quoted(name)} (line {line})" for name, line in places.items())
        who = f"lanes of {plain(role.name)} synchronise (`__syncwarp`)"
        case.assume(f"{who} around what one of them does with {where}")
