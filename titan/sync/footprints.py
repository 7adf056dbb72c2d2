"""What one operation touches: cells of memory, and arrivals and bytes at barriers.

For the values of an agent, or for any values (`Lasting`): then all indices, but those that only
constants decide, any number of times.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from titan.sync import program as ir
from titan.sync.expression import Expression, evaluate, names_of
from titan.sync.memory_rules import cells_of
from titan.sync.parts import barriers_of, effects_of
from titan.sync.pipe_order import PipePair, keeps, pipe_use
from titan.sync.state import Cell, Extent, Flight, Key, key_of
from titan.sync.turns import place_of

UNCOUNTED = 2**40
Values = dict[str, int]  # all names in scope
Touch = tuple[Cell, bool, ir.Proxy, Extent | None]  # cell, whether written, by which way
Touched = list[Touch]
Signal = tuple[Key, int, int, int]  # barrier, arrivals, bytes expected, bytes completed


class Lasting(NamedTuple):
    """What is known of an agent wherever it stands: its own number, and which arrays turn."""

    constants: dict[str, int]
    turning: Container[str]

    def value(self, expression: Expression) -> int | None:
        """The value, where it is one wherever the agent stands."""
        known = names_of(expression) <= self.constants.keys()
        return evaluate(expression, self.constants) if known else None

    def place(self, name: str, index: Expression) -> int | None:
        """The place of an array, where it is one wherever the agent stands."""
        return None if name in self.turning else self.value(index)


def touched_by(
    operation: ir.Operation, values: Values | Lasting, buffers: Mapping[str, ir.Buffer]
) -> Touched | None:
    """The cells of an operation; None where an index is out of range."""
    found: Touched = []
    for effect in effects_of(operation):
        buffer = buffers[effect.buffer]
        stages = range(buffer.stages)
        if isinstance(values, Lasting):
            stage = values.place(buffer.name, effect.stage)
            named = None if effect.accumulates else effect.part  # an extent is that of one stage
            part = None if named is None else values.value(named)
        else:
            stage = place_of(buffer.name, evaluate(effect.stage, values), values)
            part = None if effect.part is None else evaluate(effect.part, values)
        if not 0 <= (stage or 0) < buffer.stages or not 0 <= (part or 0) < buffer.parts:
            return None
        if stage is not None:
            stages = range(stage, stage + 1)
        cells = tuple(cell for stage in stages for cell in cells_of(buffer, stage, part))
        extent = (cells[0], len(cells)) if effect.accumulates else None
        found += [(cell, effect.write, effect.proxy, extent) for cell in cells]
    return found


def held_by(flight: Flight) -> Touched:
    """The cells of an operation in flight."""
    return [(cell, write, proxy, extent) for cell, write, _, proxy, extent, _ in flight.accesses]


def signals_of(op: ir.Operation, values: dict[str, int], threads: int) -> list[Signal]:
    """What an operation of an agent does to barriers, now or when it has finished."""
    match op:
        case ir.Arrive(barrier=barrier, count=count, transaction=expects):
            expected = evaluate(expects, values)
            return [(key_of(barrier, values), evaluate(count, values), expected, 0)]
        case ir.QueueArrive(barrier=barrier, count=count):
            return [(key_of(barrier, values), evaluate(count, values), 0, 0)]
        case ir.Asynchronous(completes=done):
            return [(key_of(c.barrier, values), 0, 0, evaluate(c.bytes, values)) for c in done]
        case ir.BarrierSync(barrier=barrier) | ir.BarrierArrive(barrier=barrier):
            return [(named_key(key_of(barrier, values)), threads, 0, 0)]
    return []


def any_signals_of(
    op: ir.Operation, fixed: Lasting, barriers: Iterable[Key], named: Iterable[Key]
) -> list[Signal]:
    """What an operation does to barriers with any values, any number of times."""
    meant = [(r.name, fixed.place(r.name, r.index)) for r in barriers_of(op)]

    def is_meant(key: Key) -> bool:
        return any(key[0] == name and place in (None, key[1]) for name, place in meant)

    keys = (*filter(is_meant, barriers), *map(named_key, filter(is_meant, named)))
    return [(key, UNCOUNTED, UNCOUNTED, UNCOUNTED) for key in keys]


def signals_at_end(flight: Flight, operation: ir.Operation) -> list[Signal]:
    """What the end of an operation does to barriers, with all that is left of it."""
    if not isinstance(operation, ir.Asynchronous):
        return [(key, amount, 0, 0) for key, amount in flight.completes]
    done = operation.chunks - flight.chunks
    return [(k, 0, 0, n - n // operation.chunks * done) for k, n in flight.completes]


def named_key(key: Key) -> Key:
    """The key under which arrivals at a named barrier are summed; no mbarrier has such a name."""
    return f"named barrier {key[0]}", key[1]


def kept_in_order(
    flight: Flight, touched: Touched, pairs: tuple[PipePair, ...], marked: frozenset[str]
) -> bool:
    """Whether the data path keeps the order of an operation in flight and one issued behind it.

    Then the later one passes the same checks before the end of the other and after it. Not where
    the end leaves a mark of a proxy in memory (`marked`), or reduces.
    """
    return all(
        keeps(pairs, pipe_use(wrote, theirs is not None), pipe_use(write, own is not None), same)
        and not reduces
        and cell[0] not in marked
        for first, wrote, _, _, theirs, reduces in flight.accesses
        for cell, write, _, own in touched
        for same in (theirs == own,)
        if cell == first and (write or wrote)
    )
