"""Rounds of loops in a run, counted, and those that more trips put in; for both machines.

A passage is one time through a loop, of lanes that run together: how often its head was reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Lanes = tuple[int, int, int]  # CTA, warp or wave, mask: lanes that run together
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
class RoundPlan:
    """Rounds that a period of trips adds to each passage, head and number by the lanes, the first
    of them when the head is reached for time `first`; and how far registers go in these."""

    added: Mapping[Lanes, Sequence[tuple[int, int]]]
    first: int
    steps: Mapping[tuple[Lanes, int], Steps]


@dataclass(slots=True)
class Passage:
    """One time through a loop: how often its head was reached. `number` counts those of the lanes,
    in the order in which they began."""

    head: int
    number: int
    visits: int = 0


@dataclass(slots=True)
class Passages:
    """All passages of lanes that run together; `open` are those that have not ended. `last`: where
    the lanes were; an instruction that blocks is stepped again."""

    all: list[Passage] = field(default_factory=list)
    open: list[Passage] = field(default_factory=list)
    last: int = -1


class RoundCounter:
    """Counts rounds of loops, given by their heads, while a run is made."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
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
            passage = Passage(pc, len(found.all))
            found.all.append(passage)
            found.open.append(passage)
        passage.visits += 1
        return passage

    def counts(self) -> dict[Lanes, list[tuple[int, int]]]:
        """Heads and visits of all passages, in order."""
        return {key: [(p.head, p.visits) for p in item.all] for key, item in self.of.items()}


def step_between(then: int, now: int) -> int:
    """How far a register has gone; one of 32 bits may have wrapped."""
    step = now - then
    wrapped = then < WORD and now < WORD and abs(step) >= WORD // 2
    return (step + WORD // 2) % WORD - WORD // 2 if wrapped else step
