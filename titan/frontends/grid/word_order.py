"""What the waits of CTAs for words order, from one CTA to the next.

A wait that reads from a write of another CTA takes over what that one hands over, by a release
pattern and an acquire pattern, or by two `fence.sc` (`ticket_order.py`). What it takes over it
hands on with what it writes later: causality order is transitive (PTX memory model, "Causality
Order"). What a wait reads from is itself before all that is behind the wait, without any fence.
So there is a graph: three nodes for each item of each CTA, one for each way; an edge from a write
to each wait that reads from it, and inside a CTA from a wait to each write whose release is behind
the acquire of the wait.

Each lane of a load reads for itself. Where lanes of a warp poll together and each leaves by what it
has read, all of them have read the number; where they vote on it, or shuffle it, one of them has,
and which is open: what is behind the wait is then what is behind it whichever lane it was.

An access is ordered before another one if a node that it is before reaches one that the other is
behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_

from titan.frontends.grid.asked_words import Item
from titan.frontends.grid.ticket_order import (
    Masks,
    acquires_of,
    is_complete,
    known_before,
    known_behind,
    releases_of,
    sequential_in,
)
from titan.frontends.grid.word_loops import votes
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run
from titan.isa.simt.values import lanes_of

WAYS = 3
Place = tuple[int, int]  # a CTA, and the number of its item


@dataclass(slots=True)
class Sides:
    """Of each event of a run, by sequence number, and each item the lanes on one side of it.

    `before` and `behind` by node: by the pattern, by `fence.sc`, and the write itself. `relays`:
    pairs of a wait's node and a write's node of which the first hands on to the second. `perhaps`:
    pairs of which it does if the right lane has read the number; `doubtful`: events that are behind
    a wait for some of these lanes only.
    """

    before: dict[int, Masks] = field(default_factory=dict)
    behind: dict[int, Masks] = field(default_factory=dict)
    relays: set[tuple[int, int]] = field(default_factory=set)
    perhaps: set[tuple[int, int]] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    complete: bool = True


def sides_of(run: Run, items: Sequence[Item]) -> Sides:
    """The sides of the items of a run. Nodes are 3 n by the pattern, 3 n + 1 by fences, and 3 n + 2
    of the item itself."""
    events = run.events
    found = Sides()
    starts: dict[int, Masks] = {}  # of writes, by node
    ends: dict[int, list[tuple[Masks, Masks]]] = {}  # of reads, with what is behind them
    for number, item in enumerate(items):
        reads = list(_accesses(events, item))
        event = reads[0]
        here = {item.place: item.lanes}
        if item.writes:
            starts[WAYS * number] = _joined(releases_of(events, one) for one in _lanes(event))
            starts[WAYS * number + 1] = sequential_in(events, known_before(events, here))
            for way in (0, 1):
                node = WAYS * number + way
                found.before[node] = known_before(events, starts[node])
            found.before[WAYS * number + 2] = here
        if item.asks >= 0:
            for way, ways in enumerate(_ends(run, reads)):
                node = WAYS * number + way
                ends[node] = [(end, known_behind(events, end)) for end in ways]
                found.behind[node], doubtful = _common([after for _, after in ends[node]])
                found.doubtful |= doubtful
    for one, choices in ends.items():
        for other, start in starts.items():
            if one // WAYS < other // WAYS:
                every = other % WAYS == 0
                hands = [_hands_on(end, after, start, every=every) for end, after in choices]
                found.relays |= {(one, other)} if all(hands) else set()
                found.perhaps |= {(one, other)} if any(hands) else set()
    found.complete = is_complete(events, {place for item in items for place, _ in item.reads})
    return found


def _accesses(events: Sequence[ev.Event], item: Item) -> Iterator[ev.AccessEvent]:
    for place, _ in item.reads:
        event = events[place]
        assert isinstance(event, ev.AccessEvent)
        yield event


def _ends(run: Run, reads: Sequence[ev.AccessEvent]) -> list[list[Masks]]:
    """Where a read takes over, by way: for each choice of the lanes that have read the number."""
    events, lanes = run.events, [lane for event in reads for lane in _lanes(event)]
    assert run.prepared is not None
    choices = (
        [lanes] if not votes(run.prepared.code, reads[0].instruction) else [[one] for one in lanes]
    )
    found: list[list[Masks]] = [[], [], []]
    for some in choices:
        here = _joined({one.sequence: one.lanes} for one in some)
        found[0].append(_joined(acquires_of(events, one) for one in some))
        found[1].append(sequential_in(events, known_behind(events, here)))
        found[2].append(here)
    return found


def _lanes(event: ev.AccessEvent) -> list[ev.AccessEvent]:
    """An access lane by lane."""
    return [replace(event, lanes=1 << lane) for lane in lanes_of(event.lanes)]


def _joined(parts: Iterable[Masks]) -> Masks:
    found: Masks = {}
    for part in parts:
        for place, lanes in part.items():
            found[place] = found.get(place, 0) | lanes
    return found


def _common(parts: Sequence[Masks]) -> tuple[Masks, set[int]]:
    """The lanes that all parts have; the events of which they have others."""
    if len(parts) == 1:
        return parts[0], set()
    found: Masks = {}
    doubtful: set[int] = set()
    for place in set().union(*parts):
        masks = [part.get(place, 0) for part in parts]
        common = reduce(and_, masks)
        if common:
            found[place] = common
        if any(mask != common for mask in masks):
            doubtful.add(place)
    return found, doubtful


def _hands_on(end: Masks, after: Masks, start: Masks, *, every: bool) -> bool:
    """Whether what is behind the acquires `end` has the releases `start`: all of them (`every`), or
    one, which may be an acquire itself."""
    inside = [
        (after.get(place, 0) | end.get(place, 0)) & lanes == lanes for place, lanes in start.items()
    ]
    if not inside:
        return False
    return all(inside) if every else any(inside)


class Graph:
    """The nodes of all CTAs. `reach`: what each node reaches, itself too, as bits."""

    def __init__(
        self,
        counts: Sequence[int],
        relays: Iterable[tuple[int, set[tuple[int, int]]]],
        edges: Mapping[Place, Iterable[Place]],
    ) -> None:
        self.first = [0]
        for count in counts:
            self.first.append(self.first[-1] + WAYS * count)
        size = self.first[-1]
        following: list[set[int]] = [set() for _ in range(size)]
        for cta, pairs in relays:
            for one, other in pairs:
                following[self.first[cta] + one].add(self.first[cta] + other)
        for wait, writes in edges.items():
            for write in writes:
                if write[0] == wait[0]:
                    continue
                for way in range(WAYS):
                    following[self.node(write, way)].add(self.node(wait, way))
        self.reach = [_reached(following, node) for node in range(size)]

    def node(self, place: Place, way: int) -> int:
        """The node of an item for one of the ways."""
        return self.first[place[0]] + WAYS * place[1] + way

    def ordered(self, before: int, behind: int) -> bool:
        """Whether one of the nodes `before`, as bits, reaches one of the others."""
        node = 0
        while before:
            if before & 1 and self.reach[node] & behind:
                return True
            before >>= 1
            node += 1
        return False


def _reached(following: Sequence[set[int]], node: int) -> int:
    seen, work = 1 << node, [node]
    while work:
        for other in following[work.pop()]:
            if not seen >> other & 1:
                seen |= 1 << other
                work.append(other)
    return seen
