"""What a protocol's families do to rings: one entry for every stage that a statement touches."""

from __future__ import annotations

from dataclasses import field

from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.language.protocol import model
from titan.language.protocol.content import poison_condition
from titan.language.protocol.families import StatementFamily, UnsupportedProtocol, families_of
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression


@dataclass(frozen=True, slots=True)
class StageUse:
    """A family together with the stage it touches and how."""

    family: StatementFamily
    ring: str
    index: Expression
    arrives: bool = False  # a write that completes the stage
    asynchronous: bool = False  # a read by the tensor core
    bytes: Expression | None = None

    @property
    def statement(self) -> model.Statement:
        """The statement of which the family holds the executions."""
        return self.family.statement


@dataclass
class Uses:
    """All uses by kind, the statements of the tensor-core queue, and the finalizes.

    `opaque` are primitives that order or block in ways unknown here, with their spans.
    """

    acquires: list[StageUse] = field(default_factory=list)
    writes: list[StageUse] = field(default_factory=list)
    waits: list[StageUse] = field(default_factory=list)
    reads: list[StageUse] = field(default_factory=list)
    releases: list[StageUse] = field(default_factory=list)
    issues: list[StatementFamily] = field(default_factory=list)
    drains: list[StatementFamily] = field(default_factory=list)
    finalizes: list[StatementFamily] = field(default_factory=list)
    opaque: list[tuple[str, Span | None]] = field(default_factory=list)

    @property
    def arrivals(self) -> list[StageUse]:
        """Those writes that arrive as well, and so count for readiness."""
        return [use for use in self.writes if use.arrives]


_HARMLESS = (ir.Fence, ir.Loop, ir.Branch)
_OPAQUE = (
    ir.Access, ir.Asynchronous, ir.Commit, ir.QueueWait, ir.BarrierSync, ir.BarrierArrive,
    ir.BarrierWait, ir.PoolTake, ir.PoolGive,
)  # fmt: skip
# Rules that an order unknown here may keep all the same.
SOFT_IF_OPAQUE = frozenset({"TTN101", "TTN104", "TTN106", "TTN109"})


def uses_of(protocol: model.Protocol) -> Uses:
    """Sort all families by what they do. Raises UnsupportedProtocol."""
    if len({role.cta for role in protocol.roles}) > 1:
        raise UnsupportedProtocol("roles in several CTAs")
    poison = {ring.name: poison_condition(protocol, ring.name) for ring in protocol.rings}
    result = Uses()
    for family in families_of(protocol, poison):
        _sort(protocol, family, result)
    return result


def _sort(protocol: model.Protocol, family: StatementFamily, uses: Uses) -> None:
    declared = {queue.name for queue in protocol.queues}
    match family.statement:
        case model.Acquire(ring=ring, index=index):
            uses.acquires.append(StageUse(family, ring, index))
        case model.Produce(ring=ring, index=index, last=last, bytes=size):
            uses.writes.append(StageUse(family, ring, index, arrives=last, bytes=size))
        case model.WaitReady(ring=ring, index=index):
            uses.waits.append(StageUse(family, ring, index))
        case model.ReadStage(ring=ring, index=index):
            uses.reads.append(StageUse(family, ring, index))
        case model.Release(ring=ring, index=index, after=after):
            uses.releases.append(StageUse(family, ring, index))
            _known_queue(after, declared, family)
        case model.Issue():
            _known_queue(family.statement.group, declared, family)
            uses.issues.append(family)
            for operand in family.statement.operands:
                uses.reads.append(StageUse(family, operand.ring, operand.index, asynchronous=True))
            for slot in family.statement.accumulates:
                uses.writes.append(StageUse(family, slot.ring, slot.index))
            for slot in family.statement.produces:
                uses.writes.append(StageUse(family, slot.ring, slot.index, arrives=True))
        case model.Drain(group=group, leaving=leaving):
            _known_queue(group, declared, family)
            if not isinstance(leaving, Constant):
                raise UnsupportedProtocol(
                    "a drain that leaves a number of groups that is not fixed",
                    family.statement.span,
                )
            uses.drains.append(family)
        case model.Finalize():
            uses.finalizes.append(family)
        case model.Primitive(operation=operation):
            _primitive(protocol, operation, family, uses)


def _primitive(
    protocol: model.Protocol, operation: ir.Operation, family: StatementFamily, uses: Uses
) -> None:
    """Note what orders or blocks; what touches rings itself is not covered."""
    staged = {name for ring in protocol.rings for name in ring.buffers}
    span = family.statement.span
    for inner in ir.walk((operation,)):
        if isinstance(inner, _HARMLESS):
            continue
        kind = type(inner).__name__
        effects = inner.effects if isinstance(inner, ir.Access | ir.Asynchronous) else ()
        completes = isinstance(inner, ir.Asynchronous) and inner.completes
        if not isinstance(inner, _OPAQUE) or completes:
            raise UnsupportedProtocol(f"a sync-level {kind}, which the explorer decides", span)
        if any(effect.buffer in staged for effect in effects):
            raise UnsupportedProtocol(f"a sync-level {kind} that touches a ring itself", span)
        uses.opaque.append((kind, span))


def _known_queue(group: str | None, declared: set[str], family: StatementFamily) -> None:
    if group in declared:
        raise UnsupportedProtocol(
            f"group {group} is a separate queue, which the explorer decides",
            family.statement.span,
        )
