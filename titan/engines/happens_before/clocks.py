"""Vector clocks of one run: which event is before which in every interleaving.

A clock has one slot for each agent (how many of its events are before), for each queue of an agent
(how many of its operations are over, and how many have been read), for each mbarrier generation
(how many phases are complete) and for each named barrier. A clock is a list that is never changed
once an event refers to it. An operation of an engine that no queue orders has no slot: it is over
before an event if a phase that it took part in is.

Where the program uses synchronisation that carries no visibility, a second clock, `seen`, follows
only the edges that carry it; otherwise both are the same list.
"""

from __future__ import annotations

from dataclasses import field

from titan.engines.happens_before.run_state import RunState
from titan.engines.happens_before.tables import IssuedOperation, QueueTable, RunLayout
from titan.engines.happens_before.unfolding import Key
from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.parts import completions_of, order_of, queue_of

Clock = list[int]


@dataclass(slots=True, eq=False)
class Timestamp:
    """The instant just before an event: what is before it. `agent` -1 represents an engine."""

    agent: int
    index: int
    clock: Clock
    seen: Clock


@dataclass(slots=True, eq=False)
class PhaseClock:
    """A completed phase or one in the making: who takes part, and the join of their clocks.

    `observers` are the waits that pass for the phase before.
    """

    clock: Clock
    seen_near: dict[int, Clock]
    seen_cluster: Clock
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    arrival_timestamps: list[Timestamp] = field(default_factory=list)
    flights: list[IssuedOperation] = field(default_factory=list)
    expects: list[tuple[int, int, Timestamp]] = field(default_factory=list)
    waits: list[tuple[int, int, Timestamp]] = field(default_factory=list)
    observers: list[tuple[int, int]] = field(default_factory=list)
    expected_bytes: int = 0
    completed_bytes: int = 0


@dataclass(slots=True, eq=False)
class BarrierTrack:
    """One generation of an mbarrier, or a named barrier. `points[n]` makes phase n complete."""

    key: Key
    slot: int
    initialised: tuple[int, int] | None = None
    published: tuple[int, int] | None = None
    invalidated: tuple[int, int, Timestamp] | None = None
    replaced: tuple[int, int, Timestamp] | None = None
    points: list[PhaseClock] = field(default_factory=list)
    uses: dict[int, tuple[int, Timestamp]] = field(default_factory=dict)
    flights: list[IssuedOperation] = field(default_factory=list)
    tokens: dict[int, int] = field(default_factory=dict)
    last_arrival: dict[int, int] = field(default_factory=dict)
    expected: int = 1


@dataclass(slots=True, eq=False)
class FlightTrack:
    """When a flight was issued and committed, and the phases that its end takes part in."""

    issue: Timestamp
    ready: Timestamp
    joins: list[tuple[BarrierTrack, int]] = field(default_factory=list)


