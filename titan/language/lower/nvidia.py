"""Protocol to sync program for sm_90a and sm_100a: mbarrier rings with phase bits.

A ring of depth D becomes the mbarrier arrays `NAME_full[D]` and `NAME_empty[D]`. Index i uses stage
i mod D; its fill completes phase i div D of the full barrier, its release phase i div D of the
empty one, and acquiring i waits for phase i div D - 1 of the empty barrier (the phase before the
first is complete on a fresh barrier). All barriers are taken as initialised before the roles start.

Decides nothing about correctness: counts and thresholds that lowering derives are checked with the
rest of the program. Sources: PTX ISA, mbarrier; cp.async.bulk; wgmma; tcgen05.commit.
"""

from __future__ import annotations

from dataclasses import replace

from titan.foundation.source.span import Span
from titan.language.lower.body import epoch, remainder, slot_text
from titan.language.lower.drains import issued_groups, pending_groups
from titan.language.lower.facts import RingFacts
from titan.language.lower.mbarrier_rings import MbarrierRings, empty_name, full_name, parity
from titan.language.lower.model import Lowered, refusal
from titan.language.lower.tails import next_index, readers_elsewhere
from titan.language.protocol import model
from titan.language.protocol.rewrites import Rewrite
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Constant, Expression, Name, binary

TRANSACTION_MAX_BYTES = 2**20 - 1  # PTX ISA, mbarrier: range of the transaction count
COUNT_MAX = 2**20 - 1  # PTX ISA, mbarrier.init: range of the expected arrival count
WGMMA_PENDING_MAX = 7  # PTX ISA, wgmma.wait_group: N in 0..7


def lower_nvidia(
    protocol: model.Protocol, *, add_fences: bool = True, rewrites: frozenset[str] = frozenset()
) -> Lowered:
    """The sync program and the choices made.

    `add_fences` False: proxy fences stand only where the protocol has them. `rewrites` may hold
    "drain_all": where the target cannot leave groups unfinished, wait for all of them. Raises
    LoweringRefused.
    """
    return _Nvidia(protocol, add_fences, rewrites).lower()


