"""One CTA (or cluster) of a pipeline, run from its first step to its last with NumPy tiles.

What moves when is described in `titan/codegen/tile/functional.py`, whose machinery this is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from titan.codegen.tile import semantics
from titan.codegen.tile.adversarial import COMPUTING, LENIENT, Chooser, Interleaving
from titan.codegen.tile.block_scales import SUFFIX, scales_of
from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.held import tiles_behind
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.operations import VECTORS
from titan.codegen.tile.register_homes import registers_of
from titan.codegen.tile.staging import slices_in
from titan.sync import program as ir
from titan.sync.control import Agent
from titan.sync.expression import ZERO, evaluate
from titan.sync.fault import Actor, Fault, FaultKind, Step
from titan.sync.interpreter import Interpreter
from titan.sync.state import Environment, State

if TYPE_CHECKING:
    from titan.codegen.tile.semantics import Array, Marks

STEPS_MAX = 200_000
Items = list[list[dict[str, int]]]  # work item -> environment in each CTA of the cluster


@dataclass(slots=True)
class _Registers:
    """What one agent holds: its rows of every value, by the registers that they are in.

    `copies` are tiles as the agent has read them from shared memory; `reading` counts reads in
    flight, behind which `waiting` computations stand. `implied` are carried values for which the
    role has no statement, `iteration` the one that it computes.
    """

    group: int
    groups: int
    implied: tuple[str, ...] = ()
    iteration: int | None = None
    values: dict[str, Array] = field(default_factory=dict)
    copies: dict[str, Array] = field(default_factory=dict)
    reading: int = 0
    waiting: list[tuple[str, int, dict[str, int]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EvaluatedAccess:
    """An effect with everything evaluated; `load` is the tile program's name for the buffer."""

    buffer: ir.Buffer
    load: str
    stage: int
    part: int | None
    tile: int
    write: bool


@dataclass(slots=True)
class TileFlight:
    """An asynchronous operation between issue and effect."""

    operation: ir.Asynchronous
    agent: Agent
    accesses: tuple[EvaluatedAccess, ...]
    item: int
    chunks: int
    reads_done: bool = False


