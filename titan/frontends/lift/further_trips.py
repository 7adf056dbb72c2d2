"""Up to which number of trips the code does what the lifted file says, beyond those compared.

The lifted file is equal to launches of N, ..., N + P - 1 trips, P a multiple of twice the stages of
every ring. For each of them, a run shows (`further_rounds.py` of its machine) that k * P more trips
put k times the same rounds into its loops, and change nothing else. In the file they do: its loops
make a fixed number of rounds for each trip, and P rounds further on an operation names the same
stages, and phases that are a fixed number later. So the two are equal for all k up to which that
is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from titan.foundation.collector import uncollected
from titan.frontends.lift.fold import TRIPS
from titan.frontends.lift.lifted import LiftedKernel
from titan.frontends.ptx.sweep import Driver
from titan.isa.simt.passages import Lanes, RoundCounter, RoundPlan, Steps, added_rounds
from titan.sync import program as ir
from titan.sync.expression import names_of
from titan.sync.parts import barriers_of, effects_of

PERIOD_MAX = 64
MULTIPLES = (1, 2, 4)
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class FurtherTrips:
    """`first`: the first number of trips of which it is not shown; None: of all that the integer
    may count it is. `why` it ends there, and in which `line` (0: nowhere). `start`, `period`: the
    runs that represent all others are those of `period` trip counts from `start` on."""

    first: int | None
    why: str = ""
    line: int = 0
    start: int = 0
    period: int = 0

    @property
    def launched(self) -> int:
        """All trip counts below it have to be launched: those of the runs, one a period further,
        which says how much that adds, and all that are fewer, of which nothing is shown."""
        return self.start + self.period + 1


def period_of(lifted: LiftedKernel) -> int:
    """Twice the stages of all rings together that come round with the trips: phases alternate."""
    program = lifted.kernel.program
    assert program is not None
    stages = {item.name: item.stages for item in program.barriers}
    stages |= {item.name: item.stages for item in program.buffers}
    rings = {name for role in program.roles for name in _turning(role.body, frozenset({TRIPS}))}
    return 2 * math.lcm(*(stages.get(name, 1) for name in rings))


def _turning(body: ir.Block, moving: frozenset[str]) -> Iterator[str]:
    """Barriers and buffers whose stage depends on the numbers that the trips move."""
    for operation in body:
        if isinstance(operation, ir.Loop):
            bounds = names_of(operation.start) | names_of(operation.stop)
            inside = moving | {operation.variable} if bounds & moving else moving
            yield from _turning(operation.body, inside)
        elif isinstance(operation, ir.Branch):
            yield from _turning((*operation.then, *operation.otherwise), moving)
        else:
            places = [(item.name, item.index) for item in barriers_of(operation)]
            places += [(item.buffer, item.stage) for item in effects_of(operation)]
            yield from (name for name, index in places if names_of(index) & moving)


class CountedRun(Protocol):
    """A run whose rounds were counted."""

    @property
    def counter(self) -> RoundCounter:
        """The rounds of each passage."""

    @property
    def steps_between(self) -> Mapping[tuple[Lanes, int], Steps]:
        """How far registers go in the rounds that were watched."""


class ShownRun(Protocol):
    """A run that represents those with more trips: `reach` is for how many periods more it is
    shown, `why` and `site` what ends it, `disordered` that its passages are not as planned."""

    reach: int
    why: str
    site: int
    disordered: bool


class RoundRuns(Protocol):
    """A kernel with its launch, as it is run to show what further trips do, on its machine."""

    @property
    def before(self) -> int:
        """Rounds of a loop that may differ from all later ones."""

    def counted(
        self, trips: int, first: int, watched: Mapping[tuple[Lanes, int], int]
    ) -> CountedRun | str:
        """A run with its rounds counted, registers compared in those watched; or why not."""

    def shown(self, trips: int, period: int, plan: RoundPlan) -> ShownRun | str:
        """A run with rounds put in for a period of trips; or why not."""

    def line(self, site: int) -> int:
        """The line of an instruction."""


@uncollected
def further_trips(runs: RoundRuns, driver: Driver, period: int) -> FurtherTrips:
    """What is shown for a kernel; `period` is that of the rings.

    Loops that a compiler has unrolled repeat after more trips, so multiples of it are tried, too.
    """
    best: FurtherTrips | None = None
    for times in MULTIPLES:
        if period * times > PERIOD_MAX:
            break
        found = _Shower(runs, driver, period * times).shown()
        if found.first is None:
            return found
        if best is None or (best.first is not None and found.first > best.first):
            best = found
        if found.first > found.start + 2 * found.period:
            break  # it is shown for some, so the period is not at fault
    return best or FurtherTrips(0, f"its rings come round after {period} trips only")


class _Shower:
    def __init__(self, runs: RoundRuns, driver: Driver, period: int) -> None:
        self.runs = runs
        self.driver = driver
        self.period = period
        # Rounds before those that are put in, a period of these, and those at the end that look
        # ahead.
        ahead = driver.depth + 2
        self.start = max(period + runs.before + ahead, 2 * driver.depth + 1)

    def shown(self) -> FurtherTrips:
        """The least of what all the runs show."""
        plan = self._plan(self.start)
        least = FurtherTrips(None)
        for trips in range(self.start, self.start + self.period):
            found = self._from(trips, plan)
            if found.first is not None and (least.first is None or found.first < least.first):
                least = found
        return replace(least, start=self.start, period=self.period)

    def _plan(self, trips: int) -> RoundPlan | str:
        """The rounds that a period of trips adds to a run; or why there is none.

        Moves the start on where a loop makes too few rounds.
        """
        added = self._added(trips)
        if isinstance(added, str):
            return added
        first = self.runs.before + 1
        watched = {
            (lanes, number): rounds
            for lanes, passages in added.items()
            for number, (_, rounds) in enumerate(passages)
            if rounds
        }
        counted = self.runs.counted(max(trips, self.start), first, watched)
        if isinstance(counted, str):
            return counted
        return RoundPlan(added, first, counted.steps_between)

    def _added(self, trips: int) -> dict[Lanes, list[tuple[int, int]]] | str:
        """Rounds that a period of trips adds to each passage of a loop."""
        for _ in range(ATTEMPTS):
            fewer = self.runs.counted(trips, 0, {})
            more = self.runs.counted(trips + self.period, 0, {})
            if isinstance(fewer, str) or isinstance(more, str):
                return fewer if isinstance(fewer, str) else str(more)
            added = added_rounds(fewer.counter, more.counter)
            if added is None:
                return "loops are passed in another order with more trips"
            short = 0
            for _, visits, rounds in (row for passages in added.values() for row in passages):
                lacking = self.runs.before + 1 + rounds - visits
                if rounds > 0 and lacking > 0:
                    short = max(short, -(-lacking * self.period // rounds))
            if not short:
                return {
                    lanes: [(head, rounds) for head, _, rounds in passages]
                    for lanes, passages in added.items()
                }
            trips += short
            self.start = max(self.start, trips)
        return "a loop makes too few rounds to decide it"

    def _from(self, trips: int, plan: RoundPlan | str) -> FurtherTrips:
        """What the run of a number of trips shows, by the plan of another or by its own."""
        found = self._run(trips, plan)
        if not isinstance(found, str) and found.disordered:
            found = self._run(trips, self._plan(trips))
        if isinstance(found, str):
            return FurtherTrips(trips, found)
        first = trips + (found.reach + 1) * self.period
        if not self.driver.counts(first):
            return FurtherTrips(None)
        line = self.runs.line(found.site) if found.site >= 0 else 0
        return FurtherTrips(first, found.why, line)

    def _run(self, trips: int, plan: RoundPlan | str) -> ShownRun | str:
        return plan if isinstance(plan, str) else self.runs.shown(trips, self.period, plan)
