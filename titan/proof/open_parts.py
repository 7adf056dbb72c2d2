"""Parts of a state with unknowns in their numbers, and without: tiles and phases, not positions.

Untrusted, as `representatives` is, of which this is the half that has no idea of classes. Of equal
parts there is one object, and it is remembered what it is without its unknowns: most parts of a
successor are those of the configuration before, so that comparing them is comparing objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar, cast

from titan.sync.arrays import Arrays, with_flights
from titan.sync.interpreter import ANY_TILE, UNDEFINED
from titan.sync.open_numbers import Quotient, linear, parts_of
from titan.sync.state import CellState, Flight, Key, MbarrierState, State

NO_TILES = (UNDEFINED, ANY_TILE)
Part = TypeVar("Part", bound=tuple[object, ...])
Change = Callable[[Callable[[int], int]], Part]  # makes the part with each number changed
Plain = tuple[object, object, frozenset[str]]  # a part, itself without unknowns, and those


class Rises(NamedTuple):
    """By what the tiles of each storage and the phases of each barrier are higher.

    `turns`: how far each array has turned on; a stage that comes round is a phase further.
    """

    tiles: dict[str, int]
    phases: dict[str, int]
    turns: dict[str, int]
    arrays: Arrays

    def tile(self, storage: str, tile: int) -> int:
        """The tile, higher; what is no tile number stays."""
        if storage not in self.tiles or (type(tile) is int and tile in NO_TILES):
            return tile
        return tile + self.tiles[storage]

    def flight(self, flight: Flight) -> Flight:
        """The operation in flight with all its tiles higher."""
        if not any(access[0][0] in self.tiles for access in flight.accesses):
            return flight
        accesses = tuple((a[0], a[1], self.tile(a[0][0], a[2]), *a[3:]) for a in flight.accesses)
        return flight._replace(accesses=accesses)

    def cell(self, storage: str, held: CellState) -> CellState:
        """The content of a cell with a higher tile."""
        tile = self.tile(storage, held.tile)
        return held if tile is held.tile else held._replace(tile=tile)

    def barrier(self, key: Key, held: MbarrierState) -> MbarrierState:
        """The barrier in a higher phase."""
        name, place = key
        if name in self.turns:
            rounds = (place + self.turns[name]) // self.arrays.stages[name]
            return held._replace(phase=held.phase + rounds)
        return held._replace(phase=held.phase + self.phases[name]) if name in self.phases else held

    def state(self, state: State) -> State:
        """The state with all tiles and phases higher by numbers, and its arrays turned on."""
        higher = with_flights(state, self.flight)._replace(
            barriers=tuple((k, self.barrier(k, held)) for k, held in state.barriers),
            cells=tuple((c, self.cell(c[0], held)) for c, held in state.cells),
        )
        by = {name: turn % self.arrays.stages[name] for name, turn in self.turns.items()}
        return self.arrays.turned(higher, by) if any(by.values()) else higher


class OpenParts:
    """The parts met so far. `phased`: the barriers of which somebody names a phase."""

    def __init__(self, phased: set[str]) -> None:
        self.phased = phased
        self._barriers: dict[tuple[int, int, MbarrierState], MbarrierState] = {}
        self._cells: dict[tuple[int, str, CellState], CellState] = {}
        self._flights: dict[tuple[int, Flight], Flight] = {}
        self._plain: dict[int, Plain] = {}  # by identity, of parts that are kept

    def lifted(self, state: State, number: int, rises: Rises) -> State:
        """The state with tiles and phases higher by unknowns; `number` is the one of `rises`.

        Of a phase that nobody names the parity is known, and nothing else.
        """

        def barrier_of(place: int, barrier: Key, held: MbarrierState) -> MbarrierState:
            key = number, place, held
            if key not in self._barriers:
                any_of_parity = linear(held.phase, {f"~p{place}": 2})
                self._barriers[key] = (
                    rises.barrier(barrier, held)
                    if barrier[0] in self.phased
                    else held._replace(phase=any_of_parity)
                )
            return self._barriers[key]

        def cell_of(storage: str, held: CellState) -> CellState:
            key = number, storage, held
            if key not in self._cells:
                self._cells[key] = rises.cell(storage, held)
            return self._cells[key]

        def flight_of(flight: Flight) -> Flight:
            key = number, flight
            if key not in self._flights:
                self._flights[key] = rises.flight(flight)
            return self._flights[key]

        barriers = enumerate(state.barriers)
        return with_flights(state, flight_of)._replace(
            barriers=tuple((key, barrier_of(n, key, held)) for n, (key, held) in barriers),
            cells=tuple((cell, cell_of(cell[0], held)) for cell, held in state.cells),
        )

    def stripped(self, state: State, opened: set[str]) -> State:
        """The state with every unknown at 0; `opened` gathers those."""

        def value_of(number: int) -> int:
            if type(number) is int:
                return number
            opened.update(unknowns_of(number))
            return parts_of(number)[0]

        def barrier_of(held: MbarrierState) -> MbarrierState:
            if type(held.phase) is int:
                return held
            return self._stripped(held, opened, lambda to: held._replace(phase=to(held.phase)))

        def cell_of(held: CellState) -> CellState:
            if type(held.tile) is int:
                return held
            return self._stripped(held, opened, lambda to: held._replace(tile=to(held.tile)))

        def flight_of(flight: Flight) -> Flight:
            if all(type(access[2]) is int for access in flight.accesses):
                return flight
            return self._stripped(flight, opened, lambda to: _with_tiles(flight, to))

        positions = (p._replace(values=tuple(map(value_of, p.values))) for p in state.positions)
        return with_flights(state, flight_of)._replace(
            positions=tuple(positions),
            barriers=tuple((key, barrier_of(held)) for key, held in state.barriers),
            cells=tuple((cell, cell_of(held)) for cell, held in state.cells),
        )

    def _stripped(self, part: Part, opened: set[str], change: Change[Part]) -> Part:
        if id(part) not in self._plain:
            names: set[str] = set()

            def value_of(number: int) -> int:
                names.update(unknowns_of(number))
                return parts_of(number)[0]

            self._plain[id(part)] = part, change(value_of), frozenset(names)
        _, plain, met = self._plain[id(part)]
        opened |= met
        return cast("Part", plain)


def unknowns_of(number: int) -> Iterator[str]:
    """The unknowns of a number, those of its quotients among them."""
    for name, _ in parts_of(number)[1]:
        if isinstance(name, Quotient):
            yield from unknowns_of(cast("int", name.number()))
        else:
            yield name


def _with_tiles(flight: Flight, change: Callable[[int], int]) -> Flight:
    accesses = tuple((a[0], a[1], change(a[2]), *a[3:]) for a in flight.accesses)
    return flight._replace(accesses=accesses)
