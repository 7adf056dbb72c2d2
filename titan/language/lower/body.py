"""The walk over a role's statements that all targets share.

Control flow carries over one to one; what a ring statement becomes is up to the target. Every
operation keeps the span of the statement it comes from and a label that states its purpose.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from titan.foundation.source.span import Span
from titan.language.lower.facts import Facts, RingFacts, gather
from titan.language.lower.model import Note, refusal
from titan.language.protocol import model
from titan.language.protocol.content import Condition, bytes_condition, poison_condition, positive
from titan.sync import program as ir
from titan.sync.expression import ZERO, Binary, Constant, Expression, Name, binary, to_text


def remainder(index: Expression, depth: int) -> Expression:
    """The stage of an index."""
    return ZERO if depth == 1 else binary("%", index, Constant(depth))


def epoch(index: Expression, depth: int) -> Expression:
    """How often the ring has gone round before an index."""
    return binary("//", index, Constant(depth))


def slot_text(ring: str, index: Expression) -> str:
    """A stage as reports and labels show it, `ring[index]`."""
    return f"{ring}[{to_text(index)}]"


class BodyLowering(ABC):
    """Lowers one protocol; a subclass lowers the ring statements for its target."""

    def __init__(self, protocol: model.Protocol) -> None:
        self.protocol = protocol
        self.facts: Facts = gather(protocol)
        self.notes: list[Note] = []
        self.queues: dict[str, ir.Queue] = {queue.name: queue for queue in protocol.queues}
        self.poison: dict[str, Condition | None] = {}
        self.sizes: dict[str, Condition | None] = {}
        for ring in protocol.rings:
            self.poison[ring.name] = poison_condition(protocol, ring.name)
            self.sizes[ring.name] = bytes_condition(protocol, ring.name)
        self.role: model.ProtocolRole = protocol.roles[0] if protocol.roles else _NOBODY

    def note(self, text: str, span: Span | None = None, adds: str = "") -> None:
        """Record a choice once; `adds` names an operation that the choice puts in."""
        if all(note.text != text for note in self.notes):
            self.notes.append(Note(text, span, adds))

    def ring(self, name: str) -> RingFacts:
        """What lowering knows of the ring; raises KeyError for an unknown one."""
        return self.facts.rings[name]

    def body(self, statements: model.Body) -> ir.Block:
        """The operations of all statements, in order."""
        return tuple(
            operation for statement in statements for operation in self.statement(statement)
        )

    def statement(self, statement: model.Statement) -> ir.Block:
        """The operations of one statement."""
        span = statement.span
        match statement:
            case model.For(variable=variable, start=start, stop=stop, body=inner):
                return (ir.Loop(variable, start, stop, self.body(inner), span=span),)
            case model.When(condition=condition, then=then, otherwise=otherwise):
                arms = self.body(then), self.body(otherwise)
                return (ir.Branch(condition, *arms, span=span),)
            case model.WhenPoisoned():
                return self.when_poisoned(statement)
            case model.Count(variable=variable, value=value):
                return (ir.Assign(variable, value, span=span),)
            case model.Primitive(operation=operation):
                return (operation if operation.span else replace(operation, span=span),)
            case model.Acquire():
                return self.acquire(statement)
            case model.Produce():
                return self.produce(statement)
            case model.WaitReady():
                return self.wait_ready(statement)
            case model.ReadStage():
                return self.read_stage(statement)
            case model.Issue():
                return self.issue(statement)
            case model.Drain():
                return self.drain(statement)
            case model.Release():
                return self.release(statement)
            case model.Finalize():
                return self.finalize(statement)
        raise refusal("TTN401", f"no form for {type(statement).__name__}", span)

    def when_poisoned(self, statement: model.WhenPoisoned) -> ir.Block:
        """Both arms behind the poison condition, or behind a flag; raises TTN401 without either."""
        condition = self.poison[statement.ring]
        if condition is None:
            self.note(f"no tile of {statement.ring} is ever poisoned", statement.span)
            return self.body(statement.otherwise)
        if not condition.exact:
            flagged = self.flagged(statement)
            if flagged:
                return flagged
            raise refusal(
                "TTN401",
                f"whether {slot_text(statement.ring, statement.index)} is poisoned cannot be "
                "decided from its index",
                statement.span,
                "one produce statement must fill the ring, its index must be affine in one loop "
                "variable with coefficient 1, and the poison condition may use that variable and "
                "sizes only",
                "an `if` on the role's own condition is verified as well: a role that reads a "
                "poisoned stage is refuted",
            )
        arms = self.body(statement.then), self.body(statement.otherwise)
        return (ir.Branch(condition.at(statement.index), *arms, span=statement.span),)

    def flagged(self, statement: model.WhenPoisoned) -> ir.Block:
        """The branch on a flag beside the stage, where the target has one."""
        del statement
        return ()

    # ---------------------------------------------------------------------- memory effects

    def chosen(self, ring: str, buffers: tuple[str, ...]) -> tuple[ir.Buffer, ...]:
        """The buffers that a statement names; none named are all of the ring."""
        everything = self.ring(ring).buffers
        return tuple(b for b in everything if b.name in buffers) if buffers else everything

    def proxy(self, buffer: ir.Buffer, asynchronous: bool) -> ir.Proxy:
        """Tensor memory and registers have no proxies; there everything counts as generic."""
        has_proxies = buffer.space in (ir.Space.SHARED, ir.Space.GLOBAL)
        return ir.Proxy.ASYNC if asynchronous and has_proxies else ir.Proxy.GENERIC

    def read_effects(
        self, operand: model.Operand, asynchronous: bool, tile: Expression | None
    ) -> tuple[ir.Effect, ...]:
        """The reads of an operand's buffers, at the stage of its index modulo the depth."""
        depth = self.ring(operand.ring).ring.depth
        return tuple(
            ir.Effect(
                buffer.name,
                remainder(operand.index, depth),
                tile=tile,
                proxy=self.proxy(buffer, asynchronous),
            )
            for buffer in self.chosen(operand.ring, operand.buffers)
        )

    def share(self, ring: str, buffer: ir.Buffer) -> tuple[int, Expression | None]:
        """How many agents fill a stage of the buffer together, and which part is this agent's."""
        groups = self.ring(ring).fillers[buffer.name]
        mine = {
            number
            for number, (role, _) in enumerate(self.facts.agent_roles)
            if role.name == self.role.name
        }
        groups_of_mine = [group for group in groups.values() if group & mine]
        count = max((len(group) for group in groups_of_mine), default=1)
        if count == 1:
            return 1, None
        together = next(group for group in groups_of_mine if len(group) == count)
        base = sum(1 for number in together if number < min(mine))
        if not mine <= together:
            raise refusal(
                "TTN401",
                f"{count} agents fill a stage of {buffer.name} together, but not all agents of "
                f"{self.role.name} are among them",
                self.role.span,
                "a stage is shared out evenly among all agents of the roles that fill it",
            )
        member: Expression = Name(self.role.agent_constant) if len(mine) > 1 else ZERO
        return count, binary("+", member, Constant(base))

    def write_effects(
        self, ring: str, buffer: ir.Buffer, index: Expression, proxy: ir.Proxy
    ) -> tuple[ir.Effect, ...]:
        """The agent's part of the stage; several parts where the buffer has more than agents."""
        stage = remainder(index, self.ring(ring).ring.depth)
        count, part = self.share(ring, buffer)
        if part is None:
            return (ir.Effect(buffer.name, stage, True, index, None, proxy),)
        parts = buffer.parts if buffer.parts > 1 else count
        if parts % count:
            raise refusal(
                "TTN401",
                f"{buffer.name} has {buffer.parts} parts, which {count} agents cannot share evenly",
                buffer.span,
            )
        each = parts // count
        return tuple(
            ir.Effect(
                buffer.name,
                stage,
                True,
                index,
                binary("+", binary("*", part, Constant(each)), Constant(number)),
                proxy,
            )
            for number in range(each)
        )

    def reading(
        self, operands: tuple[model.Operand, ...], asynchronous: bool
    ) -> tuple[Expression | None, tuple[ir.Effect, ...], tuple[ir.Effect, ...]]:
        """Condition under which all tiles have data, the reads then, and the reads otherwise.

        The condition is None where the stages always have data.
        """
        conditions: list[Expression] = []
        whole: list[ir.Effect] = []
        masked: list[ir.Effect] = []
        for operand in operands:
            size = self.sizes[operand.ring]
            full = self.read_effects(operand, asynchronous, operand.index)
            if size is None or self.always_filled(size):
                whole += full
                masked += full
                continue
            blank = self.read_effects(operand, asynchronous, None)
            masked += blank
            if size.exact:
                conditions.append(positive(size.at(operand.index)))
                whole += full
            else:
                self.note(
                    f"which tiles of {operand.ring} have 0 bytes cannot be decided from the index: "
                    "its readers may see any tile",
                )
                whole += blank
        if not conditions:
            return None, tuple(whole), tuple(whole)
        condition = conditions[0]
        for other in conditions[1:]:
            condition = Binary("and", condition, other)
        return condition, tuple(whole), tuple(masked)

    @staticmethod
    def always_filled(size: Condition) -> bool:
        """Whether the size is known to be a constant above 0 bytes."""
        return size.exact and isinstance(size.expression, Constant) and size.expression.value > 0

    def buffers(self) -> tuple[ir.Buffer, ...]:
        """The declared buffers, cut into parts where several agents fill a stage together."""
        cut: dict[str, int] = {}
        for facts in self.facts.rings.values():
            for buffer in facts.buffers:
                groups = facts.fillers[buffer.name].values()
                count = max((len(group) for group in groups), default=1)
                if buffer.parts == 1 and count > 1 and self.cuts(facts.ring):
                    storage = buffer.storage or buffer.name
                    others = cut.get(storage, 1)
                    if others not in (1, count):
                        raise refusal(
                            "TTN017",
                            f"{storage} holds stages that {others} and that {count} agents fill",
                            buffer.span,
                        )
                    cut[storage] = count
        result = []
        shared_out = {
            buffer.name
            for facts in self.facts.rings.values()
            for buffer in facts.buffers
            if buffer.parts == 1 and self.cuts(facts.ring)
            if max((len(g) for g in facts.fillers[buffer.name].values()), default=1) > 1
        }
        for buffer in self.protocol.buffers:
            factor = cut.get(buffer.storage or buffer.name, 1)
            if buffer.name in shared_out:
                scaled = replace(buffer, parts=factor, offset=buffer.offset * factor)
            else:
                scaled = replace(buffer, units=buffer.units * factor, offset=buffer.offset * factor)
            result.append(scaled)
        return tuple(result)

    def cuts(self, ring: model.Ring) -> bool:
        """Whether producers of the ring write stages themselves (not the tensor core)."""
        return ring.transport is not model.Transport.MMA

    # ------------------------------------------------------------------- for each target

    @abstractmethod
    def acquire(self, statement: model.Acquire) -> ir.Block:
        """What waits until the stage is free for the producer."""

    @abstractmethod
    def produce(self, statement: model.Produce) -> ir.Block:
        """What fills the stage and signals the readers that it is ready."""

    @abstractmethod
    def wait_ready(self, statement: model.WaitReady) -> ir.Block:
        """What waits until the stage is filled."""

    @abstractmethod
    def read_stage(self, statement: model.ReadStage) -> ir.Block:
        """What reads the stage by the agent itself."""

    @abstractmethod
    def issue(self, statement: model.Issue) -> ir.Block:
        """What hands an asynchronous operation on ring stages to an engine."""

    @abstractmethod
    def drain(self, statement: model.Drain) -> ir.Block:
        """What waits for issued operations to be over."""

    @abstractmethod
    def release(self, statement: model.Release) -> ir.Block:
        """What gives the stage back to the producer."""

    @abstractmethod
    def finalize(self, statement: model.Finalize) -> ir.Block:
        """What the target needs at the end that every role must reach."""


_NOBODY = model.ProtocolRole("", ())
