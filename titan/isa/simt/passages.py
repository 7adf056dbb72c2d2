"""Rounds of loops in a run, counted, and those that more trips put in; for both machines.

A passage is one time through a loop, of lanes that run together: how often its head was reached.
One that makes more rounds with more trips *grows*. What lies within it belongs to its rounds, loops
that it passes in each of them among that (the steps along K of each work item): these passages are
as many more as its rounds are, and have no number of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

# The CTA by its rank in the cluster, warp or wave, mask: lanes that run together.
Lanes = tuple[int, int, int]
Steps = Mapping[int, Sequence[int]]  # of registers, by lane
WORD = 1 << 32
Loops = Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class TripWord:
    """The word of the parameters that counts trips: `slope` more of it for each k."""

    offset: int
    size_bytes: int
    slope: int


@dataclass(frozen=True, slots=True)
class TripGrid:
    """How far the grid grows for each k on an axis, in CTAs, and the CTA that is run moves on."""

    axis: int
    extent: int
    place: int


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Rounds that a period of trips adds to each passage, head and number by the lanes, the first
    of them when the head is reached for time `first`; and how far registers go in these."""

    added: Mapping[Lanes, Sequence[tuple[int, int]]]
    first: int
    steps: Mapping[tuple[Lanes, int], Steps]


@dataclass(eq=False, slots=True)
class Passage:
    """One time through a loop: how often its head was reached. `number` counts those of the lanes
    that lie in none that grows, in the order in which they began; -1: it lies in one. `within`:
    the passage around it."""

    head: int
    number: int
    within: Passage | None = None
    visits: int = 0
    grows: bool = False

    @property
    def covered(self) -> bool:
        """Whether it lies in a passage that grows."""
        around = self.within
        return around is not None and (around.grows or around.covered)


@dataclass(slots=True)
class Passages:
    """All passages of lanes that run together; `open` are those that have not ended. `last`: where
    the lanes were; an instruction that blocks is stepped again. `numbered`: how many have a
    number."""

    all: list[Passage] = field(default_factory=list)
    open: list[Passage] = field(default_factory=list)
    last: int = -1
    numbered: int = 0


class RoundCounter:
    """Counts rounds of loops, given by their heads, while a run is made. `growing`: the passages
    that are known to grow, by lanes and number."""

    def __init__(self, loops: Loops, growing: Collection[tuple[Lanes, int]] = ()) -> None:
        self.loops = loops
        self.growing = growing
        self.of: dict[Lanes, Passages] = {}

    def arrive(self, key: Lanes, pc: int) -> Passage | None:
        """The passage whose head lanes are at, counted; None: they are at none."""
        found = self.of.get(key)
        if found is None:
            if pc not in self.loops:
                return None
            found = self.of[key] = Passages()
        if found.last == pc:
            return None
        found.last = pc
        if found.open:
            found.open = [item for item in found.open if pc in self.loops[item.head]]
        if pc not in self.loops:
            return None
        passage = next((item for item in found.open if item.head == pc), None)
        if passage is None:
            passage = self._begun(key, found, pc)
        passage.visits += 1
        return passage

    def _begun(self, key: Lanes, found: Passages, pc: int) -> Passage:
        around = found.open[-1] if found.open else self._of_more_lanes(key, pc)
        passage = Passage(pc, -1, around)
        if not passage.covered:
            passage.number = found.numbered
            passage.grows = (key, passage.number) in self.growing
            found.numbered += 1
        found.all.append(passage)
        found.open.append(passage)
        return passage

    def _of_more_lanes(self, key: Lanes, pc: int) -> Passage | None:
        """The innermost passage around a loop that some lanes alone pass, of all that run there."""
        cta, warp, mask = key
        for (other_cta, other_warp, other), found in self.of.items():
            if (other_cta, other_warp) == (cta, warp) and other & mask == mask and other != mask:
                for item in reversed(found.open):
                    if pc in self.loops[item.head]:
                        return item
        return None


def added_rounds(
    fewer: RoundCounter, more: RoundCounter
) -> dict[Lanes, list[tuple[int, int, int]]] | None:
    """By lanes, in the order of their numbers, the head of each passage that lies in none that
    grows, its visits, and how many the run of more trips has beyond these; None: the two runs pass
    other loops. Marks those that grow."""
    found: dict[Lanes, list[tuple[int, int, int]]] = {}
    # A loop of all lanes comes before those of some of them, which may lie in it.
    for key in sorted({*fewer.of, *more.of}, key=lambda one: -one[2].bit_count()):
        rows = found[key] = []
        longer = iter(_uncovered(more, key))
        for passage in _uncovered(fewer, key):
            again = next(longer, None)
            if again is None or again.head != passage.head:
                return None
            rounds = again.visits - passage.visits
            passage.grows = again.grows = rounds != 0
            rows.append((passage.head, passage.visits, rounds))
        if next(longer, None) is not None:
            return None
    return found


def _uncovered(counter: RoundCounter, key: Lanes) -> Iterator[Passage]:
    """Passages that lie in none that grows, as far as these are marked when each is asked for."""
    passages = counter.of.get(key)
    return (item for item in (passages.all if passages else ()) if not item.covered)


def step_between(then: int, now: int) -> int:
    """How far a register has gone; one of 32 bits may have wrapped."""
    step = now - then
    wrapped = then < WORD and now < WORD and abs(step) >= WORD // 2
    return (step + WORD // 2) % WORD - WORD // 2 if wrapped else step
