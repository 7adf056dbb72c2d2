"""The ways of agents through their control flow, under open sizes: places, and what lies behind.

A function of the program, the place and the sizes alone, so each place is executed once, however
often it is asked for. Where an unknown decides, there are two places behind it: with the unknown
at 0, and with it at more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

from titan.sync import program as ir
from titan.sync.control import ControlFlow, Frames
from titan.sync.expression import evaluate
from titan.sync.footprints import Signal, Touched, named_key, signals_of, touched_by
from titan.sync.open_numbers import Size, UndecidedError, parts_of, split
from titan.sync.private import PrivateOperations
from titan.sync.state import Key, Position, key_of
from titan.sync.turns import Origins

Made = tuple[int, int, Signal]  # by an agent, as which one at the barrier
PRIVATE_MAX = 200  # operations passed at once


@dataclass(slots=True, eq=False)
class WayPoint:
    """Where an agent stands and under which sizes; what it does there, and where that leads."""

    number: int
    position: Position
    sizes: tuple[Size, ...]
    origins: Origins = ()
    done: bool = False  # the operation is executed, and where the agent goes is not known yet
    values: dict[str, int] | None = None
    awaited: tuple[Key, int] | None = None
    touched: Touched | None = None
    signals: list[Signal] | None = None
    further: list[WayPoint] | None = None
    beyond: WayPoint | None = None
    asked: str = ""  # the unknown that decides where it leads


Counted = tuple[Key | None, int, int, int]  # a barrier, its arrivals, bytes expected, completed
Sums = defaultdict[Key, int]


class Counts(NamedTuple):
    """What is counted at each barrier so far."""

    arrivals: Sums
    expected: Sums
    completed: Sums

    @staticmethod
    def none() -> Counts:
        """Nothing yet."""
        return Counts(defaultdict(int), defaultdict(int), defaultdict(int))

    def at(self, key: Key | None) -> Counted:
        """All that may change at the barrier; of None nothing."""
        if key is None:
            return None, 0, 0, 0
        return key, self.arrivals[key], self.expected[key], self.completed[key]


@dataclass(slots=True)
class Way:
    """One way of an agent: how far it has come, and what it has done there."""

    place: WayPoint
    passed: Sums = field(default_factory=lambda: defaultdict(int))  # phases
    commits: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    signals: Sums = field(default_factory=lambda: defaultdict(int))  # that it made
    arrived: bool = False  # at the named barrier that it waits at
    stopped: Counted | None = None  # what decides whether it passes, when it did not

    def waits(self, counts: Counts) -> bool:
        """Whether nothing was counted since it stopped that could let it go on."""
        return self.stopped is not None and self.stopped == counts.at(self.stopped[0])

    def stands(self, queue: str | None) -> tuple[int, Frames]:
        """Where it has come, behind how many commits of the queue."""
        return self.commits[queue or ""], self.place.position.frames

    def unmet(self, signals: Iterable[Signal], made: set[Made]) -> Iterator[Signal]:
        """The signals that no other way of the agent has made at their barrier as its n-th.

        What is left of all ways is no less than what any one of them makes.
        """
        for signal in signals:
            self.signals[signal[0]] += 1
            mine = self.place.number, self.signals[signal[0]], signal
            if mine not in made:
                made.add(mine)
                yield signal

    def on(self, places: list[WayPoint]) -> list[Way]:
        """The ways that go on from it, each with its own numbers where there are several; the same
        way where there is one."""
        if len(places) == 1:
            self.place, self.arrived, self.stopped = places[0], False, None
            return [self]
        return [
            Way(place, self.passed.copy(), self.commits.copy(), self.signals.copy())
            for place in places
        ]


class Ways:
    """The places met so far; of equal ones there is one. `per`: which sizes are of iterations."""

    def __init__(self, control: ControlFlow, per: tuple[bool, ...]) -> None:
        self.control, self.per = control, per
        self.private = PrivateOperations(control)
        self._buffers = {buffer.name: buffer for buffer in control.program.buffers}
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

    def touched(self, place: WayPoint, operation: ir.Operation) -> Touched | None:
        """The cells that the operation there touches; None where an index is out of range."""
        if place.touched is None:
            place.touched = touched_by(operation, self.values(place), self._buffers)
        return place.touched

    def signals(self, place: WayPoint, operation: ir.Operation) -> list[Signal]:
        """What the operation there does to barriers, now or when it has finished."""
        if place.signals is None:
            threads = self.control.agents[place.number].role.threads
            place.signals = signals_of(operation, self.values(place), threads)
        return place.signals

    def awaited(self, place: WayPoint, wait: ir.Wait) -> tuple[Key, int]:
        """The barrier that the agent waits at there, and the parity that it waits for."""
        if place.awaited is None:
            values = self.values(place)
            place.awaited = key_of(wait.barrier, values), evaluate(wait.parity, values) & 1
        return place.awaited

    def counted(self, place: WayPoint, counts: Counts) -> Counted:
        """What decides whether the agent goes on from where it waits, of what may change."""
        match self.control.operation_at(place.position):
            case ir.Wait() as wait:
                return counts.at(self.awaited(place, wait)[0])
            case ir.BarrierSync(barrier=barrier):
                return counts.at(named_key(key_of(barrier, self.values(place))))
        return counts.at(None)  # its own commits, or the end

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

    def passes_own(self, way: Way) -> bool:
        """Whether the way goes past what is private to the agent from here on, and moves it."""
        start = way.place
        if start.beyond is None:
            found = start
            for _ in range(PRIVATE_MAX):
                operation = self.control.operation_at(found.position)
                if operation is None or not self.private(found.number, operation):
                    break
                further = self.further(found)
                if len(further) > 1:
                    break
                (found,) = further
            start.beyond = found
        way.place = start.beyond
        return way.place is not start
