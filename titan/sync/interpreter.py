"""The reference interpreter: the definition of what a sync program means, one step at a time.

Decides nothing by itself: `Machine.steps` lists every step that is possible in a state,
`Machine.apply` executes one, and faults are reported as they occur. It walks the structured
program, knows no reduction and no abstraction, and needs all sizes as numbers. Every other engine is tested
against it, and every trace that a user sees has been replayed by it.

Assumptions: an agent executes its synchronous operations one after the other; an asynchronous
operation reads and writes at any time between its start and its finish; operations of an ordered
queue finish in the order of issue, all others in any order. Relaxed synchronisation orders
execution here like any other: what it fails to carry is decided by the happens-before engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import Actor, Fault, FaultKind, Step

UNDEFINED = -(2**40)  # content of memory that nobody has written
ANY_TILE = UNDEFINED + 1  # content written without a tile
ENGINE = -1  # stands for the engine among the writers of a cell
LOCAL_STEPS_MAX = 1_000_000  # control steps of one agent without an operation
TRANSACTION_MAX = 2**20 - 1  # PTX "mbarrier: Contents": range of the transaction count

Cell = tuple[str, int]  # storage, unit
Sizes = Mapping[str, int | tuple[int, ...]]


class LocalLoopError(Exception):
    """A role's control flow runs on without reaching an operation."""


class Position(NamedTuple):
    """Where an agent is: frames (block, index) from the outside in, and its variables.

    `index` is that of the operation to execute next; no frames: the agent is at its end.
    """

    frames: tuple[tuple[int, int], ...]
    values: tuple[int, ...]


class Flight(NamedTuple):
    """An asynchronous operation between start and finish.

    `site` is the number of the operation in `Machine.operations`; `accesses` are (cell, write,
    tile, proxy).
    """

    agent: int
    ordinal: int
    site: int
    accesses: tuple[tuple[Cell, bool, int, ir.Proxy], ...]
    completes: tuple[tuple[tuple[str, int], int], ...]
    reading: bool
    chunks: int


class MbarrierState(NamedTuple):
    """`status`: 0 dead, 1 initialised but not published, 2 live. `tokens`: agents with a state."""

    status: int
    owner: int
    expected: int
    pending: int
    transaction: int
    phase: int
    tokens: frozenset[int]


class NamedState(NamedTuple):
    arrived_threads: int
    expected_threads: int
    agents: frozenset[int]


class CellState(NamedTuple):
    """`tile` held; agents whose generic writes or reads they have not fenced; tensor map state."""

    tile: int
    writers: frozenset[int]
    readers: frozenset[int]
    tensormap: int  # 0 clean, 1 written, 2 released


class QueueState(NamedTuple):
    closed: tuple[tuple[Flight, ...], ...]
    open: tuple[Flight, ...]


class State(NamedTuple):
    positions: tuple[Position, ...]
    issued: tuple[int, ...]
    barriers: tuple[tuple[tuple[str, int], MbarrierState], ...]
    named: tuple[tuple[tuple[str, int], NamedState], ...]
    cells: tuple[tuple[Cell, CellState], ...]
    queues: tuple[tuple[tuple[int, str], QueueState], ...]
    free_flights: tuple[Flight, ...]
    pools: tuple[tuple[str, int], ...]


