"""Rings found in recordings: what operations of loops use in turn becomes one array.

Objects are memory regions or mbarriers, by name. An *entry* is one operation of a loop with the
objects that it uses in turn: each of them comes again after a fixed number of rounds. Entries that
share an object are of one ring; in its order, each entry walks with a constant stride. Objects of
one CTA and one stage that exactly the same entries use are one part of an array each.

A stage may have fewer objects than others (another operation cut it into fewer regions); the parts
that are missing there represent no memory. That can only add conflicts, never hide one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from titan.frontends.lift.segments import NotFoldedError
from titan.sync.expression import Constant, Expression, Name, binary

STAGES_MAX = 64
STRIDE_MAX = 3  # phases that a round or a trip advances where no two points say how many


@dataclass(frozen=True, slots=True)
class Entry:
    """What one operation uses in turn: in round `r` the objects with offset `r % period`."""

    key: Hashable
    period: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Array:
    """Objects as stages and parts; None where a stage has fewer parts."""

    name: str
    regions: tuple[tuple[str | None, ...], ...]  # by stage

    @property
    def stages(self) -> int:
        """How many stages it has."""
        return len(self.regions)

    @property
    def parts(self) -> int:
        """How many parts each stage has."""
        return len(self.regions[0])


@dataclass(slots=True)
class Rings:
    """All arrays; `place` says where an object is: array, stage, part."""

    arrays: dict[str, Array] = field(default_factory=dict)
    place: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def add(self, regions: Sequence[Sequence[str]]) -> Array:
        """An array of these objects by stage, called after the first of them."""
        most = max(len(stage) for stage in regions)
        name = next(item for stage in regions for item in stage)
        padded = tuple((*stage, *[None] * (most - len(stage))) for stage in regions)
        array = Array(name, padded)
        self.arrays[name] = array
        for stage, items in enumerate(regions):
            for part, item in enumerate(items):
                self.place[item] = (name, stage, part)
        return array


def entries_of(
    key: Hashable, rounds: Sequence[frozenset[str]], where: str = ""
) -> tuple[set[str], list[Entry]]:
    """What an operation uses in every round, and its entries by period. Raises NotFoldedError.

    `where`: the place of the operation, for the reason.
    """
    constant = frozenset.intersection(*rounds)
    seen: dict[str, list[int]] = defaultdict(list)
    for number, names in enumerate(rounds):
        for name in names - constant:
            seen[name].append(number)
    periods: dict[int, dict[str, int]] = defaultdict(dict)
    for name, at in seen.items():
        period = at[1] - at[0] if len(at) > 1 else 0
        if not period or at != list(range(at[0], len(rounds), period)) or at[0] >= period:
            place = f" ({where})" if where else ""
            raise NotFoldedError(f"{name} does not repeat at a fixed distance{place}")
        periods[period][name] = at[0]
    made = [Entry((key, period), period, offsets) for period, offsets in sorted(periods.items())]
    for entry in made:
        if entry.period > STAGES_MAX:
            raise NotFoldedError(f"a ring of {entry.period} stages")
    return set(constant), made


def add_rings(
    rings: Rings,
    entries: Iterable[Entry],
    turned: bool = True,
    apart: Mapping[str, Iterable[Hashable]] | None = None,
) -> None:
    """The rings of these entries as arrays. Raises NotFoldedError where entries contradict.

    `turned`: a ring begins at its lowest address, and not with what round 0 uses. `apart`: more
    users of objects, which no entry names.
    """
    for cluster in _clusters(list(entries)):
        stages, users = _stages(cluster)
        count = cluster[0].period
        shift = stages[min(stages, key=address_key)] if turned else 0
        groups: dict[tuple[Hashable, ...], list[list[str]]] = {}
        for name in sorted(stages, key=address_key):
            using = frozenset(users[name]).union((apart or {}).get(name, ()))
            home = name.partition("@")[2]  # the CTA: an operation may use memory of both of a pair
            group = groups.setdefault((using, home), [[] for _ in range(count)])
            group[(stages[name] - shift) % count].append(name)
        for regions in groups.values():
            rings.add(regions)


def _clusters(entries: list[Entry]) -> list[list[Entry]]:
    """Entries that share objects, those with the longest period first."""
    owner: dict[str, int] = {}
    parent = list(range(len(entries)))

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    for number, entry in enumerate(entries):
        for name in entry.offsets:
            if name in owner:
                parent[root(number)] = root(owner[name])
            else:
                owner[name] = number
    found: dict[int, list[Entry]] = defaultdict(list)
    for number, entry in enumerate(entries):
        found[root(number)].append(entry)
    return [sorted(cluster, key=lambda entry: -entry.period) for cluster in found.values()]


def _stages(cluster: list[Entry]) -> tuple[dict[str, int], dict[str, set[Hashable]]]:
    """The stage of each object of a ring, and which entries use it."""
    first, *waiting = cluster
    count = first.period
    stages = dict(first.offsets)
    users: dict[str, set[Hashable]] = {name: {first.key} for name in stages}
    while waiting:
        entry = next(item for item in waiting if any(name in stages for name in item.offsets))
        waiting.remove(entry)
        for name, stage in _walked(entry, stages, count).items():
            stages[name] = stage
            users.setdefault(name, set()).add(entry.key)
    return stages, users


def _walked(entry: Entry, stages: Mapping[str, int], count: int) -> dict[str, int]:
    """The stages of an entry's objects, by the stride with which it goes through the ring."""
    known = [(offset, stages[name]) for name, offset in entry.offsets.items() if name in stages]
    for stride in range(1, count + 1):
        if stride * entry.period % count:
            continue
        start = (known[0][1] - stride * known[0][0]) % count
        if all((stride * offset + start) % count == stage for offset, stage in known):
            return {
                name: (stride * offset + start) % count for name, offset in entry.offsets.items()
            }
    raise NotFoldedError(f"{min(entry.offsets)} belongs to two rings of different order")


