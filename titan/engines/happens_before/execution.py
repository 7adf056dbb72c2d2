"""One concrete run of a sync program: one step at a time, faults as they occur.

It executes the unfolded lists of `unfolding`; every fault that it finds comes with the steps that
lead there, which the reference interpreter can replay.
"""

from __future__ import annotations

from titan.engines.happens_before.faults import (
    FaultError,
    fail,
    fence_fault,
    in_flight_fault,
    stale_text,
    unobserved_fault,
)
from titan.engines.happens_before.run_state import RunState
from titan.engines.happens_before.tables import (
    ENGINE,
    OTHER,
    CellTable,
    IssuedOperation,
    Mbarrier,
    MbarrierStatus,
    NamedTrack,
    QueueTable,
)
from titan.engines.happens_before.unfolding import Instance, Touch, keeps_order
from titan.foundation.diagnostics.wording import counted
from titan.sync import program as ir
from titan.sync.fault import Actor, FaultKind, Step
from titan.sync.reductions import commute

TRANSACTION_MAX = 2**20 - 1  # PTX "mbarrier: Contents": range of the transaction count


class OrderedRun(RunState):
    """A run in progress. `steps` are those taken; a fault ends it."""

    # ------------------------------------------------------------------------ stepping

    def step_agent(self, agent: int) -> None:
        """Execute the agent's next operation. Raises FaultError."""
        instance = self.instance_of(agent)
        assert instance is not None
        self.steps.append(Step(Actor.AGENT, agent))
        if instance.bad:
            fail(FaultKind.INDEX_OUT_OF_RANGE, instance.bad, agent, instance)
        if self._execute(agent, instance):
            self._advance(agent)
        self._after_step()

    def step_engine(self, actor: Actor, flight: IssuedOperation) -> None:
        """One step of an engine. Raises FaultError."""
        self.steps.append(Step(actor, flight.agent, flight.ordinal))
        if actor is Actor.READS:
            self._have_read(flight)
            flight.reading = False
        else:
            self._finish_chunk(flight)
        if flight.queue is not None:
            self._retire(flight.queue)
        self._after_step()

    def _retire(self, queue: QueueTable) -> None:
        """What only reads through another proxy is over once it has read; in order, if there is."""
        for flight in list(queue.closed):
            touches = flight.instance.touches
            generic = any(touch.write or touch.proxy is ir.Proxy.GENERIC for touch in touches)
            if not (flight.reading or flight.instance.completes or generic):
                flight.chunks = 1
                self._finish_chunk(flight)
            elif queue.declaration.ordered:
                return

    def _after_step(self) -> None:
        if not all(self._running.values()) and (
            self.layout.program.policies.exit_in_flight != "allow"
        ):
            self._check_exit()
        if self._lap_check:
            for agent in sorted(self._lap_check):
                self._check_lapped(agent)
            self._lap_check.clear()

    def _advance(self, agent: int) -> None:
        self.next[agent] += 1
        if self.at_end(agent):
            self._running[self.layout.ctas[agent]] -= 1
        else:
            self._lap_check.add(agent)

    def _execute(self, agent: int, instance: Instance) -> bool:
        """Execute; returns whether the agent continues."""
        operation = instance.operation
        match operation:
            case ir.Access():
                self._access(agent, instance)
            case ir.Asynchronous(queue=name, chunks=chunks):
                self._issue(agent, instance, name, chunks)
            case ir.QueueArrive(queue=name):
                self._enqueue(agent, instance, name, 1, False)
            case ir.Commit(queue=name):
                self._commit(agent, self.queues[(agent, name)])
            case ir.QueueWait(queue=name, until=until):
                self._queue_wait(agent, instance, name, until is ir.Until.READ)
            case ir.Init():
                self._init(agent, instance)
            case ir.Invalidate():
                self._invalidate(agent, instance)
            case ir.Arrive():
                self._arrive(agent, instance, operation)
            case ir.ExpectTransaction():
                self._expect(agent, instance)
            case ir.Wait():
                self._wait(agent, instance)
            case ir.TokenWait():
                barrier = self._usable(agent, instance)
                self._armed(barrier, agent, instance, "token of this phase or the last")
                self.observer.token_waited(barrier, agent, instance)
                barrier.observed = True
            case ir.BarrierSync() | ir.BarrierArrive():
                return self._named_arrive(agent, instance, isinstance(operation, ir.BarrierSync))
            case ir.BarrierWait():
                named = self.named[instance.key]
                self._armed(named, agent, instance, "arrival of its own before")
                self.observer.named_waited(named, agent)
                named.armed.remove(agent)
            case ir.Fence():
                self._fence(agent, instance, operation)
            case ir.PoolTake() | ir.PoolGive():
                self._change_pool(agent, instance, operation)
            case _:
                raise TypeError(f"no semantics for {type(operation).__name__}")
        return True

    def _change_pool(
        self, agent: int, instance: Instance, operation: ir.PoolTake | ir.PoolGive
    ) -> None:
        name = operation.pool
        if instance.amount < 0:
            message = f"a negative amount of {name} is named"
            fail(FaultKind.POOL_MISUSE, message, agent, instance, name)
        if isinstance(operation, ir.PoolTake):
            self.observer.pool_taken(agent, instance)
            self.pools[name] -= instance.amount
        else:
            self.observer.pool_given(agent, instance)
            self.pools[name] += instance.amount

    # ------------------------------------------------------------------------- memory

    def _exited(self, agent: int, instance: Instance, cta: int, name: str) -> None:
        """A CTA whose agents are all at their end no longer owns its memory."""
        if self.layout.program.policies.exit_in_flight == "allow":
            return
        if self._running.get(cta) == 0:
            message = f"{name} belongs to CTA {cta}, which has ended"
            fail(FaultKind.LEAK_AT_EXIT, message, agent, instance, name)

    def _check_touches(self, agent: int, instance: Instance, queue: QueueTable | None) -> None:
        for name, cta in instance.far:
            self._exited(agent, instance, cta, name)
        piped = queue if queue is not None and queue.pairs else None
        for touch in instance.touches:
            cell = self.cells[touch.cell]
            if cell.proxy_state.live:
                self._check_cached(agent, instance, touch, cell)
            if isinstance(instance.operation, ir.Asynchronous):
                self._check_proxy(agent, instance, touch, cell)
            held = cell.tile
            for flight, other in cell.holders:
                if commute(touch.reduction, other.reduction):
                    continue
                writes = other.write
                if piped and flight.queue is piped and keeps_order(piped.pairs, other, touch):
                    if not touch.write:
                        held = OTHER if other.tile is None else other.tile
                elif writes or (touch.write and flight.reading):
                    raise FaultError(
                        in_flight_fault(agent, instance, touch.cell, touch.write, flight, writes)
                    )
            reads = not touch.write or touch.reduction
            if reads and touch.tile is not None and touch.tile != held:
                text = stale_text(self.layout, touch.cell, held, touch.tile)
                fail(FaultKind.STALE_READ, text, agent, instance, touch.cell[0])

    def _access(self, agent: int, instance: Instance) -> None:
        self._check_touches(agent, instance, None)
        self.observer.access(agent, instance)
        for touch in instance.touches:
            cell = self.cells[touch.cell]
            proxy = touch.proxy if touch.proxy in ir.CACHED else ir.Proxy.GENERIC
            self._note(touch, cell, proxy, agent)
            cell.fill(touch)
            if proxy is not ir.Proxy.GENERIC:
                continue
            if touch.write:
                cell.writers.add(agent)
                cell.authors.add(agent)
                cell.released = False
            else:
                cell.readers.add(agent)

    def _note(self, touch: Touch, cell: CellTable, proxy: ir.Proxy, agent: int) -> None:
        """Keep the access in mind where a cached proxy reaches the cell; -1: an engine's."""
        if touch.cell in self.layout.cached:
            cta = self.layout.ctas[agent] if agent != ENGINE else -1
            cell.proxy_state.note(proxy, cta, agent, touch.write)

    def _check_cached(self, agent: int, instance: Instance, touch: Touch, cell: CellTable) -> None:
        """Of two accesses of different proxies, one of them cached, both proxies are fenced."""
        asynchronous = isinstance(instance.operation, ir.Asynchronous)
        proxy = touch.proxy if asynchronous or touch.proxy in ir.CACHED else ir.Proxy.GENERIC
        places = {self.layout.ctas[agent]}
        if proxy is ir.Proxy.ASYNC:
            places |= {self.layout.homes.get(touch.cell[0], self.layout.ctas[agent])}
        if cell.proxy_state.unseen(proxy, places, touch.write):
            kind = FaultKind.MISSING_CACHED_FENCE
            raise FaultError(fence_fault(kind, agent, instance, touch.cell))

    def _check_proxy(self, agent: int, instance: Instance, touch: Touch, cell: CellTable) -> None:
        """Generic accesses must be fenced before another proxy uses the same memory."""
        proxy = touch.proxy
        name = touch.cell
        kind = None
        if proxy is ir.Proxy.ASYNC:
            unread = cell.readers or any(cell.proxy_state.pending(agent, w) for w in (True, False))
            war = self.layout.program.policies.war_fence and unread
            if cell.writers or cell.proxy_state.pending(agent, True):
                kind = FaultKind.MISSING_FENCE
            elif touch.write and war:
                kind = FaultKind.MISSING_FENCE_WAR
        elif proxy is ir.Proxy.TENSORMAP and (cell.authors or cell.released):
            kind = FaultKind.MISSING_TENSORMAP_FENCE
        if kind is not None:
            raise FaultError(fence_fault(kind, agent, instance, name))

    def _issue(self, agent: int, instance: Instance, name: str | None, chunks: int) -> None:
        queue = None if name is None else self.queues[(agent, name)]
        self._check_touches(agent, instance, queue)
        if instance.bad_completion:
            fail(FaultKind.INDEX_OUT_OF_RANGE, instance.bad_completion, agent, instance)
        flight = self._enqueue(agent, instance, name, chunks, True)
        for touch in instance.touches:
            self.cells[touch.cell].holders.append((flight, touch))

    def _enqueue(
        self, agent: int, instance: Instance, name: str | None, chunks: int, reading: bool
    ) -> IssuedOperation:
        queue = None if name is None else self.queues[(agent, name)]
        flight = IssuedOperation(
            agent, self.issued[agent], instance, self.next[agent], queue, chunks, reading
        )
        self.issued[agent] += 1
        if queue is None:
            self.free_flights.append(flight)
        else:
            flight.position = queue.issued
            queue.issued += 1
            if queue.declaration.grouped:
                queue.open.append(flight)
            else:
                queue.groups += 1
                flight.group = queue.groups
                queue.group_ends.append(queue.issued)
                queue.closed.append(flight)
                self.busy_queues[(agent, queue.declaration.name)] = queue
        self.observer.issued(flight)
        if queue is not None and queue.open and isinstance(instance.operation, ir.QueueArrive):
            self._may_finish(agent, queue)  # PTX: cp.async.mbarrier.arrive needs no commit
        return flight

    def _may_finish(self, agent: int, queue: QueueTable) -> None:
        """All of the open group belongs to the next group that is closed, and may finish now."""
        for flight in queue.open:
            flight.group = queue.groups + 1
        self.observer.committed(agent, queue, queue.open)
        queue.closed += queue.open
        queue.open = []
        if queue.closed:
            self.busy_queues[(agent, queue.declaration.name)] = queue

    def _commit(self, agent: int, queue: QueueTable) -> None:
        self._may_finish(agent, queue)
        queue.groups += 1
        queue.group_ends.append(queue.issued)

    def _queue_wait(self, agent: int, instance: Instance, name: str, reads: bool) -> None:
        queue = self.queues[(agent, name)]
        over = queue.groups - instance.amount
        covered = queue.group_ends[over - 1] if over > 0 else 0
        exact = queue.declaration.ordered or instance.amount == 0 or covered == 0
        self.observer.queue_waited(agent, queue, reads, covered, exact)

    def _finish_chunk(self, flight: IssuedOperation) -> None:
        """An engine completes one chunk of a flight, or all that is left of it."""
        instance = flight.instance
        operation = instance.operation
        last = flight.chunks == 1
        if last:
            self._land(flight)
        for key, amount in instance.completes:
            barrier = self.barriers[key]
            self._check_status(barrier, flight.agent, instance, True)
            self._exited(flight.agent, instance, barrier.cta, barrier.text)
            if not isinstance(operation, ir.Asynchronous):
                self.observer.arriving(barrier, flight.agent, instance, flight)
                self._count_down(barrier, flight.agent, instance, amount, 0)
                continue
            share = amount // operation.chunks
            part = amount - share * (operation.chunks - 1) if last else share
            self.observer.transacting(barrier, flight, part)
            barrier.transaction -= part
            self._settle(barrier, flight.agent, instance)
        if not last:
            flight.chunks -= 1
            return
        flight.over = True
        if flight.queue is None:
            self.free_flights.remove(flight)
        else:
            flight.queue.closed.remove(flight)
            if not flight.queue.closed:
                del self.busy_queues[(flight.agent, flight.queue.declaration.name)]

    def _land(self, flight: IssuedOperation) -> None:
        """The effects of a flight on memory when it ends."""
        self._have_read(flight)
        for touch in flight.instance.touches:
            cell = self.cells[touch.cell]
            if touch.write or touch.proxy is ir.Proxy.GENERIC:
                self._note(touch, cell, touch.proxy, ENGINE)
            cell.fill(touch)
            if touch.write:
                cell.authors.add(ENGINE)
                cell.released = False
                if touch.proxy is ir.Proxy.GENERIC:
                    cell.writers.add(ENGINE)
            elif touch.proxy is ir.Proxy.GENERIC:
                cell.readers.add(ENGINE)
        for touch in flight.instance.touches:
            cell = self.cells[touch.cell]
            cell.holders = [holder for holder in cell.holders if holder[0] is not flight]

    def _have_read(self, flight: IssuedOperation) -> None:
        """The engine's reads through other proxies are over, if they were not before."""
        for touch in flight.instance.touches if flight.reading else ():
            if not touch.write and touch.proxy is not ir.Proxy.GENERIC:
                self._note(touch, self.cells[touch.cell], touch.proxy, ENGINE)

    def _fence(self, agent: int, instance: Instance, operation: ir.Fence) -> None:
        self.observer.fenced(agent, instance)
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            for barrier in self.barriers.values():
                if barrier.status is MbarrierStatus.INITIALISED and barrier.owner == agent:
                    barrier.status = MbarrierStatus.LIVE
            return
        path = self.layout.program.policies.fence_rule == "path"
        cta = self.layout.ctas[agent]
        for name, cell in self.cells.items():
            state = cell.proxy_state
            marked = cell.writers or cell.readers or cell.authors or cell.released
            if not (marked or state.live or state.pending_releases):
                continue
            covered, near = self.layout.fence_covers(operation, name, cta)
            if covered:
                self._fence_cell(cell, operation.kind, agent, path and near)

    def _fence_cell(self, cell: CellTable, kind: ir.FenceKind, agent: int, everyone: bool) -> None:
        """A fence on one cell, for the agent's own accesses and engines' or for everyone's."""
        cta = self.layout.ctas[agent]
        cleared = {agent, ENGINE}
        if everyone:
            cleared |= cell.writers | cell.readers | cell.authors
            cleared |= {author for author, _ in cell.proxy_state.pending_releases}
        match kind:
            case ir.FenceKind.ASYNC:
                cell.writers -= cleared
                cell.readers -= cleared
                cell.proxy_state.settle(cleared)
                cell.proxy_state.fence(ir.Proxy.ASYNC, cta)
            case ir.FenceKind.ASYNC_RELEASE:
                cell.proxy_state.release(cell.writers & cleared, cell.readers & cleared)
                cell.writers -= cleared
                cell.readers -= cleared
            case ir.FenceKind.ASYNC_ACQUIRE:
                cell.proxy_state.acquire(agent)
            case ir.FenceKind.TENSORMAP_ACQUIRE:
                cell.released = False
            case ir.FenceKind.TENSORMAP_RELEASE:
                if cell.authors:
                    cell.authors -= cleared
                    cell.released = not cell.authors
            case _:
                left = cell.proxy_state.fence(ir.CACHED_FENCES[kind], cta)
                if left:
                    cell.authors |= left
                    cell.released = False

    # ---------------------------------------------------------------------- mbarriers

    def _usable(self, agent: int, instance: Instance) -> Mbarrier:
        barrier = self.barriers[instance.key]
        remote = barrier.cta != self.layout.ctas[agent]
        self._check_status(barrier, agent, instance, remote)
        if remote:
            self._exited(agent, instance, barrier.cta, barrier.text)
        return barrier

    def _check_status(self, barrier: Mbarrier, agent: int, instance: Instance, far: bool) -> None:
        if barrier.status is MbarrierStatus.DEAD:
            message = f"{barrier.text} is used before it is initialised or after it was invalidated"
            kind = FaultKind.BARRIER_UNINITIALISED
            fail(kind, message, agent, instance, barrier.key[0])
        if far and barrier.status is MbarrierStatus.INITIALISED:
            message = f"the initialisation of {barrier.text} is not published by a fence"
            fail(FaultKind.UNPUBLISHED_INIT, message, agent, instance, barrier.key[0])

    def _settle(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """Complete the phase when nothing is outstanding."""
        name = barrier.key[0]
        if abs(barrier.transaction) > TRANSACTION_MAX:
            message = f"{barrier.text} overflows its transaction count"
            fail(FaultKind.TRANSACTION_MISMATCH, message, agent, instance, name)
        if barrier.pending:
            return
        if barrier.transaction < 0:
            message = f"{barrier.text} receives more bytes than its phase expects"
            fail(FaultKind.TRANSACTION_MISMATCH, message, agent, instance, name)
        if barrier.transaction == 0:
            barrier.pending = barrier.expected
            barrier.phase += 1
            barrier.armed, barrier.tokens = barrier.tokens, set()
            barrier.observed = self.runs_ahead and barrier.key[0] not in self.layout.peer_commits
            self.observer.mbarrier_completed(barrier)
            self._lap_check.update(range(len(self.agents)))

    def _count_down(
        self, barrier: Mbarrier, agent: int, instance: Instance, count: int, size: int
    ) -> None:
        if count < 0 or count > barrier.pending or barrier.expected < 0:
            message = f"{barrier.text} gets more arrivals than its phase expects"
            fail(FaultKind.OVER_ARRIVAL, message, agent, instance, barrier.key[0])
        if count and not barrier.observed and not self.runs_ahead:
            raise FaultError(unobserved_fault(barrier, agent, instance))
        barrier.pending -= count
        barrier.transaction += size
        self._settle(barrier, agent, instance)

    def _arrive(self, agent: int, instance: Instance, operation: ir.Arrive) -> None:
        barrier = self._usable(agent, instance)
        self.observer.arriving(barrier, agent, instance, None)
        if operation.token:
            barrier.tokens.add(agent)
            barrier.armed.add(agent)
        if operation.drop:
            barrier.expected -= instance.amount
        self._count_down(barrier, agent, instance, instance.amount, instance.size)

    def _expect(self, agent: int, instance: Instance) -> None:
        barrier = self._usable(agent, instance)
        if barrier.pending == 0:
            message = f"bytes are expected on {barrier.text} after the last arrival of its phase"
            kind = FaultKind.TRANSACTION_MISMATCH
            fail(kind, message, agent, instance, barrier.key[0])
        self.observer.expecting(barrier, agent, instance)
        barrier.transaction += instance.size
        self._settle(barrier, agent, instance)

    def _wait(self, agent: int, instance: Instance) -> None:
        barrier = self._usable(agent, instance)
        if instance.phase is not None and barrier.phase != instance.phase + 1:
            fail(
                FaultKind.LAPPED_WAIT,
                f"the wait for phase {instance.phase} of {barrier.text} passes after "
                f"{counted(barrier.phase, 'completed phase')}",
                agent,
                instance,
                barrier.key[0],
            )
        self.observer.waited(barrier, agent, instance)
        barrier.observed = True

    def _init(self, agent: int, instance: Instance) -> None:
        barrier = self.barriers[instance.key]
        if barrier.status:
            message = f"{barrier.text} is initialised while it is live"
            fail(FaultKind.BARRIER_LIFECYCLE, message, agent, instance, barrier.key[0])
        published = self.layout.program.policies.barrier_init == "assumed"
        barrier.status = MbarrierStatus.LIVE if published else MbarrierStatus.INITIALISED
        barrier.owner = agent
        barrier.expected = barrier.pending = instance.amount
        barrier.transaction = barrier.phase = 0
        barrier.tokens.clear()
        barrier.armed.clear()
        barrier.observed = True
        barrier.generation += 1
        self.observer.initialised(barrier, agent, instance)

    def _invalidate(self, agent: int, instance: Instance) -> None:
        barrier = self.barriers[instance.key]
        name = barrier.key[0]
        if barrier.status is MbarrierStatus.DEAD:
            message = f"{barrier.text} is invalidated while it is not live"
            fail(FaultKind.BARRIER_UNINITIALISED, message, agent, instance, name)
        used = any(
            key == barrier.key for flight in self.flights() for key, _ in flight.instance.completes
        )
        waiting = any(
            following is not None
            and isinstance(following.operation, ir.Wait | ir.TokenWait)
            and following.key == barrier.key
            for following in map(self.instance_of, range(len(self.agents)))
        )
        if used or barrier.tokens or waiting:
            message = f"{barrier.text} is invalidated while it is in use"
            fail(FaultKind.BARRIER_LIFECYCLE, message, agent, instance, name)
        self.observer.invalidated(barrier, agent, instance)
        barrier.status = MbarrierStatus.DEAD

    # ------------------------------------------------------------------ named barriers

    def _armed(
        self, barrier: Mbarrier | NamedTrack, agent: int, instance: Instance, what: str
    ) -> None:
        """A wait needs the agent's own arrival or token (PTX, barrier.cluster and test_wait)."""
        if agent not in barrier.armed:
            message = f"{self.agents[agent].name} waits at {barrier.text} without a"
            message += f"n {what}" if what[0] == "a" else f" {what}"
            fail(FaultKind.NAMED_BARRIER_MISUSE, message, agent, instance, barrier.key[0])

    def _named_arrive(self, agent: int, instance: Instance, sync: bool) -> bool:
        named = self.named[instance.key]
        threads = instance.amount
        kind, name = FaultKind.NAMED_BARRIER_MISUSE, named.key[0]
        counted = self.layout.counted_arrivals and named.declaration.scope is ir.Scope.CTA
        if agent in named.members and not counted:
            who = self.agents[agent].name
            message = f"{who} arrives at {named.text} again before it has completed"
            fail(kind, message, agent, instance, name)
        arrived = named.arrived + self.agents[agent].role.threads
        if named.threads not in (0, threads) or arrived > threads:
            message = (
                f"{named.text} counts {arrived} of {threads} threads where "
                f"{named.threads or threads} are expected"
            )
            fail(kind, message, agent, instance, name)
        self.observer.named_arriving(named, agent, instance, sync)
        (named.armed.discard if sync else named.armed.add)(agent)
        if arrived < threads:
            named.arrived, named.threads = arrived, threads
            named.members[agent] = sync
            if sync:
                self.held_in[agent] = named
            return not sync
        released = [other for other, waits in named.members.items() if waits]
        named.arrived = named.threads = 0
        named.members = {}
        named.generation += 1
        self.observer.named_completed(named, [*released, agent] if sync else released)
        for other in released:
            self.held_in[other] = None
            self._advance(other)
        return True

    # -------------------------------------------------------------- faults of a state

    def _check_exit(self) -> None:
        """No engine may use the memory or a barrier of a CTA whose agents are all at their end."""
        ended = {cta for cta, running in self._running.items() if not running}
        for flight in self.flights():
            touched = {
                self.layout.homes.get(touch.cell[0], -1)
                for touch in flight.instance.touches
                if touch.write or flight.reading
            }
            touched |= {self.barriers[key].cta for key, _ in flight.instance.completes}
            if touched & ended:
                message = "the CTA ends while an asynchronous operation that uses it is in flight"
                fail(FaultKind.LEAK_AT_EXIT, message, flight.agent, flight.instance)
        if unwaited := self.unwaited_commit(ended):
            raise FaultError(unwaited)

    def _check_lapped(self, agent: int) -> None:
        """A waiting agent whose phase is two behind sleeps through it (PTX test_wait)."""
        instance = self.instance_of(agent)
        if instance is None or instance.phase is None:
            return
        barrier = self.barriers.get(instance.key)
        if barrier and barrier.status and barrier.phase > instance.phase + 1:
            fail(
                FaultKind.LAPPED_WAIT,
                f"{self.agents[agent].name} still waits for phase {instance.phase} of "
                f"{barrier.text} after {counted(barrier.phase, 'completed phase')}",
                agent,
                instance,
                barrier.key[0],
            )
