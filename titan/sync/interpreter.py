"""The reference interpreter: the definition of what a sync program means, one step at a time.

Decides nothing by itself: `Interpreter.steps` lists every step that is possible in a state,
`Interpreter.apply` executes one, and faults are reported as they occur. It walks the structured
program, knows no reduction and no abstraction, and needs all sizes as numbers. Every other engine
is tested against it, and every trace that a user sees has been replayed by it.

Assumptions: an agent executes its synchronous operations one after the other; an asynchronous
operation reads and writes at any time between its start and its finish; operations of an ordered
queue finish in the order of issue, all others in any order. Relaxed synchronisation orders
execution here like any other: what it fails to carry is decided by the happens-before engine.

The parts, each of which knows only those above it: `control` (where an agent stands and what it
knows by name), `lifetime` (the end of a CTA), memory, mbarriers, named barriers, fences, queues,
flights (asynchronous operations), races. Which of them executes an operation stands in one match.
"""

from __future__ import annotations

from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow, LocalLoopError, Sizes, agents_of
from titan.sync.expression import Expression, evaluate
from titan.sync.fault import Actor, Fault, FaultKind, Step
from titan.sync.fence_rules import FenceRules
from titan.sync.flight_rules import FlightRules
from titan.sync.lifetime import CtaLifetime
from titan.sync.mbarrier_rules import MbarrierRules
from titan.sync.memory_rules import MemoryRules, cells_of
from titan.sync.named_barrier_rules import NamedBarrierRules
from titan.sync.proxy_marks import cache_domains_of
from titan.sync.queue_rules import QueueRules
from titan.sync.races import RaceRules
from titan.sync.state import (
    ANY_TILE,
    ENGINE,
    UNDEFINED,
    BarrierStatus,
    Cell,
    CellState,
    Draft,
    Environment,
    ExecutionContext,
    FaultFound,
    MbarrierState,
    NamedState,
    Position,
    QueueState,
    State,
    key_of,
)

__all__ = [
    "ANY_TILE",
    "ENGINE",
    "UNDEFINED",
    "Agent",
    "Interpreter",
    "LocalLoopError",
    "Position",
    "Rules",
    "Sizes",
    "State",
    "agents_of",
]


@dataclass(frozen=True, slots=True)
class Rules:
    """The parts of a machine that others may take the place of, for runs that numbers judge.

    `computes`: a `Compute` is a step without an effect; otherwise a machine refuses it.
    """

    lifetime: type[CtaLifetime] = CtaLifetime
    memory: type[MemoryRules] = MemoryRules
    mbarriers: type[MbarrierRules] = MbarrierRules
    computes: bool = False


SEMANTICS = Rules()


