"""A kernel of AMD assembly with its launch, as lifting calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code import AssemblyCode, WaveRunner
from titan.frontends.gcn.faults import missing_argument, wave_faults
from titan.frontends.gcn.record import record_waves_together
from titan.frontends.gcn.scalar_cache import stale_scalar_load
from titan.frontends.lift.further_trips import FurtherTrips, further_trips
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording
from titan.frontends.ptx.remarks import STALE_STAGE, UNSETTLED, UNWRITTEN, UNWRITTEN_REGISTER
from titan.frontends.ptx.sweep import Driver
from titan.frontends.ptx.trial import Trial, judge_recording
from titan.frontends.ptx.unwritten import certain_uses, perhaps_used
from titan.isa.gcn.loops import first_loop
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run
from titan.isa.waves.events import IN_TURN, OperationIssued
from titan.isa.waves.stale_reads import stale_lds_reads
from titan.isa.waves.unwritten_reads import unwritten_lds_reads

STALE = (
    "a scalar load reads bytes that a wave has stored, and no s_dcache_inv behind the store is in "
    "front of it"
)


def judge_waves(
    runs: Sequence[Run],
    where: Sequence[tuple[str, str]],
    code: AssemblyCode,
    places: CodePlaces,
    policies: CodePolicies,
) -> list[tuple[LaunchRecording, Trial]]:
    """The recordings of runs of one work-group over one set of regions, and their judgements.

    `where`: the labels and the work-groups of the trials.
    """
    name, target = code.kernel.name, code.assembly.target
    recordings = record_waves_together(runs, name, target, places.span, policies)
    return [
        (recording, _judged(run, recording, label, code, places, policies))
        for run, recording, label in zip(runs, recordings, where, strict=True)
    ]


def _judged(
    run: Run,
    recording: LaunchRecording,
    where: tuple[str, str],
    code: AssemblyCode,
    places: CodePlaces,
    policies: CodePolicies,
) -> Trial:
    faults = wave_faults(run, places, policies)
    trial = judge_recording(run, recording, where, places, policies, faults)
    if trial.verdict is not Verdict.VERIFIED:
        return trial
    stale = stale_scalar_load(run)
    if stale is not None:
        return _undecided(trial, STALE, stale, places)
    again = stale_lds_reads(run) if policies.stale_reads == "refuse" else ()
    if again:
        return _undecided(trial, STALE_STAGE, again[0], places)
    loose = _unsettled(run, code, places, policies) if policies.unsettled == "refuse" else None
    if loose is not None:
        return _undecided(trial, UNSETTLED, loose, places)
    if policies.unwritten_reads == "refuse":
        return _judged_unwritten(run, trial, code, places)
    return trial


def _judged_unwritten(run: Run, trial: Trial, code: AssemblyCode, places: CodePlaces) -> Trial:
    """What becomes of what nothing has written: refuted where the run uses a register whatever
    other data are, undecided where it may use something."""
    found = unwritten_lds_reads(run)
    if not found and not run.reads_unwritten:
        return trial
    from titan.isa.waves.undefined import undefined_uses  # needs NumPy

    uses = undefined_uses(code.assembly, code.kernel, run)
    if uses is None:
        why = UNWRITTEN if found else UNWRITTEN_REGISTER
        return _undecided(trial, why, found[0] if found else 0, places)
    used = replace(
        run, unwritten=tuple(sorted(uses.reads)), unwritten_registers=uses.registers
    )  # fmt: skip
    certain = certain_uses(used, places)
    if certain:
        return replace(trial, verdict=Verdict.REFUTED, diagnostics=tuple(certain))
    for why, instruction in perhaps_used(used):
        return _undecided(trial, why, instruction, places)
    return trial


def _unsettled(
    run: Run, code: AssemblyCode, places: CodePlaces, policies: CodePolicies
) -> int | None:
    """An atomic that may find, or leave, something else in another interleaving."""
    found = [
        (event.instruction, use)
        for event in run.events
        if isinstance(event, OperationIssued)
        for use in event.uses
        if use.atomic
    ]
    words = {use.word for _, use in found}
    if IN_TURN in words:
        return next(instruction for instruction, use in found if use.word == IN_TURN)
    if not found or (len(words) == 1 and "" not in words):
        return None
    name, target = code.kernel.name, code.assembly.target
    (recording,) = record_waves_together([run], name, target, places.span, policies, True)
    judged = judge_recording(run, recording, ("", ""), places, policies, [])
    return None if judged.verdict is Verdict.VERIFIED else found[0][0]


def _undecided(trial: Trial, why: str, instruction: int, places: CodePlaces) -> Trial:
    place = f"line {places.span(instruction).start_line}"
    return replace(trial, verdict=Verdict.UNDECIDED, reason=f"{why} ({place})")


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

    @property
    def grid_grows(self) -> bool:
        """Registers of the grid are not followed."""
        return False

    def missing(self, run: Run) -> Diagnostic | None:
        """The question for an argument that a run depends on and the launch does not give."""
        return missing_argument(run, self.code, self.places)

    def judged_together(
        self, runs: Sequence[Run], where: Sequence[tuple[str, str]]
    ) -> list[tuple[LaunchRecording, Trial]]:
        """The recordings of runs of one work-group, and their judgements."""
        return judge_waves(runs, where, self.code, self.places, self.policies)

    def first_loop(self) -> int | None:
        """The line of the branch that closes the first loop."""
        return first_loop(self.code.assembly, self.code.kernel)

    def further_trips(self, driver: Driver, cta: int, period: int) -> FurtherTrips:
        """Up to which number of trips it is shown to go on as in launches."""
        from titan.frontends.gcn.wave_rounds import WaveRounds  # needs NumPy

        return further_trips(WaveRounds(self.runner, self.launch, driver, cta), driver, period)
