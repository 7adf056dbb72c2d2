"""One concrete run of a sync program: mutable state, one step at a time, faults as they occur.

The happens-before engine's own machine. It executes the unfolded lists of `unfolding`, shares no
code with the reference interpreter and is tested against it: every fault that it finds comes with
the steps that lead there, which the interpreter can replay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.order.observer import Observer
from titan.order.unfolding import AgentProgram, Cell, Instance, Key, Touch, Unfolder, cells_of
from titan.sync import program as ir
from titan.sync.fault import Actor, Fault, FaultKind, Step

TRANSACTION_MAX = 2**20 - 1  # PTX "mbarrier: Contents": range of the transaction count
ENGINE = -1
UNDEFINED = "nothing defined"
OTHER = "some other value"


class FaultError(Exception):
    """Carries the fault out of a step."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True, eq=False)
class Flight:
    """An asynchronous operation; `position` counts those of its queue, `group` their groups."""

    agent: int
    ordinal: int
    instance: Instance
    index: int
    queue: QueueTable | None
    chunks: int
    reading: bool
    position: int = -1
    group: int = 0
    over: bool = False


@dataclass(slots=True, eq=False)
class QueueTable:
    """A queue of one agent; `closed` are unfinished flights in order, groups count from 1."""

    agent: int
    declaration: ir.Queue
    split: bool
    groups: int = 0
    issued: int = 0
    group_ends: list[int] = field(default_factory=list)
    closed: list[Flight] = field(default_factory=list)
    open: list[Flight] = field(default_factory=list)

    def outstanding(self, reads: bool) -> int:
        """How many committed groups a wait would count."""
        busy = [flight.group for flight in self.closed if not reads or flight.reading]
        if not busy:
            return 0
        return self.groups - min(busy) + 1 if self.declaration.ordered else len(set(busy))


@dataclass(slots=True, eq=False)
class Mbarrier:
    """`status`: 0 dead, 1 initialised but not published, 2 live. `generation` counts inits."""

    key: Key
    cta: int
    status: int
    expected: int
    pending: int
    owner: int = ENGINE
    transaction: int = 0
    phase: int = 0
    generation: int = 0
    tokens: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        return f"{self.key[0]}[{self.key[1]}]"


@dataclass(slots=True, eq=False)
class Named:
    """`members`: who has arrived in this generation, True where it waits in a sync."""

    key: Key
    declaration: ir.NamedBarrier
    arrived: int = 0
    threads: int = 0
    generation: int = 0
    members: dict[int, bool] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{self.key[0]}[{self.key[1]}]"


@dataclass(slots=True, eq=False)
class CellTable:
    """Content, unfenced generic accessors, tensor map state, and the flights that hold the cell."""

    tile: int | str
    writers: set[int] = field(default_factory=set)
    readers: set[int] = field(default_factory=set)
    tensormap: int = 0
    holders: list[tuple[Flight, bool, int | None]] = field(default_factory=list)


class Layout:
    """What is the same in all runs of one unfolded program."""

    def __init__(self, unfolder: Unfolder) -> None:
        self.program = unfolder.program
        self.sizes = unfolder.sizes
        self.agents: tuple[AgentProgram, ...] = unfolder.agents()
        self.ctas = [agent.role.cta for agent in self.agents]
        self.split = {
            operation.queue
            for role in self.program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.QueueWait) and operation.until is ir.Until.READ
        }
        self.homes: dict[str, int] = {}
        self.spaces: dict[Cell, dict[ir.Space, None]] = {}
        self.tiles: dict[Cell, int | str] = {}
        self.covering: dict[Cell, list[ir.Buffer]] = {}
        for buffer in self.program.buffers:
            if buffer.space is not ir.Space.GLOBAL:
                self.homes[buffer.storage or buffer.name] = buffer.cta
            for stage in range(buffer.stages):
                for cell in cells_of(buffer, stage, None):
                    self.covering.setdefault(cell, []).append(buffer)
                    self.spaces.setdefault(cell, {})[buffer.space] = None
                    if cell not in self.tiles or buffer.initial is not None:
                        self.tiles[cell] = UNDEFINED if buffer.initial is None else buffer.initial
        self.barrier_ctas = {barrier.name: barrier.cta for barrier in self.program.barriers}

    def fence_covers(self, fence: ir.Fence, cell: Cell, cta: int) -> tuple[bool, bool]:
        """Whether a fence covers the cell, and whether it is executed near to it."""
        spaces = fence.spaces or tuple(ir.Space)
        covered = near = False
        for buffer in self.covering[cell]:
            if buffer.space in spaces:
                covered = True
                near = near or buffer.space is ir.Space.GLOBAL or buffer.cta == cta
        return covered, near


