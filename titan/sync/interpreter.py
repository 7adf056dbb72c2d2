"""The reference interpreter: the definition of what a sync program means, one step at a time.

Decides nothing by itself: `Machine.steps` lists every step that is possible in a state,
`Machine.apply` executes one, and faults are reported as they occur. It walks the structured
program, knows no reduction and no abstraction, and needs all sizes as numbers. Every other engine
is tested against it, and every trace that a user sees has been replayed by it.

Assumptions: an agent executes its synchronous operations one after the other; an asynchronous
operation reads and writes at any time between its start and its finish; operations of an ordered
queue finish in the order of issue, all others in any order. Relaxed synchronisation orders
execution here like any other: what it fails to carry is decided by the happens-before engine.
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.barrier_rules import BarrierRules, key_of
from titan.sync.control import Agent, LocalLoopError, Sizes, agents_of
from titan.sync.expression import Expression, evaluate
from titan.sync.fault import Actor, Fault, FaultKind, Step
from titan.sync.memory_rules import Environment, cells_of
from titan.sync.state import (
    ANY_TILE,
    ENGINE,
    UNDEFINED,
    BarrierStatus,
    Cell,
    CellState,
    Doing,
    Draft,
    FaultFound,
    Flight,
    FlightAccess,
    MbarrierState,
    NamedState,
    Position,
    QueueState,
    State,
    key_text,
)

__all__ = [
    "ANY_TILE",
    "ENGINE",
    "UNDEFINED",
    "Agent",
    "LocalLoopError",
    "Machine",
    "Position",
    "Sizes",
    "State",
    "agents_of",
]


class Machine(BarrierRules):
    """Executes one program with concrete sizes.

    Raises ValueError when a parameter has no size, LocalLoopError from `initial`, `steps` and
    `apply` when a role loops without operations.
    """

    def __init__(self, program: ir.SyncProgram, sizes: Sizes | None = None) -> None:
        super().__init__(program, sizes)
        self._split_reads = {
            operation.queue
            for role in program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.QueueWait) and operation.until is ir.Until.READ
        }

    def initial(self) -> State:
        """The state before the first step."""
        program, nobody = self.program, frozenset[int]()
        barriers = {
            (barrier.name, stage): MbarrierState(
                BarrierStatus.USABLE if barrier.initialised else BarrierStatus.ABSENT,
                ENGINE,
                barrier.count,
                barrier.count,
                transaction=0,
                phase=0,
                tokens=nobody,
                observed=True,
            )
            for barrier in program.barriers
            for stage in range(barrier.stages)
        }
        named = {
            (barrier.name, stage): NamedState(0, 0, nobody, nobody)
            for barrier in program.named_barriers
            for stage in range(barrier.stages)
        }
        cells: dict[Cell, CellState] = {}
        for buffer in program.buffers:
            for stage in range(buffer.stages):
                for cell in cells_of(buffer, stage, None):
                    tile = UNDEFINED if buffer.initial is None else buffer.initial
                    if cell not in cells or buffer.initial is not None:
                        cells[cell] = CellState(tile, nobody, nobody, nobody, False)
        queues = {
            (agent.number, queue.name): QueueState((), ())
            for agent in self.agents
            for queue in program.queues
        }
        return State(
            tuple(self.start(agent) for agent in self.agents),
            (0,) * len(self.agents),
            tuple(barriers.items()),
            tuple(named.items()),
            tuple(cells.items()),
            tuple(queues.items()),
            (),
            tuple((pool.name, pool.available) for pool in program.pools),
        )

    # ------------------------------------------------------------------------------- steps

    def steps(self, state: State) -> list[Step]:
        """Every possible step, in a fixed order. Waiting operations appear when they can pass."""
        draft = Draft(state)
        steps = {
            Step(Actor.AGENT, agent.number) for agent in self.agents if self._enabled(draft, agent)
        }
        steps.update(_engine_step(flight, split=False) for flight in draft.free_flights)
        for (_, name), queue in draft.queues.items():
            flights = [flight for group in queue.closed for flight in group]
            flights += queue.open[: self._released(queue.open)]
            split = name in self._split_reads
            ready = flights[:1] if self._queues[name].ordered else flights
            steps.update(_engine_step(flight, split) for flight in ready)
            # Reads of a later group may be over while the writes of an older one are not.
            reading = [flight for flight in flights if flight.reading]
            if split and reading:
                steps.add(_engine_step(reading[0], split))
        return sorted(steps)

    def _released(self, group: tuple[Flight, ...]) -> int:
        """How many of an open group may finish: all up to the last marker that is to arrive.

        `cp.async.mbarrier.arrive` needs no commit (PTX); what no marker stands behind is taken to
        be in flight until its group is closed.
        """
        markers = [isinstance(self.operations[flight.site], ir.QueueArrive) for flight in group]
        return len(group) - markers[::-1].index(True) if True in markers else 0

    def _enabled(self, draft: Draft, agent: Agent) -> bool:
        """Whether the agent can execute its next operation; faulty ones count as enabled."""
        position = draft.positions[agent.number]
        operation = self.operation_at(position)
        if operation is None:
            return False
        environment = self.environment(agent, position.values)
        match operation:
            case ir.Wait():
                return self.wait_passes(draft, operation, environment)
            case ir.TokenWait(barrier=reference):
                barrier = draft.barriers.get(key_of(reference, environment))
                return barrier is None or not barrier.status or agent.number not in barrier.tokens
            case ir.QueueWait(queue=name, pending=pending, until=until):
                outstanding = self._outstanding(draft.queues[(agent.number, name)], name, until)
                return outstanding <= evaluate(pending, environment)
            case ir.BarrierWait(barrier=reference):
                named = draft.named.get(key_of(reference, environment))
                return named is None or agent.number not in named.arrived
            case ir.BarrierSync():
                return not self.blocked_in_sync(draft, agent)
            case ir.PoolTake(pool=name, amount=amount):
                return draft.pools[name] >= evaluate(amount, environment)
        return True

    def _outstanding(self, queue: QueueState, name: str, until: ir.Until) -> int:
        """Groups from the oldest unfinished to the newest (PTX: all but the newest N complete).

        An empty group counts while an older one is unfinished. Without order, a counter counts
        what is unfinished.
        """
        busy = [
            any(until is ir.Until.DONE or flight.reading for flight in group)
            for group in queue.closed
        ]
        if not self._queues[name].ordered:
            return sum(busy)
        return len(busy) - busy.index(True) if True in busy else 0

    def apply(self, state: State, step: Step) -> tuple[State | None, Fault | None]:
        """Execute one step of `steps(state)`. With a fault the new state is None."""
        draft = Draft(state)
        try:
            if step.actor is Actor.AGENT:
                agent = self.agents[step.agent]
                if self._execute(draft, agent):
                    self.advance(draft, agent)
            else:
                self._engine(draft, step)
            self._check_exit(draft)
            self.check_lapped(draft)
        except FaultFound as found:
            return None, found.fault
        return draft.freeze(), None

    # --------------------------------------------------------------------- agent operations

    def _execute(self, draft: Draft, agent: Agent) -> bool:
        """Execute the next operation; returns whether the agent goes on to the one after it."""
        position = draft.positions[agent.number]
        operation = self.operation_at(position)
        if operation is None:
            raise ValueError(f"{agent.name} is at its end and cannot step")
        doing, environment = (
            Doing(agent.number, operation),
            self.environment(agent, position.values),
        )
        match operation:
            case ir.Access():
                self.access(draft, doing, operation, environment)
            case ir.Asynchronous():
                self._issue(draft, doing, operation, environment)
            case ir.QueueArrive():
                self._queue_arrive(draft, doing, operation, environment)
            case ir.Commit(queue=name):
                queue = draft.queues[(agent.number, name)]
                if queue.open or queue.closed:
                    closed = (*queue.closed, queue.open)
                    draft.queues[(agent.number, name)] = QueueState(closed, ())
            case ir.Init():
                self.init(draft, doing, operation, environment)
            case ir.Invalidate():
                self.invalidate(draft, doing, operation, environment)
            case ir.Arrive():
                self.arrive(draft, doing, operation, environment)
            case ir.ExpectTransaction():
                self.expect(draft, doing, operation, environment)
            case ir.Wait():
                self.wait(draft, doing, operation, environment)
            case ir.TokenWait():
                self.token_wait(draft, doing, operation)
            case ir.BarrierSync() | ir.BarrierArrive():
                return self.named_arrive(draft, agent, doing, operation)
            case ir.BarrierWait():
                self.named_wait(draft, doing, operation)
            case ir.Fence():
                self.fence(draft, agent, operation)
            case ir.PoolTake(pool=name, amount=amount):
                draft.pools[name] -= self._pool_amount(doing, name, amount, environment)
            case ir.PoolGive(pool=name, amount=amount):
                draft.pools[name] += self._pool_amount(doing, name, amount, environment)
            case ir.QueueWait():
                pass
            case _:
                raise TypeError(f"no meaning for {type(operation).__name__}")
        return True

    @staticmethod
    def _pool_amount(doing: Doing, name: str, amount: Expression, environment: Environment) -> int:
        """What is taken from a pool or given back to it; never negative."""
        units = evaluate(amount, environment)
        if units < 0:
            doing.fail(FaultKind.POOL_MISUSE, f"a negative amount of {name} is named", name)
        return units

    def _issue(
        self, draft: Draft, doing: Doing, operation: ir.Asynchronous, environment: Environment
    ) -> None:
        """Start an asynchronous operation: its reads and writes are possible from here on."""
        accesses: list[FlightAccess] = []
        effects: list[ir.Effect] = []
        for effect in operation.effects:
            cells, tile = self.resolve(draft, doing, effect, environment)
            extent = (cells[0], len(cells)) if effect.accumulates else None
            accesses += [(cell, effect.write, tile, effect.proxy, extent) for cell in cells]
            effects += [effect] * len(cells)
        for effect, (cell, write, tile, _, extent) in zip(effects, accesses, strict=True):
            self.check_cached(draft, doing, cell, effect)
            self.check_proxy(draft, doing, cell, effect)
            if write:
                self.check_write(draft, doing, cell, operation.queue, extent)
            else:
                self.check_read(draft, doing, cell, tile, operation.queue)
        completes = tuple(
            (
                self.declared(draft, doing, completion.barrier, environment),
                evaluate(completion.bytes, environment),
            )
            for completion in operation.completes
        )
        ordinal, site = draft.issued[doing.agent], self.site_of(operation)
        flight = Flight(
            doing.agent, ordinal, site, tuple(accesses), completes, True, operation.chunks
        )
        self._enqueue(draft, operation.queue, flight)

    def _queue_arrive(
        self, draft: Draft, doing: Doing, operation: ir.QueueArrive, environment: Environment
    ) -> None:
        """A marker behind everything issued so far; it arrives when its turn comes."""
        key = self.declared(draft, doing, operation.barrier, environment)
        count = evaluate(operation.count, environment)
        ordinal, site = draft.issued[doing.agent], self.site_of(operation)
        flight = Flight(doing.agent, ordinal, site, (), ((key, count),), False, 1)
        self._enqueue(draft, operation.queue, flight)

    def _enqueue(self, draft: Draft, name: str | None, flight: Flight) -> None:
        draft.issued[flight.agent] += 1
        if name is None:
            draft.free_flights.append(flight)
            return
        queue = draft.queues[(flight.agent, name)]
        if self._queues[name].grouped:
            changed = QueueState(queue.closed, (*queue.open, flight))
        else:
            changed = QueueState((*queue.closed, (flight,)), queue.open)
        draft.queues[(flight.agent, name)] = changed

    # -------------------------------------------------------------------------------- engines

    def _engine(self, draft: Draft, step: Step) -> None:
        """An engine finishes one operation (or a chunk of it), or is done with its reads."""
        mark = (step.agent, step.ordinal)
        for index, flight in enumerate(draft.free_flights):
            if flight[:2] == mark:
                draft.free_flights[index : index + 1] = self._finish(draft, flight, step.actor)
                return
        for key, queue in draft.queues.items():
            for number, group in enumerate((*queue.closed, queue.open)):
                for index, flight in enumerate(group):
                    if flight[:2] == mark:
                        rest = self._finish(draft, flight, step.actor)
                        groups = [*queue.closed, queue.open]
                        groups[number] = (*group[:index], *rest, *group[index + 1 :])
                        draft.queues[key] = self._retired(key[1], groups)
                        return
        raise ValueError(f"no operation in flight for {step}")

    def _retired(self, name: str, groups: list[tuple[Flight, ...]]) -> QueueState:
        """Drop what has retired: finished groups with none unfinished before them.

        The last group is the open one.

        An operation that only reads, through another proxy, is over once it has read; in an
        ordered queue, once everything before it is.
        """
        ordered, waiting = self._queues[name].ordered, False
        for number, group in enumerate(groups):
            left = []
            for flight in group:
                if waiting or not _is_over(flight):
                    waiting = waiting or ordered
                    left.append(flight)
            groups[number] = tuple(left)
        *closed, opened = groups
        if not ordered:
            return QueueState(tuple(group for group in closed if group), opened)
        first = next((number for number, group in enumerate(closed) if group), len(closed))
        return QueueState(tuple(closed[first:]), opened)

    def _finish(self, draft: Draft, flight: Flight, actor: Actor) -> tuple[Flight, ...]:
        """One engine step of a flight; returns what is left of it."""
        if actor is Actor.READS:
            self._have_read(draft, flight)
            return (flight._replace(reading=False),)
        doing, last = self.origin(flight), flight.chunks == 1
        if last:
            self._take_effect(draft, flight)
        for key, amount in flight.completes:
            barrier = self.usable(draft, doing, key, engine=True)
            if not isinstance(doing.operation, ir.Asynchronous):
                self.count_down(draft, doing, key, barrier, amount)
                continue
            share = amount // doing.operation.chunks
            part = amount - share * (doing.operation.chunks - 1) if last else share
            changed = barrier._replace(transaction=barrier.transaction - part)
            self.store(draft, doing, key, changed)
        return () if last else (flight._replace(chunks=flight.chunks - 1),)

    def _take_effect(self, draft: Draft, flight: Flight) -> None:
        """The writes of a finished operation are what the memory holds now."""
        if flight.reading:
            self._have_read(draft, flight)
        for cell, write, tile, proxy, _ in flight.accesses:
            if write and proxy is ir.Proxy.GENERIC:
                self.note_write(draft, cell, tile, ENGINE)
            elif write:
                held = self.outside(draft.cells[cell], cell, True)
                authors = held.authors | {ENGINE}
                draft.cells[cell] = held._replace(tile=tile, authors=authors, released=False)
            elif proxy is ir.Proxy.GENERIC:
                self.note_read(draft, cell, ENGINE)

    def _have_read(self, draft: Draft, flight: Flight) -> None:
        """Reads through other proxies that are over: their completion has its implicit fence."""
        for cell, write, _, proxy, _ in flight.accesses:
            if not write and proxy is not ir.Proxy.GENERIC:
                draft.cells[cell] = self.outside(draft.cells[cell], cell, False)

    # ------------------------------------------------------------------- faults of a state

    def _check_exit(self, draft: Draft) -> None:
        """No engine may use the memory or a barrier of a CTA whose agents are all at their end."""
        ended = self.ended_ctas(draft)
        if not ended or self.program.policies.exit_in_flight == "allow":
            return
        homes = {
            buffer.storage or buffer.name: buffer.cta
            for buffer in self.program.buffers
            if buffer.space is not ir.Space.GLOBAL
        }
        for flight in draft.flights():
            touched = {
                homes[cell[0]]
                for cell, write, *_ in flight.accesses
                if cell[0] in homes and (write or flight.reading)
            }
            touched |= {self._barriers[key[0]].cta for key, _ in flight.completes}
            if touched & ended:
                message = "the CTA ends while an asynchronous operation that uses it is in flight"
                self.origin(flight).fail(FaultKind.LEAK_AT_EXIT, message)

    def state_fault(self, state: State) -> Fault | None:
        """A fault of the state itself: two accesses that nothing orders, or a deadlock."""
        race = self._race(state)
        if race is not None:
            return race
        if self.steps(state):
            return None
        waiting = [agent for agent in self.agents if state.positions[agent.number].frames]
        if not waiting:
            return None
        names = ", ".join(agent.name for agent in waiting)
        message = f"no step is possible and {names} cannot go on"
        operations = tuple(self.operation_of(state, agent.number) for agent in waiting)
        numbers = tuple(agent.number for agent in waiting)
        return Fault(FaultKind.DEADLOCK, message, numbers, operations)

    def _race(self, state: State) -> Fault | None:
        """Two agents stand at conflicting synchronous accesses: nothing orders them."""
        pending: list[tuple[Agent, ir.Operation, dict[Cell, bool]]] = []
        for agent in self.agents:
            operation = self.operation_of(state, agent.number)
            if not isinstance(operation, ir.Access):
                continue
            touched = self._touched(state, agent, operation)
            for other, other_operation, others in pending:
                for cell in sorted(touched.keys() & others.keys()):
                    if touched[cell] or others[cell]:
                        message = (
                            f"{other.name} and {agent.name} access {key_text(cell)} and nothing "
                            "orders them"
                        )
                        numbers = (other.number, agent.number)
                        operations = (other_operation, operation)
                        return Fault(FaultKind.DATA_RACE, message, numbers, operations, cell[0])
            pending.append((agent, operation, touched))
        return None

    def _touched(self, state: State, agent: Agent, operation: ir.Access) -> dict[Cell, bool]:
        """The cells of the access, each with whether it is written."""
        environment = self.environment(agent, state.positions[agent.number].values)
        touched: dict[Cell, bool] = {}
        for effect in operation.effects:
            try:
                doing = Doing(agent.number, operation)
                cells, _ = self.resolve(Draft(state), doing, effect, environment)
            except FaultFound:
                continue  # the step itself reports it
            for cell in cells:
                touched[cell] = touched.get(cell, False) or effect.write
        return touched


def _engine_step(flight: Flight, split: bool) -> Step:
    actor = Actor.READS if split and flight.reading else Actor.FINISH
    return Step(actor, flight.agent, flight.ordinal)


def _is_over(flight: Flight) -> bool:
    """Whether nothing is left to do: it only reads, has read, and leaves no mark on memory."""
    return (
        not flight.reading
        and not flight.completes
        and all(
            not write and proxy is not ir.Proxy.GENERIC for _, write, _, proxy, _ in flight.accesses
        )
    )
