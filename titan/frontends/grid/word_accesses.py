"""Accesses of CTAs that words order, by waits (`word_races.py`) or by locks (`lock_races.py`).

What an access does, and on which sides of the items of its run it is (`word_order.py`): what two of
them need so as not to be a race, and how a race is shown.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from titan.foundation.diagnostics.model import Diagnostic
from titan.frontends.grid.race_text import RacingAccess, common_range, race_diagnostic
from titan.frontends.grid.waited_copies import (
    Waits,
    is_copy,
    lanes_before,
    lanes_behind,
    waits_for_copies,
)
from titan.frontends.grid.word_order import Graph, Sides
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.settled import commutes
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.known_bytes import leave_the_same
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run
from titan.isa.simt.written import global_accesses

PAIRS_MAX = 2_000_000  # of accesses that are compared


@dataclass(frozen=True, slots=True)
class WordAccess:
    """An access of a CTA to global memory.

    `settled`: of a strong one, what else may come before or after it. `certain`: when and where it
    happens is known, and what orders it. `before` and `behind`: nodes of the run's items, as bits,
    that all its lanes are before or behind.
    """

    cta: int
    mode: ev.Mode
    strong: bool
    value: bytes | None
    footprint: Footprint
    settled: str
    certain: bool
    read_only: bool
    before: int
    behind: int

    def fields(self) -> dict[str, Any]:
        """What it is made of, for a class that adds to it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def word_accesses(
    cta: int, run: Run, sides: Sides, words: Container[int], read_only: Container[int]
) -> Iterator[tuple[WordAccess, ev.Event]]:
    """The accesses of a run. `words`: the addresses of what orders CTAs; `read_only`: the
    instructions of read-only loads."""
    unknown, waits = run.unknown_addresses(), waits_for_copies(run.events)
    for event, footprint, mode in global_accesses(run, set()):
        strong, value, settled = mode is ev.Mode.ATOMIC, None, ""
        followed = isinstance(event, ev.AccessEvent) or is_copy(event)
        known = event.instruction not in unknown and followed
        if isinstance(event, ev.AccessEvent):
            strong = event.scope >= ev.AccessScope.GPU
            value, settled = event.value, commutes(run, event)
            if strong and footprint.bounds[0] in words:
                settled = "word"
        before, behind, whole = _nodes(sides, event, waits)
        access = WordAccess(
            cta, mode, strong, value, footprint, settled, known and whole and sides.complete,
            event.instruction in read_only, before, behind,
        )  # fmt: skip
        yield access, event


def _nodes(sides: Sides, event: ev.Event, waits: Waits) -> tuple[int, int, bool]:
    """The nodes that all lanes of an event are before and behind; whether no lanes are apart."""
    whole = event.sequence not in sides.doubtful
    found = [0, 0]
    before = ((node, lanes_before(masks, event, waits)) for node, masks in sides.before.items())
    behind = ((node, lanes_behind(masks, event)) for node, masks in sides.behind.items())
    for side, nodes in enumerate((before, behind)):
        for node, lanes in nodes:
            whole = whole and lanes in (0, event.lanes)
            if lanes == event.lanes:
                found[side] |= 1 << node
    return found[0], found[1], whole


def harmless(one: WordAccess, other: WordAccess) -> bool:
    """Whether two accesses may come in any order: both of a word and strong, both sums, or both
    plain writes of the same bytes."""
    if one.strong and other.strong:
        return one.settled != "" and one.settled == other.settled
    writes = one.mode is other.mode is ev.Mode.WRITE
    return writes and leave_the_same(one.value, one.footprint, other.value, other.footprint)


def comes_before(graph: Graph, one: WordAccess, other: WordAccess) -> bool:
    """Whether an access of one CTA is ordered before one of another."""
    if one.read_only or other.read_only:
        return False
    return graph.ordered(one.before << graph.first[one.cta], other.behind << graph.first[other.cta])


def race_of(
    pair: Sequence[WordAccess], events: Sequence[ev.Event], launch: Launch, places: CodePlaces,
    though: str, help_: str,
) -> Diagnostic:  # fmt: skip
    """A race of two accesses, as a diagnostic; `though`: what CTAs do against it, `help_`: what
    they should do."""
    one, other = (
        RacingAccess(item.cta, event, item.mode) for item, event in zip(pair, events, strict=True)
    )
    common = common_range(pair[0].footprint, pair[1].footprint)
    return race_diagnostic(
        (one, other), common, launch, places, though=f", though CTAs {though}", helps=(help_,)
    )
