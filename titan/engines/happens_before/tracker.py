"""Follows one run to its end and collects what the order of its events leaves open."""

from __future__ import annotations

from titan.engines.happens_before.clocks import (
    BarrierTrack,
    Clock,
    Clocks,
    FlightTrack,
    Timestamp,
)
from titan.engines.happens_before.findings import SuspicionCollector
from titan.engines.happens_before.lifetime import ExitRules
from titan.engines.happens_before.memory import MemoryObserver
from titan.engines.happens_before.observer import Observer
from titan.engines.happens_before.phases import PhaseRules
from titan.engines.happens_before.pools import PoolRules
from titan.engines.happens_before.readings import STRICT, Readings
from titan.engines.happens_before.run_state import RunState
from titan.engines.happens_before.tables import (
    IssuedOperation,
    Mbarrier,
    NamedTrack,
    QueueTable,
    RunLayout,
)
from titan.engines.happens_before.unfolding import Instance, published
from titan.sync import program as ir


class Tracker(Observer):
    """Keeps the clocks of a run and passes each event to the rules it concerns."""

    def __init__(self, layout: RunLayout, first: bool = False, readings: Readings = STRICT) -> None:
        self._layout = layout
        self._readings = readings
        self.clocks = Clocks(layout)
        self.findings = SuspicionCollector(first, readings.narrow_reads)
        self._memory = MemoryObserver(self.clocks, layout, self.findings)
        self._phases = PhaseRules(self.clocks, layout, self.findings)
        self._exits = ExitRules(self.clocks, layout, self.findings)
        self._pools = PoolRules(self.clocks, layout, self.findings)
        self.execution: RunState | None = None

    def _at(self, agent: int) -> Timestamp:
        assert self.execution is not None
        return self.clocks.timestamp(self.execution, agent)

    def track(self, barrier: Mbarrier) -> BarrierTrack:
        """What is known of an mbarrier so far."""
        return self._phases.track(barrier)

    def ended(self) -> None:
        """The run has reached the end of every agent."""
        assert self.execution is not None
        self._phases.at_end(self.execution.barriers)
        self._exits.at_end(self.execution)
        self._pools.at_end()

    # ------------------------------------------------------------------------ memory

    def access(self, agent: int, instance: Instance) -> None:
        """An agent's own access to memory, for the rules of reach and of memory."""
        at = self._at(agent)
        self._far(at, instance)
        self._memory.access(at, instance)

    def _far(self, at: Timestamp, instance: Instance) -> None:
        for name, cta in instance.far:
            self._exits.remote(at, instance, cta, name)

    def fenced(self, agent: int, instance: Instance) -> None:
        """A fence of an agent; one for barrier inits publishes them, others concern memory."""
        operation = instance.operation
        assert isinstance(operation, ir.Fence)
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            self._phases.publish(self._at(agent))
        else:
            self._memory.fence(self._at(agent), operation)

    # ----------------------------------------------------------------------- flights

    def issued(self, flight: IssuedOperation) -> None:
        """An operation is handed to an engine; until a commit it is ready from here on."""
        at = self._at(flight.agent)
        self.clocks.flights[flight] = FlightTrack(at, at)
        self._far(at, flight.instance)
        self._phases.issue(at, flight)
        if isinstance(flight.instance.operation, ir.Asynchronous):
            self._memory.issue(at, flight)

    def committed(self, agent: int, queue: QueueTable, flights: list[IssuedOperation]) -> None:
        """The flights join a group: their engines may start from the commit on."""
        at = self._at(agent)
        for flight in flights:
            self.clocks.flights[flight].ready = at

    def queue_waited(
        self, agent: int, queue: QueueTable, reads: bool, covered: int, exact: bool
    ) -> None:
        """A wait covers the first `covered` operations; only an exact count orders anything."""
        clocks = self.clocks
        # An unordered queue with some left orders nothing: fewer edges are on the safe side.
        if exact and covered:
            clocks.raise_slot(agent, clocks.read_slot(queue), covered)
            if not reads:
                clocks.raise_slot(agent, clocks.finish_slot(queue), covered)

    def _engine(self, flight: IssuedOperation, slot_values: dict[int, int]) -> tuple[Clock, Clock]:
        """The clocks of an engine's step: the issue (or commit), and the order of the queue."""
        clock, seen = self.clocks.after(self.clocks.flights[flight].ready)
        for slot, value in slot_values.items():
            clock[slot] = max(clock[slot], value)
            seen[slot] = max(seen[slot], value)
        return clock, seen

    def _engine_timestamps(self, flight: IssuedOperation) -> tuple[Timestamp, tuple[Clock, Clock]]:
        queue = flight.queue
        if queue is None or not queue.declaration.ordered:
            clock, seen = self._engine(flight, {})
            return Timestamp(-1, 0, clock, seen), (clock, seen)
        read, finish = self.clocks.read_slot(queue), self.clocks.finish_slot(queue)
        place = flight.position
        before = self._engine(flight, {read: place + 1, finish: place})
        # Only the last chunk ends the operation.
        ended = place + 1 if flight.chunks == 1 else place
        after = self._engine(flight, {read: place + 1, finish: ended})
        return Timestamp(-1, 0, *before), after

    def _finished(self, flight: IssuedOperation) -> Clock:
        """What an arrival that an engine makes publishes: what its queue has finished before it.

        It is not a release of what its agent did or knew (PTX, tcgen05.commit and
        cp.async.mbarrier.arrive: they make an mbarrier track the prior operations of their kind).
        """
        finished = self.clocks.zero.copy()
        queue = flight.queue
        if queue is not None and queue.declaration.ordered:
            ended = flight.position + 1
            finished[self.clocks.read_slot(queue)] = ended
            finished[self.clocks.finish_slot(queue)] = ended
        return finished

    # ---------------------------------------------------------------------- mbarriers

    def arriving(
        self, barrier: Mbarrier, agent: int, instance: Instance, flight: IssuedOperation | None
    ) -> None:
        """An arrival at an mbarrier, of the agent itself or, with `flight`, of an engine."""
        if flight is None:
            at = self._at(agent)
            self._remote(barrier, at, instance)
            self._phases.arrive(barrier, at, instance, None, self.clocks.after(at))
        else:
            at, after = self._engine_timestamps(flight)
            seen = after[1] if self._readings.engines_relay else self._finished(flight)
            self._phases.arrive(barrier, at, instance, flight, (after[0], seen))

    def transacting(self, barrier: Mbarrier, flight: IssuedOperation, amount: int) -> None:
        """An engine completes `amount` bytes of transaction at an mbarrier."""
        at, after = self._engine_timestamps(flight)
        self._phases.transact(barrier, at, flight, amount, after)
        scope = published(flight.instance, barrier.key)
        if amount and self._readings.engines_relay:
            home = self._layout.barrier_ctas[barrier.key[0]]
            self._phases.relay(barrier, after[1], ir.Scope.CLUSTER, home)
        elif amount and scope is not None:
            self._phases.relay(barrier, after[1], scope, self._layout.ctas[flight.agent])

    def expecting(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """An agent raises the bytes that the current phase of an mbarrier expects."""
        at = self._at(agent)
        self._remote(barrier, at, instance)
        self._phases.expect(barrier, at, instance)

    def _remote(self, barrier: Mbarrier, at: Timestamp, instance: Instance) -> None:
        if barrier.cta != self._layout.ctas[at.agent]:
            counted = (self._phases.track(barrier).slot, barrier.phase + 1)
            self._exits.remote(at, instance, barrier.cta, barrier.text, counted)

    def mbarrier_completed(self, barrier: Mbarrier) -> None:
        """The current phase of the mbarrier is complete; waits for it may pass."""
        self._phases.complete(barrier)

    def waited(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """A wait for a phase has passed; a barrier of another CTA must still exist then."""
        at = self._at(agent)
        self._remote(barrier, at, instance)
        assert isinstance(instance.operation, ir.Wait)
        self._phases.wait(barrier, at, instance, instance.operation)

    def token_waited(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """A wait for an arrival token has passed, in place of a parity."""
        at = self._at(agent)
        self._remote(barrier, at, instance)
        assert isinstance(instance.operation, ir.TokenWait)
        self._phases.token_wait(barrier, at, instance, instance.operation)

    def initialised(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """An agent has initialised the mbarrier, which is not published by that alone."""
        self._phases.initialise(barrier, self._at(agent), instance)

    def invalidated(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """An agent has ended the life of the mbarrier."""
        self._phases.invalidate(barrier, self._at(agent), instance)

    # ---------------------------------------------------------------- named barriers

    def named_arriving(self, named: NamedTrack, agent: int, instance: Instance, sync: bool) -> None:
        """An agent arrives at a named barrier; `sync` makes no difference to clocks."""
        self._phases.named_arrive(named, self._at(agent), instance)

    def named_completed(self, named: NamedTrack, released: list[int]) -> None:
        """All have arrived at a named barrier, and the agents in `released` continue."""
        self._phases.named_complete(named, released)

    def named_waited(self, named: NamedTrack, agent: int) -> None:
        """An agent passes the wait that belongs to its earlier arrival."""
        assert self.execution is not None
        instance = self.execution.instance_of(agent)
        assert instance is not None and isinstance(instance.operation, ir.BarrierWait)
        self._phases.named_wait(named, agent, instance.operation)

    # ------------------------------------------------------------------------- pools

    def pool_taken(self, agent: int, instance: Instance) -> None:
        """An agent has taken from a pool; judged at the end of the run."""
        assert isinstance(instance.operation, ir.PoolTake)
        self._pools.take(self._at(agent), instance, instance.operation.pool)

    def pool_given(self, agent: int, instance: Instance) -> None:
        """An agent has given to a pool; judged at the end of the run."""
        assert isinstance(instance.operation, ir.PoolGive)
        self._pools.give(self._at(agent), instance, instance.operation.pool)