class Interpreter:
    """Executes one program with concrete sizes.

    Raises ValueError when a parameter has no size, LocalLoopError from `initial`, `steps` and
    `apply` when a role loops without operations.
    """

    def __init__(
        self, program: ir.SyncProgram, sizes: Sizes | None = None, rules: Rules = SEMANTICS
    ) -> None:
        self.program = program
        self.control = ControlFlow(program, sizes)
        self.sizes = self.control.sizes
        self.agents = self.control.agents
        self.operations = self.control.operations
        self._computes = rules.computes
        domains = cache_domains_of(program)
        self._lifetime = rules.lifetime(self.control)
        self._memory = rules.memory(self.control, self._lifetime, domains)
        self._mbarriers = rules.mbarriers(self.control, self._lifetime)
        self._named_barriers = NamedBarrierRules(self.control)
        self._fences = FenceRules(self.control, domains)
        self._queues = QueueRules(self.control)
        self._flights = FlightRules(self.control, self._memory, self._mbarriers, self._queues)
        self._races = RaceRules(self.control, self._memory)

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
            tuple(self.control.start(agent) for agent in self.agents),
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
        steps.update(self._queues.engine_steps(draft))
        return sorted(steps)

    def possible(self, state: State, step: Step) -> bool:
        """Whether the step is one of `steps(state)`."""
        draft = Draft(state)
        if step.actor is Actor.AGENT:
            known = 0 <= step.agent < len(self.agents) and step.ordinal == -1
            return known and self._enabled(draft, self.agents[step.agent])
        return step in self._queues.engine_steps(draft)

    def _enabled(self, draft: Draft, agent: Agent) -> bool:
        """Whether the agent can execute its next operation; faulty ones count as enabled."""
        position = draft.positions[agent.number]
        operation = self.control.operation_at(position)
        if operation is None:
            return False
        environment = self.control.environment(agent, position.values)
        match operation:
            case ir.Wait():
                return self._mbarriers.wait_passes(draft, operation, environment)
            case ir.TokenWait(barrier=reference):
                barrier = draft.barriers.get(key_of(reference, environment))
                return barrier is None or not barrier.status or agent.number not in barrier.tokens
            case ir.QueueWait():
                return self._queues.wait_passes(draft, agent.number, operation, environment)
            case ir.BarrierWait(barrier=reference):
                named = draft.named.get(key_of(reference, environment))
                return named is None or agent.number not in named.arrived
            case ir.BarrierSync():
                return not self._named_barriers.blocked_in_sync(draft, agent)
            case ir.PoolTake(pool=name, amount=amount):
                return draft.pools[name] >= evaluate(amount, environment)
        return True

    def apply(self, state: State, step: Step) -> tuple[State | None, Fault | None]:
        """Execute one step of `steps(state)`. With a fault the new state is None."""
        draft = Draft(state)
        try:
            if step.actor is Actor.AGENT:
                agent = self.agents[step.agent]
                if self._execute(draft, agent):
                    self.control.advance(draft, agent)
            else:
                self._flights.engine_step(draft, step)
            self._lifetime.check_exit(draft)
            self._mbarriers.check_lapped(draft)
        except FaultFound as found:
            return None, found.fault
        return draft.freeze(), None

    def _execute(self, draft: Draft, agent: Agent) -> bool:
        """Execute the next operation; returns whether the agent continues to the one after it."""
        position = draft.positions[agent.number]
        operation = self.control.operation_at(position)
        if operation is None:
            raise ValueError(f"{agent.name} is at its end and cannot step")
        context = ExecutionContext(agent.number, operation)
        environment = self.control.environment(agent, position.values)
        match operation:
            case ir.Access():
                self._memory.access(draft, context, operation, environment)
            case ir.Asynchronous():
                self._flights.issue(draft, context, operation, environment)
            case ir.QueueArrive():
                self._flights.queue_arrive(draft, context, operation, environment)
            case ir.Commit(queue=name):
                self._queues.commit(draft, agent.number, name)
            case ir.QueueWait():
                pass  # it is enabled when it is over, and changes nothing
            case ir.Init():
                self._mbarriers.init(draft, context, operation, environment)
            case ir.Invalidate():
                self._mbarriers.invalidate(draft, context, operation, environment)
            case ir.Arrive():
                self._mbarriers.arrive(draft, context, operation, environment)
            case ir.ExpectTransaction():
                self._mbarriers.expect(draft, context, operation, environment)
            case ir.Wait():
                self._mbarriers.wait(draft, context, operation, environment)
            case ir.TokenWait():
                self._mbarriers.token_wait(draft, context, operation, environment)
            case ir.BarrierSync() | ir.BarrierArrive():
                return self._named_barriers.arrive(draft, context, operation, environment)
            case ir.BarrierWait():
                self._named_barriers.wait(draft, context, operation, environment)
            case ir.Fence():
                self._fences.execute(draft, agent, operation)
            case ir.PoolTake(pool=name, amount=amount):
                draft.pools[name] -= _pool_units(context, name, amount, environment)
            case ir.PoolGive(pool=name, amount=amount):
                draft.pools[name] += _pool_units(context, name, amount, environment)
            case ir.Compute() if self._computes:
                pass
            case _:
                raise TypeError(f"no semantics for {type(operation).__name__}")
        return True

    # ------------------------------------------------------------------- faults of a state

    def state_fault(self, state: State) -> Fault | None:
        """A fault of the state itself: two accesses that nothing orders, or a deadlock."""
        race = self._races.race(state)
        if race is not None:
            return race
        draft = Draft(state)
        if any(self._enabled(draft, agent) for agent in self.agents):
            return None
        if any(True for _ in self._queues.engine_steps(draft)):
            return None
        waiting = [agent for agent in self.agents if state.positions[agent.number].frames]
        if not waiting:
            return None
        names = ", ".join(agent.name for agent in waiting)
        message = f"no step is possible and {names} cannot proceed"
        stopped = (self.control.operation_of(state, agent.number) for agent in waiting)
        operations = tuple(operation for operation in stopped if operation is not None)
        numbers = tuple(agent.number for agent in waiting)
        return Fault(FaultKind.DEADLOCK, message, numbers, operations)


def _pool_units(
    context: ExecutionContext, name: str, amount: Expression, environment: Environment
) -> int:
    """What is taken from a pool or given back to it; never negative."""
    units = evaluate(amount, environment)
    if units < 0:
        context.fail(FaultKind.POOL_MISUSE, f"a negative amount of {name} is named", name)
    return units
