"""What the analysis of one run suspects, and how a run would have to go to show it."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from titan.engines.happens_before.clocks import Clocks, Timestamp
from titan.engines.happens_before.tables import IssuedOperation
from titan.foundation.errors import TitanError
from titan.foundation.records import dataclass
from titan.sync.fault import Fault

FlightName = tuple[int, int]


class Weight(IntEnum):
    """DEVIATION: another interleaving may take another course, so one run does not represent all.

    FAULT: in the order of this run, some interleaving shows the fault. WEAK: execution is ordered
    and visibility is not; READ: of what a thread has read and another overwrites. INEXACT: as
    DEVIATION, but nothing suggests a fault.
    """

    FAULT = 0
    DEVIATION = 1
    INEXACT = 2
    WEAK = 3
    READ = 4


@dataclass(slots=True)
class Plan:
    """How to steer a run: agents up to `bounds`, `hold` in flight, `land` over, then the end.

    `hold` says of each operation whether it must still be reading. The end: both agents of `race`
    stand at their accesses, or agent `last` executes one operation. With `goes_on` the run then
    continues to its end, `favoured` first and `stalled` last.
    """

    bounds: list[int]
    hold: dict[FlightName, bool] = field(default_factory=dict)
    land: list[FlightName] = field(default_factory=list)
    race: tuple[int, int] | None = None
    last: int | None = None
    goes_on: bool = False
    favoured: int | None = None
    stalled: int | None = None


@dataclass(slots=True)
class Suspicion:
    """One suspicion: the fault, or for a deviation what it would lead to, with its reason."""

    weight: Weight
    fault: Fault
    plans: list[Plan]
    agents: tuple[int, ...] = ()


class FirstSuspicion(TitanError):
    """There is something to suspect, and nobody asks for more."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class SuspicionCollector:
    """Collects findings, a limited number of each kind; with `first`, ends at the first one.

    `reads_apart`: those of the weight READ do not end it, and do not count as WEAK.
    """

    LIMIT = 8

    def __init__(self, first: bool = False, reads_apart: bool = False) -> None:
        self._first, self._reads_apart = first, reads_apart
        self.items: list[Suspicion] = []
        self._counts: dict[tuple[Weight, str], int] = {}

    def add(self, weight: Weight, fault: Fault, *plans: Plan) -> None:
        """Keeps a fault with the plans to show it; beyond LIMIT of one kind it is only counted.

        Raises FirstSuspicion where the first one ends the search.
        """
        if weight is Weight.READ and not self._reads_apart:
            weight = Weight.WEAK
        if self._first and weight is not Weight.READ:
            raise FirstSuspicion(fault)
        key = (weight, fault.kind.value)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= self.LIMIT:
            self.items.append(Suspicion(weight, fault, list(plans)))

    def of(self, weight: Weight) -> list[Suspicion]:
        """The kept findings of one weight, in the order in which they were added."""
        return [finding for finding in self.items if finding.weight is weight]


def bounds_of(clocks: Clocks, *timestamps: Timestamp) -> list[int]:
    """How far each agent has to go for all the timestamps to be reached."""
    bounds = [0] * clocks.count
    for timestamp in timestamps:
        for agent in range(clocks.count):
            bounds[agent] = max(bounds[agent], timestamp.clock[agent])
        if timestamp.agent >= 0:
            bounds[timestamp.agent] = max(bounds[timestamp.agent], timestamp.index)
    return bounds


def with_event(bounds: list[int], agent: int, index: int) -> list[int]:
    """The bounds, with the agent's event itself executed."""
    return [max(bound, index + 1) if n == agent else bound for n, bound in enumerate(bounds)]


def up_to(bounds: list[int], agent: int, index: int) -> list[int]:
    """The bounds, with the agent standing at its event."""
    return [index if n == agent else bound for n, bound in enumerate(bounds)]


def name_of(flight: IssuedOperation) -> FlightName:
    """The pair of agent number and ordinal by which plans name a flight."""
    return flight.agent, flight.ordinal
