"""What each agent executes, as a flat list: loops run, branches taken, every expression a number.

Control flow and assignments are local and see nothing but the agent's own variables and the sizes,
so the list of an agent is the same in every interleaving. That is the first condition under which
one run represents all of them; here it holds by construction.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.errors import Refusal
from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason
from titan.sync import program as ir
from titan.sync.control import Sizes, tile_of
from titan.sync.expression import Expression, evaluate
from titan.sync.pipe_order import PipePair, keeps, pipe_use
from titan.sync.reductions import Reduction, commute, reduction_of

LOCAL_STEPS_MAX = 1_000_000  # control steps of one agent without an operation
ANY_TILE = None  # an effect that names no tile

Key = tuple[str, int]
Cell = tuple[str, int]


class UnfoldingRefused(Refusal):
    """The agents have no finite list of operations within the budget.

    STEPS: more than `operations` of them; UNBOUNDED_LOOP, NO_VALUE or UNSUPPORTED otherwise.
    """

    def __init__(self, message: str, reason: Reason, operations: int = 0) -> None:
        super().__init__(message, reason=reason)
        self.operations = operations


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of an effect to one cell."""

    cell: Cell
    write: bool
    tile: int | None
    proxy: ir.Proxy
    extent: tuple[Cell, int] | None = None  # of an accumulator: its first cell and their number
    reduction: Reduction | None = None

    def conflicts(self, other: Touch) -> bool:
        """Whether two accesses of one cell need an order."""
        return (self.write or other.write) and not commute(self.reduction, other.reduction)


def keeps_order(pairs: tuple[PipePair, ...], earlier: Touch, later: Touch) -> bool:
    """Whether a pipelined queue orders the two by itself, an earlier access and a later one."""
    first = pipe_use(earlier.write, earlier.extent is not None)
    second = pipe_use(later.write, later.extent is not None)
    return keeps(pairs, first, second, earlier.extent == later.extent)


@dataclass(slots=True)
class Instance:
    """One execution of one operation by one agent, with numbers in place of expressions.

    `key` is the barrier; `amount` the count, threads, pending groups or pool amount; `size` the
    transaction bytes; `phase` the phase meant by a wait. `bad` and `bad_completion` describe
    an index that is out of range.
    """

    operation: ir.Operation
    key: Key = ("", 0)
    amount: int = 0
    size: int = 0
    phase: int | None = None
    touches: tuple[Touch, ...] = ()
    far: tuple[tuple[str, int], ...] = ()
    completes: tuple[tuple[Key, int], ...] = ()
    bad: str = ""
    bad_completion: str = ""


def published(instance: Instance, key: Key) -> ir.Scope | None:
    """The scope in which an operation publishes with its completion at a barrier; None: none."""
    operation = instance.operation
    if not isinstance(operation, ir.Asynchronous):
        return None
    for done, (at, _) in zip(operation.completes, instance.completes, strict=True):
        if at == key and done.publishes is not None:
            return done.publishes
    return None


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """One agent: its role, its number in the role, and all that it executes."""

    number: int
    role: ir.Role
    member: int
    instances: tuple[Instance, ...]

    @property
    def name(self) -> str:
        """The role's name, with the member's number where the role has several agents."""
        return self.role.name if self.role.agents == 1 else f"{self.role.name}[{self.member}]"


class _Scope:
    """The names that an agent's expressions see; sizes hide constants, constants hide variables."""

    def __init__(self, program: ir.SyncProgram, sizes: Sizes, role: ir.Role, member: int) -> None:
        self._sizes = sizes
        self._per = {parameter.name: parameter.per or "" for parameter in program.parameters}
        self._instanced = [name for name, size in sizes.items() if not isinstance(size, int)]
        self._constant = (role.agent_constant, member)
        self.names: dict[str, int] = {}
        self._variables: dict[str, int] = {}
        first = dict(role.variables)
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Loop | ir.Assign):
                self._variables[operation.variable] = 0
        self._variables.update(first)
        self._rebuild()

    def _rebuild(self) -> None:
        self.names.update(self._variables)
        self.names[self._constant[0]] = self._constant[1]
        for name, size in self._sizes.items():
            if isinstance(size, int):
                self.names[name] = size
            else:
                instance = self.names.get(self._per[name], 0)
                self.names[name] = size[min(max(instance, 0), len(size) - 1)]

    def get(self, variable: str) -> int:
        return self._variables[variable]

    def set(self, variable: str, value: int) -> None:
        self._variables[variable] = value
        if self._instanced or variable in self._sizes or variable == self._constant[0]:
            self._rebuild()
        else:
            self.names[variable] = value