class CtaExecution:
    """One CTA (cluster) from its first to its last step."""

    def __init__(
        self,
        tile: TileProgram,
        program: ir.SyncProgram,
        memory: dict[str, Array],
        marks: dict[str, Marks],
        items: Items,
        interleaving: Interleaving,
    ) -> None:
        self.tile = tile
        self.memory = memory
        self.marks = marks
        self.items = [[semantics.looked_up(tile, memory, one) for one in item] for item in items]
        self.interleaving = interleaving
        self.chooser = Chooser(interleaving, self._queue_of)
        self.trips = [semantics.trips(tile, item[0]) for item in self.items]
        rules = LENIENT if interleaving.lenient else COMPUTING
        self.machine = Interpreter(program, self._sizes(program), rules)
        self.operations = {operation.name: operation for operation in tile.operations}
        self.carried = {item.value.name: item for item in tile.carried}
        self.home = registers_of(tile)
        self.straight = tiles_behind(tile)
        self.before = {operation.name for operation in tile.before}
        self.inside = {operation.name for operation in tile.body}
        self.pipelined = {queue.name for queue in program.queues if queue.pipelined}
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.stages: dict[tuple[str, int], Array] = {}
        self.accumulated: dict[tuple[str, int], int] = {}
        self.flights: dict[tuple[int, int], TileFlight] = {}
        self.registers = [
            # Of a tile that one group computes, each agent of a role has all rows.
            _Registers(*whole, self._implied(agent.role))
            if tile.groups == 1
            else _Registers(agent.member, agent.role.agents, self._implied(agent.role))
            for agent in self.machine.agents
            for whole in ((0, 1),)
        ]
        self.steps = 0

    def _sizes(self, program: ir.SyncProgram) -> dict[str, int | tuple[int, ...]]:
        sizes: dict[str, int | tuple[int, ...]] = {}
        for parameter in program.parameters:
            if parameter.name == "work":
                sizes["work"] = len(self.items)
            elif parameter.name == "tiles" and parameter.per is not None:
                sizes["tiles"] = tuple(self.trips)
            elif parameter.name == "tiles":
                sizes["tiles"] = self.trips[0]
            elif parameter.value is None:
                raise ValueError(f"the pipeline has a parameter {parameter.name} of no known size")
        return sizes

    def _implied(self, role: ir.Role) -> tuple[str, ...]:
        """Carried values that no statement of the role carries on."""
        stated = {
            operation.what
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.Compute) and operation.index != ZERO
        }
        return tuple(name for name in self.carried if name not in stated)

    def go(self) -> Fault | None:
        """Run to the end; the fault that ends the run early, if one does."""
        state = self.machine.initial()
        while self.steps < STEPS_MAX:
            steps = self.machine.steps(state)
            if not steps:
                return self.machine.state_fault(state)
            step = self.chooser.choice(steps)
            after, fault = self.machine.apply(state, step)
            if after is None:
                return fault
            try:
                self._effect(state, step)
            except semantics.StoreConflict as conflict:
                return Fault(FaultKind.DATA_RACE, str(conflict))
            state = after
            self.steps += 1
        return Fault(FaultKind.DEADLOCK, f"no end after {STEPS_MAX} steps")

    def _queue_of(self, step: Step) -> str | None:
        flight = self.flights.get((step.agent, step.ordinal))
        return flight.operation.queue if flight is not None else None

    # ---------------------------------------------------------------- what a step does to data

    def _effect(self, state: State, step: Step) -> None:
        if step.actor is not Actor.AGENT:
            self._engine(step)
            return
        agent = self.machine.agents[step.agent]
        operation = self.machine.control.operation_of(state, step.agent)
        environment = self.machine.control.environment(agent, state.positions[step.agent].values)
        item = environment.get("w", 0)
        match operation:
            case ir.Compute(what=what, index=index):
                self._compute(agent, what, evaluate(index, environment), item)
            case ir.Access(effects=effects):
                for access in self._accesses(effects, environment):
                    self._synchronous(agent, access)
            case ir.Asynchronous(effects=effects):
                accesses = self._accesses(effects, environment)
                flight = TileFlight(operation, agent, accesses, item, operation.chunks)
                self.flights[(step.agent, state.issued[step.agent])] = flight
                self._begin(flight)

    def _accesses(
        self, effects: Sequence[ir.Effect], environment: Environment
    ) -> tuple[EvaluatedAccess, ...]:
        made = []
        for effect in effects:
            buffer = self.buffers[effect.buffer]
            if self.tile.launch_control and not self._of_tile(_tile_name(buffer)):
                continue  # answers of the hardware: the run has its items from the beginning
            part = None if effect.part is None else evaluate(effect.part, environment)
            tile = 0 if effect.tile is None else evaluate(effect.tile, environment)
            stage = evaluate(effect.stage, environment)
            made.append(
                EvaluatedAccess(buffer, _tile_name(buffer), stage, part, tile, effect.write)
            )
        return tuple(made)

    def _of_tile(self, name: str) -> bool:
        return name in self.operations or name in self.carried

    def _engine(self, step: Step) -> None:
        flight = self.flights.get((step.agent, step.ordinal))
        if flight is None:
            return  # a marker that arrives
        if step.actor is Actor.READS:
            flight.reads_done = True
            self._finish(flight)
        elif flight.chunks > 1:
            flight.chunks -= 1
        elif not flight.reads_done:
            self._finish(flight)

    def _begin(self, flight: TileFlight) -> None:
        if self._is_read(flight):
            self.registers[flight.agent.number].reading += 1
        if self.interleaving.torn:
            for access in flight.accesses:
                if access.write and access.load in self.operations:
                    self._part(access)[...] = float("nan")

    def _finish(self, flight: TileFlight) -> None:
        """The operation takes effect."""
        if len({access.load for access in flight.accesses}) == 1 < len(flight.accesses):
            self._copy(flight)  # scales go on to tensor memory
        elif flight.operation.queue in self.pipelined:
            self._product(flight)
        elif any(access.write for access in flight.accesses):
            self._copy(flight)
        elif self._is_read(flight):
            registers = self.registers[flight.agent.number]
            for access in flight.accesses:
                registers.copies[access.load] = self._content(access).copy()
            registers.reading -= 1
            while not registers.reading and registers.waiting:
                what, index, environment = registers.waiting.pop(0)
                self._now(flight.agent, what, index, environment)
        else:
            for access in flight.accesses:
                self._bulk_store(flight, access)

    def _is_read(self, flight: TileFlight) -> bool:
        """Counted loads from shared memory to registers."""
        operation = flight.operation
        return operation.queue not in self.pipelined and all(
            not effect.write and effect.proxy is ir.Proxy.GENERIC for effect in operation.effects
        )

    # ------------------------------------------------------------------------- shared memory

    def _content(self, access: EvaluatedAccess) -> Array:
        """The tile in a stage, all parts of it; undefined content is not a number."""
        import numpy as np

        key = (access.buffer.name, access.stage)
        if key not in self.stages:
            rows, columns = self._shape(access.load)
            rows, columns = rows // self._shares(access), columns // self._slices(access)
            self.stages[key] = np.full((rows, columns), np.nan, np.float32)
        return self.stages[key]

    def _shares(self, access: EvaluatedAccess) -> int:
        """How many CTAs each hold a share of the rows of a loaded tile."""
        if access.load not in self.operations or self.operations[access.load].kind != "load":
            return 1
        rows, columns = self._shape(access.load)
        size = bytes_of(self._value(access.load).dtype)
        return max(1, rows * columns * size // max(1, access.buffer.bytes_per_stage))

    def _slices(self, access: EvaluatedAccess) -> int:
        """In how many slices of its columns a store is staged."""
        operation = self.operations.get(access.load)
        if operation is None or operation.kind != "store":
            return 1
        value = self._value(operation.operands[0])
        return slices_in(self.tile, value, access.buffer.bytes_per_stage)

    def _shape(self, name: str) -> tuple[int, int]:
        if name in self.carried:
            value = self.carried[name].value
            return value.rows, value.columns
        operation = self.operations[name]
        value = operation.result or self._value(operation.operands[0])
        return value.rows, value.columns

    def _value(self, name: str) -> Value:
        """The value of that name. Raises KeyError where the program computes none."""
        if name in self.carried:
            return self.carried[name].value
        found = self.operations[name].result
        if found is None:
            raise KeyError(name)
        return found

    def _part(self, access: EvaluatedAccess) -> Array:
        """The elements of the accessed part, as a view in a row."""
        flat = self._content(access).reshape(-1)
        if access.part is None or access.buffer.parts == 1:
            return flat
        size = flat.size // access.buffer.parts
        return flat[access.part * size : (access.part + 1) * size]

    def _synchronous(self, agent: Agent, access: EvaluatedAccess) -> None:
        """A group writes its rows for a store, copies a tile, or reads what it computes on."""
        import numpy as np

        registers = self.registers[agent.number]
        if access.write and access.load in self.operations:
            operation = self.operations[access.load]
            if operation.kind in ("store", "share"):
                value = registers.values.get(self.home[operation.operands[0]])
                if value is not None and (slices := self._slices(access)) > 1:
                    value = np.split(value, slices, axis=1)[access.tile % slices]
                if value is not None and operation.writes_transposed:
                    value = value.T
                self._part(access)[...] = float("nan") if value is None else value.reshape(-1)
                self._overwritten(access)
            elif operation.kind == "load":
                self._fetch(access, agent.role.cta)
        elif not access.write:
            registers.copies[access.load] = self._content(access).copy()

    def _place(self, name: str, tile: int, cta: int) -> dict[str, int] | None:
        """The environment of the tile that has this number in its ring; None: there is none."""
        if name not in self.inside:
            if not 0 <= tile < len(self.items):
                return None
            return self.items[tile][cta]
        for item, trips in zip(self.items, self.trips, strict=True):
            if 0 <= tile < trips:
                return self._inside(item[cta], tile)
            tile -= trips
        return None

    def _inside(self, environment: dict[str, int], iteration: int) -> dict[str, int]:
        """The environment of an iteration."""
        named = {**environment, self.tile.loop_variable: iteration}
        return semantics.looked_up(self.tile, self.memory, named)

    def _copy(self, flight: TileFlight) -> None:
        """A tile (or a part) from global memory, or from registers that it passes through."""
        sources = {access.load: access for access in flight.accesses if not access.write}
        for access in flight.accesses:
            if not access.write:
                continue
            if access.load in sources:
                self._part(access)[...] = self._part(sources[access.load])
            else:
                self._fetch(access, flight.agent.role.cta)

    def _fetch(self, access: EvaluatedAccess, cta: int) -> None:
        """The tile that has this number, or a part of it, from global memory."""
        into = self._part(access)
        self._overwritten(access)
        environment = self._place(access.load, access.tile, cta)
        if environment is None:
            into[...] = float("nan")
            return
        operation = self.operations[access.load]
        tensor = self.memory[operation.tensor_view.tensor]
        whole = semantics.fetch(operation, tensor, environment).reshape(-1)
        size = into.size
        part = cta if access.part is None else access.part
        first = size * part if size != whole.size else 0
        into[...] = whole[first : first + size]

    def _overwritten(self, access: EvaluatedAccess) -> None:
        """What lay in the storage of a buffer that is written is gone, but for its own parts."""
        same = {
            name
            for name, buffer in self.buffers.items()
            if buffer.storage and buffer.storage == access.buffer.storage
        }
        for (name, _), content in self.stages.items():
            if name in same and name != access.buffer.name:
                content[...] = float("nan")

    def _bulk_store(self, flight: TileFlight, access: EvaluatedAccess) -> None:
        """From a staging buffer, or straight from a ring."""
        operation = self.operations[access.load]
        if operation.kind == "load":
            name = operation.name
            stores = [item for item in self.tile.operations if item.kind == "store"]
            operation = next(item for item in stores if name in item.operands)
        slices = self._slices(access)
        number, slice_ = divmod(access.tile, slices)
        environment = self._place(operation.name, number, flight.agent.role.cta)
        if environment is None:
            return
        rows, columns = self._shape(operation.name)
        parts = access.buffer.parts if access.part is not None else 1
        value = self._part(access).reshape(rows // parts, columns // slices).copy()
        if operation.writes_transposed:  # one group has all of it
            value = self._part(access).reshape(columns, rows).T.copy()
        first = rows // parts * (access.part or 0), columns // slices * slice_
        self._put(operation, value, environment, *first)

    def _put(
        self,
        operation: TileOperation,
        value: Array,
        environment: dict[str, int],
        first_row: int,
        first_column: int = 0,
    ) -> None:
        name = operation.tensor_view.tensor
        marks = self.marks[name]
        semantics.put(
            operation, value, self.memory[name], environment, first_row, marks, first_column
        )

    # --------------------------------------------------------------------------- computation

    def _product(self, flight: TileFlight) -> None:
        """The matrix unit reads its operands now and leaves the result in its registers."""
        name = flight.operation.label.removeprefix("issue ")
        if name not in self.operations:
            name = next(item.name for item in self.tile.body if item.kind == "mma")
        operation = self.operations[name]
        registers = self.registers[flight.agent.number]
        stages = {access.load: self._content(access) for access in flight.accesses}
        written = [access for access in flight.accesses if access.write]
        if len(written) > 1:
            self._together(operation, flight.accesses)
            return
        if written:
            self._accumulate(operation, written[0], stages)
            return
        operands = self._operands(registers, operation, stages)
        if operands is None:
            registers.values.pop(self.home[name], None)
            return
        registers.values[self.home[name]] = semantics.apply(operation, operands)

    def _operands(
        self, registers: _Registers, operation: TileOperation, shared: dict[str, Array]
    ) -> list[Array] | None:
        """All operands of a group; None where one of them is not there."""
        found = [
            self._operand(registers, operation, number, shared)
            for number in range(len(operation.operands))
        ]
        there = [operand for operand in found if operand is not None]
        return there if len(there) == len(found) else None

    def _operand(
        self, registers: _Registers, operation: TileOperation, number: int, shared: dict[str, Array]
    ) -> Array | None:
        """An operand of a group: its rows of what is shared, where it is the left one."""
        name = operation.operands[number]
        value = self._value(name)
        if value.place is not ValuePlace.SHARED:
            return registers.values.get(self.home[name])
        whole = shared.get(name)
        if whole is None:
            return None
        if operation.kind == "mma":
            if number == 1:
                return whole
            if operation.transpose[0]:
                size = whole.shape[1] // registers.groups
                return whole[:, registers.group * size : (registers.group + 1) * size]
        size = whole.shape[0] // registers.groups
        return whole[registers.group * size : (registers.group + 1) * size]

    def _together(self, operation: TileOperation, accesses: Sequence[EvaluatedAccess]) -> None:
        """A product of several CTAs: each adds that of its own rows and all shares of the right
        operand, which lie one after the other."""
        import numpy as np

        by_cta: dict[str, dict[int, EvaluatedAccess]] = {}
        for access in accesses:
            by_cta.setdefault(access.load, {})[access.buffer.cta] = access
        left, right = operation.operands[:2]
        shares = [self._content(by_cta[right][cta]) for cta in sorted(by_cta[right])]
        target = self.carried[operation.operands[2]].value.name
        for cta, access in by_cta[target].items():
            of_cta = {left: self._content(by_cta[left][cta]), right: np.concatenate(shares)}
            self._accumulate(operation, access, {**of_cta, target: self._content(access)})

    def _accumulate(
        self, operation: TileOperation, target: EvaluatedAccess, stages: dict[str, Array]
    ) -> None:
        """A sum in tensor memory, which begins again with each work item."""
        import numpy as np

        key = (target.buffer.name, target.stage)
        total = stages[target.load]
        if self.accumulated.get(key) != target.tile:
            self.accumulated[key] = target.tile
            total = np.full_like(total, self.carried[target.load].initial)
        left, right, *scales = (
            stages[name] for name in (*operation.operands[:2], *scales_of(operation))
        )
        self._content(target)[...] = semantics.apply(operation, [left, right, total, *scales])

    def _compute(self, agent: Agent, what: str, index: int, item: int) -> None:
        environment = self.items[min(item, len(self.items) - 1)][agent.role.cta]
        registers = self.registers[agent.number]
        if registers.reading:
            registers.waiting.append((what, index, environment))
        else:
            self._now(agent, what, index, environment)

    def _now(self, agent: Agent, what: str, index: int, environment: dict[str, int]) -> None:
        """A computation by the agent on its own rows."""
        registers = self.registers[agent.number]
        if what in self.carried and index:
            self._carry(registers, what, index)
            return
        iteration = index if what in self.inside else None
        if registers.iteration not in (None, iteration):
            self._end_of_iteration(registers)
        registers.iteration = iteration
        if what in self.carried:
            self._carry(registers, what, index)
            return
        operation = self.operations[what]
        if what in self.inside:
            environment = self._inside(environment, index)
        if operation.kind in VECTORS:
            tensor = self.memory[operation.tensor_view.tensor]
            found = semantics.fetch(operation, tensor, environment)
            if operation.result is not None and operation.result.place is ValuePlace.ROW:
                size = found.shape[0] // registers.groups
                found = found[registers.group * size : (registers.group + 1) * size]
            registers.values[self.home[what]] = found
            return
        for name in self.straight.intersection(operation.operands):
            load = self.operations[name]
            tensor = self.memory[load.tensor_view.tensor]
            registers.copies[name] = semantics.fetch(load, tensor, environment)
        operands = self._operands(registers, operation, registers.copies)
        if operands is None:
            registers.values.pop(self.home[what], None)
        elif operation.kind == "store":
            first_row = operands[0].shape[0] * registers.group
            self._put(operation, operands[0], environment, first_row)
        else:
            first_row = self._shape(what)[0] // registers.groups * registers.group
            registers.values[self.home[what]] = semantics.apply(
                operation, operands, environment, first_row
            )

    def _end_of_iteration(self, registers: _Registers) -> None:
        """What no statement carries on takes its next value, all at once."""
        fresh = {
            name: registers.values.get(self.home[self.carried[name].next])
            for name in registers.implied
            if self.home[name] != self.home[self.carried[name].next]
        }
        for name, value in fresh.items():
            if value is None:
                registers.values.pop(self.home[name], None)
            else:
                registers.values[self.home[name]] = value

    def _carry(self, registers: _Registers, what: str, index: int) -> None:
        """The first number of a carried value, its next value, or what tensor memory holds."""
        import numpy as np

        carried = self.carried[what]
        if what in registers.copies:
            registers.values[self.home[what]] = registers.copies[what]
        elif index == 0:
            rows = carried.value.rows // (registers.groups if carried.value.rows > 1 else 1)
            shape = (rows, carried.value.columns)
            registers.values[self.home[what]] = np.full(shape, carried.initial, np.float32)
        elif self.home[carried.next] in registers.values:
            registers.values[self.home[what]] = registers.values[self.home[carried.next]]
        else:
            registers.values.pop(self.home[what], None)


def _tile_name(buffer: ir.Buffer) -> str:
    """The name in the tile program of what the buffer holds."""
    name = buffer.name.partition("@")[0].removesuffix(SUFFIX)
    return name.removesuffix("_registers") if buffer.space is ir.Space.REGISTER else name
