"""Where a state lists the stages of arrays, and the same state listed from another stage on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from titan.sync import program as ir
from titan.sync.open_numbers import assigned
from titan.sync.state import Cell, Extent, Flight, Key, QueueState, State
from titan.sync.turns import Origins

Held = TypeVar("Held")


class Arrays:
    """Which arrays may be listed from an open stage on, and where a state lists them.

    Memory only where no other buffer is in its storage.
    """

    def __init__(self, program: ir.SyncProgram) -> None:
        names = [b.name for b in program.barriers] + [b.name for b in program.buffers]
        self.stages = {b.name: b.stages for b in program.barriers if names.count(b.name) == 1}
        self._block: dict[str, tuple[int, int]] = {}  # of a storage: where it begins, and a stage
        self._buffer: dict[str, str] = {}
        storages = [buffer.storage or buffer.name for buffer in program.buffers]
        for buffer, storage in zip(program.buffers, storages, strict=True):
            if storages.count(storage) == 1 and names.count(buffer.name) == 1:
                self.stages[buffer.name] = buffer.stages
                self._buffer[storage] = buffer.name
                self._block[storage] = buffer.offset, buffer.parts * buffer.units

    def turned(self, state: State, by: Mapping[str, int]) -> State:
        """The state with what it lists at a place of each array that many places on."""

        def key_of(key: Key) -> Key:
            name, place = key
            return (name, (place + by[name]) % self.stages[name]) if name in by else key

        def cell_of(cell: Cell) -> Cell:
            storage, unit = cell
            buffer = self._buffer.get(storage, "")
            if buffer not in by:
                return cell
            begin, block = self._block[storage]
            stage, inside = divmod(unit - begin, block)
            return storage, begin + (stage + by[buffer]) % self.stages[buffer] * block + inside

        def flight_of(flight: Flight) -> Flight:
            accesses = tuple(
                (cell_of(cell), write, tile, proxy, _at(extent, cell_of), reduces)
                for cell, write, tile, proxy, extent, reduces in flight.accesses
            )
            completes = tuple((key_of(key), amount) for key, amount in flight.completes)
            return flight._replace(accesses=accesses, completes=completes)

        return with_flights(state, flight_of)._replace(
            barriers=_moved(state.barriers, key_of), cells=_moved(state.cells, cell_of)
        )

    def aligned(
        self, state: State, own: Origins, others: Origins, values: dict[str, int]
    ) -> State | None:
        """The state listed from `others` on; None where the way there from `own` is not known.

        `values`: of unknowns.
        """
        origins, given, by = dict(own), dict(others), {}
        for name in origins.keys() | given.keys():
            origin, unknown = assigned(origins.get(name, 0), values)
            gap = (origin - given.get(name, 0)) % self.stages.get(name, 1)
            if unknown or type(gap) is not int or name not in self.stages:
                return None
            by[name] = gap
        return self.turned(state, by) if any(by.values()) else state


def _at(extent: Extent | None, cell_of: Callable[[Cell], Cell]) -> Extent | None:
    return None if extent is None else (cell_of(extent[0]), extent[1])


def _moved(
    listed: tuple[tuple[Key, Held], ...], key_of: Callable[[Key], Key]
) -> tuple[tuple[Key, Held], ...]:
    """What is listed under other keys, in the order of the keys as it was."""
    found = {key_of(key): held for key, held in listed}
    return tuple((key, found[key]) for key, _ in listed)


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
