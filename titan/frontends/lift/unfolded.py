"""A folded program taken apart again, and compared with a recording, operation by operation.

This shares no code with the folding: loops are run, expressions evaluated, elements of arrays
looked up, and what each agent does is compared as plain values. Parts of arrays that represent no
memory are left out of the comparison; they can only add conflicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from titan.sync import program as ir
from titan.sync.expression import Expression, evaluate
from titan.sync.parts import (
    barriers_of,
    completions_of,
    effects_of,
    pool_of,
    queue_of,
    values_of,
    words_of,
)

OPERATIONS_MAX = 2_000_000
Elements = Mapping[tuple[str, int, int], str | None]
Plain = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NameTable:
    """What the names of a program are called in recordings.

    `memory` by array, stage and part, None for parts that are no memory; `barriers` by array and
    stage (part 0); `others` are named barriers, queues and pools.
    """

    memory: Elements
    barriers: Elements
    others: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first operation that differs: of which agent, which one, and what both do."""

    agent: int
    number: int
    folded: Plain | None
    recorded: Plain | None


def difference(
    program: ir.SyncProgram, sizes: Mapping[str, int], table: NameTable, recorded: ir.SyncProgram
) -> Difference | None:
    """The first difference between the program for these sizes and a recording, or None."""
    agents = [
        (role, {**sizes, role.agent_constant: number})
        for role in program.roles
        for number in range(role.agents)
    ]
    if len(agents) != len(recorded.roles):
        return Difference(min(len(agents), len(recorded.roles)), 0, None, None)
    plain = _Reader(recorded, None)
    folded = _Reader(program, table)
    for number, (role, environment) in enumerate(agents):
        mine = folded.operations(role.body, dict(environment))
        theirs = plain.operations(recorded.roles[number].body, {})
        found = _first(number, mine, theirs)
        if found is not None:
            return found
    return None


def _first(agent: int, mine: Iterator[Plain], theirs: Iterator[Plain]) -> Difference | None:
    for number in range(OPERATIONS_MAX):
        one, other = next(mine, None), next(theirs, None)
        if one != other:
            return Difference(agent, number, one, other)
        if one is None:
            return None
    return Difference(agent, OPERATIONS_MAX, None, None)


class _Reader:
    """Operations as plain values, under the names of recordings."""

    def __init__(self, program: ir.SyncProgram, table: NameTable | None) -> None:
        self.table = table
        self.parts = {item.name: item.parts for item in program.buffers}

    def operations(self, block: ir.Block, environment: dict[str, int]) -> Iterator[Plain]:
        """What an agent does."""
        for operation in block:
            if isinstance(operation, ir.Loop):
                at = evaluate(operation.start, environment)
                while at < evaluate(operation.stop, environment):
                    yield from self.operations(
                        operation.body, {**environment, operation.variable: at}
                    )
                    at += 1
            elif isinstance(operation, ir.Branch):
                taken = evaluate(operation.condition, environment)
                yield from self.operations(
                    operation.then if taken else operation.otherwise, environment
                )
            else:
                yield self._plain(operation, environment)

    def _plain(self, operation: ir.Operation, environment: Mapping[str, int]) -> Plain:
        made: list[object] = [type(operation).__name__]
        for value in values_of(operation):
            made.append(None if value is None else evaluate(value, environment))
        made += words_of(operation)
        made += [self._other(queue_of(operation)), self._other(pool_of(operation))]
        made += [self._barrier(reference, environment) for reference in barriers_of(operation)]
        made += [evaluate(item.bytes, environment) for item in completions_of(operation)]
        made.append(self._memory(effects_of(operation), environment))
        return tuple(made)

    def _other(self, name: str | None) -> str | None:
        if name is None or self.table is None:
            return name
        return self.table.others.get(name, name)

    def _barrier(self, reference: ir.Reference, environment: Mapping[str, int]) -> object:
        index = evaluate(reference.index, environment)
        if self.table is None:
            return reference.name, index
        known = self.table.barriers.get((reference.name, index, 0))
        if known is not None:
            return known, 0
        return self.table.others.get(reference.name, reference.name), index

    def _memory(
        self, effects: tuple[ir.Effect, ...], environment: Mapping[str, int]
    ) -> frozenset[Plain]:
        found: set[Plain] = set()
        for effect in effects:
            kind = (effect.write, effect.proxy, effect.accumulates)
            stage = evaluate(effect.stage, environment)
            parts = range(self.parts[effect.buffer])
            if effect.part is not None:
                at = self._value(effect.part, environment)
                parts = range(at, at + 1)
            for part in parts:
                name = self._region(effect.buffer, stage, part)
                if name is not None:
                    found.add((name, *kind))
        return frozenset(found)

    def _value(self, expression: Expression, environment: Mapping[str, int]) -> int:
        return evaluate(expression, environment)

    def _region(self, buffer: str, stage: int, part: int) -> object:
        if self.table is None:
            return buffer if (stage, part) == (0, 0) else (buffer, stage, part)
        return self.table.memory.get((buffer, stage, part), (buffer, stage, part))
