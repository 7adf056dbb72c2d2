"""The CTAs of a cluster run one program text: their roles are folded into those of one CTA.

In a sync program of several CTAs every role, barrier and buffer stands once a CTA (`ring_full@1`).
The kernel is one text that all CTAs run; what differs is the rank. Roles of one name are laid side
by side: where each means its own instance, the folded role has the bare name; where all mean the
same CTA, an arrival goes to that CTA and a copy to several CTAs is a multicast; a number that is
the rank in every CTA becomes `cta`. Roles that differ otherwise are refused.

Where a pair of CTAs multiplies together, a role and barriers that it waits for may stand in CTA 0
alone. Its products, and its copies of scales, then name the buffers of all CTAs, and two commits
one after the other the same barrier of each; copies of all CTAs may complete at a barrier of CTA 0
alone, and CTA 0 alone may arrive there, under a condition.

The barrier of the whole cluster is only taken at the end of every role: nobody leaves while a peer
may still arrive at, or write to, shared memory here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import instance
from titan.foundation.records import dataclass
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import ZERO, Binary, Constant, Expression, Name, Not

Operation = TypeVar("Operation", bound=ir.Operation)
RANK = "cta"
CTAS_MAX = 8  # portable limit of a cluster


@dataclass(frozen=True, slots=True)
class Multicast(ir.Asynchronous):
    """A bulk load into the same place of all CTAs, off the barrier at the same place of each.

    Its effect and completion name what lies in the CTA that issues it.
    """


@dataclass(frozen=True, slots=True)
class RemoteArrive(ir.Arrive):
    """An arrival at the barrier of that name in CTA `cta` of the cluster."""

    cta: Expression = ZERO


@dataclass(frozen=True, slots=True)
class LedCopy(ir.Asynchronous):
    """A bulk load of each CTA into its own memory, off the barrier of CTA 0."""


@dataclass(frozen=True, slots=True)
class TogetherProduct(ir.Asynchronous):
    """A product or a copy of scales that CTA 0 issues for all: each effect is in every CTA."""


@dataclass(frozen=True, slots=True)
class EverywhereCommit(ir.QueueArrive):
    """The end of earlier products arrives at the barrier of that name in every CTA."""


@dataclass(frozen=True, slots=True)
class FoldedCluster:
    """`program` is that of one CTA; `cta` may stand in its expressions where `ctas` is above 1.

    `alone`: roles and barriers that only CTA 0 has.
    """

    program: ir.SyncProgram
    ctas: int = 1
    alone: frozenset[str] = frozenset()


def fold(kernel: Kernel, program: ir.SyncProgram) -> FoldedCluster:
    """Raises EmissionRefused."""
    if kernel.ctas == 1:
        return FoldedCluster(program)
    if not 2 <= kernel.ctas <= CTAS_MAX:
        raise EmissionRefused(f"a cluster of {kernel.ctas!a:.20} CTAs")
    made = _Fold(kernel.ctas, program)
    return FoldedCluster(made.folded(), kernel.ctas, frozenset(made.alone))


def _alone(program: ir.SyncProgram) -> set[str]:
    """Roles and barriers that stand in CTA 0 and in no other."""
    names = [role.name for role in program.roles] + [one.name for one in program.barriers]
    found: dict[str, set[str]] = {}
    for name in names:
        base, _, cta = name.partition("@")
        found.setdefault(base, set()).add(cta)
    return {base for base, ctas in found.items() if ctas == {"0"}}


def _of_first(name: str) -> str:
    """The bare name of what lies in CTA 0."""
    base, cta = instance(name, "an instance")
    if cta != 0:
        raise EmissionRefused(f"{base} of another CTA is used here")
    return base


class _Fold:
    def __init__(self, ctas: int, program: ir.SyncProgram) -> None:
        self.ctas = ctas
        self.program = program
        self.alone = _alone(program)
        self.cluster = [
            barrier.name for barrier in program.named_barriers if barrier.scope is ir.Scope.CLUSTER
        ]

    def folded(self) -> ir.SyncProgram:
        named = [b for b in self.program.named_barriers if b.name not in self.cluster]
        return replace(
            self.program,
            roles=tuple(self._role(roles) for roles in self._sets(self.program.roles)),
            barriers=tuple(self._declared(s) for s in self._sets(self.program.barriers)),
            buffers=tuple(self._declared(s) for s in self._sets(self.program.buffers)),
            named_barriers=tuple(self._declared(s) for s in self._sets(named)),
        )

    def _sets(self, items: Any) -> list[list[Any]]:
        """Instances of one name, by CTA."""
        found: dict[str, dict[int, Any]] = {}
        for item in items:
            base, cta = instance(item.name, "what a cluster declares")
            if cta is None or not cta < self.ctas or cta in found.setdefault(base, {}):
                raise EmissionRefused(f"{base} does not stand once in every CTA")
            found[base][cta] = item
        for base, made in found.items():
            if len(made) != (1 if base in self.alone else self.ctas):
                raise EmissionRefused(f"{base} does not stand in every CTA")
        return [[made[cta] for cta in sorted(made)] for made in found.values()]

    def _declared(self, instances: list[Any]) -> Any:
        base = instance(instances[0].name, "a declaration")[0]
        home: dict[str, Any] = {"cta": 0} if hasattr(instances[0], "cta") else {}
        bare: list[Any] = [replace(item, name=base, **home) for item in instances]
        if isinstance(bare[0], ir.Buffer) and bare[0].storage:
            # what shares columns of tensor memory does so in each CTA
            if any(item.space is not ir.Space.TENSOR for item in bare):
                raise EmissionRefused(f"{base} differs between CTAs")
            storage = self._own([item.storage for item in bare])
            bare = [replace(item, storage=storage) for item in bare]
        if any(item != bare[0] for item in bare):
            raise EmissionRefused(f"{base} differs between CTAs")
        return bare[0]

    def _role(self, roles: list[ir.Role]) -> ir.Role:
        base = instance(roles[0].name, "a role")[0]
        bare = [replace(role, name=base, cta=0, body=()) for role in roles]
        if any(role != bare[0] for role in bare):
            raise EmissionRefused(f"{base} differs between CTAs")
        bodies = []
        for role in roles:
            *body, last = role.body or (ir.Fence(ir.FenceKind.ASYNC),)
            meets = isinstance(last, ir.BarrierSync) and last.barrier.name in self.cluster
            if not meets:
                raise EmissionRefused(f"{base} ends without the barrier of the cluster")
            bodies.append(tuple(body))
        if base in self.alone:
            return replace(bare[0], body=self._block_alone(bodies[0]))
        return replace(bare[0], body=self._block(bodies))

    # -------------------------------------------------------------------------- operations

    def _block(self, blocks: list[ir.Block]) -> ir.Block:
        if len({len(block) for block in blocks}) != 1:
            raise EmissionRefused("the CTAs of a cluster run different programs")
        return tuple(self._operation(list(group)) for group in zip(*blocks, strict=True))

    def _operation(self, group: list[ir.Operation]) -> ir.Operation:
        first = group[0]
        if any(type(operation) is not type(first) for operation in group):
            raise EmissionRefused("the CTAs of a cluster run different programs")
        match first:
            case ir.BarrierSync() if first.barrier.name in self.cluster:
                raise EmissionRefused("the barrier of the cluster elsewhere than at the end")
            case ir.Arrive(scope=ir.Scope.CLUSTER):
                return self._arrive([op for op in group if isinstance(op, ir.Arrive)])
            case ir.Branch():
                if (one := self._of_first(group)) is not None:
                    return one
            case ir.Asynchronous(completes=completes) if self._led(completes):
                return self._led_copy([op for op in group if isinstance(op, ir.Asynchronous)])
            case ir.Asynchronous(effects=effects) if len(effects) == self.ctas:
                same = [op for op in group if isinstance(op, ir.Asynchronous)]
                if self._everywhere(same):
                    return self._multicast(same)
        return self._alike(group)

    def _alike(self, group: Sequence[Operation]) -> Operation:
        """Operations that differ in nothing but the CTA whose things they name."""
        made = {
            item.name: self._value([getattr(operation, item.name) for operation in group])
            for item in fields(group[0])
            if item.compare
        }
        return replace(group[0], **made)

    def _value(self, values: list[Any]) -> Any:
        """What a field of the folded operation holds."""
        first = values[0]
        if isinstance(first, Constant | Name | Binary | Not):
            return self._expression(values)
        if isinstance(first, ir.Reference | ir.Effect | ir.Completion | ir.Operation):
            if isinstance(first, ir.Operation):
                return self._operation(values)
            return self._fields(values)
        if isinstance(first, tuple):
            if len({len(value) for value in values}) != 1:
                raise EmissionRefused("the CTAs of a cluster run different programs")
            return tuple(self._value(list(group)) for group in zip(*values, strict=True))
        if any(value != first for value in values):
            raise EmissionRefused("the CTAs of a cluster run different programs")
        return first

    def _fields(self, values: list[Any]) -> Any:
        first = values[0]
        made: dict[str, Any] = {}
        for item in fields(first):
            group = [getattr(value, item.name) for value in values]
            if item.name in ("name", "buffer"):
                made[item.name] = self._own(group)
            else:
                made[item.name] = self._value(group)
        return replace(first, **made)

    def _own(self, names: list[str]) -> str:
        """The bare name, where every CTA means its own instance."""
        found = [instance(name, "an instance") for name in names]
        if found != [(found[0][0], cta) for cta in range(self.ctas)]:
            raise EmissionRefused(f"{found[0][0]} of another CTA is used here")
        return found[0][0]

    def _expression(self, values: list[Expression]) -> Expression:
        first = values[0]
        if all(value == first for value in values):
            return first
        if values == [Constant(cta) for cta in range(self.ctas)]:
            return Name(RANK)
        if isinstance(first, Binary):
            same = [value for value in values if isinstance(value, Binary)]
            if len(same) == len(values) and len({value.operator for value in same}) == 1:
                left = self._expression([value.left for value in same])
                right = self._expression([value.right for value in same])
                return Binary(first.operator, left, right)
        raise EmissionRefused("a number differs between the CTAs of a cluster")

    def _arrive(self, group: list[ir.Arrive]) -> ir.Operation:
        targets = [instance(arrive.barrier.name, "a barrier") for arrive in group]
        base = targets[0][0]
        if any(name != base or cta is None for name, cta in targets):
            raise EmissionRefused("the CTAs of a cluster arrive at different barriers")
        ranks: list[Expression] = [Constant(cta) for _, cta in targets if cta is not None]
        bare = ir.Reference(base, self._expression([arrive.barrier.index for arrive in group]))
        first = group[0]
        plain = [replace(arrive, barrier=bare) for arrive in group]
        if any(arrive != plain[0] for arrive in plain):
            raise EmissionRefused("the CTAs of a cluster arrive differently")
        return RemoteArrive(
            bare, first.count, first.transaction, first.drop, first.token, first.order, first.scope,
            self._expression(ranks), span=first.span, label=first.label,
        )  # fmt: skip

    # ------------------------------------------------------------------------ CTA 0 alone

    def _of_first(self, group: list[ir.Operation]) -> ir.Operation | None:
        """A branch that CTA 0 takes and no other, by its rank; None for other branches."""
        same = [operation for operation in group if isinstance(operation, ir.Branch)]
        first, *others = same
        taken = [Constant(1), *(ZERO for _ in others)]
        if [one.condition for one in same] != taken or any(one.otherwise for one in same):
            return None
        condition = Binary("==", Name(RANK), ZERO)
        return replace(first, condition=condition, then=self._block_alone(first.then))

    def _led(self, completes: tuple[ir.Completion, ...]) -> bool:
        return any(item.barrier.name.partition("@")[0] in self.alone for item in completes)

    def _led_copy(self, group: list[ir.Asynchronous]) -> ir.Operation:
        """Copies of all CTAs, each into its own memory, off one barrier of CTA 0."""
        if any(copy.completes != group[0].completes for copy in group):
            raise EmissionRefused("the copies of a cluster complete at different barriers")
        made = self._alike([replace(copy, completes=()) for copy in group])
        completes = tuple(self._home_completion(item) for item in group[0].completes)
        return LedCopy(
            made.effects, made.queue, completes, made.chunks, by=made.by, span=made.span,
            label=made.label,
        )  # fmt: skip

    def _block_alone(self, block: ir.Block) -> ir.Block:
        """What only CTA 0 does: a commit to every CTA is one operation."""
        made: list[ir.Operation] = []
        waiting = list(block)
        while waiting:
            found = self._commits(waiting)
            if found is None:
                made.append(self._operation_alone(waiting.pop(0)))
                continue
            made.append(found)
            del waiting[: self.ctas]
        return tuple(made)

    def _commits(self, block: list[ir.Operation]) -> ir.Operation | None:
        """Commits that arrive at the same barrier of one CTA after the other; None for others."""
        commits = [one for one in block[: self.ctas] if isinstance(one, ir.QueueArrive)]
        if len(commits) != self.ctas:
            return None
        targets = [instance(one.barrier.name, "a barrier") for one in commits]
        if targets != [(targets[0][0], cta) for cta in range(self.ctas)]:
            return None
        bare = [
            replace(one, barrier=replace(one.barrier, name=targets[0][0]), label="")
            for one in commits
        ]
        if any(one != bare[0] for one in bare):
            return None
        first = commits[0]
        return EverywhereCommit(
            first.queue, bare[0].barrier, first.count, by=first.by, span=first.span,
            label=first.label,
        )  # fmt: skip

    def _operation_alone(self, operation: ir.Operation) -> ir.Operation:
        match operation:
            case ir.BarrierSync() if operation.barrier.name in self.cluster:
                raise EmissionRefused("the barrier of the cluster elsewhere than at the end")
            case ir.Loop(body=body):
                return replace(operation, body=self._block_alone(body))
            case ir.Branch(then=then, otherwise=otherwise):
                then, otherwise = self._block_alone(then), self._block_alone(otherwise)
                return replace(operation, then=then, otherwise=otherwise)
            case ir.Asynchronous(effects=effects, queue=queue) if queue is not None:
                if any(not item.buffer.endswith("@0") for item in effects):
                    return self._together(operation)
            case ir.Asynchronous(effects=effects, completes=completes):
                effects = tuple(self._home_effect(item) for item in effects)
                led = tuple(self._home_completion(item) for item in completes)
                return replace(operation, effects=effects, completes=led)
            case ir.Access(effects=effects):
                effects = tuple(self._home_effect(item) for item in effects)
                return replace(operation, effects=effects)
            case (
                ir.Wait() | ir.Arrive() | ir.ExpectTransaction() | ir.QueueArrive()
                | ir.BarrierSync() | ir.BarrierArrive()
            ):  # fmt: skip
                return replace(operation, barrier=self._home_reference(operation.barrier))
            case ir.Commit() | ir.QueueWait() | ir.Compute() | ir.Fence() | ir.Assign():
                return operation
        raise EmissionRefused(f"{type(operation).__name__} in CTA 0 alone")

    def _home_reference(self, reference: ir.Reference) -> ir.Reference:
        """What CTA 0 names of its own."""
        return replace(reference, name=_of_first(reference.name))

    def _home_effect(self, effect: ir.Effect) -> ir.Effect:
        return replace(effect, buffer=_of_first(effect.buffer))

    def _home_completion(self, completion: ir.Completion) -> ir.Completion:
        return replace(completion, barrier=self._home_reference(completion.barrier))

    def _together(self, product: ir.Asynchronous) -> ir.Operation:
        """A product on the same buffers of every CTA, which stand one after the other."""
        effects: list[ir.Effect] = []
        for number in range(0, len(product.effects), self.ctas):
            group = product.effects[number : number + self.ctas]
            found = [instance(effect.buffer, "a buffer") for effect in group]
            if found != [(found[0][0], cta) for cta in range(self.ctas)]:
                raise EmissionRefused(f"a product of {found[0][0]} does not name every CTA")
            bare = {replace(effect, buffer=found[0][0]) for effect in group}
            if len(bare) != 1:
                raise EmissionRefused(f"a product of {found[0][0]} differs between CTAs")
            effects += bare
        if product.completes:
            raise EmissionRefused("a product of several CTAs completes a barrier")
        return TogetherProduct(
            tuple(effects), product.queue, (), product.chunks, by=product.by, span=product.span,
            label=product.label,
        )  # fmt: skip

    # ------------------------------------------------------------------------------ multicast

    def _everywhere(self, group: list[ir.Asynchronous]) -> bool:
        """Whether each of the copies writes the same buffer of every CTA."""
        for copy in group:
            found = [instance(effect.buffer, "a buffer") for effect in copy.effects]
            if found != [(found[0][0], cta) for cta in range(self.ctas)]:
                return False
            if not all(effect.write for effect in copy.effects):
                return False
        return True

    def _multicast(self, group: list[ir.Asynchronous]) -> ir.Operation:
        """One effect and one completion represent those of all CTAs."""
        made = []
        for copy in group:
            base = instance(copy.effects[0].buffer, "a buffer")[0]
            effects = {replace(effect, buffer=base) for effect in copy.effects}
            places = [instance(c.barrier.name, "a barrier") for c in copy.completes]
            barrier = places[0][0] if places else ""
            if places != [(barrier, cta) for cta in range(self.ctas)]:
                raise EmissionRefused(f"a multicast into {base} does not name every CTA")
            completes = {
                replace(c, barrier=replace(c.barrier, name=barrier)) for c in copy.completes
            }
            if len(effects) != 1 or len(completes) != 1 or copy.queue is not None:
                raise EmissionRefused(f"a multicast into {base} differs between CTAs")
            made.append((effects.pop(), completes.pop()))
        first = group[0]
        effect = self._plain([effect for effect, _ in made])
        completion = self._plain([completion for _, completion in made])
        return Multicast((effect,), None, (completion,), 1, span=first.span, label=first.label)

    def _plain(self, values: list[Any]) -> Any:
        """Folds what already has bare names."""
        made = {}
        for item in fields(values[0]):
            group = [getattr(value, item.name) for value in values]
            if isinstance(group[0], ir.Reference):
                made[item.name] = self._plain(group)
            else:
                made[item.name] = self._value(group)
        return replace(values[0], **made)
