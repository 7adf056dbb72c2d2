"""The state of one run of a sync program, and what can happen next.

The happens-before engine's own machine, first half; `execution` takes the steps. It shares no code
with the reference interpreter and is tested against it.
"""

from __future__ import annotations

from titan.engines.happens_before.faults import race_fault, unwaited_commit_fault
from titan.engines.happens_before.observer import Observer
from titan.engines.happens_before.tables import (
    CellTable,
    IssuedOperation,
    Mbarrier,
    MbarrierStatus,
    NamedTrack,
    QueueTable,
    RunLayout,
)
from titan.engines.happens_before.unfolding import Cell, Instance, Touch
from titan.sync import program as ir
from titan.sync.fault import Actor, Fault, FaultKind, Step
from titan.sync.pipe_order import pipe_pairs


class RunState:
    """Positions, barriers, memory and queues; `steps` are those taken."""

    def __init__(self, layout: RunLayout, observer: Observer | None = None) -> None:
        self.layout = layout
        self.observer = observer or Observer()
        self.agents = layout.agents
        self.next = [0] * len(self.agents)
        self.held_in: list[NamedTrack | None] = [None] * len(self.agents)
        self.issued = [0] * len(self.agents)
        self.steps: list[Step] = []
        program = layout.program
        self.barriers = {
            (barrier.name, stage): Mbarrier(
                (barrier.name, stage),
                barrier.cta,
                MbarrierStatus.LIVE if barrier.initialised else MbarrierStatus.DEAD,
                barrier.count,
                barrier.count,
            )
            for barrier in program.barriers
            for stage in range(barrier.stages)
        }
        self.named = {
            (barrier.name, stage): NamedTrack((barrier.name, stage), barrier)
            for barrier in program.named_barriers
            for stage in range(barrier.stages)
        }
        self.cells = {cell: CellTable(tile) for cell, tile in layout.tiles.items()}
        self.queues = {
            (agent.number, queue.name): QueueTable(
                agent.number,
                queue,
                queue.name in layout.split,
                pipe_pairs(queue, program.policies),
            )
            for agent in self.agents
            for queue in program.queues
        }
        self.pools = {pool.name: pool.available for pool in program.pools}
        self.free_flights: list[IssuedOperation] = []
        self.busy_queues: dict[tuple[int, str], QueueTable] = {}
        self._running: dict[int, int] = {}
        for agent in self.agents:
            self._running[agent.role.cta] = self._running.get(agent.role.cta, 0)
            self._running[agent.role.cta] += bool(agent.instances)
        self._lap_check = set(range(len(self.agents)))

    # ------------------------------------------------------------------------- asking

    def instance_of(self, agent: int) -> Instance | None:
        """What the agent executes next; None at its end."""
        instances = self.agents[agent].instances
        return instances[self.next[agent]] if self.next[agent] < len(instances) else None

    def at_end(self, agent: int) -> bool:
        """Whether the agent has executed all; engines may still be at work for it."""
        return self.next[agent] >= len(self.agents[agent].instances)

    def enabled(self, agent: int) -> bool:
        """Whether the agent can execute its next operation; faulty ones count as enabled."""
        instance = self.instance_of(agent)
        if instance is None or self.held_in[agent] is not None:
            return False
        operation = instance.operation
        match operation:
            case ir.Wait():
                barrier = self.barriers.get(instance.key)
                if barrier is None or barrier.status is MbarrierStatus.DEAD:
                    return True
                return barrier.phase & 1 != instance.amount
            case ir.TokenWait():
                barrier = self.barriers.get(instance.key)
                return (
                    barrier is None
                    or barrier.status is MbarrierStatus.DEAD
                    or agent not in barrier.tokens
                )
            case ir.QueueWait(queue=name, until=until):
                queue = self.queues[(agent, name)]
                return queue.outstanding(until is ir.Until.READ) <= instance.amount
            case ir.BarrierWait():
                named = self.named.get(instance.key)
                return named is None or agent not in named.members
            case ir.PoolTake(pool=name):
                return self.pools[name] >= instance.amount
        return True

    def engine_steps(self) -> list[tuple[Actor, IssuedOperation]]:
        """Every step that an engine can take."""
        steps = [(Actor.FINISH, flight) for flight in self.free_flights]
        for queue in self.busy_queues.values():
            ready = queue.closed[:1] if queue.declaration.ordered else queue.closed
            steps += [(self._engine_actor(queue, flight), flight) for flight in ready]
            if queue.split and not queue.closed[0].reading:
                behind = next((flight for flight in queue.closed[1:] if flight.reading), None)
                if behind is not None and (Actor.READS, behind) not in steps:
                    steps.append((Actor.READS, behind))
        return steps

    @staticmethod
    def _engine_actor(queue: QueueTable, flight: IssuedOperation) -> Actor:
        return Actor.READS if queue.split and flight.reading else Actor.FINISH

    def flights(self) -> list[IssuedOperation]:
        """All that is in flight, open groups included."""
        result = list(self.free_flights)
        for queue in self.busy_queues.values():
            result += queue.closed
        for queue in self.queues.values():
            result += queue.open
        return result

    @property
    def runs_ahead(self) -> bool:
        """Whether arrivals may come before a wait for the phase before has passed."""
        return self.layout.program.policies.unobserved_phase == "allow"

    def unwaited_commit(self, ended: set[int]) -> Fault | None:
        """The fault of a CTA that has ended and has not waited for what a peer's engines signal."""
        awaited = self.layout.peer_commits
        for barrier in self.barriers.values() if awaited and ended else ():
            waited = barrier.observed and barrier.pending == barrier.expected
            if barrier.key[0] in awaited and barrier.cta in ended and barrier.status and not waited:
                return unwaited_commit_fault(barrier.key, self.layout)
        return None

    def deadlocked(self) -> Fault | None:
        """The fault of a state in which nothing can move and some agent is not at its end."""
        waiting = [agent.number for agent in self.agents if not self.at_end(agent.number)]
        if not waiting or self.engine_steps() or any(self.enabled(agent) for agent in waiting):
            return None
        names = ", ".join(self.agents[agent].name for agent in waiting)
        operations = [self.instance_of(agent) for agent in waiting]
        return Fault(
            FaultKind.DEADLOCK,
            f"no step is possible and {names} cannot proceed",
            tuple(waiting),
            tuple(instance.operation for instance in operations if instance),
        )

    def at_access(self, agent: int) -> bool:
        """Whether the agent stands at synchronous accesses."""
        instance = self.instance_of(agent)
        return instance is not None and isinstance(instance.operation, ir.Access)

    def race(self, first: int, second: int) -> Fault | None:
        """Whether the two agents stand at conflicting synchronous accesses."""
        if not (self.at_access(first) and self.at_access(second)):
            return None
        one, two = self.instance_of(first), self.instance_of(second)
        assert one is not None and two is not None
        touched: dict[Cell, list[Touch]] = {}
        for touch in one.touches:
            touched.setdefault(touch.cell, []).append(touch)
        for touch in two.touches:
            if any(touch.conflicts(other) for other in touched.get(touch.cell, ())):
                return race_fault(self.agents[first], one, self.agents[second], two, touch.cell)
        return None
