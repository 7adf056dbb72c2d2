"""A pipeline run once with times: what its roles wait for, and how busy the tensor cores are.

The sync program runs on the reference interpreter, so that a fault of any kind ends the run; who
goes next is decided by times instead of by a search. Every operation of an agent takes cycles,
asynchronous ones finish when their unit has come to them: one copy engine, one tensor core, each
doing one operation after the other. The numbers are those of the machine description, and what
comes out is a statement about that description, not about a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from titan.codegen.tile.model import TileProgram
from titan.scheduling.loop.model import Loop
from titan.sync import program as ir
from titan.sync.fault import Actor, Fault, Step
from titan.sync.interpreter import Interpreter, Rules, State
from titan.target.description import target_of

STEPS_MAX = 200_000
MATRIX = ("TC", "MFMA")
TENSOR, COPY, THREADS = "tensor core", "copy engine", "threads"


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles. A copy has its engine for `copy_cycles`, and is done `copy_latency_cycles` later.

    `computations`: of an operation of the tile program on one group; `slower`: factors of all that
    a role computes, by its name.
    """

    copy_cycles: int
    copy_latency_cycles: int
    product_cycles: int
    computations: Mapping[str, int] = field(default_factory=dict)
    step_cycles: int = 4
    access_cycles: int = 32
    fence_cycles: int = 32
    slower: Mapping[str, float] = field(default_factory=dict)


def costs_of(tile: TileProgram, loop: Loop) -> Costs:
    """The cycles of a loop's operations, for one group; copies and products as their means.

    Where every wave copies its share (AMD), one operation of a wave is its share of all copies of
    an iteration, and products are computed like everything else.
    """
    kinds = {operation.name: operation.kind for operation in tile.operations}
    copies, latencies, products = [], [], []
    computations: dict[str, int] = {}
    for operation in loop.operations:
        name, _, _ = operation.name.rpartition("_")
        name = operation.name if operation.name in kinds else name
        if any(use.unit in MATRIX for use in operation.uses):
            products.append(operation.cycles)
            computations[name] = max(operation.cycles, computations.get(name, 0))
        elif operation.streaming or kinds.get(name) == "load":
            copies.append(operation.cycles)
            latencies.append(max(0, operation.latency_cycles - operation.cycles))
        else:
            computations[name] = max(operation.cycles, computations.get(name, 0))
    each = _mean(copies)
    if target_of(tile.target).amd:
        each = sum(copies) // tile.groups
    return Costs(each, _mean(latencies), _mean(products), computations)


def _mean(values: list[int]) -> int:
    return sum(values) // len(values) if values else 0


