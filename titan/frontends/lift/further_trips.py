"""Up to which number of trips the code does what the lifted file says, beyond those compared.

The lifted file is equal to launches of N, ..., N + P - 1 trips, P a multiple of twice the stages of
every ring. For each of them, a run shows (`titan/isa/simt/further_rounds.py`) that k * P more trips
put k times the same rounds into its loops, and change nothing else. In the file they do: its loops
make a fixed number of rounds for each trip, and P rounds further on an operation names the same
stages, and phases that are a fixed number later. So the two are equal for all k up to which that
is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from titan.foundation.collector import uncollected
from titan.frontends.lift.fold import TRIPS
from titan.frontends.lift.lifted import LiftedKernel
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.sweep import Driver
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.further_rounds import FurtherRounds, RoundPlan, TripWord
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.outcome import Ending
from titan.isa.simt.rounds import CountedExecution, Lanes
from titan.isa.simt.run import prepare
from titan.sync import program as ir
from titan.sync.expression import names_of
from titan.sync.parts import barriers_of, effects_of

BEFORE = 1  # rounds of a loop that may differ from all later ones
PERIOD_MAX = 64
MULTIPLES = (1, 2, 4)
ATTEMPTS = 3
VALUE_BITS = 31  # of the integer that counts the trips: signed ones are common


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
    def trips(self) -> range:
        """The trip counts of the runs, and one a period further: how much that adds is compared."""
        return range(self.start, self.start + self.period + 1)


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


def first_trips(depth: int, period: int) -> int:
    """The least trip count that is run: rounds before those that are put in, a period of these,
    and those at the end that look ahead."""
    return max(period + BEFORE + depth + 2, 2 * depth + 1)


@uncollected
def further_trips(
    code: CodeKernel, launch: Launch, driver: Driver, cta: int, period: int, steps_max: int
) -> FurtherTrips:
    """What is shown for the cluster of a CTA; `period` is that of the rings.

    Loops that a compiler has unrolled repeat after more trips, so multiples of it are tried, too.
    """
    best: FurtherTrips | None = None
    for times in MULTIPLES:
        if period * times > PERIOD_MAX:
            break
        found = _Shower(code, launch, driver, cta, period * times, steps_max).shown()
        if found.first is None:
            return found
        if best is None or (best.first is not None and found.first > best.first):
            best = found
        if found.first > found.start + 2 * found.period:
            break  # it is shown for some, so the period is not at fault
    return best or FurtherTrips(0, f"its rings come round after {period} trips only")


class _Shower:
    def __init__(
        self, code: CodeKernel, launch: Launch, driver: Driver, cta: int, period: int,
        steps_max: int,
    ) -> None:  # fmt: skip
        self.code = code
        self.given = launch
        self.driver = driver
        self.period = period
        self.start = first_trips(driver.depth, period)
        self.options = Options(launch.cluster_members(cta), 0, steps_max, first_poll_fails=True)

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
        first = BEFORE + 1
        watched = {
            (lanes, number): rounds
            for lanes, passages in added.items()
            for number, (_, rounds) in enumerate(passages)
            if rounds
        }
        counted = self._counted(max(trips, self.start), first, watched)
        if isinstance(counted, str):
            return counted
        return RoundPlan(added, first, counted.steps_between)

    def _counted(
        self, trips: int, first: int, watched: dict[tuple[Lanes, int], int]
    ) -> CountedExecution | str:
        launch = self.driver.launch(self.given, trips)
        ready, findings = prepare(self.code.module, launch, self.options, self.code.source)
        if ready is None:
            return findings[0].headline
        code, layout, places = ready
        machine = CountedExecution(code, layout, launch, self.options, first, watched)
        return machine if _ended(machine, places) else f"with {trips} trips the run does not end"

    def _added(self, trips: int) -> dict[Lanes, list[tuple[int, int]]] | str:
        """Rounds that a period of trips adds to each passage of a loop."""
        for _ in range(ATTEMPTS):
            fewer = self._counted(trips, 0, {})
            more = self._counted(trips + self.period, 0, {})
            if isinstance(fewer, str) or isinstance(more, str):
                return fewer if isinstance(fewer, str) else str(more)
            one, other = fewer.counter.counts(), more.counter.counts()
            found: dict[Lanes, list[tuple[int, int]]] = {}
            short = 0
            for lanes in {*one, *other}:
                passages, longer = one.get(lanes, []), other.get(lanes, [])
                if [head for head, _ in passages] != [head for head, _ in longer]:
                    return "loops are passed in another order with more trips"
                found[lanes] = []
                for (head, visits), (_, again) in zip(passages, longer, strict=True):
                    rounds = again - visits
                    found[lanes].append((head, rounds))
                    lacking = BEFORE + 1 + rounds - visits
                    if rounds > 0 and lacking > 0:
                        short = max(short, -(-lacking * self.period // rounds))
            if not short:
                return found
            trips += short
            self.start = max(self.start, trips)
        return "a loop makes too few rounds to decide it"

    def _from(self, trips: int, plan: RoundPlan | str) -> FurtherTrips:
        """What the run of a number of trips shows, by the plan of another or by its own."""
        found = self._run(trips, plan)
        if isinstance(found, FurtherRounds) and found.disordered:
            found = self._run(trips, self._plan(trips))
        if isinstance(found, str):
            return FurtherTrips(trips, found)
        first = trips + (found.reach + 1) * self.period
        if first * self.driver.unit >= 1 << VALUE_BITS:
            return FurtherTrips(None)
        line = self.code.module.instructions[found.site].line if found.site >= 0 else 0
        return FurtherTrips(first, found.why, line)

    def _run(self, trips: int, plan: RoundPlan | str) -> FurtherRounds | str:
        if isinstance(plan, str):
            return plan
        driver = self.driver
        launch = driver.launch(self.given, trips)
        ready, findings = prepare(self.code.module, launch, self.options, self.code.source)
        if ready is None:
            return findings[0].headline
        code, layout, places = ready
        word = driver.place
        offset = places[word.number][0] + word.offset
        counts = TripWord(offset, word.size_bytes, driver.unit * self.period)
        machine = FurtherRounds(code, layout, launch, self.options, counts, plan)
        if not _ended(machine, places):
            return f"with {trips} trips the run does not end"
        machine.finish_rounds()
        return machine


def _ended(machine: SimtExecution, places: list[tuple[int, int]]) -> bool:
    """Runs it; whether it came to its end."""
    machine.load_parameters(places)
    return machine.run().outcome.ending is Ending.FINISHED