class Clocks:
    """The clocks of all agents at the present point of the run."""

    def __init__(self, layout: RunLayout) -> None:
        self.layout = layout
        self.count = len(layout.agents)
        self._queue_slots: dict[tuple[int, str], int] = {}
        width = self.count
        inits: dict[Key, int] = {}
        named: dict[Key, None] = {}
        for agent in layout.agents:
            for instance in agent.instances:
                operation = instance.operation
                queue = queue_of(operation)
                if queue is not None and (agent.number, queue) not in self._queue_slots:
                    self._queue_slots[(agent.number, queue)] = width
                    width += 2
                if isinstance(operation, ir.Init):
                    inits[instance.key] = inits.get(instance.key, 0) + 1
                elif isinstance(operation, ir.BarrierSync | ir.BarrierArrive | ir.BarrierWait):
                    named[instance.key] = None
                elif instance.key[0]:
                    inits.setdefault(instance.key, 0)
                for key, _ in instance.completes:
                    inits.setdefault(key, 0)
        self._barrier_slots: dict[Key, int] = {}
        for key, times in inits.items():
            self._barrier_slots[key] = width
            width += times + 1
        self._named_slots: dict[Key, int] = {}
        for key in named:
            self._named_slots[key] = width
            width += 1
        self.width = width
        self.zero: Clock = [0] * width
        self.weak = _uses_weak_synchronisation(layout)
        self.now: list[Clock] = [self.zero] * self.count
        self.seen: list[Clock] = [self.zero] * self.count if self.weak else self.now
        self.flights: dict[IssuedOperation, FlightTrack] = {}

    # ------------------------------------------------------------------------- slots

    def finish_slot(self, queue: QueueTable) -> int:
        """The slot of a clock that counts the finished operations of the queue."""
        return self._queue_slots[(queue.agent, queue.declaration.name)]

    def read_slot(self, queue: QueueTable) -> int:
        """The slot of a clock that counts operations of the queue whose sources are read."""
        return self._queue_slots[(queue.agent, queue.declaration.name)] + 1

    def barrier_slot(self, key: Key, generation: int) -> int:
        """The slot of a clock for one init of an mbarrier; KeyError if it is unknown."""
        return self._barrier_slots[key] + generation

    def named_slot(self, key: Key) -> int:
        """The slot of a clock for a named barrier; raises KeyError if it is unknown."""
        return self._named_slots[key]

    # ----------------------------------------------------------------------- timestamps

    def timestamp(self, execution: RunState, agent: int) -> Timestamp:
        """The present instant of an agent."""
        return Timestamp(agent, execution.next[agent], self.now[agent], self.seen[agent])

    def after(self, timestamp: Timestamp) -> tuple[Clock, Clock]:
        """The full clocks right after an agent's event that joins nothing."""
        clock = timestamp.clock.copy()
        clock[timestamp.agent] = timestamp.index + 1
        if not self.weak:
            return clock, clock
        seen = timestamp.seen.copy()
        seen[timestamp.agent] = timestamp.index + 1
        return clock, seen

    def join(self, agent: int, clock: Clock, seen: Clock | None) -> None:
        """The agent learns a clock; `seen` None where the edge carries no visibility."""
        self.now[agent] = list(map(max, self.now[agent], clock))
        if self.weak and seen is not None:
            self.seen[agent] = list(map(max, self.seen[agent], seen))

    def raise_slot(self, agent: int, slot: int, value: int) -> None:
        """The agent learns one slot."""
        for clocks in (self.now, self.seen) if self.weak else (self.now,):
            if clocks[agent][slot] < value:
                changed = clocks[agent].copy()
                changed[slot] = value
                clocks[agent] = changed

    # --------------------------------------------------------------------- questions

    def before(self, agent: int, index: int, at: Timestamp, seen: bool = False) -> bool:
        """Whether event `index` of the agent is before the timestamp."""
        if agent == at.agent:
            return index < at.index
        return (at.seen if seen else at.clock)[agent] > index

    def over(self, flight: IssuedOperation, at: Timestamp, seen: bool = False) -> bool:
        """Whether the flight has ended before the timestamp."""
        clock = at.seen if seen else at.clock
        queue = flight.queue
        if queue is not None and clock[self.finish_slot(queue)] > flight.position:
            return True
        track = self.flights[flight]
        return any(clock[barrier.slot] >= phase for barrier, phase in track.joins)

    def read(self, flight: IssuedOperation, at: Timestamp, seen: bool = False) -> bool:
        """Whether the flight has read all its sources before the timestamp."""
        queue = flight.queue
        if queue is not None and queue.split:
            clock = at.seen if seen else at.clock
            if clock[self.read_slot(queue)] > flight.position:
                return True
        return self.over(flight, at, seen)

    def complete(self, barrier: BarrierTrack, phases: int, at: Timestamp) -> bool:
        """Whether `phases` phases are complete before the timestamp."""
        if phases <= 0 or at.clock[barrier.slot] >= phases:
            return True
        point = barrier.points[phases - 1]
        return all(self.before(agent, index, at) for agent, index in point.arrivals) and all(
            self._over_otherwise(flight, at, barrier, phases) for flight in point.flights
        )

    def _over_otherwise(
        self, flight: IssuedOperation, at: Timestamp, barrier: BarrierTrack, phases: int
    ) -> bool:
        """`over`, learnt by another way than the completion of this phase."""
        queue = flight.queue
        if queue is not None and at.clock[self.finish_slot(queue)] > flight.position:
            return True
        return any(
            at.clock[other.slot] >= phase
            for other, phase in self.flights[flight].joins
            if (other, phase) != (barrier, phases)
        )


def new_point(clocks: Clocks) -> PhaseClock:
    """A phase in the making."""
    return PhaseClock(clocks.zero, {}, clocks.zero)


def _uses_weak_synchronisation(layout: RunLayout) -> bool:
    """Whether some synchronisation of the program carries no visibility, or not of all."""
    if len(set(layout.ctas)) > 1:
        return True
    return any(
        order_of(operation) is ir.Order.RELAXED
        or bool(completions_of(operation))
        or isinstance(operation, ir.QueueArrive)
        for role in layout.program.roles
        for operation in ir.walk(role.body)
    )
