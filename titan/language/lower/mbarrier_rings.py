"""The producer's side of an mbarrier ring: acquiring stages, filling them, and proxy fences.

One way to fill for each transport: bulk copies behind an `arrive.expect_tx`, stores, cp.async with
`mbarrier.arrive.noinc`, and tensor-core results with a commit. Fences are added only in roles that
have none of their own, and each is named in a note. Source: PTX ISA, mbarrier, proxies.
"""

from __future__ import annotations

from titan.language.lower.body import BodyLowering, epoch, remainder, slot_text
from titan.language.lower.facts import RingFacts
from titan.language.lower.model import refusal
from titan.language.lower.poison import flags_of, in_iteration
from titan.language.protocol import model
from titan.language.protocol.content import positive
from titan.language.protocol.unroll import walk
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Constant, Expression, binary
from titan.target.description import target_of

COPY_QUEUE = "cp_async"


def full_name(ring: str) -> str:
    """The name of the mbarriers that say that a stage is ready."""
    return f"{ring}_full"


def empty_name(ring: str) -> str:
    """The name of the mbarriers that say that a stage is free."""
    return f"{ring}_empty"


class MbarrierRings(BodyLowering):
    """What the roles of an NVIDIA program do as producers; abstract in what they do as readers."""

    def __init__(self, protocol: model.Protocol, add_fences: bool) -> None:
        super().__init__(protocol)
        self.add_fences = add_fences
        self.target = target_of(protocol.target)
        self.commits = self.target.matrix_commits_to_barriers
        self.flags = flags_of(protocol, self.facts)
        self.queue_name = self.target.matrix_counter

    def _homes(self, facts: RingFacts) -> tuple[int, int]:
        """The CTA of the full barrier (with the data) and of the empty one (with the producer)."""
        full = facts.buffers[0].cta if facts.buffers else 0
        numbers = {number for group in facts.producers.values() for number in group}
        empty = self.facts.agent_roles[min(numbers)][0].cta if numbers else full
        return full, empty

    def _scope(self, cta: int) -> ir.Scope:
        return ir.Scope.CTA if cta == self.role.cta else ir.Scope.CLUSTER

    def _full(self, ring: str, index: Expression) -> ir.Reference:
        return ir.Reference(full_name(ring), remainder(index, self.ring(ring).ring.depth))

    def _empty(self, ring: str, index: Expression) -> ir.Reference:
        return ir.Reference(empty_name(ring), remainder(index, self.ring(ring).ring.depth))

    def _tensor_queue(self) -> str:
        name = self.queue_name
        if name not in self.queues:
            self.queues[name] = ir.Queue(name, grouped=not self.commits, pipelined=True)
        return name

    def _declared(self, group: str) -> bool:
        return any(queue.name == group for queue in self.protocol.queues)

    # --------------------------------------------------------------------------- producers

    def acquire(self, statement: model.Acquire) -> ir.Block:
        """A wait for the `empty` phase of the epoch before, with that phase's parity."""
        facts = self.ring(statement.ring)
        current = epoch(statement.index, facts.ring.depth)
        wait = ir.Wait(
            self._empty(statement.ring, statement.index),
            parity=parity(binary("+", current, ONE)),
            phase=binary("-", current, ONE),
            scope=self._scope(self._homes(facts)[1]),
            span=statement.span,
            label=f"acquire {slot_text(statement.ring, statement.index)}: wait empty",
        )
        return (wait,)

    def transfers(self, ring: str, buffers: tuple[ir.Buffer, ...]) -> dict[str, int]:
        """Bytes of one stage of each buffer. Undeclared sizes share what the ring declares."""
        facts = self.ring(ring)
        declared = {buffer.name: buffer.bytes_per_stage for buffer in facts.buffers}
        if not any(declared.values()) and facts.buffers:
            total = facts.ring.bytes or len(facts.buffers) * 128
            each = total // len(facts.buffers)
            declared = {buffer.name: each for buffer in facts.buffers}
            declared[facts.buffers[0].name] += total - each * len(facts.buffers)
        return {buffer.name: declared[buffer.name] for buffer in buffers}

    def produce(self, statement: model.Produce) -> ir.Block:
        """The fill of a stage; where poisoned, an arrival without data in its place."""
        place = slot_text(statement.ring, statement.index)
        filled = self._fill(statement, place)
        if statement.poison is None:
            return filled
        empty = self._arrive_full(statement, place, ZERO, "ready without data (poison)")
        choice = ir.Branch(statement.poison, (empty,), filled, span=statement.span)
        if statement.ring not in self.flags:
            return (choice,)
        return (self._flag_access(statement, True, f"produce {place}: flag of poison"), choice)

    def flagged(self, statement: model.WhenPoisoned) -> ir.Block:
        """A branch on the flag of poison; empty where there is none or the read is out of order."""
        flag = self.flags.get(statement.ring)
        if flag is None or not in_iteration(self.role, statement, flag.iteration):
            return ()
        place = slot_text(statement.ring, statement.index)
        self.note(
            f"whether {place} is poisoned is read from {flag.buffer.name}, which the producer "
            "writes before it hands over the stage", statement.span,
        )  # fmt: skip
        arms = self.body(statement.then), self.body(statement.otherwise)
        asked = self._flag_access(statement, False, f"is {place} poisoned?")
        return (asked, ir.Branch(flag.condition, *arms, span=statement.span))

    def _flag_access(
        self, statement: model.Produce | model.WhenPoisoned, write: bool, label: str
    ) -> ir.Operation:
        buffer = self.flags[statement.ring].buffer
        stage = remainder(statement.index, buffer.stages)
        effect = ir.Effect(buffer.name, stage, write, tile=statement.index)
        return ir.Access((effect,), span=statement.span, label=label)

    def buffers(self) -> tuple[ir.Buffer, ...]:
        """The declared buffers and one for every flag of poison."""
        return (*super().buffers(), *(flag.buffer for flag in self.flags.values()))

    def _fill(self, statement: model.Produce, place: str) -> ir.Block:
        transport = self.ring(statement.ring).ring.transport
        if statement.stored and transport not in (model.Transport.BULK, model.Transport.STORE):
            raise refusal(
                "TTN401", f"a ring filled by {transport} takes no stores ({place})", statement.span
            )
        match model.Transport.STORE if statement.stored else transport:
            case model.Transport.BULK:
                return self._bulk(statement, place)
            case model.Transport.STORE:
                return self._store(statement, place)
            case model.Transport.ASYNC_COPY:
                return self._copy(statement, place)
            case model.Transport.MMA:
                return self._commit_slot(statement, place)
        raise refusal("TTN401", f"no way to fill {place} on this target", statement.span)

    def _arrive_full(
        self, statement: model.Produce, place: str, size: Expression, what: str
    ) -> ir.Operation:
        facts = self.ring(statement.ring)
        barrier = self._full(statement.ring, statement.index)
        if not statement.last:
            return ir.ExpectTransaction(
                barrier, size, span=statement.span, label=f"produce {place}: expect bytes"
            )
        return ir.Arrive(
            barrier, transaction=size, scope=self._scope(self._homes(facts)[0]),
            span=statement.span, label=f"produce {place}: {what}",
        )  # fmt: skip

    def _bulk(self, statement: model.Produce, place: str) -> ir.Block:
        """`arrive.expect_tx`, then one bulk copy a buffer; the arrival alone where 0 bytes."""
        size = statement.bytes
        if size is None:
            return self._bulk_whole(statement, place)
        if isinstance(size, Constant) and size.value <= 0:
            return self._arrive_only(statement, place)
        chosen = self.chosen(statement.ring, statement.buffers)
        effects = tuple(
            effect
            for buffer in chosen
            for effect in self.write_effects(
                statement.ring, buffer, statement.index, self.proxy(buffer, True)
            )
        )
        copy = ir.Asynchronous(
            effects,
            completes=(ir.Completion(self._full(statement.ring, statement.index), size),),
            span=statement.span,
            label=f"produce {place}: bulk copy",
        )
        some = (self._arrive_full(statement, place, size, "arrive and expect bytes"), copy)
        if isinstance(size, Constant):
            return some
        none = self._arrive_only(statement, place)
        return (ir.Branch(positive(size), some, none, span=statement.span),)

    def _arrive_only(self, statement: model.Produce, place: str) -> ir.Block:
        if not statement.last:
            return ()
        return (self._arrive_full(statement, place, ZERO, "arrive without bytes"),)

    def _bulk_whole(self, statement: model.Produce, place: str) -> ir.Block:
        facts = self.ring(statement.ring)
        chosen = self.chosen(statement.ring, statement.buffers)
        sizes = self.transfers(statement.ring, chosen)
        total = sum(sizes.values())
        if (
            facts.ring.bytes
            and not statement.buffers
            and self.share(statement.ring, chosen[0])[0] == 1
        ):
            total = facts.ring.bytes
        copies = []
        shared = 0
        for buffer in chosen:
            count, _ = self.share(statement.ring, buffer)
            if sizes[buffer.name] % count:
                raise refusal(
                    "TTN401",
                    f"{count} agents cannot share the {sizes[buffer.name]} bytes of {buffer.name} "
                    "evenly",
                    statement.span,
                )
            if count > 1:
                shared += sizes[buffer.name] - sizes[buffer.name] // count
            part = Constant(sizes[buffer.name] // count)
            effects = self.write_effects(
                statement.ring, buffer, statement.index, self.proxy(buffer, True)
            )
            copies.append(
                ir.Asynchronous(
                    effects,
                    completes=(ir.Completion(self._full(statement.ring, statement.index), part),),
                    span=statement.span,
                    label=f"produce {place}: bulk copy into {buffer.name}",
                )
            )
        expect = Constant(total - shared)
        return (
            self._arrive_full(statement, place, expect, "arrive and expect bytes"),
            *copies,
        )

    def _writes(self, statement: model.Produce) -> tuple[ir.Effect, ...]:
        return tuple(
            effect
            for buffer in self.chosen(statement.ring, statement.buffers)
            for effect in self.write_effects(
                statement.ring, buffer, statement.index, ir.Proxy.GENERIC
            )
        )

    def _store(self, statement: model.Produce, place: str) -> ir.Block:
        operations: list[ir.Operation] = []
        if not _no_bytes(statement):
            operations.append(
                ir.Access(
                    self._writes(statement), span=statement.span, label=f"produce {place}: store"
                )
            )
            operations += self._fence_before_engine(statement, f"produce {place}")
        if statement.last:
            operations.append(self._arrive_full(statement, place, ZERO, "arrive"))
        return tuple(operations)

    def _copy(self, statement: model.Produce, place: str) -> ir.Block:
        """cp.async of every thread, then `mbarrier.arrive.noinc` behind them."""
        self.queues.setdefault(COPY_QUEUE, ir.Queue(COPY_QUEUE, grouped=False))
        operations: list[ir.Operation] = []
        if not _no_bytes(statement):
            operations.append(
                ir.Asynchronous(
                    self._writes(statement), queue=COPY_QUEUE, span=statement.span,
                    label=f"produce {place}: asynchronous copy",
                )
            )  # fmt: skip
        if statement.last:
            operations.append(
                ir.QueueArrive(
                    COPY_QUEUE, self._full(statement.ring, statement.index), span=statement.span,
                    label=f"produce {place}: arrive when copied",
                )
            )  # fmt: skip
        return tuple(operations)

    def _commit_slot(self, statement: model.Produce, place: str) -> ir.Block:
        if not statement.last:
            return ()
        return (
            ir.QueueArrive(
                self._tensor_queue(), self._full(statement.ring, statement.index),
                span=statement.span, label=f"produce {place}: commit to full",
            ),
        )  # fmt: skip

    # ------------------------------------------------------------------------------ fences

    def _may_add_fence(self, facts: RingFacts) -> bool:
        """Whether the role leaves the proxy fences to lowering: it has none of its own."""
        if not self.add_fences or not facts.memory_spaces:
            return False
        return not any(
            isinstance(operation, ir.Fence) and operation.kind is ir.FenceKind.ASYNC
            for statement in walk(self.role.body)
            if isinstance(statement, model.Primitive)
            for operation in ir.walk((statement.operation,))
        )

    def _fence(self, facts: RingFacts, statement: model.Statement, label: str) -> ir.Operation:
        return ir.Fence(ir.FenceKind.ASYNC, facts.memory_spaces, span=statement.span, label=label)

    def _note_fence(self, where: str, why: str, statement: model.Statement) -> None:
        adds = f"a proxy fence in {self.role.name} at {where} ({why})"
        self.note(f"{self.role.name}: proxy fence added at {where} ({why})", statement.span, adds)

    def _fence_before_engine(self, statement: model.Produce, where: str) -> list[ir.Operation]:
        """Also where a bulk copy overwrites the stage next."""
        facts = self.ring(statement.ring)
        overwritten = facts.ring.transport is model.Transport.BULK
        if not (facts.read_asynchronously or overwritten) or not self._may_add_fence(facts):
            return []
        why = "the tensor core reads" if facts.read_asynchronously else "the next bulk copy"
        self._note_fence(where, f"generic writes before {why}", statement)
        return [self._fence(facts, statement, f"{where}: proxy fence")]

    def _fence_after_reads(
        self, facts: RingFacts, statement: model.Release, place: str
    ) -> tuple[ir.Operation, ...]:
        """Generic reads before the next bulk copy overwrites the stage."""
        reads = any(
            isinstance(item, model.ReadStage) and item.ring == statement.ring
            for item in walk(self.role.body)
        )
        asynchronous = facts.ring.transport is model.Transport.BULK
        if not (reads and asynchronous and self.protocol.policies.war_fence):
            return ()
        if not self._may_add_fence(facts):
            return ()
        self._note_fence(f"release {place}", "generic reads before the next bulk copy", statement)
        return (self._fence(facts, statement, f"release {place}: proxy fence"),)


def _no_bytes(statement: model.Produce) -> bool:
    return isinstance(statement.bytes, Constant) and statement.bytes.value <= 0


def parity(phase: Expression) -> Expression:
    """The phase bit of a phase."""
    return binary("%", phase, Constant(2))
