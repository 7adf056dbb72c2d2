"""The ways of agents through their control flow, under open sizes: places, and what lies behind.

A function of the program, the place and the sizes alone, so each place is executed once, however
often it is asked for. Where an unknown decides, there are two places behind it: with the unknown
at 0, and with it at more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import is_

from titan.sync.control import ControlFlow
from titan.sync.footprints import Signal, Touched
from titan.sync.open_numbers import Size, UndecidedError, parts_of, split
from titan.sync.state import Key, Position
from titan.sync.turns import Origins


@dataclass(slots=True, eq=False)
class WayPoint:
    """Where an agent stands and under which sizes; what it does there, and where that leads."""

    number: int
    position: Position
    sizes: tuple[Size, ...]
    origins: Origins = ()
    done: bool = False  # the operation is executed, and where the agent goes is not known yet
    values: dict[str, int] | None = None
    touched: Touched | None = None
    signals: list[Signal] | None = None
    further: list[WayPoint] | None = None
    asked: str = ""  # the unknown that decides where it leads


@dataclass(slots=True)
class Way:
    """One way of an agent: how far it has come, and what it has done there."""

    place: WayPoint
    passed: Counter[Key] = field(default_factory=Counter)  # completed phases it has waited for
    commits: Counter[str] = field(default_factory=Counter)
    arrived: bool = False  # at the named barrier that it waits at


class Ways:
    """The places met so far; of equal ones there is one. `per`: which sizes are of iterations."""

    def __init__(self, control: ControlFlow, per: tuple[bool, ...]) -> None:
        self.control, self.per = control, per
        self._met: dict[object, WayPoint] = {}
        self._last: tuple[tuple[object, ...], list[WayPoint]] = ((None,), [])

    def place(
        self,
        number: int,
        position: Position,
        sizes: tuple[Size, ...],
        origins: Origins,
        done: bool = False,
    ) -> WayPoint:
        """The place, with what is known of it."""
        known = tuple((parts_of(s.first), tuple(map(parts_of, s.known))) for s in sizes)
        turned = tuple((name, parts_of(origin)) for name, origin in origins)
        key = number, position.frames, tuple(map(parts_of, position.values)), known, turned, done
        if key not in self._met:
            self._met[key] = WayPoint(number, position, sizes, origins, done)
        return self._met[key]

    def places(
        self, positions: tuple[Position, ...], sizes: tuple[Size, ...], origins: Origins
    ) -> list[WayPoint]:
        """The places of all agents; those asked for last are kept."""
        asked = positions, sizes, origins
        if not all(map(is_, asked, self._last[0])):
            self._last = (
                asked,
                [
                    self.place(number, position, sizes, origins)
                    for number, position in enumerate(positions)
                ],
            )
        return self._last[1]

    def _use(self, place: WayPoint) -> None:
        self.control.use_sizes(place.sizes, self.per)
        self.control.use_origins(place.origins)

    def values(self, place: WayPoint) -> dict[str, int]:
        """All names in scope there."""
        if place.values is None:
            self._use(place)
            agent = self.control.agents[place.number]
            place.values = self.control.environment(agent, place.position.values)
        return place.values

    def further(self, place: WayPoint) -> list[WayPoint]:
        """Where the agent is after its operation: two places where an unknown decides."""
        if place.further is None:
            self._use(place)
            try:
                after = self.control.after(self.control.agents[place.number], place.position)
                place.further = [self.place(place.number, after, place.sizes, place.origins)]
            except UndecidedError as question:
                place.asked = question.name
                known = place.position, place.origins
                place.further = [
                    self.place(place.number, position, sizes, origins, True)
                    for (position, origins), sizes in split(known, place.sizes, question.name)
                ]
        return place.further