class Execution:
    """A run in progress. `steps` are those taken; a fault ends it."""

    def __init__(self, layout: Layout, observer: Observer | None = None) -> None:
        self.layout = layout
        self.observer = observer or Observer()
        self.agents = layout.agents
        self.next = [0] * len(self.agents)
        self.held_in: list[Named | None] = [None] * len(self.agents)
        self.issued = [0] * len(self.agents)
        self.steps: list[Step] = []
        program = layout.program
        self.barriers = {
            (barrier.name, stage): Mbarrier(
                (barrier.name, stage),
                barrier.cta,
                2 if barrier.initialised else 0,
                barrier.count,
                barrier.count,
            )
            for barrier in program.barriers
            for stage in range(barrier.stages)
        }
        self.named = {
            (barrier.name, stage): Named((barrier.name, stage), barrier)
            for barrier in program.named_barriers
            for stage in range(barrier.stages)
        }
        self.cells = {cell: CellTable(tile) for cell, tile in layout.tiles.items()}
        self.queues = {
            (agent.number, queue.name): QueueTable(agent.number, queue, queue.name in layout.split)
            for agent in self.agents
            for queue in program.queues
        }
        self.pools = {pool.name: pool.available for pool in program.pools}
        self.free_flights: list[Flight] = []
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
                if barrier is None or barrier.status == 0:
                    return True
                return barrier.phase & 1 != instance.amount
            case ir.TokenWait():
                barrier = self.barriers.get(instance.key)
                return barrier is None or barrier.status == 0 or agent not in barrier.tokens
            case ir.QueueWait(queue=name, until=until):
                queue = self.queues[(agent, name)]
                return queue.outstanding(until is ir.Until.READ) <= instance.amount
            case ir.BarrierWait():
                named = self.named.get(instance.key)
                return named is None or agent not in named.members
            case ir.PoolTake(pool=name):
                return self.pools[name] >= instance.amount
        return True

    def engine_steps(self) -> list[tuple[Actor, Flight]]:
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
    def _engine_actor(queue: QueueTable, flight: Flight) -> Actor:
        return Actor.READS if queue.split and flight.reading else Actor.FINISH

    def flights(self) -> list[Flight]:
        """All that is in flight, open groups included."""
        result = list(self.free_flights)
        for queue in self.busy_queues.values():
            result += queue.closed
        for queue in self.queues.values():
            result += queue.open
        return result

    def deadlocked(self) -> Fault | None:
        """The fault of a state in which nothing can move and some agent is not at its end."""
        waiting = [agent.number for agent in self.agents if not self.at_end(agent.number)]
        if not waiting or self.engine_steps() or any(self.enabled(agent) for agent in waiting):
            return None
        names = ", ".join(self.agents[agent].name for agent in waiting)
        operations = [self.instance_of(agent) for agent in waiting]
        return Fault(
            FaultKind.DEADLOCK,
            f"no step is possible and {names} cannot go on",
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
        written = {touch.cell for touch in one.touches if touch.write}
        touched = {touch.cell for touch in one.touches}
        for touch in two.touches:
            if touch.cell in written or (touch.write and touch.cell in touched):
                return race_fault(self.agents[first], one, self.agents[second], two, touch.cell)
        return None

    # ------------------------------------------------------------------------ stepping

    def step_agent(self, agent: int) -> None:
        """Execute the agent's next operation. Raises FaultError."""
        instance = self.instance_of(agent)
        assert instance is not None
        self.steps.append(Step(Actor.AGENT, agent))
        if instance.bad:
            self._fail(FaultKind.INDEX_OUT_OF_RANGE, instance.bad, agent, instance)
        if self._execute(agent, instance):
            self.observer.agent_stepped(agent, instance)
            self._advance(agent)
        else:
            self.observer.agent_stepped(agent, instance)
        self._after_step()

    def step_engine(self, actor: Actor, flight: Flight) -> None:
        """One step of an engine. Raises FaultError."""
        self.steps.append(Step(actor, flight.agent, flight.ordinal))
        if actor is Actor.READS:
            flight.reading = False
            self.observer.reads_over(flight)
        else:
            self._finish_chunk(flight)
        self._after_step()

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

    def _fail(
        self, kind: FaultKind, message: str, agent: int, instance: Instance, name: str = ""
    ) -> None:
        raise FaultError(Fault(kind, message, (agent,), (instance.operation,), name))

    def _execute(self, agent: int, instance: Instance) -> bool:
        """Execute; returns whether the agent goes on."""
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
                self.observer.token_waited(barrier, agent, instance)
            case ir.BarrierSync() | ir.BarrierArrive():
                return self._named_arrive(agent, instance, isinstance(operation, ir.BarrierSync))
            case ir.BarrierWait():
                self.observer.named_waited(self.named[instance.key], agent)
            case ir.Fence():
                self._fence(agent, instance, operation)
            case ir.PoolTake() | ir.PoolGive():
                self._change_pool(agent, instance, operation)
            case _:
                raise TypeError(f"no meaning for {type(operation).__name__}")
        return True

    def _change_pool(
        self, agent: int, instance: Instance, operation: ir.PoolTake | ir.PoolGive
    ) -> None:
        name = operation.pool
        if instance.amount < 0:
            message = f"a negative amount of {name} is named"
            self._fail(FaultKind.POOL_MISUSE, message, agent, instance, name)
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
            self._fail(FaultKind.LEAK_AT_EXIT, message, agent, instance, name)

    def _check_touches(self, agent: int, instance: Instance, queue: QueueTable | None) -> None:
        for name, cta in instance.far:
            self._exited(agent, instance, cta, name)
        piped = queue if queue is not None and queue.declaration.pipelined else None
        for touch in instance.touches:
            cell = self.cells[touch.cell]
            if isinstance(instance.operation, ir.Asynchronous):
                self._check_proxy(agent, instance, touch, cell)
            held = cell.tile
            for flight, writes, tile in cell.holders:
                if piped is not None and flight.queue is piped:
                    if writes:
                        held = OTHER if tile is None else tile
                elif writes or (touch.write and flight.reading):
                    self._in_flight(agent, instance, touch, flight, writes)
            if not touch.write and touch.tile is not None and touch.tile != held:
                self._fail(
                    FaultKind.STALE_READ,
                    f"{_cell_text(touch.cell)} holds {_content(held)} where tile {touch.tile} is "
                    "meant",
                    agent,
                    instance,
                    touch.cell[0],
                )

    def _in_flight(
        self, agent: int, instance: Instance, touch: Touch, flight: Flight, writes: bool
    ) -> None:
        cell = touch.cell
        raise FaultError(in_flight_fault(agent, instance, cell, touch.write, flight, writes))

    def _access(self, agent: int, instance: Instance) -> None:
        self._check_touches(agent, instance, None)
        self.observer.access(agent, instance)
        for touch in instance.touches:
            cell = self.cells[touch.cell]
            if touch.write:
                cell.tile = OTHER if touch.tile is None else touch.tile
                cell.writers.add(agent)
                cell.tensormap = 1
            else:
                cell.readers.add(agent)

    def _check_proxy(self, agent: int, instance: Instance, touch: Touch, cell: CellTable) -> None:
        """Generic accesses must be fenced before another proxy uses the same memory."""
        proxy = touch.proxy
        name = touch.cell
        kind = None
        if proxy is ir.Proxy.ASYNC:
            war = self.layout.program.policies.war_fence and cell.readers
            if cell.writers:
                kind = FaultKind.MISSING_FENCE
            elif touch.write and war:
                kind = FaultKind.MISSING_FENCE_WAR
        elif proxy is ir.Proxy.TENSORMAP and cell.tensormap:
            kind = FaultKind.MISSING_TENSORMAP_FENCE
        if kind is not None:
            raise FaultError(fence_fault(kind, agent, instance, name))

    def _issue(self, agent: int, instance: Instance, name: str | None, chunks: int) -> None:
        queue = None if name is None else self.queues[(agent, name)]
        self._check_touches(agent, instance, queue)
        flight = self._enqueue(agent, instance, name, chunks, True)
        for touch in instance.touches:
            self.cells[touch.cell].holders.append((flight, touch.write, touch.tile))

    def _enqueue(
        self, agent: int, instance: Instance, name: str | None, chunks: int, reading: bool
    ) -> Flight:
        queue = None if name is None else self.queues[(agent, name)]
        flight = Flight(
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
        return flight

    def _commit(self, agent: int, queue: QueueTable) -> None:
        queue.groups += 1
        queue.group_ends.append(queue.issued)
        for flight in queue.open:
            flight.group = queue.groups
        self.observer.committed(agent, queue, queue.open)
        queue.closed += queue.open
        queue.open = []
        if queue.closed:
            self.busy_queues[(agent, queue.declaration.name)] = queue

    def _queue_wait(self, agent: int, instance: Instance, name: str, reads: bool) -> None:
        queue = self.queues[(agent, name)]
        over = queue.groups - instance.amount
        covered = queue.group_ends[over - 1] if over > 0 else 0
        exact = queue.declaration.ordered or instance.amount == 0 or covered == 0
        self.observer.queue_waited(agent, queue, reads, covered, exact)

    def _finish_chunk(self, flight: Flight) -> None:
        """An engine completes one chunk of a flight, or all that is left of it."""
        self.observer.chunk_over(flight)
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

    def _land(self, flight: Flight) -> None:
        """The effects of a flight on memory when it ends."""
        for touch in flight.instance.touches:
            cell = self.cells[touch.cell]
            if touch.write:
                cell.tile = OTHER if touch.tile is None else touch.tile
                if touch.proxy is ir.Proxy.GENERIC:
                    cell.writers.add(ENGINE)
                    cell.tensormap = 1
            elif touch.proxy is ir.Proxy.GENERIC:
                cell.readers.add(ENGINE)
        for touch in flight.instance.touches:
            cell = self.cells[touch.cell]
            cell.holders = [holder for holder in cell.holders if holder[0] is not flight]

    def _fence(self, agent: int, instance: Instance, operation: ir.Fence) -> None:
        self.observer.fenced(agent, instance)
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            for barrier in self.barriers.values():
                if barrier.status == 1 and barrier.owner == agent:
                    barrier.status = 2
            return
        path = self.layout.program.policies.fence_rule == "path"
        cta = self.layout.ctas[agent]
        for name, cell in self.cells.items():
            if not cell.writers and not cell.readers and not cell.tensormap:
                continue
            covered, near = self.layout.fence_covers(operation, name, cta)
            if not covered:
                continue
            if operation.kind is ir.FenceKind.ASYNC:
                if path and near:
                    cell.writers.clear()
                    cell.readers.clear()
                else:
                    cell.writers -= {agent, ENGINE}
                    cell.readers -= {agent, ENGINE}
            elif operation.kind is ir.FenceKind.TENSORMAP_RELEASE:
                if cell.tensormap == 1 and ((path and near) or agent in cell.writers):
                    cell.tensormap = 2
            elif cell.tensormap == 2:
                cell.tensormap = 0

    # ---------------------------------------------------------------------- mbarriers

    def _usable(self, agent: int, instance: Instance) -> Mbarrier:
        barrier = self.barriers[instance.key]
        remote = barrier.cta != self.layout.ctas[agent]
        self._check_status(barrier, agent, instance, remote)
        if remote:
            self._exited(agent, instance, barrier.cta, barrier.text)
        return barrier

    def _check_status(self, barrier: Mbarrier, agent: int, instance: Instance, far: bool) -> None:
        if barrier.status == 0:
            message = f"{barrier.text} is used before it is initialised or after it was invalidated"
            kind = FaultKind.BARRIER_UNINITIALISED
            self._fail(kind, message, agent, instance, barrier.key[0])
        if far and barrier.status == 1:
            message = f"the initialisation of {barrier.text} is not published by a fence"
            self._fail(FaultKind.UNPUBLISHED_INIT, message, agent, instance, barrier.key[0])

    def _settle(self, barrier: Mbarrier, agent: int, instance: Instance) -> None:
        """Complete the phase when nothing is outstanding."""
        name = barrier.key[0]
        if abs(barrier.transaction) > TRANSACTION_MAX:
            message = f"{barrier.text} counts more bytes than it can"
            self._fail(FaultKind.TRANSACTION_MISMATCH, message, agent, instance, name)
        if barrier.pending:
            return
        if barrier.transaction < 0:
            message = f"{barrier.text} receives more bytes than its phase expects"
            self._fail(FaultKind.TRANSACTION_MISMATCH, message, agent, instance, name)
        if barrier.transaction == 0:
            barrier.pending = barrier.expected
            barrier.phase += 1
            barrier.tokens.clear()
            self.observer.mbarrier_completed(barrier)
            self._lap_check.update(range(len(self.agents)))

    def _count_down(
        self, barrier: Mbarrier, agent: int, instance: Instance, count: int, size: int
    ) -> None:
        if count < 0 or count > barrier.pending or barrier.expected < 0:
            message = f"{barrier.text} gets more arrivals than its phase expects"
            self._fail(FaultKind.OVER_ARRIVAL, message, agent, instance, barrier.key[0])
        barrier.pending -= count
        barrier.transaction += size
        self._settle(barrier, agent, instance)

    def _arrive(self, agent: int, instance: Instance, operation: ir.Arrive) -> None:
        barrier = self._usable(agent, instance)
        self.observer.arriving(barrier, agent, instance, None)
        if operation.token:
            barrier.tokens.add(agent)
        if operation.drop:
            barrier.expected -= instance.amount
        self._count_down(barrier, agent, instance, instance.amount, instance.size)

    def _expect(self, agent: int, instance: Instance) -> None:
        barrier = self._usable(agent, instance)
        if barrier.pending == 0:
            message = f"bytes are expected on {barrier.text} after the last arrival of its phase"
            kind = FaultKind.TRANSACTION_MISMATCH
            self._fail(kind, message, agent, instance, barrier.key[0])
        self.observer.expecting(barrier, agent, instance)
        barrier.transaction += instance.size
        self._settle(barrier, agent, instance)

    def _wait(self, agent: int, instance: Instance) -> None:
        barrier = self._usable(agent, instance)
        if instance.phase is not None and barrier.phase != instance.phase + 1:
            self._fail(
                FaultKind.LAPPED_WAIT,
                f"the wait for phase {instance.phase} of {barrier.text} passes while "
                f"{barrier.phase} phases are complete",
                agent,
                instance,
                barrier.key[0],
            )
        self.observer.waited(barrier, agent, instance)

    def _init(self, agent: int, instance: Instance) -> None:
        barrier = self.barriers[instance.key]
        if barrier.status:
            message = f"{barrier.text} is initialised while it is live"
            self._fail(FaultKind.BARRIER_LIFECYCLE, message, agent, instance, barrier.key[0])
        published = self.layout.program.policies.barrier_init == "assumed"
        barrier.status, barrier.owner = (2 if published else 1), agent
        barrier.expected = barrier.pending = instance.amount
        barrier.transaction = barrier.phase = 0
        barrier.tokens.clear()
        barrier.generation += 1
        self.observer.initialised(barrier, agent, instance)

    def _invalidate(self, agent: int, instance: Instance) -> None:
        barrier = self.barriers[instance.key]
        name = barrier.key[0]
        if barrier.status == 0:
            message = f"{barrier.text} is invalidated while it is not live"
            self._fail(FaultKind.BARRIER_UNINITIALISED, message, agent, instance, name)
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
            self._fail(FaultKind.BARRIER_LIFECYCLE, message, agent, instance, name)
        self.observer.invalidated(barrier, agent, instance)
        barrier.status = 0

    # ------------------------------------------------------------------ named barriers

    def _named_arrive(self, agent: int, instance: Instance, sync: bool) -> bool:
        named = self.named[instance.key]
        threads = instance.amount
        kind, name = FaultKind.NAMED_BARRIER_MISUSE, named.key[0]
        if agent in named.members:
            who = self.agents[agent].name
            message = f"{who} arrives at {named.text} again before it has completed"
            self._fail(kind, message, agent, instance, name)
        arrived = named.arrived + self.agents[agent].role.threads
        if named.threads not in (0, threads) or arrived > threads:
            message = (
                f"{named.text} counts {arrived} of {threads} threads where "
                f"{named.threads or threads} are expected"
            )
            self._fail(kind, message, agent, instance, name)
        self.observer.named_arriving(named, agent, instance, sync)
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
                self._fail(
                    FaultKind.LEAK_AT_EXIT,
                    "the CTA ends while an asynchronous operation that uses it is in flight",
                    flight.agent,
                    flight.instance,
                )

    def _check_lapped(self, agent: int) -> None:
        """A waiting agent whose phase is two behind sleeps through it (PTX test_wait)."""
        instance = self.instance_of(agent)
        if instance is None or instance.phase is None:
            return
        barrier = self.barriers.get(instance.key)
        if barrier and barrier.status and barrier.phase > instance.phase + 1:
            self._fail(
                FaultKind.LAPPED_WAIT,
                f"{self.agents[agent].name} still waits for phase {instance.phase} of "
                f"{barrier.text} while {barrier.phase} phases are complete",
                agent,
                instance,
                barrier.key[0],
            )


def race_fault(
    first: AgentProgram, one: Instance, second: AgentProgram, two: Instance, cell: Cell
) -> Fault:
    return Fault(
        FaultKind.DATA_RACE,
        f"{first.name} and {second.name} access {_cell_text(cell)} and nothing orders them",
        (first.number, second.number),
        (one.operation, two.operation),
        cell[0],
    )


def in_flight_fault(
    agent: int, instance: Instance, cell: Cell, write: bool, flight: Flight, flight_writes: bool
) -> Fault:
    if write:
        kind = FaultKind.OVERWRITE_IN_FLIGHT
        what = "writes" if flight_writes else "reads"
        message = f"{_cell_text(cell)} is overwritten while an operation in flight still {what} it"
    else:
        kind = FaultKind.READ_BEFORE_ARRIVAL
        message = f"{_cell_text(cell)} is read while a write to it is in flight"
    operations = (instance.operation, flight.instance.operation)
    return Fault(kind, message, (agent, flight.agent), operations, cell[0])


def fence_fault(kind: FaultKind, agent: int, instance: Instance, cell: Cell) -> Fault:
    text = _cell_text(cell)
    messages = {
        FaultKind.MISSING_FENCE: f"{text} was written through the generic proxy without a proxy "
        "fence before this asynchronous access",
        FaultKind.MISSING_FENCE_WAR: f"{text} was read through the generic proxy without a proxy "
        "fence before this asynchronous write",
        FaultKind.MISSING_TENSORMAP_FENCE: f"the tensor map in {text} was written and is used "
        "without a tensormap fence",
    }
    return Fault(kind, messages[kind], (agent,), (instance.operation,), cell[0])


def _cell_text(cell: Cell) -> str:
    return f"{cell[0]}[{cell[1]}]"


def _content(tile: int | str) -> str:
    return tile if isinstance(tile, str) else f"tile {tile}"
