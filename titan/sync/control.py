"""Control flow of the agents: from one operation to the next, over loops, branches, assignments.

Local and eager: an agent that has executed an operation stands at once at its next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason
from titan.sync import program as ir
from titan.sync.expression import Expression, evaluate, names_of, to_text
from titan.sync.open_numbers import Size
from titan.sync.state import (
    TILE_MIN,
    Draft,
    Environment,
    ExecutionContext,
    Flight,
    Position,
    State,
)
from titan.sync.turns import TURNS, Origins, Turn

NUMBER_MAX = 2**62  # of what is assigned: numbers cannot grow until memory is full
LOCAL_STEPS_MAX = 1_000_000  # control steps of one agent without an operation
Sizes = Mapping[str, int | tuple[int, ...]]
Frames = tuple[tuple[int, int], ...]  # of a position, the outermost block first


class LocalLoopError(Refusal):
    """A role's control flow runs on without reaching an operation, or its numbers beyond bounds."""

    reason = Reason.UNBOUNDED_LOOP


def tile_of(expression: Expression, environment: Environment) -> int:
    """The tile that an effect names. Raises LocalLoopError for one that would be no tile."""
    tile = evaluate(expression, environment)
    if isinstance(tile, int) and tile < TILE_MIN:
        raise LocalLoopError(f"the tile {to_text(expression)} is below -2^39")
    return tile


class Agent(NamedTuple):
    """One instance of a role; `number` counts over the whole program."""

    number: int
    role: ir.Role
    member: int

    @property
    def name(self) -> str:
        """The role's name, with the member's number where the role has several agents."""
        return self.role.name if self.role.agents == 1 else f"{self.role.name}[{self.member}]"


def agents_of(program: ir.SyncProgram) -> tuple[Agent, ...]:
    """All agents, in the numbering that steps and traces use."""
    pairs = [(role, member) for role in program.roles for member in range(role.agents)]
    return tuple(Agent(number, role, member) for number, (role, member) in enumerate(pairs))


