"""What one agent of a role does in order, for given numbers: the sync program executed alone.

Waits pass at once. Local control (loops, branches, counters) depends on parameters and counters
only, so that the order is the same in every interleaving.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason
from titan.sync import program as ir
from titan.sync.expression import Expression, evaluate
from titan.sync.parts import queue_of

STEPS_MAX = 200_000
# Of a parameter that differs between work items, the values by that loop's variable.
Numbers = Mapping[str, int | tuple[int, ...]]
Place = tuple[str, int]  # a declared array and an index
BufferRegion = tuple[str, int, int | None]  # a buffer, its stage, its part (None: all)


class TooLong(Refusal):
    """The agent takes more steps than the limit."""

    reason = Reason.STEPS


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One execution of an operation, its expressions as numbers.

    `place` is the barrier or named barrier, `number` the parity, count, threads or pending groups,
    `bytes` those of a transaction; `reads` and `writes` the regions of buffers; `completes` the
    barriers that a copy completes, each with its bytes.
    """

    operation: ir.Operation
    place: Place = ("", 0)
    number: int = 0
    bytes: int = 0
    reads: tuple[BufferRegion, ...] = ()
    writes: tuple[BufferRegion, ...] = ()
    completes: tuple[tuple[Place, int], ...] = ()

    @property
    def text(self) -> str:
        """The operation as a report names it."""
        label = self.operation.label
        kind = type(self.operation).__name__
        where = f" of {self.place[0]}[{self.place[1]}]" if self.place[0] else ""
        return f"{kind}{where}{f' ({label})' if label else ''}"


def occurrences(
    role: ir.Role, agent: int, numbers: Numbers, program: ir.SyncProgram
) -> list[Occurrence]:
    """All operations of the agent in order. Raises TooLong."""
    return list(_Agent(role, agent, numbers, program).block(role.body))


def everywhere(expected: list[Occurrence], ctas: int) -> list[Occurrence]:
    """Commits that arrive at the same barrier of one CTA after the other, as one that `completes`
    those of all."""
    made: list[Occurrence] = []
    position = 0
    while position < len(expected):
        group = expected[position : position + ctas]
        names = [one.place[0] for one in group]
        base = names[0].partition("@")[0]
        same = (
            all(isinstance(one.operation, ir.QueueArrive) for one in group)
            and names == [f"{base}@{cta}" for cta in range(ctas)]
            and len({(one.place[1], one.number, queue_of(one.operation)) for one in group}) == 1
        )
        if same:
            completes = tuple((one.place, one.bytes) for one in group)
            made.append(replace(group[0], completes=completes))
        else:
            made.append(group[0])
        position += ctas if same else 1
    return made


class _Agent:
    def __init__(
        self, role: ir.Role, agent: int, numbers: Numbers, program: ir.SyncProgram
    ) -> None:
        self.numbers = numbers
        self.per = {item.name: item.per for item in program.parameters if item.per is not None}
        self.environment: dict[str, int] = {
            name: value for name, value in numbers.items() if isinstance(value, int)
        }
        for item in program.parameters:
            if item.value is not None:
                self.environment[item.name] = item.value
        self.environment |= dict(role.variables)
        self.environment[role.agent_constant] = agent
        self.steps = 0

    def value(self, expression: Expression) -> int:
        return evaluate(expression, self.environment)

    def block(self, block: ir.Block) -> Iterator[Occurrence]:
        for operation in block:
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise TooLong(f"an agent takes more than {STEPS_MAX} steps")
            if isinstance(operation, ir.Loop):
                yield from self._loop(operation)
            elif isinstance(operation, ir.Branch):
                holds = self.value(operation.condition)
                yield from self.block(operation.then if holds else operation.otherwise)
            elif isinstance(operation, ir.Assign):
                self.environment[operation.variable] = self.value(operation.value)
            elif not isinstance(operation, ir.Compute):
                yield self._occurrence(operation)

    def _loop(self, loop: ir.Loop) -> Iterator[Occurrence]:
        variable = loop.variable
        self.environment[variable] = self.value(loop.start)
        self._refresh(variable)
        while self.environment[variable] < self.value(loop.stop):
            yield from self.block(loop.body)
            self.environment[variable] += 1
            self._refresh(variable)

    def _refresh(self, variable: str) -> None:
        """Parameters whose value depends on this loop variable."""
        for name, per in self.per.items():
            values = self.numbers.get(name)
            if per == variable and isinstance(values, tuple):
                position = self.environment[variable]
                self.environment[name] = values[position] if position < len(values) else 0

    def _place(self, reference: ir.Reference) -> Place:
        return reference.name, self.value(reference.index)

    def _region(self, effect: ir.Effect) -> BufferRegion:
        part = self.value(effect.part) if effect.part is not None else None
        return effect.buffer, self.value(effect.stage), part

    def _regions(self, effects: tuple[ir.Effect, ...], write: bool) -> tuple[BufferRegion, ...]:
        found = (self._region(effect) for effect in effects if effect.write == write)
        return tuple(dict.fromkeys(found))

    def _occurrence(self, operation: ir.Operation) -> Occurrence:
        match operation:
            case ir.Wait():
                place = self._place(operation.barrier)
                return Occurrence(operation, place, self.value(operation.parity) % 2)
            case ir.Arrive():
                return Occurrence(
                    operation,
                    self._place(operation.barrier),
                    self.value(operation.count),
                    self.value(operation.transaction),
                )
            case ir.QueueArrive():
                return Occurrence(
                    operation, self._place(operation.barrier), self.value(operation.count)
                )
            case ir.ExpectTransaction():
                place = self._place(operation.barrier)
                return Occurrence(operation, place, bytes=self.value(operation.bytes))
            case ir.BarrierSync() | ir.BarrierArrive():
                place = self._place(operation.barrier)
                return Occurrence(operation, place, self.value(operation.threads))
            case ir.BarrierWait():
                return Occurrence(operation, self._place(operation.barrier))
            case ir.QueueWait():
                return Occurrence(operation, number=self.value(operation.pending))
            case ir.Access():
                reads, writes = (self._regions(operation.effects, w) for w in (False, True))
                return Occurrence(operation, reads=reads, writes=writes)
            case ir.Asynchronous():
                return self._asynchronous(operation)
            case ir.PoolTake() | ir.PoolGive():
                return Occurrence(operation, number=self.value(operation.amount))
        return Occurrence(operation)

    def _asynchronous(self, operation: ir.Asynchronous) -> Occurrence:
        completes = tuple(
            (self._place(item.barrier), self.value(item.bytes)) for item in operation.completes
        )
        place, total = completes[0] if completes else (("", 0), 0)
        reads, writes = (self._regions(operation.effects, w) for w in (False, True))
        return Occurrence(
            operation, place, bytes=total, reads=reads, writes=writes, completes=completes
        )
