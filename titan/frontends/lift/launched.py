"""A kernel of code with its launch, as lifting calls it: to run it, and to judge its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from titan.foundation.diagnostics.model import Diagnostic
from titan.frontends.lift.code_loops import first_loop
from titan.frontends.lift.further_trips import FurtherTrips, further_trips
from titan.frontends.lift.warp_rounds import WarpRounds
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.machine import LaunchRunner, Runner
from titan.frontends.ptx.missing import missing_value
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording
from titan.frontends.ptx.sweep import Driver
from titan.frontends.ptx.trial import Trial, judge_together
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run


class LaunchedCode(Protocol):
    """A kernel with its launch as given, of PTX or of other code."""

    @property
    def launch(self) -> Launch:
        """The launch as given."""

    @property
    def places(self) -> CodePlaces:
        """The places of its instructions."""

    @property
    def policies(self) -> CodePolicies:
        """How its runs are judged."""

    @property
    def function(self) -> Function:
        """The kernel as launch descriptions see it."""

    @property
    def target(self) -> str:
        """The target that the text names; empty where it names none."""

    @property
    def runner(self) -> LaunchRunner:
        """The machine."""

    @property
    def grid_grows(self) -> bool:
        """Whether it can be shown what a CTA does whose place goes along with the grid."""

    def missing(self, run: Run) -> Diagnostic | None:
        """What a run depends on and the launch does not give."""

    def judged_together(
        self, runs: Sequence[Run], where: Sequence[tuple[str, str]]
    ) -> list[tuple[LaunchRecording, Trial]]:
        """The recordings of runs over one set of regions, and their judgements."""

    def first_loop(self) -> int | None:
        """The line of the first loop that does more than wait; None: there is none."""

    def further_trips(self, driver: Driver, cta: int, period: int) -> FurtherTrips:
        """Up to which number of trips it is shown to go on as in launches, for rings that come
        round in a period of trips."""


@dataclass(frozen=True, slots=True)
class LaunchedPtx:
    """A kernel of PTX with its launch as given, and how its runs are judged."""

    code: CodeKernel
    launch: Launch
    places: CodePlaces
    policies: CodePolicies
    steps_max: int

    @property
    def function(self) -> Function:
        """The kernel."""
        return self.code.function

    @property
    def target(self) -> str:
        """The target that the module names."""
        return self.code.target

    @property
    def grid_grows(self) -> bool:
        """The machine follows the registers of the grid."""
        return True

    @property
    def runner(self) -> Runner:
        """The machine."""
        return Runner(self.code.module, self.code.source, self.steps_max)

    def missing(self, run: Run) -> Diagnostic | None:
        """What a run depends on and the launch does not give."""
        return missing_value(run, self.code.function, self.places)

    def judged_together(
        self, runs: Sequence[Run], where: Sequence[tuple[str, str]]
    ) -> list[tuple[LaunchRecording, Trial]]:
        """The recordings of runs of one cluster, and their judgements."""
        name, registers = self.code.function.name, self.code.registers
        return judge_together(runs, where, name, self.places, self.policies, registers)

    def first_loop(self) -> int | None:
        """The line of the first loop of the text that does more than wait."""
        return first_loop(self.code.module, self.code.function)

    def further_trips(self, driver: Driver, cta: int, period: int) -> FurtherTrips:
        """Up to which number of trips it is shown to go on as in launches."""
        runs = WarpRounds(self.code, self.launch, driver, cta, self.steps_max)
        return further_trips(runs, driver, period)
