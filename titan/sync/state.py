"""States of a running sync program: immutable values, and the draft that a step changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, NoReturn

from titan.foundation.errors import TitanError
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import Fault, FaultKind
from titan.sync.proxy_marks import NO_MARKS, ProxyMarks
from titan.sync.reductions import Reduction
from titan.sync.turns import place_of

UNDEFINED = -(2**40)  # content of memory that nobody has written
ANY_TILE = UNDEFINED + 1  # content written without a tile
TILE_MIN = -(2**39)  # of tiles that a program names, so that none is one of the two
ENGINE = -1  # represents the engine among the writers of a cell

Cell = tuple[str, int]  # storage, unit
Environment = dict[str, int]  # all names in scope of an agent
Key = tuple[str, int]  # a declared array and an index


class Position(NamedTuple):
    """Where an agent is: frames (block, index) from the outside in, and its variables.

    `index` is that of the operation to execute next; no frames: the agent is at its end.
    """

    frames: tuple[tuple[int, int], ...]
    values: tuple[int, ...]


Extent = tuple[Cell, int]  # first cell and number of cells
FlightAccess = tuple[Cell, bool, int, ir.Proxy, Extent | None, Reduction | None]


class Flight(NamedTuple):
    """An asynchronous operation between start and finish.

    `site` is the number of the operation in `Machine.operations`; `accesses` are (cell, write,
    tile, proxy, extent of an accumulator or None, kind of reduction or None); `completes` are
    (barrier, bytes), or (barrier, arrivals) of a `QueueArrive`.
    """

    agent: int
    ordinal: int
    site: int
    accesses: tuple[FlightAccess, ...]
    completes: tuple[tuple[Key, int], ...]
    reading: bool
    chunks: int


class BarrierStatus(IntEnum):
    """The life of an mbarrier."""

    ABSENT = 0  # not initialised, or invalidated
    UNPUBLISHED = 1  # initialised, and no fence has published that
    USABLE = 2


class MbarrierState(NamedTuple):
    """`tokens`: agents that hold a state of the phase that is open.

    `observed`: some wait has passed since the last phase was completed. `armed`: agents whose token
    is of the open phase or of the one before.
    """

    status: BarrierStatus
    owner: int
    expected: int
    pending: int
    transaction: int
    phase: int
    tokens: frozenset[int]
    observed: bool
    armed: frozenset[int] = frozenset()


class NamedState(NamedTuple):
    """Who has arrived in this generation: `arrived` and gone on, or `waiting` in a `sync`.

    `armed`: agents that have arrived and not yet waited, of barriers that anybody waits at.
    """

    arrived_threads: int
    expected_threads: int
    arrived: frozenset[int]
    waiting: frozenset[int]
    armed: frozenset[int] = frozenset()


class CellState(NamedTuple):
    """The tile held; the agents whose generic writes or reads are not fenced; tensor map state.

    `authors` have written and not yet released to the tensormap proxy what they wrote. `released`:
    all have, and no acquire has followed.
    """

    tile: int
    writers: frozenset[int]
    readers: frozenset[int]
    authors: frozenset[int]
    released: bool
    marks: ProxyMarks = NO_MARKS


class QueueState(NamedTuple):
    """Flights of a queue: the closed groups, and the group that is still open."""

    closed: tuple[tuple[Flight, ...], ...]
    open: tuple[Flight, ...]


class State(NamedTuple):
    """All of one moment as tuples, so that states can be hashed and compared."""

    positions: tuple[Position, ...]
    issued: tuple[int, ...]
    barriers: tuple[tuple[Key, MbarrierState], ...]
    named: tuple[tuple[Key, NamedState], ...]
    cells: tuple[tuple[Cell, CellState], ...]
    queues: tuple[tuple[tuple[int, str], QueueState], ...]
    free_flights: tuple[Flight, ...]
    pools: tuple[tuple[str, int], ...]


class Draft:
    """A state under construction: the same tables as `State`, as dictionaries."""

    def __init__(self, state: State) -> None:
        self.positions = list(state.positions)
        self.issued = list(state.issued)
        self.barriers = dict(state.barriers)
        self.named = dict(state.named)
        self.cells = dict(state.cells)
        self.queues = dict(state.queues)
        self.free_flights = list(state.free_flights)
        self.pools = dict(state.pools)

    def freeze(self) -> State:
        """The state as immutable value; free flights are sorted by their first two fields."""
        return State(
            tuple(self.positions),
            tuple(self.issued),
            tuple(self.barriers.items()),
            tuple(self.named.items()),
            tuple(self.cells.items()),
            tuple(self.queues.items()),
            tuple(sorted(self.free_flights, key=lambda flight: flight[:2])),
            tuple(self.pools.items()),
        )

    def flights(self) -> Iterator[Flight]:
        """Everything in flight; within one queue in the order of issue."""
        yield from self.free_flights
        for queue in self.queues.values():
            for group in queue.closed:
                yield from group
            yield from queue.open


def flying(state: State) -> Iterator[tuple[Flight, str | None]]:
    """The operations in flight, each with its queue."""
    for flight in state.free_flights:
        yield flight, None
    for (_, name), queue in state.queues:
        for group in (*queue.closed, queue.open):
            for flight in group:
                yield flight, name


class FaultFound(TitanError):
    """Ends a step: the interleaving so far shows this fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class ExecutionContext(NamedTuple):
    """Which agent executes what (for an engine's step: who issued what); faults point there."""

    agent: int
    operation: ir.Operation

    def fail(self, kind: FaultKind, message: str, name: str = "") -> NoReturn:
        """Raise the fault, pointing at this operation."""
        raise FaultFound(Fault(kind, message, (self.agent,), (self.operation,), name))

    def clash(self, kind: FaultKind, message: str, name: str, other: ExecutionContext) -> NoReturn:
        """Raise the fault, pointing at this operation and at another one."""
        agents, operations = (self.agent, other.agent), (self.operation, other.operation)
        raise FaultFound(Fault(kind, message, agents, operations, name))


def key_of(reference: ir.Reference, environment: Mapping[str, int]) -> Key:
    """The name of what is referred to, and the place in that array."""
    name = reference.name
    return name, place_of(name, evaluate(reference.index, environment), environment)


def key_text(key: Key) -> str:
    """A barrier as reports show it, `name[index]`."""
    return f"{key[0]}[{key[1]}]"


def content_text(tile: int, names: Sequence[str] = ()) -> str:
    """What a cell holds, in words; UNDEFINED and ANY_TILE are no tile numbers.

    `names`: the buffers that the tiles of its storage are numbered by.
    """
    if tile == UNDEFINED:
        return "undefined content"
    if tile == ANY_TILE:
        return "some other value"
    if not names:
        return f"tile {tile}"
    return f"tile {tile // len(names)} of {names[tile % len(names)]}"