class Unfolder:
    """Unfolds all agents of one program for given sizes.

    Raises UnfoldingRefused; ValueError when a parameter has no size.
    """

    def __init__(self, program: ir.SyncProgram, sizes: Sizes | None, operations_max: int) -> None:
        self.program = program
        self.sizes: dict[str, int | tuple[int, ...]] = {}
        for parameter in program.parameters:
            size = (sizes or {}).get(parameter.name, parameter.value)
            if size is None:
                raise ValueError(f"parameter {parameter.name} has no size")
            self.sizes[parameter.name] = size
        self._operations_max = operations_max
        self._remaining = operations_max
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._barriers = {
            (barrier.name, stage) for barrier in program.barriers for stage in range(barrier.stages)
        }
        self._named = {
            (barrier.name, stage)
            for barrier in program.named_barriers
            for stage in range(barrier.stages)
        }
        self._effect_cache: dict[tuple[int, int, int], tuple[Touch, ...]] = {}

    def agents(self) -> tuple[AgentProgram, ...]:
        """All agents in program order."""
        result: list[AgentProgram] = []
        for role in self.program.roles:
            for member in range(role.agents):
                instances = tuple(self._unfold(role, member))
                result.append(AgentProgram(len(result), role, member, instances))
        return tuple(result)

    def _unfold(self, role: ir.Role, member: int) -> Iterator[Instance]:
        scope = _Scope(self.program, self.sizes, role, member)
        idle = 0
        try:
            for operation in self._control(role.body, scope):
                if operation is None:
                    idle += 1
                    if idle > LOCAL_STEPS_MAX:
                        text = f"the control flow of {role.name} does not end"
                        raise UnfoldingRefused(text, Reason.UNBOUNDED_LOOP)
                    continue
                idle = 0
                self._remaining -= 1
                if self._remaining < 0:
                    most = self._operations_max
                    text = f"the run has more than {most} operations"
                    raise UnfoldingRefused(text, Reason.STEPS, most)
                yield self._instance(operation, scope.names, role)
        except (KeyError, ZeroDivisionError) as error:
            text = f"an expression of {role.name} has no value: {error}"
            raise UnfoldingRefused(text, Reason.NO_VALUE) from None

    def _control(self, block: ir.Block, scope: _Scope) -> Iterator[ir.Operation | None]:
        """The operations of a block in order; None represents a control step."""
        for operation in block:
            if isinstance(operation, ir.Assign):
                scope.set(operation.variable, evaluate(operation.value, scope.names))
                yield None
            elif isinstance(operation, ir.Loop):
                variable = operation.variable
                scope.set(variable, evaluate(operation.start, scope.names))
                while scope.names[variable] < evaluate(operation.stop, scope.names):
                    yield None
                    yield from self._control(operation.body, scope)
                    scope.set(variable, scope.get(variable) + 1)
            elif isinstance(operation, ir.Branch):
                taken = evaluate(operation.condition, scope.names)
                yield None
                yield from self._control(operation.then if taken else operation.otherwise, scope)
            else:
                yield operation

    # ------------------------------------------------------------------- one operation

    def _instance(self, operation: ir.Operation, names: dict[str, int], role: ir.Role) -> Instance:
        made = Instance(operation)
        match operation:
            case ir.Access(effects=effects):
                self._effects(made, effects, names, role)
            case ir.Asynchronous(effects=effects, completes=completes, chunks=chunks):
                if chunks < 1:
                    text = f"an operation of {role.name} completes in no chunk"
                    raise UnfoldingRefused(text, Reason.UNSUPPORTED)
                self._effects(made, effects, names, role)
                bad = made.bad
                made.completes = tuple(
                    (self._key(made, done.barrier, names, self._barriers), _of(done.bytes, names))
                    for done in completes
                )
                # An index that is out of range here is met after the accesses have been judged.
                if not bad:
                    made.bad, made.bad_completion = "", made.bad
            case ir.QueueWait(pending=pending):
                made.amount = _of(pending, names)
            case ir.QueueArrive(barrier=barrier, count=count):
                made.key = self._key(made, barrier, names, self._barriers)
                made.completes = ((made.key, _of(count, names)),)
            case ir.Init(barrier=barrier, count=count):
                made.key = self._key(made, barrier, names, self._barriers)
                made.amount = _of(count, names)
            case ir.Invalidate(barrier=barrier) | ir.TokenWait(barrier=barrier):
                made.key = self._key(made, barrier, names, self._barriers)
            case ir.Arrive(barrier=barrier, count=count, transaction=size):
                made.key = self._key(made, barrier, names, self._barriers)
                made.amount, made.size = _of(count, names), _of(size, names)
            case ir.ExpectTransaction(barrier=barrier, bytes=size):
                made.key = self._key(made, barrier, names, self._barriers)
                made.size = _of(size, names)
            case ir.Wait(barrier=barrier, parity=parity, phase=phase):
                made.key = self._key(made, barrier, names, self._barriers)
                made.amount = _of(parity, names) & 1
                made.phase = None if phase is None else _of(phase, names)
            case ir.BarrierSync(barrier=barrier, threads=threads):
                made.key = self._key(made, barrier, names, self._named)
                made.amount = _of(threads, names)
            case ir.BarrierArrive(barrier=barrier, threads=threads):
                made.key = self._key(made, barrier, names, self._named)
                made.amount = _of(threads, names)
            case ir.BarrierWait(barrier=barrier):
                made.key = self._key(made, barrier, names, self._named)
            case ir.PoolTake(amount=amount) | ir.PoolGive(amount=amount):
                made.amount = _of(amount, names)
        return made

    @staticmethod
    def _key(
        made: Instance, reference: ir.Reference, names: dict[str, int], known: set[Key]
    ) -> Key:
        key = (reference.name, evaluate(reference.index, names))
        if key not in known and not made.bad:
            made.bad = f"there is no barrier {key[0]}[{key[1]}]"
        return key

    def _effects(
        self,
        made: Instance,
        effects: tuple[ir.Effect, ...],
        names: dict[str, int],
        role: ir.Role,
    ) -> None:
        touches: list[Touch] = []
        far: dict[tuple[str, int], None] = {}
        for effect in effects:
            buffer = self._buffers[effect.buffer]
            stage = evaluate(effect.stage, names)
            part = None if effect.part is None else evaluate(effect.part, names)
            if not 0 <= stage < buffer.stages or not 0 <= (part or 0) < buffer.parts:
                if not made.bad:
                    made.bad = f"{buffer.name} has no stage {stage} part {part}"
                continue
            if buffer.space is not ir.Space.GLOBAL and buffer.cta != role.cta:
                far[(buffer.name, buffer.cta)] = None
            tile = ANY_TILE if effect.tile is None else tile_of(effect.tile, names)
            cells = cells_of(buffer, stage, part)
            extent = (cells[0], len(cells)) if effect.accumulates else None
            kind = reduction_of(effect, role.cta)
            for cell in cells:
                touches.append(Touch(cell, effect.write, tile, effect.proxy, extent, kind))
        made.touches, made.far = tuple(touches), tuple(far)


def cells_of(buffer: ir.Buffer, stage: int, part: int | None) -> list[Cell]:
    """The units of storage that one stage, or one part of it, covers."""
    storage = buffer.storage or buffer.name
    parts = range(buffer.parts) if part is None else (part,)
    return [
        (storage, buffer.offset + (stage * buffer.parts + number) * buffer.units + unit)
        for number in parts
        for unit in range(buffer.units)
    ]


def _of(expression: Expression, names: dict[str, int]) -> int:
    return evaluate(expression, names)
