"""What the waits of CTAs for words order, from one CTA to the next.

A wait that reads from a write of another CTA takes over what that one hands over, by a release
pattern and an acquire pattern, or by two `fence.sc` (`ticket_order.py`). What it takes over it
hands on with what it writes later: causality order is transitive (PTX memory model, "Causality
Order"). What a wait reads from is itself before all that is behind the wait, without any fence.
So there is a graph: three nodes for each item of each CTA, one for each way; an edge from a write
to each wait that reads from it, and inside a CTA from a wait to each write whose release is behind
the acquire of the wait.

An access is ordered before another one if a node that it is before reaches one that the other is
behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from titan.frontends.grid.asked_words import Item
from titan.frontends.grid.ticket_order import (
    Masks,
    acquires_of,
    known_before,
    known_behind,
    orders_otherwise,
    releases_of,
    sequential_in,
)
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run

WAYS = 3
Place = tuple[int, int]  # a CTA, and the number of its item


@dataclass(slots=True)
class Sides:
    """Of each event of a run, by sequence number, and each item the lanes on one side of it.

    `before` and `behind` by node: by the pattern, by `fence.sc`, and the write itself. `relays`:
    pairs of a wait's node and a write's node of which the first hands on to the second.
    """

    before: dict[int, Masks] = field(default_factory=dict)
    behind: dict[int, Masks] = field(default_factory=dict)
    relays: set[tuple[int, int]] = field(default_factory=set)
    complete: bool = True


def sides_of(run: Run, items: Sequence[Item]) -> Sides:
    """The sides of the items of a run. Nodes are 3 n by the pattern, 3 n + 1 by fences, and 3 n + 2
    of the item itself."""
    events = run.events
    found = Sides()
    starts: dict[int, Masks] = {}  # of writes, by node
    ends: dict[int, Masks] = {}  # of reads
    for number, item in enumerate(items):
        event = events[item.place]
        assert isinstance(event, ev.AccessEvent)
        here = {item.place: item.lanes}
        if item.writes:
            starts[WAYS * number] = releases_of(events, event)
            starts[WAYS * number + 1] = sequential_in(events, known_before(events, here))
            for way in (0, 1):
                node = WAYS * number + way
                found.before[node] = known_before(events, starts[node])
            found.before[WAYS * number + 2] = here
        if item.asks >= 0:
            ends[WAYS * number] = acquires_of(events, event)
            ends[WAYS * number + 1] = sequential_in(events, known_behind(events, here))
            ends[WAYS * number + 2] = here
            for way in range(WAYS):
                node = WAYS * number + way
                found.behind[node] = known_behind(events, ends[node])
    for one, end in ends.items():
        for other, start in starts.items():
            if one // WAYS < other // WAYS and _hands_on(
                end, found.behind[one], start, every=other % WAYS == 0
            ):
                found.relays.add((one, other))
    words = {item.place for item in items}
    found.complete = not any(
        orders_otherwise(event, None) for event in events if event.sequence not in words
    )
    return found


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