class _FaultFound(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class _Draft:
    """A state under construction: the same tables as `State`, as dictionaries."""

    def __init__(self, state: State) -> None:
        self.positions = list(state.positions)
        self.issued = list(state.issued)
        self.barriers = dict(state.barriers)
        self.named = dict(state.named)
        self.cells = dict(state.cells)
        self.queues = dict(state.queues)
        self.free_flights = list(state.free_flights)
        self.pools = dict(state.pools)

    def freeze(self) -> State:
        return State(
            tuple(self.positions),
            tuple(self.issued),
            tuple(self.barriers.items()),
            tuple(self.named.items()),
            tuple(self.cells.items()),
            tuple(self.queues.items()),
            tuple(sorted(self.free_flights, key=lambda flight: flight[:2])),
            tuple(self.pools.items()),
        )

    def flights(self) -> Iterator[Flight]:
        yield from self.free_flights
        for queue in self.queues.values():
            for group in queue.closed:
                yield from group
            yield from queue.open


class Agent(NamedTuple):
    """One instance of a role; `number` counts over the whole program."""

    number: int
    role: ir.Role
    member: int

    @property
    def name(self) -> str:
        return self.role.name if self.role.agents == 1 else f"{self.role.name}[{self.member}]"


def agents_of(program: ir.SyncProgram) -> tuple[Agent, ...]:
    """All agents, in the numbering that steps and traces use."""
    pairs = [(role, member) for role in program.roles for member in range(role.agents)]
    return tuple(Agent(number, role, member) for number, (role, member) in enumerate(pairs))


class Machine:
    """Executes one program with concrete sizes.

    Raises ValueError when a parameter has no size, LocalLoopError from `initial`, `steps` and
    `apply` when a role loops without operations.
    """

    def __init__(self, program: ir.SyncProgram, sizes: Sizes | None = None) -> None:
        self.program = program
        self.sizes: dict[str, int | tuple[int, ...]] = {}
        for parameter in program.parameters:
            size = (sizes or {}).get(parameter.name, parameter.value)
            if size is None:
                raise ValueError(f"parameter {parameter.name} has no size")
            self.sizes[parameter.name] = size
        self._per = {parameter.name: parameter.per for parameter in program.parameters}
        self.agents = agents_of(program)
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._queues = {queue.name: queue for queue in program.queues}
        self._barriers = {barrier.name: barrier for barrier in program.barriers}
        self._named = {barrier.name: barrier for barrier in program.named_barriers}
        self._blocks: list[ir.Block] = []
        self.operations: list[ir.Operation] = []
        self._site_of: dict[int, int] = {}
        self._block_of: dict[int, dict[tuple[int, int, int], int]] = {}
        self._entry = {role.name: self._number(role.body) for role in program.roles}
        self._variables = {role.name: self._variables_of(role) for role in program.roles}
        self._split_reads = {
            operation.queue
            for role in program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.QueueWait) and operation.until is ir.Until.READ
        }

    # -------------------------------------------------------------------- program structure

    def _number(self, block: ir.Block) -> int:
        """Give the block and all blocks inside it numbers; returns that of the block."""
        number = len(self._blocks)
        self._blocks.append(block)
        inner: dict[tuple[int, int, int], int] = {}
        self._block_of[number] = inner
        for index, operation in enumerate(block):
            if id(operation) not in self._site_of:
                self._site_of[id(operation)] = len(self.operations)
                self.operations.append(operation)
            if isinstance(operation, ir.Loop):
                inner[(number, index, 0)] = self._number(operation.body)
            elif isinstance(operation, ir.Branch):
                inner[(number, index, 0)] = self._number(operation.then)
                inner[(number, index, 1)] = self._number(operation.otherwise)
        return number

    @staticmethod
    def _variables_of(role: ir.Role) -> tuple[str, ...]:
        names = [name for name, _ in role.variables]
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Loop) or isinstance(operation, ir.Assign):
                names.append(operation.variable)
        return tuple(dict.fromkeys(names))

    def environment(self, agent: Agent, values: tuple[int, ...]) -> dict[str, int]:
        """All names in scope of the agent, with the sizes of this run."""
        environment = dict(zip(self._variables[agent.role.name], values, strict=True))
        environment[agent.role.agent_constant] = agent.member
        for name, size in self.sizes.items():
            if isinstance(size, int):
                environment[name] = size
            else:
                instance = environment.get(self._per[name] or "", 0)
                environment[name] = size[min(max(instance, 0), len(size) - 1)]
        return environment

    def _settle(self, agent: Agent, position: Position) -> Position:
        """Follow control flow and local assignments up to the next operation, or to the end."""
        frames, values = list(position.frames), list(position.values)
        variables = self._variables[agent.role.name]
        for _ in range(LOCAL_STEPS_MAX):
            if not frames:
                return Position((), tuple(values))
            number, index = frames[-1]
            block = self._blocks[number]
            if index == len(block):
                frames.pop()
                if frames:
                    outer_number, outer_index = frames[-1]
                    outer = self._blocks[outer_number][outer_index]
                    if isinstance(outer, ir.Loop):
                        values[variables.index(outer.variable)] += 1
                        self._enter_loop(agent, frames, values, outer, variables)
                    else:
                        frames[-1] = (outer_number, outer_index + 1)
                continue
            operation = block[index]
            environment = self.environment(agent, tuple(values))
            if isinstance(operation, ir.Assign):
                values[variables.index(operation.variable)] = evaluate(operation.value, environment)
                frames[-1] = (number, index + 1)
            elif isinstance(operation, ir.Loop):
                values[variables.index(operation.variable)] = evaluate(operation.start, environment)
                self._enter_loop(agent, frames, values, operation, variables)
            elif isinstance(operation, ir.Branch):
                arm = 0 if evaluate(operation.condition, environment) else 1
                frames.append((self._block_of[number][(number, index, arm)], 0))
            else:
                return Position(tuple(frames), tuple(values))
        raise LocalLoopError(f"{agent.name}: control flow without an operation does not end")

    def _enter_loop(
        self,
        agent: Agent,
        frames: list[tuple[int, int]],
        values: list[int],
        loop: ir.Loop,
        variables: tuple[str, ...],
    ) -> None:
        """At the loop's test: go into the body, or past the loop."""
        number, index = frames[-1]
        environment = self.environment(agent, tuple(values))
        if environment[loop.variable] < evaluate(loop.stop, environment):
            frames.append((self._block_of[number][(number, index, 0)], 0))
        else:
            frames[-1] = (number, index + 1)

    def operation_of(self, state: State, agent: int) -> ir.Operation | None:
        """What the agent executes next; None at its end."""
        frames = state.positions[agent].frames
        return self._blocks[frames[-1][0]][frames[-1][1]] if frames else None

    # ------------------------------------------------------------------------------ states

    def initial(self) -> State:
        """The state before the first step."""
        positions = []
        for agent in self.agents:
            first = dict(agent.role.variables)
            values = tuple(first.get(name, 0) for name in self._variables[agent.role.name])
            position = Position(((self._entry[agent.role.name], 0),), values)
            positions.append(self._settle(agent, position))
        barriers = {
            (barrier.name, stage): MbarrierState(
                2 if barrier.initialised else 0,
                ENGINE,
                barrier.count,
                barrier.count,
                0,
                0,
                frozenset(),
            )
            for barrier in self.program.barriers
            for stage in range(barrier.stages)
        }
        named = {
            (barrier.name, stage): NamedState(0, 0, frozenset())
            for barrier in self.program.named_barriers
            for stage in range(barrier.stages)
        }
        cells: dict[Cell, CellState] = {}
        for buffer in self.program.buffers:
            for stage in range(buffer.stages):
                for cell in self._cells_of(buffer, stage, None):
                    tile = UNDEFINED if buffer.initial is None else buffer.initial
                    if cell not in cells or buffer.initial is not None:
                        cells[cell] = CellState(tile, frozenset(), frozenset(), 0)
        queues = {
            (agent.number, queue.name): QueueState((), ())
            for agent in self.agents
            for queue in self.program.queues
        }
        pools = {pool.name: pool.available for pool in self.program.pools}
        return State(
            tuple(positions),
            (0,) * len(self.agents),
            tuple(barriers.items()),
            tuple(named.items()),
            tuple(cells.items()),
            tuple(queues.items()),
            (),
            tuple(pools.items()),
        )

    @staticmethod
    def _cells_of(buffer: ir.Buffer, stage: int, part: int | None) -> list[Cell]:
        storage = buffer.storage or buffer.name
        parts = range(buffer.parts) if part is None else (part,)
        return [
            (storage, buffer.offset + (stage * buffer.parts + p) * buffer.units + unit)
            for p in parts
            for unit in range(buffer.units)
        ]

    # ------------------------------------------------------------------------------- steps

    def steps(self, state: State) -> list[Step]:
        """Every possible step, in a fixed order. Waiting operations appear when they can pass."""
        draft = _Draft(state)
        steps = [
            Step(Actor.AGENT, agent.number)
            for agent in self.agents
            if self._enabled(draft, agent, self.operation_of(state, agent.number))
        ]
        for flight in draft.free_flights:
            steps.append(self._engine_step(flight, split=False))
        for (_, name), queue in draft.queues.items():
            flights = [flight for group in queue.closed for flight in group]
            split = name in self._split_reads
            ready = flights if not self._queues[name].ordered else flights[:1]
            steps.extend(self._engine_step(flight, split) for flight in ready)
            if split:
                # Reads of later groups may be over while the writes of the first are not.
                waiting = [flight for flight in flights[1:] if flight.reading]
                behind = [flight for flight in flights[:1] if flight.reading]
                if waiting and not behind:
                    steps.append(self._engine_step(waiting[0], split))
        return sorted(set(steps))

    @staticmethod
    def _engine_step(flight: Flight, split: bool) -> Step:
        actor = Actor.READS if split and flight.reading else Actor.FINISH
        return Step(actor, flight.agent, flight.ordinal)

    def _enabled(self, draft: _Draft, agent: Agent, operation: ir.Operation | None) -> bool:
        """Whether the agent can execute its next operation; faulty ones count as enabled."""
        if operation is None:
            return False
        environment = self.environment(agent, draft.positions[agent.number].values)
        match operation:
            case ir.Wait(barrier=reference, parity=parity):
                barrier = draft.barriers.get(_key(reference, environment))
                if barrier is None or barrier.status == 0:
                    return True
                return barrier.phase & 1 != evaluate(parity, environment) & 1
            case ir.TokenWait(barrier=reference):
                barrier = draft.barriers.get(_key(reference, environment))
                if barrier is None or barrier.status == 0:
                    return True
                return agent.number not in barrier.tokens
            case ir.QueueWait(queue=name, pending=pending, until=until):
                outstanding = self._outstanding(draft.queues[(agent.number, name)], name, until)
                return outstanding <= evaluate(pending, environment)
            case ir.BarrierWait(barrier=reference):
                named = draft.named.get(_key(reference, environment))
                return named is None or agent.number not in named.agents
            case ir.BarrierSync(barrier=reference):
                return not self._blocked_in_sync(draft, agent)
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

    @staticmethod
    def _blocked_in_sync(draft: _Draft, agent: Agent) -> bool:
        """Whether the agent has arrived by `bar.sync` and its generation is not complete."""
        marker = ~agent.number
        return any(marker in named.agents for named in draft.named.values())

    def apply(self, state: State, step: Step) -> tuple[State | None, Fault | None]:
        """Execute one step of `steps(state)`. With a fault the new state is None."""
        draft = _Draft(state)
        try:
            if step.actor is Actor.AGENT:
                agent = self.agents[step.agent]
                operation = self.operation_of(state, step.agent)
                assert operation is not None, "a step of an agent that is at its end"
                if self._execute(draft, agent, operation):
                    self._advance(draft, agent)
            else:
                self._engine(draft, step)
            self._check_exit(draft)
            self._check_lapped(draft)
        except _FaultFound as found:
            return None, found.fault
        return draft.freeze(), None

    def _advance(self, draft: _Draft, agent: Agent) -> None:
        frames, values = draft.positions[agent.number]
        number, index = frames[-1]
        moved = Position((*frames[:-1], (number, index + 1)), values)
        draft.positions[agent.number] = self._settle(agent, moved)

    # --------------------------------------------------------------------- agent operations

    def _execute(self, draft: _Draft, agent: Agent, operation: ir.Operation) -> bool:
        """Execute; returns whether the agent goes on to its next operation."""
        environment = self.environment(agent, draft.positions[agent.number].values)
        match operation:
            case ir.Access():
                self._access(draft, agent, operation, environment)
            case ir.Asynchronous():
                self._issue(draft, agent, operation, environment)
            case ir.Commit(queue=name):
                queue = draft.queues[(agent.number, name)]
                if queue.open or queue.closed:
                    closed = (*queue.closed, queue.open)
                    draft.queues[(agent.number, name)] = QueueState(closed, ())
            case ir.QueueArrive():
                self._queue_arrive(draft, agent, operation, environment)
            case ir.Init() | ir.Invalidate():
                self._lifecycle(draft, agent, operation, environment)
            case ir.Arrive():
                self._arrive(draft, agent, operation, environment)
            case ir.ExpectTransaction(barrier=reference, bytes=size):
                key, barrier = self._barrier(draft, agent.number, operation, reference, environment)
                if barrier.pending == 0:
                    self._fail(
                        FaultKind.TRANSACTION_MISMATCH,
                        f"bytes are expected on {_text(key)} after the last arrival of its phase",
                        agent.number,
                        operation,
                        key[0],
                    )
                transaction = barrier.transaction + evaluate(size, environment)
                self._set_barrier(
                    draft, agent.number, operation, key, barrier._replace(transaction=transaction)
                )
            case ir.Wait():
                self._wait(draft, agent, operation, environment)
            case ir.TokenWait(barrier=reference):
                self._barrier(draft, agent.number, operation, reference, environment)
            case ir.BarrierSync(barrier=reference, threads=threads):
                return self._named_arrive(
                    draft, agent, operation, reference, evaluate(threads, environment), True
                )
            case ir.BarrierArrive(barrier=reference, threads=threads):
                self._named_arrive(
                    draft, agent, operation, reference, evaluate(threads, environment), False
                )
            case ir.BarrierWait(barrier=reference):
                self._named_key(draft, agent, operation, reference, environment)
            case ir.Fence():
                self._fence(draft, agent, operation)
            case ir.PoolTake(pool=name, amount=amount):
                draft.pools[name] -= evaluate(amount, environment)
            case ir.PoolGive(pool=name, amount=amount):
                self._pool_give(draft, agent, operation, name, evaluate(amount, environment))
            case ir.QueueWait():
                pass
            case _:
                raise TypeError(f"no meaning for {type(operation).__name__}")
        return True

    def _pool_give(
        self, draft: _Draft, agent: Agent, operation: ir.Operation, name: str, amount: int
    ) -> None:
        if amount < 0:
            self._fail(
                FaultKind.POOL_MISUSE,
                f"a negative amount is given back to {name}",
                agent.number,
                operation,
                name,
            )
        draft.pools[name] += amount

    def _fail(
        self, kind: FaultKind, message: str, agent: int, operation: object, name: str = ""
    ) -> None:
        raise _FaultFound(Fault(kind, message, (agent,), (operation,), name))

    def _resolve(
        self,
        draft: _Draft,
        agent: int,
        operation: ir.Operation,
        effect: ir.Effect,
        environment: dict[str, int],
    ) -> tuple[list[Cell], int]:
        """The cells and the tile of one effect; ANY_TILE where no tile is named."""
        buffer = self._buffers[effect.buffer]
        stage = evaluate(effect.stage, environment)
        part = None if effect.part is None else evaluate(effect.part, environment)
        if not 0 <= stage < buffer.stages or not 0 <= (part or 0) < buffer.parts:
            self._fail(
                FaultKind.INDEX_OUT_OF_RANGE,
                f"{buffer.name} has no stage {stage} part {part}",
                agent,
                operation,
                buffer.name,
            )
        if buffer.cta != self.agents[agent].role.cta:
            self._exited(draft, agent, operation, buffer.cta, buffer.name)
        tile = ANY_TILE if effect.tile is None else evaluate(effect.tile, environment)
        return self._cells_of(buffer, stage, part), tile

    def _exited(self, draft: _Draft, agent: int, operation: object, cta: int, name: str) -> None:
        """A CTA whose agents are all at their end no longer owns its memory."""
        if cta in self._ended_ctas(draft):
            self._fail(
                FaultKind.LEAK_AT_EXIT,
                f"{name} belongs to CTA {cta}, which has ended",
                agent,
                operation,
                name,
            )

    def _check_read(
        self,
        draft: _Draft,
        agent: int,
        operation: ir.Operation,
        cell: Cell,
        tile: int,
        own_queue: str | None = None,
    ) -> None:
        """The content that a read meets: written to its end, and the tile that is meant."""
        held = draft.cells[cell].tile
        for flight in draft.flights():
            for other, write, written, _ in flight.accesses:
                if other != cell or not write:
                    continue
                if self._piped(flight, agent, own_queue):
                    held = written
                    continue
                raise _FaultFound(
                    Fault(
                        FaultKind.READ_BEFORE_ARRIVAL,
                        f"{self._tile_text(cell)} is read while a write to it is in flight",
                        (agent, flight.agent),
                        (operation, self.operations[flight.site]),
                        cell[0],
                    )
                )
        if tile not in (ANY_TILE, held):
            self._fail(
                FaultKind.STALE_READ,
                f"{self._tile_text(cell)} holds {_content(held)} where {_content(tile)} is meant",
                agent,
                operation,
                cell[0],
            )

    def _check_write(
        self,
        draft: _Draft,
        agent: int,
        operation: ir.Operation,
        cell: Cell,
        own_queue: str | None = None,
    ) -> None:
        """Nothing in flight may still use what is written."""
        for flight in draft.flights():
            if self._piped(flight, agent, own_queue):
                continue
            for other, write, _, _ in flight.accesses:
                if other == cell and (write or flight.reading):
                    what = "writes" if write else "reads"
                    raise _FaultFound(
                        Fault(
                            FaultKind.OVERWRITE_IN_FLIGHT,
                            f"{self._tile_text(cell)} is overwritten while an operation in flight "
                            f"still {what} it",
                            (agent, flight.agent),
                            (operation, self.operations[flight.site]),
                            cell[0],
                        )
                    )

    def _piped(self, flight: Flight, agent: int, own_queue: str | None) -> bool:
        """Whether the data path itself orders the flight before a new operation of `own_queue`."""
        if own_queue is None or flight.agent != agent or not self._queues[own_queue].pipelined:
            return False
        return getattr(self.operations[flight.site], "queue", None) == own_queue

    @staticmethod
    def _tile_text(cell: Cell) -> str:
        return f"{cell[0]}[{cell[1]}]"

    def _access(
        self, draft: _Draft, agent: Agent, operation: ir.Access, environment: dict[str, int]
    ) -> None:
        number = agent.number
        resolved = [
            (effect, *self._resolve(draft, number, operation, effect, environment))
            for effect in operation.effects
        ]
        for effect, cells, tile in resolved:
            for cell in cells:
                if effect.write:
                    self._check_write(draft, number, operation, cell)
                else:
                    self._check_read(draft, number, operation, cell, tile)
        for effect, cells, tile in resolved:
            for cell in cells:
                held = draft.cells[cell]
                if effect.write:
                    draft.cells[cell] = CellState(tile, held.writers | {number}, held.readers, 1)
                else:
                    draft.cells[cell] = held._replace(readers=held.readers | {number})

    def _issue(
        self, draft: _Draft, agent: Agent, operation: ir.Asynchronous, environment: dict[str, int]
    ) -> None:
        number = agent.number
        accesses: list[tuple[Cell, bool, int, ir.Proxy]] = []
        for effect in operation.effects:
            cells, tile = self._resolve(draft, number, operation, effect, environment)
            accesses += [(cell, effect.write, tile, effect.proxy) for cell in cells]
        for cell, write, tile, proxy in accesses:
            self._check_proxy(draft, number, operation, cell, write, proxy)
            if write:
                self._check_write(draft, number, operation, cell, operation.queue)
            else:
                self._check_read(draft, number, operation, cell, tile, operation.queue)
        completes = tuple(
            (_key(completion.barrier, environment), evaluate(completion.bytes, environment))
            for completion in operation.completes
        )
        for key, _ in completes:
            if key not in draft.barriers:
                self._fail(
                    FaultKind.INDEX_OUT_OF_RANGE,
                    f"there is no barrier {_text(key)}",
                    number,
                    operation,
                    key[0],
                )
        flight = Flight(
            number,
            draft.issued[number],
            self._site_of[id(operation)],
            tuple(accesses),
            completes,
            True,
            operation.chunks,
        )
        self._enqueue(draft, agent, operation.queue, flight)

    def _enqueue(self, draft: _Draft, agent: Agent, name: str | None, flight: Flight) -> None:
        draft.issued[agent.number] += 1
        if name is None:
            draft.free_flights.append(flight)
            return
        queue = draft.queues[(agent.number, name)]
        if self._queues[name].grouped:
            draft.queues[(agent.number, name)] = QueueState(queue.closed, (*queue.open, flight))
        else:
            draft.queues[(agent.number, name)] = QueueState((*queue.closed, (flight,)), queue.open)

    def _queue_arrive(
        self, draft: _Draft, agent: Agent, operation: ir.QueueArrive, environment: dict[str, int]
    ) -> None:
        """A marker behind everything issued so far; it arrives when its turn comes."""
        key, count = _key(operation.barrier, environment), evaluate(operation.count, environment)
        if key not in draft.barriers:
            self._fail(
                FaultKind.INDEX_OUT_OF_RANGE,
                f"there is no barrier {_text(key)}",
                agent.number,
                operation,
                key[0],
            )
        flight = Flight(
            agent.number,
            draft.issued[agent.number],
            self._site_of[id(operation)],
            (),
            ((key, count),),
            False,
            1,
        )
        self._enqueue(draft, agent, operation.queue, flight)

    # ------------------------------------------------------------------------ visibility

    def _check_proxy(
        self,
        draft: _Draft,
        agent: int,
        operation: ir.Operation,
        cell: Cell,
        write: bool,
        proxy: ir.Proxy,
    ) -> None:
        """Generic accesses must be fenced before another proxy uses the same memory."""
        held = draft.cells[cell]
        if proxy is ir.Proxy.ASYNC:
            if held.writers:
                self._fail(
                    FaultKind.MISSING_FENCE,
                    f"{self._tile_text(cell)} was written through the generic proxy without a "
                    "proxy fence before this asynchronous access",
                    agent,
                    operation,
                    cell[0],
                )
            if write and held.readers and self.program.policies.war_fence:
                self._fail(
                    FaultKind.MISSING_FENCE_WAR,
                    f"{self._tile_text(cell)} was read through the generic proxy without a proxy "
                    "fence before this asynchronous write",
                    agent,
                    operation,
                    cell[0],
                )
        elif proxy is ir.Proxy.TENSORMAP and held.tensormap:
            self._fail(
                FaultKind.MISSING_TENSORMAP_FENCE,
                f"the tensor map in {self._tile_text(cell)} was written and is used without a "
                "tensormap fence",
                agent,
                operation,
                cell[0],
            )

    def _fence(self, draft: _Draft, agent: Agent, operation: ir.Fence) -> None:
        number = agent.number
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            for key, barrier in draft.barriers.items():
                if barrier.status == 1 and barrier.owner == number:
                    draft.barriers[key] = barrier._replace(status=2)
            return
        spaces = operation.spaces or tuple(ir.Space)
        covered = {
            cell: buffer.space is ir.Space.GLOBAL or buffer.cta == agent.role.cta
            for buffer in self.program.buffers
            if buffer.space in spaces
            for stage in range(buffer.stages)
            for cell in self._cells_of(buffer, stage, None)
        }
        own = frozenset((number, ENGINE))
        for cell, near in covered.items():
            held = draft.cells[cell]
            # The fence must be executed in the CTA of the other proxy (mixed-proxy model).
            path_rule = near and self.program.policies.fence_rule == "path"
            if operation.kind is ir.FenceKind.ASYNC:
                draft.cells[cell] = held._replace(
                    writers=frozenset() if path_rule else held.writers - own,
                    readers=frozenset() if path_rule else held.readers - own,
                )
            elif operation.kind is ir.FenceKind.TENSORMAP_RELEASE:
                if held.tensormap == 1 and (path_rule or number in held.writers):
                    draft.cells[cell] = held._replace(tensormap=2)
            elif held.tensormap == 2:
                draft.cells[cell] = held._replace(tensormap=0)

    # -------------------------------------------------------------------------- mbarriers

    def _barrier(
        self,
        draft: _Draft,
        agent: int,
        operation: object,
        reference: ir.Reference,
        environment: dict[str, int],
    ) -> tuple[tuple[str, int], MbarrierState]:
        key = _key(reference, environment)
        if key not in draft.barriers:
            self._fail(
                FaultKind.INDEX_OUT_OF_RANGE,
                f"there is no barrier {_text(key)}",
                agent,
                operation,
                key[0],
            )
        barrier = draft.barriers[key]
        remote = self._barriers[key[0]].cta != self.agents[agent].role.cta
        self._check_usable(agent, operation, key, barrier, remote)
        if remote:
            self._exited(draft, agent, operation, self._barriers[key[0]].cta, _text(key))
        return key, barrier

    def _check_usable(
        self,
        agent: int,
        operation: object,
        key: tuple[str, int],
        barrier: MbarrierState,
        far: bool,
    ) -> None:
        """Live, and its initialisation published to who is `far` (an engine or another CTA)."""
        if barrier.status == 0:
            self._fail(
                FaultKind.BARRIER_UNINITIALISED,
                f"{_text(key)} is used before it is initialised or after it was invalidated",
                agent,
                operation,
                key[0],
            )
        if far and barrier.status == 1:
            self._fail(
                FaultKind.UNPUBLISHED_INIT,
                f"the initialisation of {_text(key)} is not published by a fence",
                agent,
                operation,
                key[0],
            )

    def _set_barrier(
        self,
        draft: _Draft,
        agent: int,
        operation: object,
        key: tuple[str, int],
        barrier: MbarrierState,
    ) -> None:
        """Store the barrier, completing its phase when nothing is outstanding."""
        if abs(barrier.transaction) > TRANSACTION_MAX:
            self._fail(
                FaultKind.TRANSACTION_MISMATCH,
                f"{_text(key)} counts more bytes than it can",
                agent,
                operation,
                key[0],
            )
        if barrier.pending == 0:
            if barrier.transaction < 0:
                self._fail(
                    FaultKind.TRANSACTION_MISMATCH,
                    f"{_text(key)} receives more bytes than its phase expects",
                    agent,
                    operation,
                    key[0],
                )
            if barrier.transaction == 0:
                barrier = barrier._replace(
                    pending=barrier.expected, phase=barrier.phase + 1, tokens=frozenset()
                )
        draft.barriers[key] = barrier

    def _arrive(
        self, draft: _Draft, agent: Agent, operation: ir.Arrive, environment: dict[str, int]
    ) -> None:
        number = agent.number
        key, barrier = self._barrier(draft, number, operation, operation.barrier, environment)
        count = evaluate(operation.count, environment)
        size = evaluate(operation.transaction, environment)
        if operation.token:
            barrier = barrier._replace(tokens=barrier.tokens | {number})
        if operation.drop:
            barrier = barrier._replace(expected=barrier.expected - count)
        self._count_down(draft, number, operation, key, barrier, count, size)

    def _count_down(
        self,
        draft: _Draft,
        agent: int,
        operation: object,
        key: tuple[str, int],
        barrier: MbarrierState,
        count: int,
        size: int,
    ) -> None:
        if count < 0 or count > barrier.pending or barrier.expected < 0:
            self._fail(
                FaultKind.OVER_ARRIVAL,
                f"{_text(key)} gets more arrivals than its phase expects",
                agent,
                operation,
                key[0],
            )
        transaction = barrier.transaction + size
        self._set_barrier(
            draft,
            agent,
            operation,
            key,
            barrier._replace(pending=barrier.pending - count, transaction=transaction),
        )

    def _wait(
        self, draft: _Draft, agent: Agent, operation: ir.Wait, environment: dict[str, int]
    ) -> None:
        key, barrier = self._barrier(draft, agent.number, operation, operation.barrier, environment)
        if operation.phase is not None:
            meant = evaluate(operation.phase, environment)
            if barrier.phase != meant + 1:
                self._fail(
                    FaultKind.LAPPED_WAIT,
                    f"the wait for phase {meant} of {_text(key)} passes while "
                    f"{barrier.phase} phases are complete",
                    agent.number,
                    operation,
                    key[0],
                )

    def _lifecycle(
        self,
        draft: _Draft,
        agent: Agent,
        operation: ir.Init | ir.Invalidate,
        environment: dict[str, int],
    ) -> None:
        number, key = agent.number, _key(operation.barrier, environment)
        if key not in draft.barriers:
            self._fail(
                FaultKind.INDEX_OUT_OF_RANGE,
                f"there is no barrier {_text(key)}",
                number,
                operation,
                key[0],
            )
        barrier = draft.barriers[key]
        if isinstance(operation, ir.Init):
            if barrier.status != 0:
                self._fail(
                    FaultKind.BARRIER_LIFECYCLE,
                    f"{_text(key)} is initialised while it is live",
                    number,
                    operation,
                    key[0],
                )
            count = evaluate(operation.count, environment)
            published = self.program.policies.barrier_init == "assumed"
            draft.barriers[key] = MbarrierState(
                2 if published else 1, number, count, count, 0, 0, frozenset()
            )
            return
        if barrier.status == 0:
            self._fail(
                FaultKind.BARRIER_UNINITIALISED,
                f"{_text(key)} is invalidated while it is not live",
                number,
                operation,
                key[0],
            )
        used = any(key == target for flight in draft.flights() for target, _ in flight.completes)
        if used or barrier.tokens or self._waited_for(draft, key):
            self._fail(
                FaultKind.BARRIER_LIFECYCLE,
                f"{_text(key)} is invalidated while it is in use",
                number,
                operation,
                key[0],
            )
        draft.barriers[key] = barrier._replace(status=0)

    def _waited_for(self, draft: _Draft, key: tuple[str, int]) -> bool:
        """Whether an agent stands at a wait on the barrier."""
        for agent in self.agents:
            frames = draft.positions[agent.number].frames
            if not frames:
                continue
            operation = self._blocks[frames[-1][0]][frames[-1][1]]
            if isinstance(operation, ir.Wait | ir.TokenWait):
                environment = self.environment(agent, draft.positions[agent.number].values)
                if _key(operation.barrier, environment) == key:
                    return True
        return False

    # ------------------------------------------------------------------------ named barriers

    def _named_key(
        self,
        draft: _Draft,
        agent: Agent,
        operation: ir.Operation,
        reference: ir.Reference,
        environment: dict[str, int],
    ) -> tuple[str, int]:
        key = _key(reference, environment)
        if key not in draft.named:
            self._fail(
                FaultKind.INDEX_OUT_OF_RANGE,
                f"there is no named barrier {_text(key)}",
                agent.number,
                operation,
                key[0],
            )
        return key

    def _named_arrive(
        self,
        draft: _Draft,
        agent: Agent,
        operation: ir.Operation,
        reference: ir.Reference,
        threads: int,
        sync: bool,
    ) -> bool:
        """Arrive with the agent's threads; the last arrival releases all who wait in a `sync`.

        An agent that waits in a `sync` is marked in `agents` by the complement of its number.
        """
        number = agent.number
        environment = self.environment(agent, draft.positions[number].values)
        key = self._named_key(draft, agent, operation, reference, environment)
        named = draft.named[key]
        if number in named.agents or ~number in named.agents:
            self._fail(
                FaultKind.NAMED_BARRIER_MISUSE,
                f"{agent.name} arrives at {_text(key)} again before it has completed",
                number,
                operation,
                key[0],
            )
        arrived = named.arrived_threads + agent.role.threads
        if named.expected_threads not in (0, threads) or arrived > threads:
            self._fail(
                FaultKind.NAMED_BARRIER_MISUSE,
                f"{_text(key)} counts {arrived} of {threads} threads where "
                f"{named.expected_threads or threads} are expected",
                number,
                operation,
                key[0],
            )
        if arrived < threads:
            mark = ~number if sync else number
            draft.named[key] = NamedState(arrived, threads, named.agents | {mark})
            return not sync
        draft.named[key] = NamedState(0, 0, frozenset())
        for other in named.agents:
            if other < 0:
                self._advance(draft, self.agents[~other])
        return True

    # -------------------------------------------------------------------------------- engines

    def _engine(self, draft: _Draft, step: Step) -> None:
        """An engine finishes one operation (or a chunk of it), or is done with its reads."""
        for index, flight in enumerate(draft.free_flights):
            if (flight.agent, flight.ordinal) == (step.agent, step.ordinal):
                rest = self._finish(draft, flight, step)
                draft.free_flights[index : index + 1] = [rest] if rest else []
                return
        for key, queue in draft.queues.items():
            groups = [list(group) for group in queue.closed]
            for group in groups:
                for index, flight in enumerate(group):
                    if (flight.agent, flight.ordinal) == (step.agent, step.ordinal):
                        rest = self._finish(draft, flight, step)
                        group[index : index + 1] = [rest] if rest else []
                        while groups and not groups[0]:
                            groups.pop(0)
                        if not self._queues[key[1]].ordered:
                            groups = [members for members in groups if members]
                        closed = tuple(tuple(members) for members in groups)
                        draft.queues[key] = QueueState(closed, draft.queues[key].open)
                        return
        raise ValueError(f"no operation in flight for {step}")

    def _finish(self, draft: _Draft, flight: Flight, step: Step) -> Flight | None:
        """One engine step of a flight; returns what is left of it."""
        if step.actor is Actor.READS:
            return flight._replace(reading=False)
        operation = self.operations[flight.site]
        last = flight.chunks == 1
        if last:
            for cell, write, tile, proxy in flight.accesses:
                held = draft.cells[cell]
                if write and proxy is ir.Proxy.GENERIC:
                    draft.cells[cell] = CellState(tile, held.writers | {ENGINE}, held.readers, 1)
                elif write:
                    draft.cells[cell] = held._replace(tile=tile)
                elif proxy is ir.Proxy.GENERIC:
                    draft.cells[cell] = held._replace(readers=held.readers | {ENGINE})
        for key, amount in flight.completes:
            barrier = draft.barriers[key]
            self._check_usable(flight.agent, operation, key, barrier, True)
            self._exited(draft, flight.agent, operation, self._barriers[key[0]].cta, _text(key))
            if not isinstance(operation, ir.Asynchronous):
                self._count_down(draft, flight.agent, operation, key, barrier, amount, 0)
                continue
            share = amount // operation.chunks
            part = amount - share * (operation.chunks - 1) if last else share
            self._set_barrier(
                draft,
                flight.agent,
                operation,
                key,
                barrier._replace(transaction=barrier.transaction - part),
            )
        return None if last else flight._replace(chunks=flight.chunks - 1)

    # ------------------------------------------------------------------- faults of a state

    def _ended_ctas(self, draft: _Draft) -> frozenset[int]:
        running = {agent.role.cta for agent in self.agents if draft.positions[agent.number].frames}
        return frozenset(agent.role.cta for agent in self.agents) - running

    def _check_exit(self, draft: _Draft) -> None:
        """No engine may use the memory or a barrier of a CTA whose agents are all at their end."""
        if self.program.policies.exit_in_flight == "allow":
            return
        ended = self._ended_ctas(draft)
        if not ended:
            return
        homes: dict[str, int] = {}
        for buffer in self.program.buffers:
            if buffer.space is not ir.Space.GLOBAL:
                homes[buffer.storage or buffer.name] = buffer.cta
        for flight in draft.flights():
            touched = {
                homes.get(cell[0], -1)
                for cell, write, _, _ in flight.accesses
                if write or flight.reading
            }
            touched |= {self._barriers[key[0]].cta for key, _ in flight.completes}
            if touched & ended:
                self._fail(
                    FaultKind.LEAK_AT_EXIT,
                    "the CTA ends while an asynchronous operation that uses it is in flight",
                    flight.agent,
                    self.operations[flight.site],
                )

    def _check_lapped(self, draft: _Draft) -> None:
        """A waiting agent whose phase is two behind sleeps through it (PTX test_wait)."""
        for agent in self.agents:
            frames = draft.positions[agent.number].frames
            if not frames:
                continue
            operation = self._blocks[frames[-1][0]][frames[-1][1]]
            if isinstance(operation, ir.Wait) and operation.phase is not None:
                environment = self.environment(agent, draft.positions[agent.number].values)
                key = _key(operation.barrier, environment)
                barrier = draft.barriers.get(key)
                meant = evaluate(operation.phase, environment)
                if barrier and barrier.status and barrier.phase > meant + 1:
                    self._fail(
                        FaultKind.LAPPED_WAIT,
                        f"{agent.name} still waits for phase {meant} of {_text(key)} while "
                        f"{barrier.phase} phases are complete",
                        agent.number,
                        operation,
                        key[0],
                    )

    def state_fault(self, state: State) -> Fault | None:
        """A fault of the state itself: two accesses that nothing orders, or a deadlock."""
        race = self._race(state)
        if race is not None:
            return race
        if self.steps(state):
            return None
        waiting = [agent.number for agent in self.agents if state.positions[agent.number].frames]
        if not waiting:
            return None
        operations = tuple(self.operation_of(state, number) for number in waiting)
        names = ", ".join(self.agents[number].name for number in waiting)
        return Fault(
            FaultKind.DEADLOCK,
            f"no step is possible and {names} cannot go on",
            tuple(waiting),
            operations,
        )

    def _race(self, state: State) -> Fault | None:
        """Two agents stand at conflicting synchronous accesses: nothing orders them."""
        draft = _Draft(state)
        pending: list[tuple[Agent, ir.Access, dict[Cell, bool]]] = []
        for agent in self.agents:
            operation = self.operation_of(state, agent.number)
            if not isinstance(operation, ir.Access):
                continue
            environment = self.environment(agent, state.positions[agent.number].values)
            touched: dict[Cell, bool] = {}
            for effect in operation.effects:
                try:
                    cells, _ = self._resolve(draft, agent.number, operation, effect, environment)
                except _FaultFound:
                    continue
                for cell in cells:
                    touched[cell] = touched.get(cell, False) or effect.write
            for other, other_operation, others in pending:
                for cell in touched.keys() & others.keys():
                    if touched[cell] or others[cell]:
                        return Fault(
                            FaultKind.DATA_RACE,
                            f"{other.name} and {agent.name} access {self._tile_text(cell)} and "
                            "nothing orders them",
                            (other.number, agent.number),
                            (other_operation, operation),
                            cell[0],
                        )
            pending.append((agent, operation, touched))
        return None


def _key(reference: ir.Reference, environment: Mapping[str, int]) -> tuple[str, int]:
    return reference.name, evaluate(reference.index, environment)


def _text(key: tuple[str, int]) -> str:
    return f"{key[0]}[{key[1]}]"


def _content(tile: int) -> str:
    if tile == UNDEFINED:
        return "nothing defined"
    return "some other value" if tile == ANY_TILE else f"tile {tile}"