@dataclass(slots=True)
class Waited:
    """What the agents of a role waited: at empty stages (`acquire`), and at anything else."""

    acquire_cycles: int = 0
    acquires: int = 0
    other_cycles: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run. `busy`: cycles of each unit; `fault` where the program did what none may do.

    `in_flight`: copies that were in flight when a wait for copies had passed, one number a wait.
    """

    cycles: int
    waited: Mapping[str, Waited]
    busy: Mapping[str, int]
    in_flight: tuple[int, ...]
    fault: Fault | None
    steps: int

    @property
    def overlap(self) -> float:
        """The part of the time in which the tensor core works."""
        return self.busy.get(TENSOR, 0) / self.cycles if self.cycles else 0.0

    def stall(self, role: str) -> float:
        """Cycles of a mean acquire of the role."""
        found = self.waited.get(role, Waited())
        return found.acquire_cycles / found.acquires if found.acquires else 0.0


class TooLong(Exception):
    """The run has more steps than STEPS_MAX."""


def timed(program: ir.SyncProgram, sizes: Mapping[str, int], costs: Costs) -> TimedRun:
    """One run of the program, computations included. Raises TooLong."""
    return _Clocked(program, sizes, costs).run()


class _Clocked:
    def __init__(self, program: ir.SyncProgram, sizes: Mapping[str, int], costs: Costs) -> None:
        self.machine = Interpreter(program, sizes, Rules(computes=True))
        self.costs = costs
        self.clock = [0] * len(self.machine.agents)
        self.ready: dict[Step, int] = {}
        self.finish: dict[tuple[int, int], int] = {}
        self.free = {TENSOR: 0, COPY: 0, THREADS: 0}
        self.busy = dict.fromkeys(self.free, 0)
        self.units = {queue.name: _unit(queue) for queue in program.queues}
        self.waited = {role.name: Waited() for role in program.roles}
        self.flights: list[int] = []

    def run(self) -> TimedRun:
        state, now, fault = self.machine.initial(), 0, None
        for count in range(STEPS_MAX):
            steps = self.machine.steps(state)
            self.ready = {step: self.ready.get(step, now) for step in steps}
            if not steps:
                fault = self.machine.state_fault(state)
                return self._result(now, fault, count)
            begin, step = min((self._begin(step), step) for step in steps)
            now = max(now, begin)
            if step.actor is Actor.AGENT:
                self._agent(state, step.agent, now)
            following, fault = self.machine.apply(state, step)
            self.ready.pop(step)
            if following is None:
                return self._result(now, fault, count)
            state = following
        raise TooLong(f"over {STEPS_MAX} steps")

    def _result(self, now: int, fault: Fault | None, steps: int) -> TimedRun:
        end = max(now, *self.clock)
        return TimedRun(end, self.waited, self.busy, tuple(self.flights), fault, steps)

    def _begin(self, step: Step) -> int:
        if step.actor is Actor.AGENT:
            return max(self.clock[step.agent], self.ready[step])
        return max(self.finish.get((step.agent, step.ordinal), 0), self.ready[step])

    def _agent(self, state: State, number: int, now: int) -> None:
        """What one operation of an agent takes, noted before it is executed."""
        operation = self.machine.control.operation_of(state, number)
        agent = self.machine.agents[number]
        role = self.waited[agent.role.name]
        since = now - self.clock[number]
        match operation:
            case ir.Wait(barrier=reference) if "empty" in reference.name:
                role.acquire_cycles += since
                role.acquires += 1
            case ir.Wait() | ir.QueueWait() | ir.BarrierSync() | ir.BarrierWait():
                role.other_cycles += since
                role.others += 1
        if isinstance(operation, ir.QueueWait) and self.units[operation.queue] == COPY:
            self.flights.append(self._left(state, number, operation.queue))
        if isinstance(operation, ir.Asynchronous):
            unit = COPY if operation.queue is None else self.units[operation.queue]
            self._issue(unit, (number, state.issued[number]), now)
        factor = self.costs.slower.get(agent.role.name, 1.0)
        self.clock[number] = now + round(self._cycles(operation) * factor)

    def _left(self, state: State, number: int, queue: str) -> int:
        groups = dict(state.queues)[(number, queue)]
        return sum(len(group) for group in (*groups.closed, groups.open))

    def _issue(self, unit: str, mark: tuple[int, int], now: int) -> None:
        occupied, latency = {
            TENSOR: (self.costs.product_cycles, 0),
            COPY: (self.costs.copy_cycles, self.costs.copy_latency_cycles),
            THREADS: (0, self.costs.access_cycles),
        }[unit]
        begin = max(now, self.free[unit])
        self.free[unit] = begin + occupied
        self.busy[unit] += occupied
        self.finish[mark] = begin + occupied + latency

    def _cycles(self, operation: ir.Operation | None) -> int:
        match operation:
            case ir.Compute(what=name):
                return self.costs.computations.get(name, self.costs.step_cycles)
            case ir.Access():
                return self.costs.access_cycles
            case ir.Fence():
                return self.costs.fence_cycles
        return self.costs.step_cycles


def _unit(queue: ir.Queue) -> str:
    if queue.pipelined:
        return TENSOR
    return THREADS if not queue.ordered or queue.name == "reads" else COPY


def without_acquires(program: ir.SyncProgram) -> ir.SyncProgram:
    """The program whose producers do not wait for a free stage: what backpressure prevents."""

    def cut(block: ir.Block) -> ir.Block:
        kept: list[ir.Operation] = []
        for item in block:
            match item:
                case ir.Wait(barrier=reference) if "empty" in reference.name:
                    pass
                case ir.Loop():
                    kept.append(replace(item, body=cut(item.body)))
                case ir.Branch():
                    then, otherwise = cut(item.then), cut(item.otherwise)
                    kept.append(replace(item, then=then, otherwise=otherwise))
                case _:
                    kept.append(item)
        return tuple(kept)

    roles = tuple(replace(role, body=cut(role.body)) for role in program.roles)
    return replace(program, roles=roles)


def trips(program: ir.SyncProgram, value: int) -> dict[str, int]:
    """Sizes for a run of one work item with so many iterations."""
    return {
        item.name: max(item.minimum, value if item.name == "tiles" else 1)
        for item in program.parameters
        if item.value is None
    }