class ControlFlow:
    """The structured program of every role, numbered, with the sizes of one run.

    Raises ValueError when a parameter has no size; its methods raise LocalLoopError.
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
        self.operations: list[ir.Operation] = []
        self._site_of: dict[int, int] = {}
        self._blocks: list[ir.Block] = []
        self._inner: dict[tuple[int, int, int], int] = {}  # (block, index, arm) -> block
        self._behind: dict[Frames, tuple[Frames, ...]] = {}
        self._entry = {role.name: self._number(role.body) for role in program.roles}
        self._variables = {role.name: _variables_of(role) for role in program.roles}
        self.turns: dict[str, Turn] = {}
        self._stages = {barrier.name: barrier.stages for barrier in program.barriers}
        self._stages |= {buffer.name: buffer.stages for buffer in program.buffers}

    def use_sizes(self, sizes: tuple[Size, ...], per: tuple[bool, ...]) -> None:
        """Compute with these sizes from here on; `per`: whether one has a number an iteration."""
        for size, iterated in zip(sizes, per, strict=True):
            self.sizes[size.name] = cast("int", size) if iterated else size(0)

    def use_origins(self, origins: Origins) -> None:
        """The arrays that are listed from an open stage on from here on, by name."""
        self.turns = {name: Turn(origin, self._stages[name]) for name, origin in origins}

    def _number(self, block: ir.Block) -> int:
        """Give the block and all blocks inside it numbers; returns that of the block."""
        number = len(self._blocks)
        self._blocks.append(block)
        for index, operation in enumerate(block):
            if id(operation) not in self._site_of:
                self._site_of[id(operation)] = len(self.operations)
                self.operations.append(operation)
            if isinstance(operation, ir.Loop):
                self._inner[(number, index, 0)] = self._number(operation.body)
            elif isinstance(operation, ir.Branch):
                self._inner[(number, index, 0)] = self._number(operation.then)
                self._inner[(number, index, 1)] = self._number(operation.otherwise)
        return number

    def block(self, number: int) -> ir.Block:
        """The block of a frame."""
        return self._blocks[number]

    def variables_of(self, role: str) -> tuple[str, ...]:
        """The names of an agent's `values`."""
        return self._variables[role]

    def site_of(self, operation: ir.Operation) -> int:
        """The number of an operation of this program in `operations`."""
        return self._site_of[id(operation)]

    def environment(self, agent: Agent, values: tuple[int, ...]) -> Environment:
        """All names in scope of the agent, with the sizes of this run."""
        environment = dict(zip(self._variables[agent.role.name], values, strict=True))
        environment[agent.role.agent_constant] = agent.member
        if self.turns:
            environment[TURNS] = cast("int", self.turns)
        for name, size in self.sizes.items():
            if callable(size):  # a number for each iteration, however many there are
                environment[name] = size(environment.get(self._per[name] or "", 0))
            elif isinstance(size, tuple):
                instance = environment.get(self._per[name] or "", 0)
                environment[name] = size[min(max(instance, 0), len(size) - 1)]
            else:
                environment[name] = size
        return environment

    def constants_of(self, agent: Agent) -> dict[str, int]:
        """The names that mean the same to the agent wherever it stands, but for sizes."""
        name = agent.role.agent_constant
        return {} if name in self.sizes else {name: agent.member}

    def start(self, agent: Agent) -> Position:
        """The agent's first operation."""
        first = dict(agent.role.variables)
        values = tuple(first.get(name, 0) for name in self._variables[agent.role.name])
        return self.settle(agent, Position(((self._entry[agent.role.name], 0),), values))

    def after(self, agent: Agent, position: Position) -> Position:
        """Where the agent stands when it has executed the operation at `position`."""
        (number, index), outer = position.frames[-1], position.frames[:-1]
        return self.settle(agent, Position((*outer, (number, index + 1)), position.values))

    def operation_at(self, position: Position) -> ir.Operation | None:
        """What is executed next at a settled position; None at the end."""
        if not position.frames:
            return None
        number, index = position.frames[-1]
        return self._blocks[number][index]

    def operation_of(self, state: State, agent: int) -> ir.Operation | None:
        """What the agent executes next; None at its end."""
        return self.operation_at(state.positions[agent])

    def lies_ahead(
        self, frames: tuple[tuple[int, int], ...], outer: str = ""
    ) -> Iterator[ir.Operation]:
        """The operations that may still be executed; inside a loop of `outer`: in this pass."""
        for depth in reversed(range(len(frames))):
            block, index = self.block(frames[depth][0]), frames[depth][1]
            inner = depth == len(frames) - 1
            yield from ir.walk(block[index if inner else index + 1 :])
            around = block[index]
            if not inner and isinstance(around, ir.Loop):
                if around.variable == outer:
                    return
                yield from ir.walk(around.body)

    def ways_behind(self, frames: Frames) -> tuple[Frames, ...]:
        """Where an agent may stand after the operation there, whatever its numbers are."""
        if frames not in self._behind:
            *outer, (number, index) = frames
            found: dict[Frames, bool] = {}  # whether an agent stands there
            waiting: list[Frames] = [(*outer, (number, index + 1))]
            while waiting:
                place = waiting.pop()
                if place not in found:
                    further = self._ways_on(place)
                    found[place] = further is None
                    waiting += further or ()
            self._behind[frames] = tuple(place for place, stands in found.items() if stands)
        return self._behind[frames]

    def _ways_on(self, frames: Frames) -> list[Frames] | None:
        """Where control flow may go on; None where an agent stands, at an operation or its end."""
        if not frames:
            return None
        *outer, (number, index) = frames
        if index == len(self._blocks[number]):
            if not outer:
                return [()]
            block, place = outer[-1]
            again: list[Frames] = [(*outer, (self._inner[(block, place, 0)], 0))]
            return [(*outer[:-1], (block, place + 1)), *again * self._is_loop(block, place)]
        arms = [a for arm in (0, 1) if (a := self._inner.get((number, index, arm))) is not None]
        inner: list[Frames] = [(*frames, (arm, 0)) for arm in arms]
        local = isinstance(self._blocks[number][index], ir.Loop | ir.Assign)
        if not inner and not local:
            return None
        past: list[Frames] = [(*outer, (number, index + 1))]
        return [*inner, *past * local]

    def _is_loop(self, block: int, index: int) -> bool:
        return isinstance(self._blocks[block][index], ir.Loop)

    def advance(self, draft: Draft, agent: Agent) -> None:
        """The agent has executed its operation and stands at the next one."""
        draft.positions[agent.number] = self.after(agent, draft.positions[agent.number])

    def issue_of(self, flight: Flight) -> ExecutionContext:
        """Who issued the operations in flight."""
        return ExecutionContext(flight.agent, self.operations[flight.site])

    def settle(self, agent: Agent, position: Position) -> Position:
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
                self._leave(agent, frames, values)
                continue
            operation = block[index]
            environment = self.environment(agent, tuple(values))
            if isinstance(operation, ir.Assign):
                value = evaluate(operation.value, environment)
                if isinstance(value, int) and abs(value) > NUMBER_MAX:
                    raise LocalLoopError(f"{agent.name}: {operation.variable} is beyond 62 bits")
                values[variables.index(operation.variable)] = value
                frames[-1] = (number, index + 1)
            elif isinstance(operation, ir.Loop):
                values[variables.index(operation.variable)] = evaluate(operation.start, environment)
                self._test_loop(agent, frames, values, operation)
            elif isinstance(operation, ir.Branch):
                arm = 0 if evaluate(operation.condition, environment) else 1
                frames.append((self._inner[(number, index, arm)], 0))
            else:
                return Position(tuple(frames), tuple(values))
        raise LocalLoopError(f"{agent.name}: control flow without an operation does not end")

    def _leave(self, agent: Agent, frames: list[tuple[int, int]], values: list[int]) -> None:
        """The innermost block is over: next round of its loop, or on behind its branch."""
        if not frames:
            return
        number, index = frames[-1]
        outer = self._blocks[number][index]
        if isinstance(outer, ir.Loop):
            values[self._variables[agent.role.name].index(outer.variable)] += 1
            self._test_loop(agent, frames, values, outer)
        else:
            frames[-1] = (number, index + 1)

    def _test_loop(
        self, agent: Agent, frames: list[tuple[int, int]], values: list[int], loop: ir.Loop
    ) -> None:
        """At the loop's test: go into the body, or past the loop."""
        number, index = frames[-1]
        environment = self.environment(agent, tuple(values))
        if environment[loop.variable] < evaluate(loop.stop, environment):
            frames.append((self._inner[(number, index, 0)], 0))
        else:
            frames[-1] = (number, index + 1)


def counts_off(program: ir.SyncProgram) -> bool:
    """Whether every loop counts off passes that are fixed when it begins: then every run ends."""
    outer = {parameter.name: parameter.per or "" for parameter in program.parameters}
    for loop in (op for role in program.roles for op in ir.walk(role.body)):
        if isinstance(loop, ir.Loop):
            inner = [op for op in ir.walk(loop.body) if isinstance(op, ir.Assign | ir.Loop)]
            changed = {op.variable for op in inner}
            named = names_of(loop.stop) | {outer.get(name, "") for name in names_of(loop.stop)}
            if loop.variable in changed or named & (changed | {loop.variable}):
                return False
    return True


def _variables_of(role: ir.Role) -> tuple[str, ...]:
    names = [name for name, _ in role.variables]
    for operation in ir.walk(role.body):
        if isinstance(operation, ir.Loop | ir.Assign):
            names.append(operation.variable)
    return tuple(dict.fromkeys(names))
