"""Any number of trips of compiled code: lifted from launches, verified as a kernel file.

The file is equal to the launches that were compared, and that the code goes on for further trips as
it does for those is shown by induction over rounds (`further_trips.py`). Where it is not, the first
trip count of which it is not shown is launched; unless that is refuted, it is undecided.
What is refuted through the lifted file counts only after the launch with that number of trips is
refuted itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from titan.foundation.verdict import Reason, Verdict
from titan.frontends.lift.further_trips import FurtherTrips, period_of
from titan.frontends.lift.launched import LaunchedCode
from titan.frontends.lift.launches import ClusterLift, judged, lift_cluster
from titan.frontends.lift.lifted import LiftedKernel, numbers_text
from titan.frontends.ptx.rows import of_cta, row_drivers
from titan.frontends.ptx.sweep import Driver, ParameterWord, drivers_of
from titan.frontends.ptx.trial import Trial
from titan.verify.model import EngineReport, Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

TRIPS_MAX = 4096  # of a launch that is made to confirm a counterexample


@dataclass(slots=True)
class AnyNumber:
    """What was found out. `parameters` hold for any number of trips from the minimum upwards.

    `missing` are parameters that do not, each with the reason.
    """

    trials: list[Trial] = field(default_factory=list)
    parameters: list[tuple[str, int]] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    engines: list[EngineReport] = field(default_factory=list)
    reason: Reason = Reason.UNSUPPORTED

    @property
    def refuted(self) -> bool:
        """Whether a launch is refuted."""
        return any(trial.verdict is Verdict.REFUTED for trial in self.trials)


def any_number(launched: LaunchedCode, ctas: Sequence[int], options: VerifyOptions) -> AnyNumber:
    """All integers that drive loops, one after the other; the others stay as given."""
    found = AnyNumber()
    options = replace(options, reviews_fences=False)  # of the lifted file nobody sees the lines
    drivers, notes, unknown = drivers_of(launched.runner, launched.function, launched.launch)
    found.notes += [note.replace("nothing is swept", "nothing is lifted") for note in notes]
    found.missing += [("trips", text) for text in unknown]
    line = launched.first_loop()
    if not drivers and not unknown:
        drivers, more = _rows(launched, ctas)
        found.notes = more or found.notes
    if not drivers and not unknown and line is not None:
        text = f"no parameter was found that drives the loops (the first ends in line {line})"
        found.missing.append(("trips", text))
    for driver in drivers:
        lacking = len(found.missing)
        _drive(found, launched, driver, ctas, options)
        alone = driver.row is None and any(ctas)  # the first one has work in every grid
        if len(found.missing) > lacking and alone and not found.refuted:
            _drive_with_grid(found, launched, driver, ctas, options)
        if found.refuted:
            break
    return found


def _rows(
    launched: LaunchedCode, ctas: Sequence[int], along: Sequence[ParameterWord] = ()
) -> tuple[list[Driver], list[str]]:
    """How the grid may go along, with a note."""
    if not launched.grid_grows:
        return [], []
    return row_drivers(launched.runner, launched.function, launched.launch, ctas, along)


def _drive_with_grid(
    found: AnyNumber,
    launched: LaunchedCode,
    driver: Driver,
    ctas: Sequence[int],
    options: VerifyOptions,
) -> None:
    """An integer that does not go alone, since a CTA has work only in a grid that fits it."""
    drivers, notes = _rows(launched, ctas, driver.words)
    other = AnyNumber(notes=notes)
    for one in drivers:
        _drive(other, launched, one, ctas, options)
    if other.refuted or (other.parameters and not other.missing):
        found.trials += other.trials
        found.parameters += other.parameters
        found.engines += other.engines
        found.notes += other.notes
        found.missing.pop()


def _drive(
    found: AnyNumber,
    launched: LaunchedCode,
    driver: Driver,
    ctas: Sequence[int],
    options: VerifyOptions,
) -> None:
    """One driver: each CTA is lifted, and each kernel that comes of it verified once."""
    verified: dict[str, Finding] = {}
    fewest = least = driver.fewest
    kernels: list[LiftedKernel] = []
    shown: list[FurtherTrips | None] = []
    more = range(0)  # CTAs are alike in most kernels, so one of them says what the others need
    places = [(cta, own) for cta in ctas for own in of_cta(driver, launched.launch, cta)]
    for cta, own in places:
        fewest = max(fewest, own.fewest)
        lift = lift_cluster(launched, own, cta, more)
        further = None
        if lift.lifted is not None and not any(_is_refuted(trial) for trial in lift.trials):
            further = launched.further_trips(own, cta, period_of(lift.lifted))
            wanted = range(own.fewest, 0 if further is None else further.launched)
            if not lift.launched.issuperset(wanted):
                more = wanted
                lift = lift_cluster(launched, own, cta, more)
            shown.append(further)
        found.trials += lift.trials
        if found.refuted:
            return
        if lift.lifted is None:
            found.missing.append((str(driver), lift.reason))
            return
        reason = _unshown(found, launched, lift, further)
        if found.refuted:
            return
        if reason:
            found.missing.append((str(driver), reason))
            return
        least = max(least, lift.lifted.minimum)
        statements = lift.lifted.statements
        if statements not in verified:
            kernels.append(lift.lifted)
            verified[statements] = verify_kernel(lift.lifted.kernel, options)
            reason = _unverified(found, launched, lift, verified[statements])
            if found.refuted:
                return
            if reason:
                found.missing.append((str(driver), reason))
                return
    for finding in verified.values():
        found.engines += finding.engines
    # Fewer trips than the least of the lifted file were launched one by one, from the fewest on.
    found.parameters.append((f"number of trips ({driver} = {driver.unit} a trip)", fewest))
    found.notes.append(_lift_note(driver, kernels, least, shown))


def _is_refuted(trial: Trial) -> bool:
    return trial.verdict is Verdict.REFUTED


def _unshown(
    found: AnyNumber, launched: LaunchedCode, lift: ClusterLift, shown: FurtherTrips | None
) -> str:
    """Why not all further trips are those of the lifted file; nothing if they are, or are taken to
    be so.

    The launch of the first that may be others is judged.
    """
    if shown is not None and shown.first is None:
        return ""
    assumed = launched.policies.further_trips == "assumed"
    if shown is None:
        return "" if assumed else "that further trips do the same is not shown"
    if shown.first is not None and shown.first <= TRIPS_MAX:
        trial = judged(launched, lift.driver, lift.cta, shown.first)
        if trial is not None:
            found.trials.append(trial)
    where = f" (line {shown.line})" if shown.line else ""
    text = f"with {shown.first} trips and more it may do something else: {shown.why}{where}"
    return "" if assumed else text


def _unverified(
    found: AnyNumber, launched: LaunchedCode, lift: ClusterLift, finding: Finding
) -> str:
    """Why the lifted kernel is not verified for any number; nothing if it is.

    A refutation is confirmed by the launch that it names, which is then refuted by itself.
    """
    covered = all(values is None for _, values in finding.coverage.parameters)
    if finding.verdict is Verdict.VERIFIED and covered:
        return ""
    if finding.verdict is not Verdict.REFUTED:
        remarks = [item.remark for item in finding.engines if item.remark]
        reasons = [item.reason for item in finding.engines if item.reason is not None]
        found.reason = reasons[0] if reasons else Reason.UNSUPPORTED
        return f"the lifted kernel is undecided: {(remarks or ['no engine decides it'])[0]}"
    sizes = dict(finding.trace.parameters) if finding.trace is not None else {}
    trips = next(iter(sizes.values()), None)
    if not isinstance(trips, int) or trips > TRIPS_MAX:
        return "the lifted kernel is refuted, and no launch was made of it"
    trial = judged(launched, lift.driver, lift.cta, trips)
    if trial is not None:
        found.trials.append(trial)
        if trial.verdict is Verdict.REFUTED:
            return ""
    return f"the lifted kernel is refuted with {trips} trips, and that launch is not"


def _lift_note(
    driver: Driver,
    kernels: Sequence[LiftedKernel],
    least: int,
    shown: Sequence[FurtherTrips | None],
) -> str:
    lifted = kernels[0]  # all are of the same trip counts
    used, compared = numbers_text(lifted.used), numbers_text(lifted.compared)
    periods = [item.period for item in shown if item is not None and item.first is None]
    further = "assumed to continue so beyond them"
    if len(periods) == len(shown):
        trips = f"{max(periods)} trips"
        further = f"shown to continue so for all further ones by induction over {trips}"
    text = (
        f"lifted along {driver}: loops folded from launches of {used} trips, unfolded again "
        f"and equal to those of {compared} trips; {further}; for whole multiples of {driver.unit}"
    )
    if least > driver.fewest:
        alone = numbers_text(range(driver.fewest, least))
        text += f"; {alone} trips only by their launches"
    if any(item.barrier_bytes for item in kernels):
        text += "; reuse of the bytes of a barrier as data: only by the launches"
    if any(item.outputs_left_out for item in kernels):
        text += (
            "; global memory that one operation alone touches is not in the file: that further "
            "trips store to other bytes is assumed"
        )
    apart = f"; {len(kernels)} CTAs differ and were verified apart" if len(kernels) > 1 else ""
    return text + apart
