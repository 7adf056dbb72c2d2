"""With which sizes, seeds and policies is a package tried?

Sizes are found by trying small numbers: trip counts below, at and beyond the depth of the rings,
whole and ragged tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict, cast

from titan.codegen.tile.manifest import COORDINATE_MOST, Manifest
from titan.device.expressions import BadExpression, evaluate, names_in
from titan.device.manifests import Sizes
from titan.device.plan import Unlaunchable, plan
from titan.device.records import RunCase

WIDTHS = (1, 8, 16, 32, 48, 64, 96, 128, 256)  # elements of a trip, tried for long runs
CHOICES = (1, 8, 40, 64, 72, 128, 136, 200, 256, 264, 320, 384, 520, 640, 776, 1032)
FEW_CHOICES = (1, 8, 64, 128)  # of sizes without influence on the trips, where there are many
NAMES_MOST = 5
GRID_MAX = 8
TRIPS_LEAST = 3  # different trip counts, where the kernel has as many


def sizes_for(manifest: Manifest, depth: int, longest: int | None = None) -> list[Sizes]:
    """Launches whose trip counts are 1, below, at, and beyond the depth, whole and ragged.

    Found by trying: small numbers for every size, the fewest elements for each trip count. Where a
    kernel has few of these trip counts (some always make the same number of turns), those that it
    has. `longest`: one more launch, of that many trips, for parities that wrap many times.
    """
    names = [str(item["name"]) for item in manifest["parameters"]]
    wanted = {1, max(1, depth - 1), depth, depth + 1, 2 * depth + 1}
    found: dict[tuple[int, bool], tuple[int, dict[str, int]]] = {}
    for values, trips in _candidates(manifest, names):
        sizes = dict(zip(names, values, strict=True))
        elements = sum(values)
        key = trips, any(value % 64 for value in values)
        if key in found and found[key][0] <= elements:
            continue
        try:
            if plan(manifest, sizes, 2).grid <= GRID_MAX:
                found[key] = (elements, sizes)
        except (Unlaunchable, BadExpression):
            continue
    have = {trips for trips, _ in found}
    chosen = wanted & have
    for trips in sorted(have - chosen):
        if len(chosen) < TRIPS_LEAST:
            chosen.add(trips)
    made = [sizes for (trips, _), (_, sizes) in sorted(found.items()) if trips in chosen]
    if longest is not None and made:
        made += long_sizes(manifest, made[0], longest)
    return made


def _candidates(manifest: Manifest, names: Sequence[str]) -> Iterator[tuple[tuple[int, ...], int]]:
    """All choices of sizes that have a trip count, with it; evaluated once for all choices that
    are alike in the sizes that it depends on."""
    try:
        used = trip_names(manifest)
    except BadExpression:
        return
    places = [place for place, name in enumerate(names) if name in used]
    known: dict[tuple[int, ...], int | None] = {}
    others = CHOICES if len(names) <= NAMES_MOST else FEW_CHOICES
    choices = [CHOICES if name in used else others for name in names]
    for values in itertools.product(*choices):
        relevant = tuple(values[place] for place in places)
        if relevant not in known:
            try:
                known[relevant] = trips_of(manifest, dict(zip(names, values, strict=True)))
            except BadExpression:
                known[relevant] = None
        trips = known[relevant]
        if trips is not None:
            yield values, trips


def long_sizes(manifest: Manifest, least: Sizes, trips: int) -> list[Sizes]:
    """The launch of so many trips with the fewest elements, by one size alone; none where no size
    gives them."""
    found: list[tuple[int, dict[str, int]]] = []
    for name in least:
        for width in WIDTHS:
            sizes = {**least, name: trips * width}
            try:
                launch = plan(manifest, sizes, 2)
                if launch.grid <= GRID_MAX and trips_of(manifest, sizes) == trips:
                    found.append((sum(sizes.values()), sizes))
            except (Unlaunchable, BadExpression):
                continue
    return [min(found, key=lambda one: one[0])[1]] if found else []


def trips_of(manifest: Manifest, sizes: Mapping[str, int]) -> int:
    """Iterations of the longest of the first and the last work item. Raises BadExpression."""
    program = cast(WorkSizes, manifest.get("program", {}))
    names = {**program.get("sizes", {}), **sizes}
    work = {name: evaluate(extent, names) for name, extent in program.get("work", {}).items()}
    ends = (dict.fromkeys(work, 0), {name: extent - 1 for name, extent in work.items()})
    text = str(manifest["trip_count"])
    most = dict.fromkeys(names_in(text), COORDINATE_MOST)  # what lookups may give
    return max(1, *(evaluate(text, {**most, **sizes, **end}) for end in ends))


def trip_names(manifest: Manifest) -> frozenset[str]:
    """The sizes on which the trip count may depend. Raises BadExpression."""
    work = cast(WorkSizes, manifest.get("program", {})).get("work", {})
    names = names_in(str(manifest["trip_count"]))
    return names.union(*(names_in(extent) for name, extent in work.items() if name in names))


class WorkSizes(TypedDict, total=False):
    """The entries of a tile program that say how many work items there are."""

    sizes: Sizes
    work: dict[str, str]


def spread_cases(
    seeds: Sequence[int], sizes: Sequence[Sizes], policies: Sequence[str]
) -> list[RunCase]:
    """Every seed with every size and policy, so that few of them from the front cover the most.

    The last size, the one of the most trips, comes first, then those that are far from the others;
    with each run the size and the policy change, and seeds begin at different places.
    """
    if not sizes or not policies:
        return []
    apart = [sizes[-1 - place] for place in _far_apart(len(sizes))]
    together = math.lcm(len(sizes), len(policies))
    pairs = [
        (apart[number % len(apart)], policies[(number + number // together) % len(policies)])
        for number in range(len(sizes) * len(policies))
    ]
    starts = {seed: place * len(pairs) // len(seeds) for place, seed in enumerate(seeds)}
    turned = [
        (seed, *pairs[(start + number) % len(pairs)])
        for number in range(len(pairs))
        for seed, start in starts.items()
    ]
    return [{"sizes": size, "seed": seed, "policy": policy} for seed, size, policy in turned]


def _far_apart(count: int) -> list[int]:
    """The numbers below `count` in the order of their bits read backwards: 0, half, a quarter."""
    width = count.bit_length()
    return sorted(range(count), key=lambda number: f"{number:0{width}b}"[::-1])
