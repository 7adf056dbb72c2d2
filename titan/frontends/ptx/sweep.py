"""Other trip counts: launches made from one by changing the integer that drives its loops.

Which parameter that is, is measured and not guessed: a parameter drives a loop if the first CTA
runs more instructions when its value is doubled. In a structure the words are tried that are equal
to an extent of a tensor map or were written as integers; one trip is the least there, as hosts
refuse empty problems before the launch. How much of it makes one trip is measured from the value
given: the smallest powers of two that take instructions away and that add some. Extents of tensor
maps that are equal to the parameter change with it. The depth of the pipeline is taken from the
run: barriers that copies complete, or groups that may be left in flight.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from titan.frontends.ptx.machine import LaunchRunner
from titan.frontends.ptx.spread import pointers_apart, spread
from titan.isa.ptx.module import Function, Variable
from titan.isa.simt.launch import Launch, LaunchTensorMap
from titan.isa.simt.outcome import Ending, Run
from titan.isa.simt.tensor_maps import ELEMENT_BITS

STRIDE_BYTES = 16  # strides of a tensor map are multiples of it
VALUE_MAX = 1 << 20
DRIVERS_MAX = 3
WORDS_MAX = 24  # words of structures that are tried
_LABEL = re.compile(r"(.*) = (\d+) \((\d+) trips\)")
AXES = "xyz"
GRID_MAX = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)  # CTAs on each axis
VALUE_BITS = 31  # of an integer that counts trips: signed ones are common
_INTEGERS = ("u32", "s32", "b32", "u64", "s64", "b64")


@dataclass(frozen=True, slots=True)
class ParameterWord:
    """An integer of the parameters: in parameter `number`, `offset` bytes from its start."""

    number: int
    offset: int
    size_bytes: int
    value: int
    alone: bool = True  # a separate parameter, not a word of a structure

    def __str__(self) -> str:
        inside = "" if self.alone else f" at offset {self.offset}"
        return f"parameter {self.number}{inside}"


@dataclass(frozen=True, slots=True)
class GridRow:
    """With t trips the grid has `extent * t + more` CTAs on an axis, and the one that is run stands
    at `step * t + offset` of them; `given`: the trips of the launch as given."""

    axis: int
    extent: int
    given: int
    step: int = 0
    offset: int = 0
    more: int = 0

    def count(self, trips: int) -> int:
        """The CTAs on the axis."""
        return self.extent * trips + self.more

    def place(self, trips: int) -> int:
        """The place of the CTA on the axis."""
        return self.step * trips + self.offset


@dataclass(frozen=True, slots=True)
class Driver:
    """What drives loops: integers that go along together, `unit` of each a trip and `more` beside,
    and perhaps the grid with the CTA that is run (`rows.py` finds those); `fewest` trips are
    launched at all.

    `depth`: stages of the deepest ring that the run shows.
    """

    words: tuple[ParameterWord, ...]
    unit: int
    depth: int
    row: GridRow | None = None
    more: int = 0

    def __str__(self) -> str:
        """`parameter 17`, or `grid x with parameter 5 and parameter 6`."""
        words = " and ".join(map(str, self.words))
        if self.row is None:
            return words
        axis = f"grid {AXES[self.row.axis]}"
        return f"{axis} with {words}" if words else axis

    @property
    def fewest(self) -> int:
        """The least number of trips; hosts refuse empty problems before the launch."""
        if self.row is None:
            return 0 if all(word.alone for word in self.words) else 1
        first = 0 if self.row.more else 1
        return next(trips for trips in itertools.count(first) if self.row.place(trips) >= 0)

    @property
    def given(self) -> int:
        """The trips of the launch as given."""
        return self.words[0].value // self.unit if self.row is None else self.row.given

    def counts(self, trips: int) -> bool:
        """Whether a launch may have so many trips."""
        if self.row is not None and self.row.count(trips) > GRID_MAX[self.row.axis]:
            return False
        return self.value(trips) < 1 << VALUE_BITS

    def value(self, trips: int) -> int:
        """What the integers are with so many trips."""
        return self.unit * trips + self.more

    def launch(self, launch: Launch, trips: int) -> Launch:
        """The launch with another number of trips."""
        made = changed(launch, dict.fromkeys(self.words, self.value(trips)))
        if self.row is None:
            return made
        grid = list(launch.grid)
        grid[self.row.axis] = self.row.count(trips)
        return replace(made, grid=(grid[0], grid[1], grid[2]))

    def cta(self, launch: Launch, cta: int, trips: int) -> int:
        """The CTA that is run of `launch` with so many trips, for CTA `cta` of the one as given."""
        if self.row is None:
            return cta
        place = list(launch.coordinates(launch.cluster_members(cta)[0]))
        place[self.row.axis] = self.row.place(trips)
        return self.launch(launch, trips).linear((place[0], place[1], place[2]))

    def label(self, trips: int) -> str:
        """`parameter 17 = 128 (2 trips)`."""
        return f"{self} = {self.value(trips)} ({trips} trips)"


def labels_text(labels: Sequence[str]) -> list[str]:
    """Labels of launches, those of one driver together: `parameter 17 = 0, 64 (0, 1 trips)`."""
    made: dict[str, list[tuple[int, int]]] = {}
    texts: list[str] = []
    for label in labels:
        found = _LABEL.fullmatch(label)
        if found is None:
            texts.append(label)
        else:
            made.setdefault(found[1], []).append((int(found[2]), int(found[3])))
    for place, pairs in made.items():
        pairs.sort()
        values, trips = (", ".join(str(pair[at]) for pair in pairs) for at in (0, 1))
        others = ", the others as launched" if len(made) > 1 else ""
        texts.append(f"{place} = {values} ({trips} trips{others})")
    return texts


NOT_ENDED = "the launch does not run to its end"
NO_END = f"{NOT_ENDED}; nothing is swept"
NO_DRIVER = "no integer parameter drives a loop; nothing is swept"


def drivers_of(
    runner: LaunchRunner, function: Function, launch: Launch
) -> tuple[list[Driver], list[str], list[str]]:
    """What drives loops; notes on it; and what drives some and in which unit was not found."""

    def run(one: Launch) -> Run | None:
        return runner.run(one, 0)[0]

    base = run(launch)
    if base is None or base.outcome.ending is not Ending.FINISHED:
        return [], [NO_END], [NOT_ENDED]
    driving, unknown = [], []
    longest = base
    for place in integers_of(function, launch):
        twice = run(changed(launch, {place: 2 * place.value}))
        if cost_of(twice) > cost_of(base):
            driving.append(place)
            longest = twice if twice is not None and cost_of(twice) > cost_of(longest) else longest
        elif twice is not None and twice.outcome.ending in (Ending.HUNG, Ending.BUDGET):
            unknown.append(f"with {place} = {2 * place.value} the launch does not run to its end")
    if not driving:
        return [], [*unknown, NO_DRIVER], unknown
    depth = runner.depth(base, longest)
    drivers, notes = [], list(unknown)
    for place in driving[:DRIVERS_MAX]:
        hung: list[int] = []
        unit = _unit(launch, place, cost_of(base), run, hung)
        if unit is None:
            unknown.append(f"what {place} counts in was not found")
            notes.append(f"what {place} counts in was not found; it is not swept")
            continue
        notes.append(f"{place} drives a loop, {unit} a trip; depth taken as {depth}")
        if hung:
            numbers = " and ".join(map(str, sorted(hung)))
            rest = f"only multiples of {unit} are covered"
            notes.append(f"with {place} = {numbers} the launch does not run to its end: {rest}")
        drivers.append(Driver((place,), unit, depth))
    unknown += [f"{place} is not swept" for place in driving[DRIVERS_MAX:]]
    return drivers, notes, unknown


def sweep(
    runner: LaunchRunner, function: Function, launch: Launch
) -> tuple[list[tuple[str, Launch]], list[str]]:
    """The launches of a sweep with what is changed in each, and notes on what drives the loops."""
    drivers, notes, unknown = drivers_of(runner, function, launch)
    launches = [("as given", launch)]
    for place in integers_of(function, launch) if unknown else ():
        # A longer launch that hangs shows more than any that does not.
        longer = changed(launch, {place: 2 * place.value})
        run = runner.run(longer, 0)[0] if place.alone else None
        if run is not None and run.outcome.ending is Ending.HUNG:
            launches.append((f"{place} = {2 * place.value}", longer))
    for driver in drivers:
        value = driver.words[0].value
        for trips in _trip_counts(driver.depth, driver.given):
            if trips >= driver.fewest and trips * driver.unit != value:
                launches.append((driver.label(trips), driver.launch(launch, trips)))
    return launches, notes


def integers_of(function: Function, launch: Launch) -> list[ParameterWord]:
    """The integers that may count something: whole parameters, then words of structures."""
    found, words = [], []
    extents = {extent for item in launch.maps() for extent in item.dimensions}
    for number, variable in enumerate(function.parameters):
        value = _integer(launch, number, variable)
        if value is not None:
            found.append(ParameterWord(number, 0, variable.size_bytes, value))
            continue
        if number >= len(launch.parameters) or variable.type in _INTEGERS:
            continue
        parameter = launch.parameters[number]
        for offset in range(0, len(parameter.data) - 3, 4):
            word = int.from_bytes(parameter.data[offset : offset + 4], "little")
            known = parameter.known is not None and all(parameter.known[offset : offset + 4])
            if 1 < word <= VALUE_MAX and (known or word in extents):
                words.append(ParameterWord(number, offset, 4, word, alone=False))
    return [*found, *words[:WORDS_MAX]]


def _trip_counts(depth: int, given: int) -> list[int]:
    """0, 1, around the depth, twice through and one more, and a long one."""
    longest = max(4 * depth + 3, given)
    return sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth + 1, longest})


def changed(launch: Launch, values: Mapping[ParameterWord, int]) -> Launch:
    """The launch with other values of integers, and of the extents equal to them."""
    parameters = list(launch.parameters)
    for place, value in values.items():
        data = bytearray(parameters[place.number].data)
        data[place.offset : place.offset + place.size_bytes] = value.to_bytes(
            place.size_bytes, "little"
        )
        parameters[place.number] = replace(parameters[place.number], data=bytes(data))
    extents = {place.value: value for place, value in values.items()}
    maps = {key: _resized(item, extents) for key, item in launch.tensor_maps.items()}
    made = spread(launch, replace(launch, parameters=tuple(parameters), tensor_maps=maps))
    more = any(value > place.value for place, value in values.items())
    return pointers_apart(made) if more else made


def _resized(item: LaunchTensorMap, values: Mapping[int, int]) -> LaunchTensorMap:
    """Rows that grow lie further apart, so that they do not run into each other."""
    extents = tuple(max(1, values.get(extent, extent)) for extent in item.dimensions)
    strides: list[int] = []
    whole = -(-extents[0] * ELEMENT_BITS[item.data_type] // 8)
    for extent, stride in zip(extents[1:], item.stride_bytes, strict=False):
        strides.append(max(stride, -(-whole // STRIDE_BYTES) * STRIDE_BYTES))
        whole = strides[-1] * extent
    return replace(item, dimensions=extents, stride_bytes=tuple(strides))


def _integer(launch: Launch, number: int, variable: Variable) -> int | None:
    """The value of a parameter that may count something."""
    if number >= len(launch.parameters) or variable.type not in _INTEGERS:
        return None
    parameter = launch.parameters[number]
    if parameter.known is not None or len(parameter.data) not in (4, 8):
        return None
    value = int.from_bytes(parameter.data, "little")
    return value if 1 < value <= VALUE_MAX else None


def cost_of(run: Run | None) -> int:
    """Warp instructions of a run that came to its end; 0 for others."""
    if run is None or run.outcome.ending is not Ending.FINISHED:
        return 0
    return run.instructions


def _unit(
    launch: Launch, place: ParameterWord, cost: int, run: Callable[[Launch], Run | None],
    hung: list[int],
) -> int | None:  # fmt: skip
    """How much of the integer makes one trip.

    Where the loop rounds down, a little less of it takes a trip away and a whole unit adds one;
    where it rounds up, it is the other way round: the larger of the two is the unit. `hung` gets
    the values with which a launch does not come to its end.
    """
    units = []
    for sign in (-1, 1):
        unit = 1
        while unit <= place.value:
            made = run(changed(launch, {place: place.value + sign * unit}))
            other = cost_of(made)
            if made is not None and not other:
                hung.append(place.value + sign * unit)
            if other > 0 and sign * (other - cost) > 0:
                units.append(unit)
                break
            unit *= 2
    return max(units) if len(units) == 2 else None