class _Nvidia(MbarrierRings):
    def __init__(
        self, protocol: model.Protocol, add_fences: bool, rewrites: frozenset[str]
    ) -> None:
        super().__init__(protocol, add_fences)
        self.rewrites = rewrites
        self.drained: dict[str, int] = {}  # role -> agents, for roles that wait for tcgen05

    # ------------------------------------------------------------------------- the program

    def lower(self) -> Lowered:
        for ring in self.protocol.rings:
            self._check_ring(self.ring(ring.name))
        roles = []
        for role in self.protocol.roles:
            self.role = role
            body = self.body(role.body)
            variables = role.variables
            if role.name in self.drained:
                variables = (*variables, (self._drain_variable(), 0))
            roles.append(
                ir.Role(
                    role.name, body, role.agents, role.threads, role.cta, role.agent_constant,
                    variables, span=role.span,
                )
            )  # fmt: skip
        program = ir.SyncProgram(
            name=self.protocol.name,
            target=self.protocol.target,
            roles=tuple(roles),
            parameters=self.protocol.parameters,
            barriers=(*self.protocol.barriers, *self._barriers()),
            named_barriers=(*self.protocol.named_barriers, *self._reader_barriers()),
            buffers=self.buffers(),
            queues=tuple(self.queues.values()),
            pools=self.protocol.pools,
            policies=self.protocol.policies,
            span=self.protocol.span,
        )
        return Lowered(program, tuple(self.notes))

    def _check_ring(self, facts: RingFacts) -> None:
        ring = facts.ring
        if ring.transport is model.Transport.LDS_DMA:
            raise refusal(
                "TTN401", f"{self.protocol.target} has no direct-to-LDS copy", ring.span,
                "use bulk or async_copy as transport of the ring",
            )  # fmt: skip
        tensor = any(buffer.space is ir.Space.TENSOR for buffer in facts.buffers)
        if not self.commits and (tensor or ring.transport is model.Transport.MMA):
            raise refusal(
                "TTN401", f"{self.protocol.target} has no tensor memory for ring {ring.name}",
                ring.span, "accumulators of wgmma are registers of the warpgroup",
            )  # fmt: skip
        if ring.transport in (model.Transport.BULK, model.Transport.ASYNC_COPY) and tensor:
            raise refusal(
                "TTN401", f"no {ring.transport} copy writes tensor memory ({ring.name})", ring.span
            )
        for what, count in (("ready", facts.ready_count), ("free", facts.free_count)):
            if not 1 <= count <= COUNT_MAX:
                raise refusal(
                    "TTN404", f"ring {ring.name} expects {count} arrivals to be {what}", ring.span
                )
        if sum(self.transfers(ring.name, facts.buffers).values()) > TRANSACTION_MAX_BYTES:
            raise refusal(
                "TTN404",
                f"a stage of ring {ring.name} transfers more than {TRANSACTION_MAX_BYTES} bytes",
                ring.span,
            )

    def _barriers(self) -> tuple[ir.Barrier, ...]:
        barriers = []
        for facts in self.facts.rings.values():
            ring = facts.ring
            full_cta, empty_cta = self._homes(facts)
            barriers.append(
                ir.Barrier(
                    full_name(ring.name), facts.ready_count, ring.depth, cta=full_cta,
                    span=ring.span,
                )
            )  # fmt: skip
            barriers.append(
                ir.Barrier(
                    empty_name(ring.name), facts.free_count, ring.depth, cta=empty_cta,
                    span=ring.span,
                )
            )  # fmt: skip
        for role in self.protocol.roles:
            if role.name in self.drained:
                barriers.append(
                    ir.Barrier(f"{role.name}_drained", 1, role.agents, cta=role.cta, span=role.span)
                )
        return tuple(barriers)

    # --------------------------------------------------------------------------- consumers

    def wait_ready(self, statement: model.WaitReady) -> ir.Block:
        facts = self.ring(statement.ring)
        phase = epoch(statement.index, facts.ring.depth)
        place = slot_text(statement.ring, statement.index)
        wait = ir.Wait(
            self._full(statement.ring, statement.index),
            parity=parity(phase),
            phase=phase,
            scope=self._scope(self._homes(facts)[0]),
            span=statement.span,
            label=f"wait {place}: wait full",
        )
        # cp.async writes through the generic proxy; whoever hands them to the tensor core fences.
        copied = facts.ring.transport is model.Transport.ASYNC_COPY
        if copied and facts.read_asynchronously and self._may_add_fence(facts):
            self._note_fence(f"wait {place}", "cp.async before the tensor core reads", statement)
            return (wait, self._fence(facts, statement, f"wait {place}: proxy fence"))
        return (wait,)

    def read_stage(self, statement: model.ReadStage) -> ir.Block:
        operand = model.Operand(statement.ring, statement.index, statement.buffers)
        condition, whole, masked = self.reading((operand,), asynchronous=False)
        label = f"read {slot_text(statement.ring, statement.index)}"
        return _either(
            condition,
            (ir.Access(whole, span=statement.span, label=label),),
            (ir.Access(masked, span=statement.span, label=f"{label} (masked)"),),
            statement.span,
        )

    def issue(self, statement: model.Issue) -> ir.Block:
        """One tensor-core operation; on sm_90a it is a group of its own."""
        queue = statement.group if self._declared(statement.group) else self._tensor_queue()
        condition, whole, masked = self.reading(statement.operands, asynchronous=True)
        writes = tuple(
            ir.Effect(
                buffer.name, remainder(slot.index, self.ring(slot.ring).ring.depth), True,
                slot.index, None, self.proxy(buffer, True), accumulates=True,
            )
            for slot in (*statement.produces, *statement.accumulates)
            for buffer in self.chosen(slot.ring, slot.buffers)
        )  # fmt: skip
        label, others = f"issue {statement.group}", (*statement.beside, *writes)
        start = _either(
            condition,
            (ir.Asynchronous((*whole, *others), queue, span=statement.span, label=label),),
            (ir.Asynchronous((*masked, *others), queue, span=statement.span, label=label),),
            statement.span,
        )
        after: list[ir.Operation] = []
        if self.queues[queue].grouped:
            after.append(ir.Commit(queue, span=statement.span, label=f"commit {statement.group}"))
        for slot in statement.produces:
            if self.queues[queue].grouped:
                raise refusal(
                    "TTN401",
                    f"{self.protocol.target} cannot let {statement.group} complete a stage",
                    statement.span,
                    "a wgmma group is waited for by its own warpgroup only",
                )
            place = slot_text(slot.ring, slot.index)
            after.append(
                ir.QueueArrive(
                    queue, self._full(slot.ring, slot.index), span=statement.span,
                    label=f"produce {place}: commit to full",
                )
            )  # fmt: skip
        return (*start, *after)

    def drain(self, statement: model.Drain) -> ir.Block:
        label = f"drain {statement.group}"
        if self._declared(statement.group):
            return (
                ir.QueueWait(statement.group, statement.leaving, span=statement.span, label=label),
            )
        if statement.group not in issued_groups(self.role):
            raise refusal(
                "TTN011", f"{self.role.name} issues nothing to group {statement.group}",
                statement.span,
            )  # fmt: skip
        if self.commits:
            return self._drain_by_commit(statement)
        return (self._wait_group(statement, label),)

    def _wait_group(self, statement: model.Drain | model.Release, label: str) -> ir.Operation:
        pending, exact = pending_groups(self.facts, self.role, statement)
        if not exact:
            self.note(
                f"{label} in {self.role.name}: the number of newer groups differs between "
                "iterations; the smallest is waited for",
                statement.span,
            )
        if isinstance(pending, Constant) and pending.value > WGMMA_PENDING_MAX:
            self.note(
                f"{label} in {self.role.name}: wgmma.wait_group leaves at most "
                f"{WGMMA_PENDING_MAX} groups",
                statement.span,
            )
            pending = Constant(WGMMA_PENDING_MAX)
        return ir.QueueWait(self._tensor_queue(), pending, span=statement.span, label=label)

    def _drain_variable(self) -> str:
        return f"{self.role.name}_drains"

    def _drain_by_commit(self, statement: model.Drain | model.Finalize) -> ir.Block:
        """tcgen05 has no wait by count: commit to a barrier of the agent's own and wait for it."""
        if isinstance(statement, model.Drain) and statement.leaving != ZERO:
            if Rewrite.DRAIN_ALL not in self.rewrites:
                raise refusal(
                    "TTN401",
                    f"{self.protocol.target} cannot leave groups of {statement.group} unfinished",
                    statement.span,
                    "tcgen05 operations are waited for by a commit to an mbarrier, which covers "
                    "everything issued before; release a stage `after` the group instead",
                )
            self.note(
                f"drain {statement.group} in {self.role.name} waits for all of the group: tcgen05 "
                "has no wait by count",
                statement.span,
            )
        self.drained[self.role.name] = self.role.agents
        variable = self._drain_variable()
        member: Expression = Name(self.role.agent_constant) if self.role.agents > 1 else ZERO
        barrier = ir.Reference(f"{self.role.name}_drained", member)
        what = statement.group if isinstance(statement, model.Drain) else "everything"
        label, span = f"drain {what}", statement.span
        flip = binary("-", ONE, Name(variable))
        return (
            ir.QueueArrive(self._tensor_queue(), barrier, span=span, label=f"{label}: commit"),
            ir.Wait(barrier, Name(variable), span=span, label=f"{label}: wait commit"),
            ir.Assign(variable, flip, span=span),
        )

    def release(self, statement: model.Release) -> ir.Block:
        facts = self.ring(statement.ring)
        place = slot_text(statement.ring, statement.index)
        label = f"release {place}: arrive empty"
        barrier = self._empty(statement.ring, statement.index)
        before = self._fence_after_reads(facts, statement, place)
        if facts.ring.release is model.ReleaseMode.COLLECTIVE:
            return (*before, *self._release_together(facts, statement, barrier, label))
        return (*before, *self._release_alone(facts, statement, barrier, label))

    def _release_alone(
        self, facts: RingFacts, statement: model.Release, barrier: ir.Reference, label: str
    ) -> ir.Block:
        scope = self._scope(self._homes(facts)[1])
        arrive = ir.Arrive(barrier, scope=scope, span=statement.span, label=label)
        if statement.after is None:
            return (arrive,)
        if self._declared(statement.after):
            queue = statement.after
        elif statement.after not in issued_groups(self.role):
            raise refusal(
                "TTN011", f"{self.role.name} issues nothing to group {statement.after}",
                statement.span,
            )  # fmt: skip
        elif self.commits:
            queue = self._tensor_queue()
        else:
            self.note(
                f"{self.role.name} waits for {statement.after} before it releases: a wgmma group "
                "cannot arrive on a barrier by itself",
                statement.span,
            )
            return (self._wait_group(statement, f"drain {statement.after}"), arrive)
        return (ir.QueueArrive(queue, barrier, span=statement.span, label=label),)

    def _release_together(
        self, facts: RingFacts, statement: model.Release, barrier: ir.Reference, label: str
    ) -> ir.Block:
        leader, threads = self._readers(facts)
        sync: ir.Operation = ir.BarrierSync(
            ir.Reference(f"{facts.ring.name}_readers"),
            Constant(threads),
            span=statement.span,
            label=f"release {slot_text(statement.ring, statement.index)}: readers meet",
        )
        role, member = self.facts.agent_roles[leader]
        wait: ir.Block = ()
        if statement.after is not None:
            alone = replace(statement, after=statement.after)
            if self.commits:
                group = model.Drain(statement.after, span=statement.span)
                wait = self._drain_by_commit(group)
            else:
                wait = (self._wait_group(alone, f"drain {statement.after}"),)
        plain = replace(statement, after=None)
        arrive = self._release_alone(facts, plain, barrier, label)
        if role.name != self.role.name:
            return (*wait, sync)
        if role.agents == 1:
            return (*wait, sync, *arrive)
        chosen = binary("==", Name(role.agent_constant), Constant(member))
        return (*wait, sync, ir.Branch(chosen, arrive, span=statement.span))

    def _readers(self, facts: RingFacts) -> tuple[int, int]:
        """The agent that releases for all readers, and the threads of all readers."""
        groups = facts.readers or facts.releasers
        largest = max(groups.values(), key=len)
        leaders = {min(group) for group in groups.values() if len(group) == len(largest)}
        if len(leaders) != 1:
            raise refusal(
                "TTN401",
                f"ring {facts.ring.name} is released collectively, but its readers differ between "
                "indices",
                facts.ring.span,
            )
        threads = sum(self.facts.agent_roles[number][0].threads for number in largest)
        return leaders.pop(), threads

    def _reader_barriers(self) -> tuple[ir.NamedBarrier, ...]:
        return tuple(
            ir.NamedBarrier(f"{ring.name}_readers", span=ring.span)
            for ring in self.protocol.rings
            if ring.release is model.ReleaseMode.COLLECTIVE
        )

    def finalize(self, statement: model.Finalize) -> ir.Block:
        """Nothing that the role started is in flight afterwards, nor arrives at its barriers.

        A copy into a ring is over when its consumer has waited for it. What the role itself waits
        for are its tensor-core groups, and stages that another CTA still has to give back.
        """
        return (*self._tails(statement), *self._drain_all(statement))

    def _tails(self, statement: model.Finalize) -> ir.Block:
        tails: list[ir.Operation] = []
        for name, facts in self.facts.rings.items():
            if not readers_elsewhere(self.facts, self.role, name):
                continue
            first = next_index(self.facts, self.role, name)
            if first is None:
                self.note(
                    f"{self.role.name}: the stages of {name} are not waited for at the end; the "
                    "index after the last one cannot be expressed",
                    statement.span,
                )
                continue
            variable = f"{name}_tail"
            again = model.Acquire(name, Name(variable), span=statement.span)
            last = binary("+", first, Constant(facts.ring.depth))
            tails.append(
                ir.Loop(
                    variable, first, last, self.acquire(again), span=statement.span,
                    label=f"finalize: wait for every stage of {name}",
                )
            )  # fmt: skip
        return tuple(tails)

    def _drain_all(self, statement: model.Finalize) -> ir.Block:
        span, label = statement.span, "finalize: drain all"
        groups = issued_groups(self.role)
        own: list[ir.Operation] = [
            ir.QueueWait(group, ZERO, span=span, label=label)
            for group in groups
            if self._declared(group)
        ]
        if len(own) == len(groups):
            return tuple(own)
        if self.commits:
            return (*own, *self._drain_by_commit(statement))
        return (*own, ir.QueueWait(self._tensor_queue(), ZERO, span=span, label=label))


def _either(
    condition: Expression | None, then: ir.Block, otherwise: ir.Block, span: Span | None
) -> ir.Block:
    """A branch, or its one arm where there is nothing to decide."""
    if condition is None:
        return then
    return (ir.Branch(condition, then, otherwise, span=span),)
