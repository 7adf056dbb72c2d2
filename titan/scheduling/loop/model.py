"""A loop to schedule: operations with reservation tables, dependences, warp groups and limits.

A dependence (u, v, delay, distance) asks that v of iteration i + distance is issued at least
`delay` cycles after u of iteration i. Data dependences extend the lifetime of u's value to the
issue of v (plus `hold_cycles`, for a consumer that keeps reading); order dependences end no
lifetime and carry no data. Operations are identified by position; names are for people.

The value of an operation occupies its registers and memories from the issue of the operation to
the last use, end exclusive. A streaming operation with `slots` owns a ring of that many copies of
its footprint for the whole loop instead. Cycles are whole numbers, in any unit that is the same
for the whole loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from titan.target.model import Machine, Memory, ResourcePool, Unit, WarpGroup

if TYPE_CHECKING:
    import networkx

DATA = "data"
ORDER = "order"


@dataclass(frozen=True, slots=True)
class ReservationUse:
    """One block of a reservation table: `amount` of `unit` over `cycles` from `first_cycle`."""

    unit: str
    cycles: int
    amount: int = 1
    first_cycle: int = 0

    @property
    def end_cycle(self) -> int:
        """Cycles from the issue to the end of the block."""
        return self.first_cycle + self.cycles


@dataclass(frozen=True, slots=True)
class Operation:
    """One tile-level operation.

    `registers` counts 32-bit words of the whole tile, `warps` the warps that issue it together,
    `issue_cycles` how long its own warps are busy issuing it (None: as long as it occupies units),
    `spill_cycles` the price of handing its value to another warp group. `inside`: the position of
    the operation that represents the inner loop that this one is in.
    """

    name: str
    uses: tuple[ReservationUse, ...] = ()
    latency_cycles: int = 0
    registers: int = 0
    warps: int = 1
    footprints: tuple[tuple[str, int], ...] = ()
    variable_latency: bool = False
    streaming: bool = False
    slots: int | None = None
    spill_cycles: int = 0
    issue_cycles: int | None = None
    inside: int | None = None

    @property
    def cycles(self) -> int:
        """Cycles from the issue to the last cycle that occupies a unit, at least 1."""
        most = 1
        for use in self.uses:
            end = use.first_cycle + use.cycles
            if end > most:  # noqa: PLR1730 - a call of max costs more, and this is hot
                most = end
        return most

    @property
    def issue_window(self) -> int:
        """Cycles that the warps are busy issuing it, no more than it occupies units."""
        return self.cycles if self.issue_cycles is None else min(self.issue_cycles, self.cycles)


@dataclass(frozen=True, slots=True)
class Dependence:
    """See the module text; `source` and `sink` are positions in `Loop.operations`."""

    source: int
    sink: int
    delay_cycles: int
    distance: int = 0
    kind: str = DATA
    blocking: bool = False
    hold_cycles: int = 0


@dataclass(frozen=True)
class Loop:
    """A loop on a machine. An empty `groups` means one group without limits."""

    name: str
    machine: Machine
    operations: tuple[Operation, ...]
    dependences: tuple[Dependence, ...]
    groups: tuple[WarpGroup, ...] = ()
    memories: tuple[tuple[str, int], ...] = ()
    note: str = ""
    extra_units: tuple[Unit, ...] = field(default=())

    @cached_property
    def index(self) -> dict[str, int]:
        """Positions of the operations by name."""
        return {operation.name: i for i, operation in enumerate(self.operations)}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Units of the machine by name, those of the loop itself on top."""
        return {**self.machine.units, **{unit.name: unit for unit in self.extra_units}}

    @cached_property
    def limits(self) -> dict[str, int]:
        """Capacity of each memory: what is reserved for the loop, else all that the machine has."""
        full = {memory.name: memory.capacity for memory in self.machine.memories.values()}
        return {**full, **dict(self.memories)}

    @cached_property
    def teams(self) -> tuple[WarpGroup, ...]:
        """The warp groups, never empty."""
        if self.groups:
            return self.groups
        return (WarpGroup("all", self.machine.warps_max),)

    @cached_property
    def has_teams(self) -> bool:
        """Whether the loop defines its own warp groups."""
        return bool(self.groups)

    @cached_property
    def parents(self) -> tuple[int | None, ...]:
        """The inner loop that each operation stands in; empty where nothing is nested."""
        found = tuple(operation.inside for operation in self.operations)
        return found if any(parent is not None for parent in found) else ()

    @property
    def pools(self) -> tuple[ResourcePool, ...]:
        """The pools of the machine."""
        return self.machine.pools

    @cached_property
    def variable_latency_team(self) -> int | None:
        """Position of the group that alone runs operations of variable latency, if there is one."""
        for i, team in enumerate(self.teams):
            if team.variable_latency:
                return i
        return None

    def team_words(self, team: int) -> int | None:
        """Registers of a group in 32-bit words; None where no limit is checked."""
        return self.teams[team].words(self.machine.threads_per_warp)

    def memory(self, name: str) -> Memory:
        """A memory of the machine by name. Raises KeyError."""
        return self.machine.memories[name]

    def graph(self) -> networkx.MultiDiGraph:
        """The dependence graph with operations and dependences as attributes."""
        import networkx

        graph = networkx.MultiDiGraph(name=self.name)
        for i, operation in enumerate(self.operations):
            graph.add_node(i, operation=operation)
        for dependence in self.dependences:
            graph.add_edge(dependence.source, dependence.sink, dependence=dependence)
        return graph
