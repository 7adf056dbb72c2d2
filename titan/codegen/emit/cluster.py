"""The CTAs of a cluster run one program text: their roles are folded into those of one CTA.

In a sync program of several CTAs every role, barrier and buffer stands once a CTA (`ring_full@1`).
The kernel is one text that all CTAs run; what differs is the rank. Roles of one name are laid side
by side: where each means its own instance, the folded role has the bare name; where all mean the
same CTA, an arrival goes to that CTA and a copy to several CTAs is a multicast; a number that is
the rank in every CTA becomes `cta`. Roles that differ otherwise are refused.

The barrier of the whole cluster is only taken at the end of every role: nobody leaves while a peer
may still arrive at, or write to, shared memory here.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import instance
from titan.foundation.records import dataclass
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import ZERO, Binary, Constant, Expression, Name, Not

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
class FoldedCluster:
    """`program` is that of one CTA; `cta` may stand in its expressions where `ctas` is above 1."""

    program: ir.SyncProgram
    ctas: int = 1


def fold(kernel: Kernel, program: ir.SyncProgram) -> FoldedCluster:
    """Raises EmissionRefused."""
    if kernel.ctas == 1:
        return FoldedCluster(program)
    if not 2 <= kernel.ctas <= CTAS_MAX:
        raise EmissionRefused(f"a cluster of {kernel.ctas!a:.20} CTAs")
    return FoldedCluster(_Fold(kernel.ctas, program).folded(), kernel.ctas)


class _Fold:
    def __init__(self, ctas: int, program: ir.SyncProgram) -> None:
        self.ctas = ctas
        self.program = program
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
            if len(made) != self.ctas:
                raise EmissionRefused(f"{base} does not stand in every CTA")
        return [[made[cta] for cta in range(self.ctas)] for made in found.values()]

    def _declared(self, instances: list[Any]) -> Any:
        base = instance(instances[0].name, "a declaration")[0]
        home: dict[str, Any] = {"cta": 0} if hasattr(instances[0], "cta") else {}
        bare: list[Any] = [replace(item, name=base, **home) for item in instances]
        shares = isinstance(bare[0], ir.Buffer) and bare[0].storage
        if shares or any(item != bare[0] for item in bare):
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
            case ir.Asynchronous(effects=effects) if len(effects) == self.ctas:
                same = [op for op in group if isinstance(op, ir.Asynchronous)]
                if self._everywhere(same):
                    return self._multicast(same)
        made = {
            item.name: self._value([getattr(operation, item.name) for operation in group])
            for item in fields(first)
            if item.compare
        }
        return replace(first, **made)

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
