"""Smaller sizes than those of a counterexample, to show its fault for if they have it.

A search for every number decides sizes on the way, one after the other. With a number for each
item, or several open sizes, the first fault that it meets may be one of many items of which most
are empty. Proposes sizes only; whether the fault shows for them is searched.
"""

from __future__ import annotations

from itertools import islice, product

from titan.sync.control import Sizes
from titan.sync.program import SyncProgram

TRIES = 24
VALUES = 3  # of one size, from its least
Size = int | tuple[int, ...]


def smaller_sizes(program: SyncProgram, sizes: Sizes) -> list[dict[str, Size]]:
    """Up to TRIES choices below `sizes`, the smallest first; none where one number alone is open.

    The number of one size that is open is as small as the search could leave it.
    """
    free = [p for p in program.parameters if p.value is None]
    if len(free) < 2 and not any(p.per for p in free):
        return []
    choices: list[list[Size]] = []
    for parameter in program.parameters:
        given = sizes[parameter.name]
        if parameter.value is not None:
            choices.append([given])
            continue
        first = parameter.minimum
        values: list[Size] = list(range(first, first + VALUES))
        if parameter.per is not None:
            values += [(a, b) for a, b in product(range(first, first + VALUES), repeat=2) if a != b]
        choices.append(values)
    whole = _weight(sizes)
    names = [parameter.name for parameter in program.parameters]
    found = [dict(zip(names, values, strict=True)) for values in product(*choices)]
    found = [item for item in found if _weight(item) < whole]
    return list(islice(sorted(found, key=_weight), TRIES))


def _weight(sizes: Sizes) -> tuple[int, int]:
    """How much there is to read: the sum of all numbers, then how many there are."""
    flat = [size if isinstance(size, tuple) else (size,) for size in sizes.values()]
    return sum(sum(item) + len(item) - 1 for item in flat), sum(map(len, flat))
