"""Schedules of what the CTAs of a launch do to words, played one item at a time.

Each is an execution that the launch may have: all CTAs are there at once, a wait passes when its
word has a number that lets it. What a wait reads from is known then, so that a race that one of
these executions has is one of the launch, and so is a deadlock. Nothing here proves that a launch
is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from titan.frontends.grid.asked_words import Item

RANDOM = 24  # schedules besides the directed ones
DIRECTED_MAX = 32  # CTAs that are taken first, or last
Place = tuple[int, int]  # a CTA, and the number of its item


@dataclass(slots=True)
class PlayedWords:
    """A schedule. `edges`: the writes that each read reads from; `failed`: waits that did not pass
    when the CTA came to them; `stuck`: where CTAs are at the end that cannot proceed.
    """

    edges: dict[Place, frozenset[Place]] = field(default_factory=dict)
    failed: set[Place] = field(default_factory=set)
    stuck: list[Place] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)


class _Play:
    def __init__(
        self,
        items: Sequence[Sequence[Item]],
        start: Mapping[int, int],
        passes: Callable[[int, int, int], bool],
    ) -> None:
        self.items, self.passes = items, passes
        self.numbers = dict(start)
        self.window: dict[int, frozenset[Place]] = {at: frozenset() for at in start}
        self.at = [0] * len(items)
        self.done = PlayedWords()
        for cta in range(len(items)):
            self._arrive(cta)

    def _arrive(self, cta: int) -> None:
        if self.at[cta] < len(self.items[cta]) and not self.ready(cta):
            self.done.failed.add((cta, self.at[cta]))

    def ready(self, cta: int) -> bool:
        """Whether a CTA can do its next item."""
        if self.at[cta] == len(self.items[cta]):
            return False
        item = self.items[cta][self.at[cta]]
        return not item.polls or self.passes(cta, self.at[cta], self.numbers[item.address])

    def step(self, cta: int) -> None:
        """The next item of a CTA, which is ready."""
        place = cta, self.at[cta]
        item = self.items[cta][place[1]]
        if item.asks >= 0:
            self.done.edges[place] = self.window[item.address]
        if item.writes:
            kept = self.window[item.address] if item.operation != "store" else frozenset()
            self.window[item.address] = kept | {place}
            self.numbers[item.address] = item.after(self.numbers[item.address])
        self.at[cta] += 1
        self._arrive(cta)


def played(
    items: Sequence[Sequence[Item]],
    start: Mapping[int, int],
    passes: Callable[[int, int, int], bool],
    first: Callable[[list[int]], int],
) -> PlayedWords:
    """A schedule; `first` chooses one of the CTAs that are ready."""
    play = _Play(items, start, passes)
    while True:
        ready = [cta for cta in range(len(items)) if play.ready(cta)]
        if not ready:
            break
        play.step(first(ready))
    play.done.stuck = [(cta, at) for cta, at in enumerate(play.at) if at < len(items[cta])]
    play.done.numbers = play.numbers
    return play.done


def in_order(
    items: Sequence[Sequence[Item]],
    start: Mapping[int, int],
    passes: Callable[[int, int, int], bool],
) -> Place | None:
    """The first wait that does not pass where each CTA begins when the one before it has ended."""
    play = _Play(items, start, passes)
    for cta in range(len(items)):
        while play.ready(cta):
            play.step(cta)
        if play.at[cta] < len(items[cta]):
            return cta, play.at[cta]
    return None


def schedules(
    items: Sequence[Sequence[Item]],
    start: Mapping[int, int],
    passes: Callable[[int, int, int], bool],
) -> Iterator[PlayedWords]:
    """Directed schedules, then random ones; the same each time."""
    yield played(items, start, passes, min)
    yield played(items, start, passes, max)
    step = max(1, len(items) // DIRECTED_MAX)
    for favoured in range(0, len(items), step):
        yield played(items, start, passes, partial(_late, cta=favoured))
        yield played(items, start, passes, partial(_early, cta=favoured))
    for seed in range(RANDOM):
        yield played(items, start, passes, random.Random(seed).choice)


def _late(ready: list[int], cta: int) -> int:
    others = [one for one in ready if one != cta]
    return others[0] if others else cta


def _early(ready: list[int], cta: int) -> int:
    return cta if cta in ready else ready[-1]
