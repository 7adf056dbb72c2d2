"""Parts of a state with unknowns in their numbers, and without: tiles and phases, not positions.

Untrusted, as `representatives` is, of which this is the half that has no idea of classes. Of equal
parts there is one object, and it is remembered what it is without its unknowns: most parts of a
successor are those of the configuration before, so that comparing them is comparing objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

from titan.sync.interpreter import ANY_TILE, UNDEFINED
from titan.sync.open_numbers import linear, parts_of
from titan.sync.state import CellState, Flight, MbarrierState, QueueState, State

NO_TILES = (UNDEFINED, ANY_TILE)
Part = TypeVar("Part", bound=tuple[object, ...])
Change = Callable[[Callable[[int], int]], Part]  # makes the part with each number changed
Plain = tuple[object, object, frozenset[str]]  # a part, itself without unknowns, and those


class Rises(NamedTuple):
    """By what the tiles of each storage and the phases of each barrier are higher."""

    tiles: dict[str, int]
    phases: dict[str, int]

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

    def barrier(self, name: str, held: MbarrierState) -> MbarrierState:
        """The barrier in a higher phase."""
        return held._replace(phase=held.phase + self.phases[name]) if name in self.phases else held

    def state(self, state: State) -> State:
        """The state with all tiles and phases higher."""
        return with_flights(state, self.flight)._replace(
            barriers=tuple((k, self.barrier(k[0], held)) for k, held in state.barriers),
            cells=tuple((c, self.cell(c[0], held)) for c, held in state.cells),
        )


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

        def barrier_of(place: int, name: str, held: MbarrierState) -> MbarrierState:
            key = number, place, held
            if key not in self._barriers:
                any_of_parity = linear(held.phase, {f"~p{place}": 2})
                self._barriers[key] = (
                    rises.barrier(name, held)
                    if name in self.phased
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
            barriers=tuple((key, barrier_of(n, key[0], held)) for n, (key, held) in barriers),
            cells=tuple((cell, cell_of(cell[0], held)) for cell, held in state.cells),
        )

    def stripped(self, state: State, opened: set[str]) -> State:
        """The state with every unknown at 0; `opened` gathers those."""

        def value_of(number: int) -> int:
            if type(number) is int:
                return number
            value, terms = parts_of(number)
            opened.update(name for name, _ in terms)
            return value

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
                value, terms = parts_of(number)
                names.update(name for name, _ in terms)
                return value

            self._plain[id(part)] = part, change(value_of), frozenset(names)
        _, plain, met = self._plain[id(part)]
        opened |= met
        return cast("Part", plain)


def _with_tiles(flight: Flight, change: Callable[[int], int]) -> Flight:
    accesses = tuple((a[0], a[1], change(a[2]), *a[3:]) for a in flight.accesses)
    return flight._replace(accesses=accesses)


def with_flights(state: State, change: Callable[[Flight], Flight]) -> State:
    """The state with every operation in flight changed."""

    def groups(queue: QueueState) -> QueueState:
        if not queue.closed and not queue.open:
            return queue
        closed = tuple(tuple(map(change, group)) for group in queue.closed)
        return QueueState(closed, tuple(map(change, queue.open)))

    return state._replace(
        queues=tuple((key, groups(queue)) for key, queue in state.queues),
        free_flights=tuple(map(change, state.free_flights)),
    )
