"""Runs of AMD assembly, made to show what further trips do (`lift/further_trips.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from titan.frontends.gcn.code import WaveRunner
from titan.frontends.ptx.sweep import Driver
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Ending
from titan.isa.simt.passages import Lanes, RoundPlan, TripWord
from titan.isa.waves.further_rounds import FurtherWaves
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.rounds import CountedWaves, FollowedKernel


@dataclass(slots=True)
class WaveRounds:
    """Work-group `cta`, launched with other trip counts.

    `before`: rounds in front of those that are put in; waits look back on as many stages.
    """

    runner: WaveRunner
    given: Launch
    driver: Driver
    cta: int
    text: FollowedKernel = field(init=False)

    def __post_init__(self) -> None:
        code = self.runner.code
        self.text = FollowedKernel(code.assembly, code.kernel)

    @property
    def before(self) -> int:
        """Rounds of a loop that may differ from all later ones."""
        return self.driver.depth + 1

    def _machine(self, trips: int) -> WaveMachine:
        code, runner = self.runner.code, self.runner
        launch = self.driver.launch(self.given, trips)
        machine = WaveMachine(
            code.assembly, code.kernel, launch, self.cta, runner.steps_max, runner.close
        )
        machine.group.stalls = runner.stalls
        return machine

    def counted(
        self, trips: int, first: int, watched: Mapping[tuple[Lanes, int], int]
    ) -> CountedWaves | str:
        """A run with its rounds counted."""
        machine = self._machine(trips)
        follower = CountedWaves(self.text, self.cta, first, watched)
        machine.follower = follower
        return follower if _ended(machine) else _unended(trips)

    def shown(self, trips: int, period: int, plan: RoundPlan) -> FurtherWaves | str:
        """A run with rounds put in."""
        machine, (word,) = self._machine(trips), self.driver.words
        argument = self.runner.code.function.parameters[word.number]
        offset = (argument.offset or 0) + word.offset
        counts = TripWord(offset, word.size_bytes, self.driver.unit * period)
        follower = FurtherWaves(machine, self.text, counts, plan)
        machine.follower = follower
        if not _ended(machine):
            return _unended(trips)
        follower.finish_rounds()
        return follower

    def line(self, site: int) -> int:
        """The line of an instruction."""
        return self.runner.code.assembly.instructions[site].line


def _ended(machine: WaveMachine) -> bool:
    return machine.run().outcome.ending is Ending.FINISHED


def _unended(trips: int) -> str:
    return f"with {trips} trips the run does not end"
