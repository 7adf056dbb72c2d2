"""What open numbers, and configurations with open numbers in them, are for values of the unknowns.

Written apart from `titan`: quotients are divided, and arrays that turn are listed from stage 0 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from titan.proof.configuration import Configuration
from titan.sync.open_numbers import Linear, Quotient, Remainder
from titan.sync.program import SyncProgram
from titan.sync.state import Flight

Value = TypeVar("Value")


def at(value: Value, values: Mapping[str, int]) -> Value:
    """A number, or all of a value, for values of the unknowns."""
    if isinstance(value, Linear):
        return cast("Value", value.value + sum(f * term(name, values) for name, f in value.terms))
    if isinstance(value, Remainder):
        return cast("Value", at(value.number, values) % value.modulus)
    if not isinstance(value, tuple):
        return value
    parts = [at(part, values) for part in value]
    made = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return cast("Value", made)


def term(name: str, values: Mapping[str, int]) -> int:
    if isinstance(name, Quotient):
        divided = name.rest + sum(factor * term(inner, values) for inner, factor in name.terms)
        return divided // name.divisor
    return values[name]


def unknowns(value: object) -> set[str]:
    """The unknowns in a value."""
    if isinstance(value, Linear):
        found: set[str] = set()
        for name, _ in value.terms:
            found |= unknowns(name.number()) if isinstance(name, Quotient) else {name}
        return found
    return set().union(*map(unknowns, value)) if isinstance(value, tuple) else set()


def concrete(
    found: Configuration, values: Mapping[str, int], program: SyncProgram
) -> Configuration:
    """The configuration for values of the unknowns, with every stage at its own place."""
    made = at(found, values)
    stages = {b.name: (b.stages, 0, 1) for b in program.barriers}
    named = {}
    for buffer in program.buffers:
        stages[buffer.name] = buffer.stages, buffer.offset, buffer.parts * buffer.units
        named[buffer.storage or buffer.name] = buffer.name
    origins = dict(made.origins)

    def moved(key: tuple[str, int]) -> tuple[str, int]:
        name = named.get(key[0], key[0])
        if name not in origins:
            return key
        count, begin, size = stages[name]
        place, inside = divmod(key[1] - begin, size)
        return key[0], begin + (origins[name] + place) % count * size + inside

    def flight(one: Flight) -> Flight:
        accesses = tuple(
            (moved(cell), write, tile, proxy, extent and (moved(extent[0]), extent[1]), kind)
            for cell, write, tile, proxy, extent, kind in one.accesses
        )
        completes = tuple((moved(key), amount) for key, amount in one.completes)
        return one._replace(accesses=accesses, completes=completes)

    state = made.state
    queues = tuple(
        (
            key,
            queue._replace(
                closed=tuple(tuple(map(flight, group)) for group in queue.closed),
                open=tuple(map(flight, queue.open)),
            ),
        )
        for key, queue in state.queues
    )
    barriers = {moved(key): held for key, held in state.barriers}
    cells = {moved(key): held for key, held in state.cells}
    state = state._replace(
        barriers=tuple((key, barriers[key]) for key, _ in state.barriers),
        cells=tuple((key, cells[key]) for key, _ in state.cells),
        queues=queues,
        free_flights=tuple(map(flight, state.free_flights)),
    )
    return made._replace(state=state, origins=())
