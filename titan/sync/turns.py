"""Arrays whose stages are listed from an open place on.

Where a counter is an open number, so is the stage that it turns to. An array of barriers, or of
memory, may then be listed from an *origin*: what is listed at a place is the stage
`(origin + place) % stages`. An operation that names a stage by an open remainder finds its place
where the difference to the origin is known; where it is not known, or where it names a stage of
such an array in another way, `NotCoveredError` is raised. Stages are distinguished, nothing else
is done with them, so that a run of the places is a run of the stages for each origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from titan.sync.open_numbers import NotCoveredError, Remainder

TURNS = cast("str", 0)  # where an environment holds them: no program has a number for a name
Origins = tuple[tuple[str, int], ...]  # of arrays, barriers or buffers


class Turn(NamedTuple):
    """From which stage on an array is listed, and how many it has."""

    origin: int
    stages: int


def place_of(name: str, index: int, environment: Mapping[str, int]) -> int:
    """Where the stage `index` of an array is listed."""
    if TURNS not in environment:
        return index
    turns = cast("Mapping[str, Turn]", environment[TURNS])
    if name not in turns:
        if isinstance(index, Remainder):
            raise NotCoveredError(f"which stage of {name} is meant is not known")
        return index
    origin, stages = turns[name]
    if not isinstance(index, Remainder) or index.modulus != stages:
        raise NotCoveredError(f"a stage of {name} is named in a way that does not turn")
    return fixed((index.number - origin) % stages, name)


def fixed(place: int, name: str) -> int:
    """The place, which is known."""
    if type(place) is not int:
        raise NotCoveredError(f"which stage of {name} is meant is not known")
    return place
