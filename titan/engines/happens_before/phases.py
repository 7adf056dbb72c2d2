"""Which phase each barrier operation falls into, in every interleaving.

Let c be the number of phases of a barrier that are complete when an operation on it executes in the
run. One run represents all if, in every interleaving, every operation meets the same c:

- An arrival, an expectation of bytes and a completion of bytes come after the completion of phase
  c. They cannot come later than the next one, because that one counts all of them: arrivals must
  add up, and bytes too, provided that every expectation is before some arrival of its phase (PTX:
  pending count and transaction count both zero).
- A parity wait that passed at c cannot be met earlier than at c - 1 nor later than at c, where the
  parity decides: completion c - 1 is before it, and it is itself before completion c + 1.

The second half of the latter is the lapping rule. If it fails, the waiter can be held while the
barrier continues to c + 1: with the phase known that is a lapped wait (TTN212), otherwise the
parity looks as if nothing had happened, and the waiter sleeps until c + 2 or forever. If it holds,
then in every reachable state in which the agent stands at the wait the barrier is at c - 1 or c, so
the wait passes exactly when completion c has happened. By induction over the steps of any
interleaving, all executed events are a down-closed part of the run's order; the first event of the
run that has not been executed is always possible, so nothing deadlocks; and what holds for all such
parts holds for all interleavings. Where a rule fails, the finding is a DEVIATION, to be shown by a
run or reported as the reason why one run does not decide.

Barriers that the program initialises: every use is after the initialisation (and its publication,
for engines and other CTAs) and before the invalidation.
"""

from __future__ import annotations

from dataclasses import replace

from titan.engines.happens_before.clocks import (
    BarrierTrack,
    Clock,
    Clocks,
    PhaseClock,
    Timestamp,
    new_point,
)
from titan.engines.happens_before.execution import TRANSACTION_MAX
from titan.engines.happens_before.faults import unobserved_fault
from titan.engines.happens_before.findings import (
    Plan,
    SuspicionCollector,
    Weight,
    bounds_of,
    name_of,
    up_to,
    with_event,
)
from titan.engines.happens_before.tables import IssuedOperation, Mbarrier, NamedTrack, RunLayout
from titan.engines.happens_before.unfolding import Instance, Key
from titan.sync import program as ir
from titan.sync.fault import Fault, FaultKind
from titan.sync.parts import order_of


