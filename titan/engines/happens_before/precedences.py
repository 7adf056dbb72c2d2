"""What has to be before something else in every interleaving, though no operation waits for it.

Some rules name an order that no access shows: an arrival that must not complete its phase needs
another one behind it, and a permit may be given up only behind its last use. A mark is an instant
of an agent, between two of its operations. One is before another in every interleaving if it is so
in the order of one run, as for accesses (`clocks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from titan.engines.happens_before.clocks import Clocks, Timestamp
from titan.foundation.records import dataclass

# An agent, and how many of its operations are before, but for plain accesses: those change nothing
# of what an agent knows.
Mark: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Precedence:
    """`first` has to be before one of `others`."""

    first: Mark
    others: tuple[Mark, ...]


def unordered(
    precedences: Iterable[Precedence], instants: Mapping[Mark, Timestamp], clocks: Clocks
) -> tuple[Precedence, ...]:
    """Those that some interleaving breaks."""
    return tuple(item for item in precedences if not _holds(item, instants, clocks))


def _holds(item: Precedence, instants: Mapping[Mark, Timestamp], clocks: Clocks) -> bool:
    first = instants[item.first]
    # Who knows of the operation behind the mark knows of what is before it.
    return any(clocks.before(first.agent, first.index, instants[mark]) for mark in item.others)
