"""The launches of a comparison: few, and different in what the control flow sees.

From sizes that the manifest allows follow the work items, their coordinates and their trip counts;
one launch is kept for each sequence of trip counts that a CTA can meet: none, fewer than the rings
have stages, as many, more than two rounds, and different ones in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from titan.codegen.tile.manifest import Manifest
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.semantics import integers_of, looked_up
from titan.sync import program as ir
from titan.sync.expression import Expression, evaluate, parse_expression
from titan.validate.compare.compare import ComparedLaunch

if TYPE_CHECKING:
    from titan.codegen.tile.semantics import Array

WORK, TRIPS = "work", "tiles"
SIZES = (8, 64, 120, 136, 256, 264, 520, 640, 1032)
FEW_SIZES = [(1, 8, 136, 264), (1, 16, 144, 272)]  # of many; then for rows of one byte
TRIPS_MAX = 20
COUNTS = (1, 2, 3, 5)  # clusters of a persistent kernel that run at a time
ITEMS_MAX = 3  # of one CTA
LAUNCHES_MAX = 9
COMBINATIONS_MAX = 4000


def launches(
    tile: TileProgram, program: ir.SyncProgram, manifest: Manifest
) -> list[ComparedLaunch]:
    """At most LAUNCHES_MAX, sorted by what one CTA does; the shortest and the longest are in, where
    CTAs ask for work items for each number that they obtain."""
    found: dict[tuple[int, ...], ComparedLaunch] = {}
    shape = manifest["launch"]
    counts = parse_expression(manifest["work"]), parse_expression(shape["grid"])
    for sizes in _sizes(manifest):
        for launch, trips in _ctas(tile, program, manifest, counts, sizes):
            found.setdefault(trips, launch)
    ordered = sorted(found, key=lambda trips: (sum(trips), trips))
    if not manifest["launch"].get("asks"):
        return [found[trips] for trips in _spread(ordered, LAUNCHES_MAX)]
    lengths = sorted({len(trips) for trips in ordered})
    return [
        found[trips]
        for length in lengths
        for trips in _spread([t for t in ordered if len(t) == length], LAUNCHES_MAX // len(lengths))
    ]


def _spread(ordered: list[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """At most so many of them, the first and the last among them."""
    if len(ordered) <= most:
        return ordered
    step = (len(ordered) - 1) / (most - 1)
    return [ordered[round(i * step)] for i in range(most)]


def _sizes(manifest: Manifest) -> Iterator[dict[str, int]]:
    names = [item["name"] for item in manifest["parameters"]]
    conditions = [parse_expression(text) for text in manifest["constraints"]]
    values = [(1, 2, *SIZES)] if len(names) <= 3 else FEW_SIZES
    for few in values:
        combinations = itertools.product(few, repeat=len(names))
        allowed = False
        for combination in itertools.islice(combinations, COMBINATIONS_MAX):
            sizes = dict(zip(names, combination, strict=True))
            if all(evaluate(condition, sizes) for condition in conditions):
                allowed = True
                yield sizes
        if allowed:
            return


def _ctas(
    tile: TileProgram,
    program: ir.SyncProgram,
    manifest: Manifest,
    counts: tuple[Expression, Expression],
    sizes: dict[str, int],
) -> Iterator[tuple[ComparedLaunch, tuple[int, ...]]]:
    """CTAs of one launch with the trip counts of their work items. `counts`: of items and CTAs."""
    work, grid = counts
    items = evaluate(work, sizes)
    ctas = int(manifest["launch"]["cluster"])
    persistent = any(parameter.name == WORK for parameter in program.parameters)
    grids = [items]
    if persistent:
        grids = [evaluate(grid, {**sizes, "processors": count * ctas}) for count in COUNTS]
    asks = bool(manifest["launch"].get("asks"))
    if asks:
        grids = [items]
    minimum = next((p.minimum for p in program.parameters if p.name == TRIPS), 0)
    memory = integers_of(tile, sizes) if tile.lookups else {}
    for grid_size in dict.fromkeys(grids):
        for block, mine in _shares(items, grid_size, ctas, asks):
            if len(mine) > ITEMS_MAX or grid_size < 1:
                continue
            trips = tuple(
                max(minimum, trip_count(tile, sizes, item, memory, ctas)) for item in mine
            )
            if sum(trips) > TRIPS_MAX:
                continue
            numbers: dict[str, int | tuple[int, ...]] = dict(sizes)
            numbers[TRIPS] = trips if persistent else trips[0]
            if persistent:
                numbers[WORK] = len(mine)
                if _shared(program):
                    numbers[TRIPS] = trips[0]
            more = len(mine) - 1 if asks else 0
            yield ComparedLaunch(sizes, numbers, block, grid_size, more), trips


def _shares(items: int, grid: int, ctas: int, asks: bool) -> Iterator[tuple[int, range]]:
    """The first CTA of clusters, and their work items.

    Of a CTA that asks they follow its own, as many as the hardware grants.
    """
    if asks:
        for count in range(1, ITEMS_MAX + 1):
            if count <= items:
                yield 0, range(count)
        return
    for block in dict.fromkeys((0, grid - ctas)):
        yield block, range(block, items, grid)


def _shared(program: ir.SyncProgram) -> bool:
    """Whether all work items have one trip count."""
    return all(item.per is None for item in program.parameters if item.name == TRIPS)


def trip_count(
    tile: TileProgram,
    sizes: Mapping[str, int],
    item: int,
    memory: Mapping[str, Array],
    ctas: int = 1,
) -> int:
    """Iterations of one work item, with what lookups read; the last coordinate varies fastest, and
    has as many values as clusters of so many CTAs fill."""
    values = {**dict(tile.sizes), **sizes}
    for dimension in reversed(tile.work):
        multiple = ctas if dimension is tile.work[-1] else 1
        count = -(-max(1, evaluate(dimension.count, values)) // multiple) * multiple
        item, place = divmod(item, count)
        down = dimension.name in tile.descending
        values[dimension.name] = count - 1 - place if down else place
    if tile.lookups:
        values = looked_up(tile, memory, values)
    return evaluate(tile.trip_count, values)
