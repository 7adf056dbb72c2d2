"""A kernel of AMD assembly with its launch, as lifting calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.foundation.diagnostics.model import Diagnostic
from titan.frontends.gcn.code import AssemblyCode, WaveRunner
from titan.frontends.gcn.faults import missing_argument, wave_faults
from titan.frontends.gcn.record import record_waves_together
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording
from titan.frontends.ptx.trial import Trial, judge_recording
from titan.isa.gcn.loops import first_loop
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run


@dataclass(frozen=True, slots=True)
class LaunchedWaves:
    """A kernel with its launch as given, and how its runs are judged."""

    code: AssemblyCode
    launch: Launch
    places: CodePlaces
    policies: CodePolicies
    runner: WaveRunner

    @property
    def function(self) -> Function:
        """The kernel as launch descriptions see it."""
        return self.code.function

    @property
    def target(self) -> str:
        """The target that the text names."""
        return self.code.assembly.target

    def cta_text(self, cta: int) -> str:
        """`(0, 2, 0)`."""
        return f"({', '.join(map(str, self.launch.coordinates(cta)))})"

    def missing(self, run: Run) -> Diagnostic | None:
        """The question for an argument that a run depends on and the launch does not give."""
        return missing_argument(run, self.code, self.places)

    def judged_together(
        self, runs: Sequence[Run], where: Sequence[tuple[str, str]]
    ) -> list[tuple[LaunchRecording, Trial]]:
        """The recordings of runs of one work-group over one set of regions, and their judgements.

        Raises UserError where NumPy is missing.
        """
        places, policies = self.places, self.policies
        recordings = record_waves_together(
            runs, self.code.kernel.name, self.target, places.span, policies
        )
        return [
            (
                recording,
                judge_recording(
                    run, recording, label, places, policies, wave_faults(run, places, policies)
                ),
            )
            for run, recording, label in zip(runs, recordings, where, strict=True)
        ]

    def first_loop(self) -> int | None:
        """The line of the branch that closes the first loop."""
        return first_loop(self.code.assembly, self.code.kernel)
