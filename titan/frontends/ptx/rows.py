"""Trips that depend on the row of a CTA: launches whose grid, and a CTA of it, go along with sizes.

In causal attention a CTA goes through the keys up to its own rows, so that no size alone drives its
loops. Here the grid grows on one axis, with the integers that are equal to one another, or one of
them, or none, a fixed number of CTAs for each `unit` of these. The first CTA stays the first, the
last one the last, the middle one the middle, of even and of odd numbers of rows each; another one
keeps its distance from the end.

Which integers go along is measured: some of these CTAs run more instructions with every further
trip, and none of them fewer. A launch that does not come to its end, or whose CTA runs fewer, may
be one of a kernel that is wrong there: then nothing is measured, as integers or units that go
around its fault say nothing of it.

A launch that hands out its work while it runs (`clusterlaunchcontrol`, counters in memory) is left
alone, since the place of a CTA says little of its work there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from titan.frontends.ptx.machine import LaunchRunner
from titan.frontends.ptx.sweep import (
    Driver,
    GridRow,
    ParameterWord,
    cost_of,
    integers_of,
)
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run

MEASURED = range(5, 10)  # trips of the launches by which rows are known
FACTORS = (1, 3, 5)  # of units beside powers of two
WORDS_MAX = 12  # sets of integers that are tried


def row_drivers(
    runner: LaunchRunner,
    function: Function,
    launch: Launch,
    ctas: Sequence[int],
    along: Sequence[ParameterWord] = (),
) -> tuple[list[Driver], list[str]]:
    """The first way to let the grid grow that makes these CTAs run longer; a note on it.

    `along`: integers that have to go along.
    """
    if launch.cancelled or launch.draws or launch.tickets:
        return [], []
    for driver in _proposed(function, launch):
        if not set(along) <= set(driver.words):
            continue
        longest = _longest(runner, launch, driver, ctas)
        if isinstance(longest, str):
            return [], [f"{longest}; what else the grid may go along with was not tried"]
        if longest is None:
            continue
        fewer, more = longest
        depth = runner.depth(fewer, more)
        note = f"{driver} drives a loop of rows, {driver.unit} a trip; depth taken as {depth}"
        return [replace(driver, depth=depth)], [note]
    return [], []


def of_cta(driver: Driver, launch: Launch, cta: int) -> tuple[Driver, ...]:
    """The ways in which the cluster of a CTA of the launch as given goes along with the grid."""
    row = driver.row
    if row is None:
        return (driver,)
    size, count = launch.cluster[row.axis], launch.grid[row.axis]
    place = launch.coordinates(launch.cluster_members(cta)[0])[row.axis]
    if place == 0:
        return (driver,)
    if place + size == count or place != count // 2 // size * size:
        moving = replace(row, step=row.extent, offset=place - row.extent * row.given)
        return (replace(driver, row=moving),)
    if row.extent % (2 * size) == 0:
        return (replace(driver, row=replace(row, step=row.extent // 2)),)
    even = GridRow(row.axis, 2 * row.extent, row.given // 2, row.extent)
    odd = replace(even, offset=row.extent // 2 // size * size, more=row.extent)
    double = 2 * driver.unit
    return (
        replace(driver, unit=double, row=even),
        replace(driver, unit=double, row=odd, more=driver.unit),
    )


def _proposed(function: Function, launch: Launch) -> Iterator[Driver]:
    """Integers that may go along, axes, and how many CTAs belong to how much of them."""
    axes = [axis for axis, count in enumerate(launch.grid) if count > launch.cluster[axis]]
    for words in _words(function, launch):
        value = words[0].value
        for axis in axes:
            for unit in _units(value):
                trips = -(-value // unit)
                extent, rest = divmod(launch.grid[axis], trips)
                if trips > 1 and not rest and extent % launch.cluster[axis] == 0:
                    yield Driver(words, unit, 1, GridRow(axis, extent, trips))
    for axis in axes:
        extent = launch.cluster[axis]
        yield Driver((), extent, 1, GridRow(axis, extent, launch.grid[axis] // extent))


def _words(function: Function, launch: Launch) -> Iterator[tuple[ParameterWord, ...]]:
    """Integers that are equal, together; then each alone."""
    places = integers_of(function, launch)
    by_value: dict[int, list[ParameterWord]] = {}
    for place in places:
        by_value.setdefault(place.value, []).append(place)
    sets = [tuple(found) for found in by_value.values() if len(found) > 1]
    yield from [*sets, *((place,) for place in places)][:WORDS_MAX]


def _units(value: int) -> list[int]:
    """Units that may make a trip, the least first."""
    found = {factor << power for factor in FACTORS for power in range(value.bit_length())}
    return sorted(unit for unit in found if unit < value)


def _longest(
    runner: LaunchRunner, launch: Launch, driver: Driver, ctas: Sequence[int]
) -> tuple[Run, Run] | str | None:
    """Two runs of a CTA that runs more instructions with each trip; None: there is none, or another
    does neither that nor the same with all. A launch that may be a wrong one, in words."""
    found = None
    for cta in reversed(ctas):
        own = of_cta(driver, launch, cta)[0]
        if own.fewest > MEASURED[0]:
            return None
        ended: list[Run] = []
        for trips in MEASURED:
            run, _ = runner.run(own.launch(launch, trips), own.cta(launch, cta, trips))
            if run is None:
                return None
            if not cost_of(run):
                return f"with {own.label(trips)} the launch does not run to its end"
            ended.append(run)
        costs = list(pairwise(run.instructions for run in ended))
        if any(later < earlier for earlier, later in costs):
            return f"with some more of {own} a CTA runs fewer instructions"
        if all(later == earlier for earlier, later in costs):
            continue
        if any(later == earlier for earlier, later in costs):
            return None  # by fits and starts: the unit is another one
        found = found or (ended[0], ended[-1])
    return found
