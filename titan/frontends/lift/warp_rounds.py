"""Runs of PTX, made to show what further trips do (`further_trips.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.sweep import Driver
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.further_rounds import FurtherRounds
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.outcome import Ending
from titan.isa.simt.passages import Lanes, RoundPlan, TripGrid, TripWord
from titan.isa.simt.rounds import CountedExecution
from titan.isa.simt.run import prepare


@dataclass(frozen=True, slots=True)
class WarpRounds:
    """The cluster of CTA `cta`, launched with other trip counts."""

    code: CodeKernel
    given: Launch
    driver: Driver
    cta: int
    steps_max: int
    before: int = 1

    def _launched(self, trips: int) -> tuple[Launch, Options]:
        launch = self.driver.launch(self.given, trips)
        members = launch.cluster_members(self.driver.cta(self.given, self.cta, trips))
        return launch, Options(members, 0, self.steps_max, first_poll_fails=True)

    def counted(
        self, trips: int, first: int, watched: Mapping[tuple[Lanes, int], int]
    ) -> CountedExecution | str:
        """A run with its rounds counted."""
        launch, options = self._launched(trips)
        ready, findings = prepare(self.code.module, launch, options, self.code.source)
        if ready is None:
            return findings[0].headline
        code, layout, places = ready
        machine = CountedExecution(code, layout, launch, options, first, watched)
        return machine if _ended(machine, places) else _unended(trips)

    def shown(self, trips: int, period: int, plan: RoundPlan) -> FurtherRounds | str:
        """A run with rounds put in."""
        launch, options = self._launched(trips)
        ready, findings = prepare(self.code.module, launch, options, self.code.source)
        if ready is None:
            return findings[0].headline
        code, layout, places = ready
        slope, row = self.driver.unit * period, self.driver.row
        counts = [
            TripWord(places[word.number][0] + word.offset, word.size_bytes, slope)
            for word in self.driver.words
        ]
        grid = TripGrid(row.axis, row.extent * period, row.step * period) if row else None
        machine = FurtherRounds(code, layout, launch, options, counts, plan, grid)
        if not _ended(machine, places):
            return _unended(trips)
        machine.finish_rounds()
        return machine

    def line(self, site: int) -> int:
        """The line of an instruction."""
        return self.code.module.instructions[site].line


def _ended(machine: SimtExecution, places: list[tuple[int, int]]) -> bool:
    """Runs it; whether it came to its end."""
    machine.load_parameters(places)
    return machine.run().outcome.ending is Ending.FINISHED


def _unended(trips: int) -> str:
    return f"with {trips} trips the run does not end"
