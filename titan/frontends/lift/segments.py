"""One role under several trip counts, taken apart: single operations, and bodies that are repeated.

All recordings are read side by side. At each place either all of them do the same operation, or all
repeat one body, each `slope * trips + offset` times. What is found is only a proposal: the folded
program is unfolded again and compared with every recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from titan.foundation.errors import Refusal
from titan.sync import program as ir
from titan.sync.parts import (
    barriers_of,
    completions_of,
    pool_of,
    queue_of,
    values_of,
    words_of,
)

ROUNDS_MIN = 2  # of the longest recording; fewer show no loop
_HARDWARE = (ir.BarrierSync, ir.BarrierArrive, ir.BarrierWait)


class NotFoldedError(Refusal):
    """The recordings have no loops of the form that is looked for; the message says where."""


@dataclass(frozen=True, slots=True)
class Segment:
    """`length` operations that a recording of `trips` runs `rounds(trips)` times from `starts`."""

    starts: Mapping[int, int]
    length: int
    slope: int = 0
    offset: int = 1

    @property
    def looped(self) -> bool:
        """Whether how often it runs depends on the trips."""
        return self.slope > 0

    def rounds(self, trips: int) -> int:
        """How often it runs."""
        return self.slope * trips + self.offset

    def places(self, trips: int, position: int) -> range:
        """Where the operation at `position` of the body stands in the recording, by rounds."""
        start = self.starts[trips] + position
        return range(start, start + self.rounds(trips) * self.length, self.length)


Bodies = Mapping[int, ir.Block]  # of one role, by trips


def segments_of(
    role: str, bodies: Bodies, slope_max: int | None = None, in_place: bool = False
) -> list[Segment]:
    """The segments of a role, in order. Raises NotFoldedError.

    `slope_max`: rounds of a loop that one trip may add; None: any number. `in_place`: whether the
    rounds of a loop are made of the same instructions.
    """
    return _Splitter(role, bodies, slope_max, in_place).segments()


def mbarriers_of(operation: ir.Operation) -> list[str]:
    """The names of the mbarriers that an operation uses or completes; hardware barriers apart."""
    if isinstance(operation, _HARDWARE):
        return []
    return [reference.name for reference in barriers_of(operation)]


def shape_of(operation: ir.Operation) -> tuple[object, ...]:
    """What of an operation must be the same in every round; not where it happens."""
    rest: list[object] = [type(operation).__name__, len(mbarriers_of(operation))]
    rest += [queue_of(operation), pool_of(operation), *words_of(operation)]
    if not isinstance(operation, ir.Wait):  # whose phase and parity follow the rounds
        rest += values_of(operation)
    if isinstance(operation, _HARDWARE):
        rest.append(operation.barrier)
    rest.append(tuple(item.bytes for item in completions_of(operation)))
    return tuple(rest)


class _Splitter:
    def __init__(self, role: str, bodies: Bodies, slope_max: int | None, in_place: bool) -> None:
        self.role = role
        self.slope_max = slope_max
        self.bodies = bodies
        self.trips = sorted(bodies)
        self.longest = self.trips[-1]
        numbers: dict[tuple[object, ...], int] = {}
        self.shapes = {
            trips: [
                numbers.setdefault((shape_of(item), item.span if in_place else None), len(numbers))
                for item in body
            ]
            for trips, body in bodies.items()
        }

    def segments(self) -> list[Segment]:
        """All segments, in order."""
        found: list[Segment] = []
        at = dict.fromkeys(self.trips, 0)
        ends = {trips: len(shapes) for trips, shapes in self.shapes.items()}
        while at != ends:
            segment = self._loop(at) or self._single(at)
            found.append(segment)
            at = {trips: at[trips] + segment.rounds(trips) * segment.length for trips in self.trips}
        return found

    def _single(self, at: dict[int, int]) -> Segment:
        seen = {
            trips: self.shapes[trips][at[trips]] if at[trips] < len(self.shapes[trips]) else -1
            for trips in self.trips
        }
        if len(set(seen.values())) == 1:
            return Segment(dict(at), 1)
        other = next(trips for trips in self.trips if seen[trips] != seen[self.longest])
        raise NotFoldedError(
            f"{self.role} takes another path with {other} trips than with {self.longest} "
            f"({self._place(self.longest, at)})"
        )

    def _place(self, trips: int, at: Mapping[int, int]) -> str:
        body = self.bodies[trips]
        if at[trips] >= len(body):
            return "at its end"
        span = body[at[trips]].span
        return f"line {span.start_line}" if span is not None else f"operation {at[trips]}"

    def _loop(self, at: dict[int, int]) -> Segment | None:
        """The shortest body that is repeated here, more often for more trips."""
        shapes, start = self.shapes[self.longest], at[self.longest]
        for length in range(1, (len(shapes) - start) // 2 + 1):
            body = shapes[start : start + length]
            if shapes[start + length] != body[0]:
                continue
            if shapes[start + length : start + 2 * length] != body:
                continue
            rounds = {trips: _repeats(self.shapes[trips], at[trips], body) for trips in self.trips}
            if not self._ends_alike(at, body, rounds):
                continue
            segment = self._affine(at, length, rounds)
            if segment is not None:
                return segment
        return None

    def _ends_alike(self, at: dict[int, int], body: list[int], rounds: dict[int, int]) -> bool:
        """Whether a round that is begun behind the last whole one goes equally far in all
        recordings: nine steps of ten that a trip has come again, and leave a different rest."""
        begun = set()
        for trips in self.trips:
            shapes, start = self.shapes[trips], at[trips] + rounds[trips] * len(body)
            behind = zip(shapes[start : start + len(body)], body, strict=False)
            same = takewhile(lambda pair: pair[0] == pair[1], behind)
            begun.add(sum(1 for _ in same))
        return len(begun) == 1

    def _affine(self, at: dict[int, int], length: int, rounds: dict[int, int]) -> Segment | None:
        """The segment, if rounds follow the trips; operations may look alike beyond its end."""
        less, more = self.trips[0], self.trips[-1]
        slope, rest = divmod(rounds[more] - rounds[less], more - less)
        if rest or slope < 1 or rounds[more] < ROUNDS_MIN:
            return None
        if self.slope_max is not None and slope > self.slope_max:
            return None
        offset = rounds[more] - slope * more
        if any(slope * trips + offset != count for trips, count in rounds.items()):
            return None
        for beyond in range(2):
            segment = Segment(dict(at), length, slope, offset - beyond)
            if segment.rounds(less) < 0 or segment.rounds(more) < ROUNDS_MIN:
                return None
            if self._recurring(segment):
                return segment
        return None

    def _recurring(self, segment: Segment) -> bool:
        """Whether the barriers of each operation come round in a fixed order."""
        body = self.bodies[self.longest]
        for position in range(segment.length):
            places = segment.places(self.longest, position)
            names = [tuple(mbarriers_of(body[place])) for place in places]
            if names[0] and not _periodic(names):
                return False
        return True


def _repeats(shapes: Sequence[int], start: int, body: Sequence[int]) -> int:
    count, length = 0, len(body)
    while shapes[start + count * length : start + (count + 1) * length] == body:
        count += 1
    return count


def _periodic(names: Sequence[object]) -> bool:
    """Whether a sequence repeats itself, and shows it: at least one element comes again."""
    for period in range(1, len(names)):
        if all(names[at] == names[at - period] for at in range(period, len(names))):
            return True
    return False
