"""What a run with rounds put in shows: up to how many periods more, and what ends it.

The part that the machines of warps and of waves have in common. Each adds its own conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from titan.isa.simt.growth import ENDLESS
from titan.isa.simt.passages import Lanes, Loops, RoundCounter, RoundPlan


class RoundsPutIn(Protocol):
    """The rounds that are put into one passage, while they are run."""

    @property
    def done(self) -> bool:
        """Whether they have come to their end."""


class ShownRounds:
    """`reach` is how many periods more are shown; `why` and `site` say what ends it.

    `disordered`: the passages are not those of the plan.
    """

    reach: int
    disordered: bool
    why: str
    site: int

    def plan_rounds(self, plan: RoundPlan, loops: Loops) -> None:
        """Begin, with nothing that ends it."""
        self.plan = plan
        growing = {
            (lanes, number)
            for lanes, passages in plan.added.items()
            for number, (_, rounds) in enumerate(passages)
            if rounds
        }
        self.counter = RoundCounter(loops, growing)
        self.reach, self.disordered = ENDLESS, False
        self.why, self.site = "", -1

    def limit(self, reach: int, site: int, why: str) -> None:
        """It is shown up to `reach` only."""
        if reach < self.reach:
            self.reach, self.site, self.why = reach, site, why

    def check_passages(self, windows: Mapping[tuple[Lanes, int], RoundsPutIn]) -> None:
        """After the run: each passage that makes more rounds had room for them, in the order of
        the plan."""
        for key, found in self.counter.of.items():
            added = self.plan.added.get(key, ())
            for passage in found.all:
                if passage.number < 0:
                    continue  # a part of the rounds of another
                wanted = added[passage.number][1] if passage.number < len(added) else 0
                window = windows.get((key, passage.number))
                if wanted and (window is None or not window.done):
                    self.limit(0, passage.head, "a loop makes too few rounds to decide it")
            if found.numbered < len(added):
                self.disordered = True
        if self.disordered:
            self.limit(0, -1, "loops are passed in another order with other trips")