def address_key(name: str) -> tuple[str, int, str]:
    """Sorts names of regions and barriers by memory and address."""
    memory, _, rest = name.partition("+")
    found = re.match(r"0x([0-9a-f]+)", rest)
    return memory, int(found[1], 16) if found else -1, rest


Point = tuple[int, int, int]  # trips, round (0 outside of loops), value


def modular_index(
    points: Sequence[Point], stages: int, names: tuple[str, str]
) -> Expression | None:
    """`(a * round + b * trips + c) % stages` through all points, or None.

    `names` are those of the trips and of the round.
    """
    if len({value for _, _, value in points}) == 1:
        return Constant(points[0][2])
    return modular_choice([(trips, at, {value}) for trips, at, value in points], stages, names)


def modular_choice(
    points: Sequence[tuple[int, int, set[int]]], stages: int, names: tuple[str, str]
) -> Expression | None:
    """The same, through one of several values at each point."""
    for b in range(stages):
        for a in range(stages):
            for c in range(stages):
                if all((a * at + b * t + c) % stages in values for t, at, values in points):
                    return binary("%", _sum(names, b, a, c), Constant(stages))
    return None


def quotient_number(
    points: Sequence[Point], divisors: Sequence[int], names: tuple[str, str]
) -> Expression | None:
    """`(a * round + b * trips + c) // d + e` through all points, or None."""
    trips0, at0, value0 = points[0]
    if len({value for _, _, value in points}) == 1:
        return Constant(value0)
    known = {(trips, at): value for trips, at, value in points}
    for d in divisors:
        strides = range(STRIDE_MAX + 1)
        for b in _strides([(t, r, t + d, r) for t, r in known], known) or strides:
            for a in _strides([(t, r, t, r + d) for t, r in known], known) or strides:
                for c in range(d):
                    e = value0 - (a * at0 + b * trips0 + c) // d
                    if all((a * at + b * trips + c) // d + e == v for trips, at, v in points):
                        whole = binary("//", _sum(names, b, a, c), Constant(d))
                        return _plus(whole, e)
    return None


def _strides(
    pairs: Sequence[tuple[int, int, int, int]], known: Mapping[tuple[int, int], int]
) -> list[int]:
    """How far numbers go from one point to another, a divisor further on, so that it is a whole
    stride: one number for all pairs of which both are known. Nothing where there is no pair."""
    found = {
        known[(trips, at)] - known[(before, then)]
        for before, then, trips, at in pairs
        if (trips, at) in known
    }
    return [min(found)] if found else []


def _sum(names: tuple[str, str], trips: int, rounds: int, constant: int) -> Expression:
    """`rounds * round + trips * trips + constant`."""
    made: Expression = Constant(0)
    for name, factor in ((names[1], rounds), (names[0], trips)):
        if factor:
            made = binary("+", made, binary("*", Constant(factor), Name(name)))
    return _plus(made, constant)


def _plus(expression: Expression, constant: int) -> Expression:
    if constant < 0:
        return binary("-", expression, Constant(-constant))
    return binary("+", expression, Constant(constant))