class PhaseRules:
    """Hears what happens to barriers; keeps their points and adds findings."""

    def __init__(self, clocks: Clocks, layout: RunLayout, findings: SuspicionCollector) -> None:
        self._clocks = clocks
        self._layout = layout
        self._findings = findings
        self.tracks: dict[Key, BarrierTrack] = {}
        self._named: dict[Key, BarrierTrack] = {}
        self._publishing = layout.program.policies.barrier_init != "assumed"

    # ------------------------------------------------------------------------- tables

    def track(self, barrier: Mbarrier) -> BarrierTrack:
        """The record of the barrier's present generation."""
        track = self.tracks.get(barrier.key)
        if track is None:
            slot = self._clocks.barrier_slot(barrier.key, 0)
            track = BarrierTrack(barrier.key, slot, expected=barrier.expected)
            self.tracks[barrier.key] = track
        return track

    def _point(self, track: BarrierTrack, phase: int) -> PhaseClock:
        while len(track.points) <= phase:
            track.points.append(new_point(self._clocks))
        return track.points[phase]

    def _named_track(self, named: NamedTrack) -> BarrierTrack:
        track = self._named.get(named.key)
        if track is None:
            track = BarrierTrack(named.key, self._clocks.named_slot(named.key))
            self._named[named.key] = track
        return track

    def _contribute(
        self,
        point: PhaseClock,
        cta: int,
        scope: ir.Scope,
        order: ir.Order,
        clock: Clock,
        seen: Clock,
    ) -> None:
        nothing = self._clocks.zero
        if clock is not nothing:
            point.clock = list(map(max, point.clock, clock))
        if not self._clocks.weak or order is ir.Order.RELAXED:
            return
        near = point.seen_near.get(cta)
        point.seen_near[cta] = seen if near is None else list(map(max, near, seen))
        if scope is ir.Scope.CLUSTER:
            point.seen_cluster = list(map(max, point.seen_cluster, seen))

    def _learn(
        self, agent: int, track: BarrierTrack, phases: int, scope: ir.Scope, order: ir.Order
    ) -> None:
        """The agent learns that `phases` phases are complete."""
        clocks = self._clocks
        if phases <= 0 or (not clocks.weak and clocks.now[agent][track.slot] >= phases):
            return
        point = track.points[phases - 1]
        seen = None
        if clocks.weak and order is not ir.Order.RELAXED:
            seen = point.seen_near.get(self._layout.ctas[agent], clocks.zero).copy()
            if scope is ir.Scope.CLUSTER:
                seen = list(map(max, seen, point.seen_cluster))
            seen[track.slot] = phases
        clock = point.clock.copy()
        clock[track.slot] = phases
        clocks.join(agent, clock, seen)

    # ----------------------------------------------------------------------- findings

    def _deviation(
        self,
        kind: FaultKind,
        message: str,
        instance: Instance,
        *plans: Plan,
        weight: Weight = Weight.DEVIATION,
    ) -> None:
        fault = Fault(kind, message, (), (instance.operation,), instance.key[0])
        self._findings.add(weight, fault, *plans)

    def _reach(
        self, at: Timestamp, flight: IssuedOperation | None, open_point: PhaseClock | None = None
    ) -> Plan:
        """Execute the event with nothing but what must be before it.

        What the phase of `open_point` still lacks then, engines are not to complete.
        """
        bounds = bounds_of(self._clocks, at)
        missing = [] if open_point is None else open_point.flights
        hold = {
            name_of(other): False
            for other in missing
            if other is not flight and not self._clocks.over(other, at)
        }
        if flight is None:
            return Plan(bounds, hold, last=at.agent, goes_on=True, favoured=at.agent)
        issue = self._clocks.flights[flight].ready
        bounds = [max(a, b) for a, b in zip(bounds, bounds_of(self._clocks, issue), strict=True)]
        bounds = with_event(bounds, issue.agent, issue.index)
        landing = [name_of(flight)]
        return Plan(bounds, hold, landing, goes_on=True, favoured=flight.agent)

    # ---------------------------------------------------------------------- lifecycle

    def use(
        self,
        barrier: Mbarrier,
        at: Timestamp,
        instance: Instance,
        flight: IssuedOperation | None = None,
    ) -> BarrierTrack:
        """Any operation on a live barrier."""
        track = self.track(barrier)
        clocks = self._clocks
        if track.initialised is not None:
            far = flight is not None or barrier.cta != self._layout.ctas[at.agent]
            if not clocks.before(*track.initialised, at):
                message = f"{barrier.text} may be used before it is initialised"
                plan = self._reach(at, flight)
                self._deviation(FaultKind.BARRIER_UNINITIALISED, message, instance, plan)
            elif (
                far
                and self._publishing
                and (track.published is None or not clocks.before(*track.published, at))
            ):
                message = f"{barrier.text} may be used before its initialisation is published"
                plan = self._reach(at, flight)
                self._deviation(FaultKind.UNPUBLISHED_INIT, message, instance, plan)
            elif clocks.weak and not self._knows_of(track, at):
                self._unseen_init(track, barrier, at, instance)
        if flight is None:
            track.uses[at.agent] = (at.index, at)
        elif flight not in track.flights[-1:]:
            track.flights.append(flight)
        return track

    def _knows_of(self, track: BarrierTrack, at: Timestamp) -> bool:
        """Whether who uses a barrier at `at` sees that it is initialised.

        Behind `fence.mbarrier_init` order is enough, as by a relaxed arrival of the cluster.
        """
        assert track.initialised is not None
        if track.published is not None and self._clocks.before(*track.published, at):
            return True
        return self._clocks.before(*track.initialised, at, seen=True)

    def _unseen_init(
        self, track: BarrierTrack, barrier: Mbarrier, at: Timestamp, instance: Instance
    ) -> None:
        assert track.initialised is not None
        agent, index = track.initialised
        fault = Fault(
            FaultKind.WEAK_SYNCHRONISATION,
            f"the initialisation of {barrier.text} comes before its use by synchronisation that "
            "carries no visibility",
            (agent, at.agent),
            (self._layout.agents[agent].instances[index].operation, instance.operation),
            barrier.key[0],
        )
        self._findings.add(Weight.WEAK, fault, Plan(bounds_of(self._clocks, at), last=at.agent))

    def initialise(self, barrier: Mbarrier, at: Timestamp, instance: Instance) -> None:
        """`barrier.generation` counts this initialisation already."""
        old = self.tracks.get(barrier.key)
        slot = self._clocks.barrier_slot(barrier.key, barrier.generation)
        track = BarrierTrack(barrier.key, slot, (at.agent, at.index), expected=instance.amount)
        self.tracks[barrier.key] = track
        if old is not None and old.invalidated is not None:
            track.replaced = old.invalidated
            agent, index, _ = old.invalidated
            if not self._clocks.before(agent, index, at):
                message = f"{barrier.text} may be initialised before it is invalidated"
                plan = self._reach(at, None)
                self._deviation(FaultKind.BARRIER_LIFECYCLE, message, instance, plan)

    def publish(self, at: Timestamp) -> None:
        """A fence publishes what its agent has initialised."""
        for track in self.tracks.values():
            if track.initialised and track.initialised[0] == at.agent and not track.published:
                track.published = (at.agent, at.index)

    def issue(self, at: Timestamp, flight: IssuedOperation) -> None:
        """A flight that completes on a barrier exists only after the barrier's invalidation."""
        for key, _ in flight.instance.completes:
            track = self.tracks.get(key)
            before = (track.invalidated or track.replaced) if track else None
            if before is not None and not self._clocks.before(before[0], before[1], at):
                message = f"{key[0]}[{key[1]}] may be invalidated while a completion is in flight"
                bounds = bounds_of(self._clocks, at, before[2])
                bounds = with_event(bounds, at.agent, at.index)
                plan = Plan(bounds, {name_of(flight): False}, last=before[0])
                self._deviation(FaultKind.BARRIER_LIFECYCLE, message, flight.instance, plan)

    def invalidate(self, barrier: Mbarrier, at: Timestamp, instance: Instance) -> None:
        """Everything that uses the barrier must be over."""
        clocks, track = self._clocks, self.track(barrier)
        bounds = bounds_of(clocks, at)
        for agent, (index, timestamp) in track.uses.items():
            if not clocks.before(agent, index, at):
                message = f"{barrier.text} may be invalidated before its last use"
                stands = [
                    max(a, b) for a, b in zip(bounds, bounds_of(clocks, timestamp), strict=True)
                ]
                plans = [
                    Plan(up_to(stands, agent, index), last=at.agent, goes_on=True),
                    Plan(bounds, last=at.agent, goes_on=True, favoured=agent),
                ]
                self._deviation(FaultKind.BARRIER_LIFECYCLE, message, instance, *plans)
        for flight in track.flights:
            if not clocks.over(flight, at):
                message = f"{barrier.text} may be invalidated while a completion is in flight"
                plan = Plan(bounds, {name_of(flight): False}, last=at.agent, goes_on=True)
                self._deviation(FaultKind.BARRIER_LIFECYCLE, message, instance, plan)
        for phase in track.tokens.values():
            if not clocks.complete(track, phase + 1, at):
                message = f"{barrier.text} may be invalidated while a state of it is held"
                plan = Plan(bounds, last=at.agent, goes_on=True)
                self._deviation(FaultKind.BARRIER_LIFECYCLE, message, instance, plan)
        track.invalidated = (at.agent, at.index, at)

    # ----------------------------------------------------------------------- arrivals

    def _at_phase(
        self, barrier: Mbarrier, at: Timestamp, instance: Instance, flight: IssuedOperation | None
    ) -> PhaseClock:
        """Check that the operation cannot fall into an earlier phase."""
        track = self.use(barrier, at, instance, flight)
        if not self._clocks.complete(track, barrier.phase, at):
            message = (
                f"an operation on {barrier.text} may fall into an earlier phase than phase "
                f"{barrier.phase}"
            )
            plan = self._reach(at, flight, track.points[barrier.phase - 1])
            self._deviation(FaultKind.OVER_ARRIVAL, message, instance, plan)
        if track.expected <= 0:
            message = f"{barrier.text} expects no arrivals"
            self._deviation(FaultKind.OVER_ARRIVAL, message, instance, weight=Weight.INEXACT)
        return self._point(track, barrier.phase)

    def arrive(
        self,
        barrier: Mbarrier,
        at: Timestamp,
        instance: Instance,
        flight: IssuedOperation | None,
        after: tuple[Clock, Clock],
    ) -> None:
        """An arrival that counts; `after` are the clocks once it has been made."""
        count = instance.amount if flight is None else instance.completes[0][1]
        operation = instance.operation
        token = isinstance(operation, ir.Arrive) and operation.token
        if count == 0 and instance.size == 0 and not token:
            self.use(barrier, at, instance, flight)
            return
        point = self._at_phase(barrier, at, instance, flight)
        track = self.track(barrier)
        order, scope = ir.Order.SYNCHRONISING, ir.Scope.CLUSTER
        if isinstance(operation, ir.Arrive):
            order, scope = operation.order, operation.scope
            if operation.token:
                track.tokens[at.agent] = barrier.phase
        if count == 0 or instance.size < 0:
            message = f"an arrival at {barrier.text} counts nothing, or negative bytes"
            self._deviation(FaultKind.OVER_ARRIVAL, message, instance, weight=Weight.INEXACT)
        if count and barrier.phase:
            self._check_observed(barrier, point, at, instance, flight)
        point.expected_bytes += instance.size
        agent = at.agent if flight is None else flight.agent
        if flight is None:
            point.arrivals.append((at.agent, at.index))
        else:
            point.flights.append(flight)
            self._clocks.flights[flight].joins.append((track, barrier.phase + 1))
        point.arrival_timestamps.append(at)
        # An engine's arrival is, like its bytes, made in the CTA of the barrier.
        home = self._layout.barrier_ctas[barrier.key[0]]
        cta = self._layout.ctas[agent] if flight is None else home
        self._contribute(point, cta, scope, order, *after)

    def _check_observed(
        self,
        barrier: Mbarrier,
        point: PhaseClock,
        at: Timestamp,
        instance: Instance,
        flight: IssuedOperation | None,
    ) -> None:
        """Some wait for the phase before must be before the arrival (PTX "Phase of the mbarrier").

        Exactly then one has passed in every interleaving: what is not before the arrival can come
        after it, all of it together.
        """
        if self._layout.program.policies.unobserved_phase == "allow":
            return
        if any(self._clocks.before(agent, index, at) for agent, index in point.observers):
            return
        agent = at.agent if flight is None else flight.agent
        fault = unobserved_fault(barrier, agent, instance)
        plan = replace(self._reach(at, flight), goes_on=False)
        self._findings.add(Weight.FAULT, fault, plan)

    def transact(
        self,
        barrier: Mbarrier,
        at: Timestamp,
        flight: IssuedOperation,
        amount: int,
        after: tuple[Clock, Clock],
    ) -> None:
        """Bytes that an engine completes."""
        if amount == 0:
            self.use(barrier, at, flight.instance, flight)
            return
        point = self._at_phase(barrier, at, flight.instance, flight)
        if amount < 0:
            message = f"negative bytes are completed on {barrier.text}"
            self._deviation(
                FaultKind.TRANSACTION_MISMATCH, message, flight.instance, weight=Weight.INEXACT
            )
        point.completed_bytes += amount
        point.flights.append(flight)
        if flight.chunks == 1:
            track = self.track(barrier)
            self._clocks.flights[flight].joins.append((track, barrier.phase + 1))
        # Completed bytes publish their own operation alone (`joins`), and of nothing that its
        # issuer did or knew (PTX, "Asynchronous Operations in Program Order").
        point.clock = list(map(max, point.clock, after[0]))

    def relay(self, barrier: Mbarrier, seen: Clock, scope: ir.Scope, cta: int) -> None:
        """Completed bytes publish in a CTA, or the cluster, what their issuer knew: by the reading
        `Readings.engines_relay`, or as of a thread behind a fence (`Completion.publishes`)."""
        point = self._point(self.track(barrier), barrier.phase)
        self._contribute(point, cta, scope, ir.Order.SYNCHRONISING, self._clocks.zero, seen)

    def expect(self, barrier: Mbarrier, at: Timestamp, instance: Instance) -> None:
        """Bytes expected without an arrival."""
        point = self._at_phase(barrier, at, instance, None)
        point.expects.append((at.agent, at.index, at))
        point.expected_bytes += instance.size
        if instance.size < 0:
            message = f"negative bytes are expected on {barrier.text}"
            self._deviation(
                FaultKind.TRANSACTION_MISMATCH, message, instance, weight=Weight.INEXACT
            )
        clock, _ = self._clocks.after(at)
        point.clock = list(map(max, point.clock, clock))
        point.arrivals.append((at.agent, at.index))

    def complete(self, barrier: Mbarrier) -> None:
        """A phase is complete; `barrier.phase` counts it already."""
        track = self.track(barrier)
        point = self._point(track, barrier.phase - 1)
        point.clock = point.clock.copy()
        point.clock[track.slot] = barrier.phase
        track.expected = barrier.expected
        self._check_expects(track, point)
        for agent, index, at in point.waits:
            if point.clock[agent] <= index:
                instance = self._layout.agents[agent].instances[index]
                message = (
                    f"{self._layout.agents[agent].name} may still wait for phase "
                    f"{barrier.phase - 2} of {barrier.text} when phase {barrier.phase - 1} "
                    "is complete"
                )
                token = isinstance(instance.operation, ir.TokenWait)
                kind = FaultKind.NAMED_BARRIER_MISUSE if token else FaultKind.LAPPED_WAIT
                self._deviation(kind, message, instance, self._lap_plan(point, agent, at))
        point.waits = []

    def _lap_plan(self, point: PhaseClock, agent: int, at: Timestamp) -> Plan:
        """Hold the waiter at its wait until the phase after the one it means is complete."""
        done = Timestamp(-1, 0, point.clock, point.clock)
        bounds = up_to(bounds_of(self._clocks, done, at), agent, at.index)
        land = [name_of(flight) for flight in point.flights]
        return Plan(bounds, land=land, goes_on=True, stalled=agent)

    def _check_expects(self, track: BarrierTrack, point: PhaseClock) -> None:
        """Every expectation is before some arrival; the sums stay in range in every order."""
        for agent, index, at in point.expects:
            if any(
                self._clocks.before(agent, index, timestamp)
                for timestamp in point.arrival_timestamps
            ):
                continue
            instance = self._layout.agents[agent].instances[index]
            message = (
                f"bytes may be expected on {track.key[0]}[{track.key[1]}] after the last arrival "
                "of the phase"
            )
            timestamps = [m for m in point.arrival_timestamps if m.agent >= 0]
            bounds = bounds_of(self._clocks, at, *timestamps)
            for timestamp in timestamps:
                bounds = with_event(bounds, timestamp.agent, timestamp.index)
            arrived = Plan(
                up_to(bounds, agent, index),
                land=[
                    name_of(flight)
                    for flight in point.flights
                    if isinstance(flight.instance.operation, ir.QueueArrive)
                ],
                last=agent,
                goes_on=True,
                stalled=agent,
            )
            self._deviation(FaultKind.TRANSACTION_MISMATCH, message, instance, arrived)
        if max(point.expected_bytes, point.completed_bytes) > TRANSACTION_MAX:
            name = f"{track.key[0]}[{track.key[1]}]"
            fault = Fault(
                FaultKind.TRANSACTION_MISMATCH,
                f"a phase of {name} may overflow the transaction count",
                object_name=track.key[0],
            )
            self._findings.add(Weight.INEXACT, fault)

    def at_end(self, barriers: dict[Key, Mbarrier]) -> None:
        """The phases that the run leaves incomplete."""
        for key, track in self.tracks.items():
            barrier = barriers[key]
            if barrier.status and barrier.pending == 0 and barrier.phase < len(track.points):
                self._check_expects(track, track.points[barrier.phase])

    # -------------------------------------------------------------------------- waits

    def wait(
        self, barrier: Mbarrier, at: Timestamp, instance: Instance, operation: ir.Wait
    ) -> None:
        """A parity wait that passes."""
        track = self.use(barrier, at, instance)
        if not self._clocks.complete(track, barrier.phase - 1, at):
            message = (
                f"{self._layout.agents[at.agent].name} may pass its wait on {barrier.text} "
                f"before phase {barrier.phase - 2} is complete"
            )
            plan = self._reach(at, None, track.points[barrier.phase - 2])
            self._deviation(FaultKind.LAPPED_WAIT, message, instance, plan)
        point = self._point(track, barrier.phase)
        point.waits.append((at.agent, at.index, at))
        point.observers.append((at.agent, at.index))
        self._learn(at.agent, track, barrier.phase, operation.scope, operation.order)

    def token_wait(
        self, barrier: Mbarrier, at: Timestamp, instance: Instance, operation: ir.TokenWait
    ) -> None:
        """A state wait that passes."""
        track = self.use(barrier, at, instance)
        phase = track.tokens.get(at.agent)
        if phase is not None:
            # It may pass later than at once; then it observes what is complete by then.
            if phase + 1 == barrier.phase or self._clocks.complete(track, barrier.phase, at):
                self._point(track, barrier.phase).observers.append((at.agent, at.index))
            self._point(track, phase + 1).waits.append((at.agent, at.index, at))
            self._learn(at.agent, track, phase + 1, operation.scope, operation.order)

    # ---------------------------------------------------------------- named barriers

    def named_arrive(self, named: NamedTrack, at: Timestamp, instance: Instance) -> None:
        """An arrival at a named barrier."""
        track = self._named_track(named)
        if not self._clocks.complete(track, named.generation, at):
            message = f"an arrival at {named.text} may fall into an earlier generation"
            plan = self._reach(at, None)
            self._deviation(FaultKind.NAMED_BARRIER_MISUSE, message, instance, plan)
        point = self._point(track, named.generation)
        point.arrivals.append((at.agent, at.index))
        track.last_arrival[at.agent] = named.generation
        order = instance.operation.order  # type: ignore[attr-defined]
        cta = self._layout.ctas[at.agent]
        scope = named.declaration.scope
        self._contribute(point, cta, scope, order, *self._clocks.after(at))

    def named_complete(self, named: NamedTrack, released: list[int]) -> None:
        """A generation is complete and releases those in a sync."""
        track = self._named_track(named)
        for agent in released:
            order = self._sync_order(agent, track, named)
            self._learn(agent, track, named.generation, named.declaration.scope, order)

    def _sync_order(self, agent: int, track: BarrierTrack, named: NamedTrack) -> ir.Order:
        point = track.points[named.generation - 1]
        index = next(index for who, index in point.arrivals if who == agent)
        operation = self._layout.agents[agent].instances[index].operation
        return order_of(operation)

    def named_wait(self, named: NamedTrack, agent: int, operation: ir.BarrierWait) -> None:
        """A wait for the generation of the agent's own arrival."""
        track = self._named_track(named)
        generation = track.last_arrival.get(agent)
        if generation is not None:
            scope = named.declaration.scope
            self._learn(agent, track, generation + 1, scope, operation.order)
