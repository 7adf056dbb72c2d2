"""One cluster launched with several trip counts: each run judged, all of them lifted together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.source.span import Span
from titan.foundation.verdict import Verdict
from titan.frontends.lift.fold import Recorded
from titan.frontends.lift.kernel_text import Heading, NotWritableError
from titan.frontends.lift.launched import LaunchedCode
from titan.frontends.lift.lifted import LiftedKernel, LineOf, lift_recordings, write_launch
from titan.frontends.lift.names import identifier
from titan.frontends.lift.segments import NotFoldedError
from titan.frontends.ptx.names import short_name
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.sweep import Driver
from titan.frontends.ptx.trial import Trial
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Ending, Run

DEPTH_MIN = 2
NAME_MAX = 48
PEEKED = (
    "a test of a barrier sees the phase that is meant by what other warps have waited for, which a "
    "kernel file does not say"
)
FAMILIES = {"sm_90": "sm_90a", "sm_100": "sm_100a", "sm_103": "sm_103a"}


@dataclass(frozen=True, slots=True)
class ClusterLift:
    """What came of one cluster: the judgements on its runs, and its kernel file or why not.

    `launched`: the trip counts of its launches.
    """

    driver: Driver
    cta: int
    trials: tuple[Trial, ...]
    lifted: LiftedKernel | None
    reason: str = ""
    launched: frozenset[int] = frozenset()


def trips_used(driver: Driver) -> list[int]:
    """The trip counts that a kernel is folded from: each stage of each ring is last in one."""
    depth = max(DEPTH_MIN, driver.depth)
    return list(range(2 * depth + 1, 3 * depth + 3))


def trips_compared(driver: Driver) -> list[int]:
    """Those that it is compared with: all up to beyond the depth, and two long ones."""
    depth = max(DEPTH_MIN, driver.depth)
    wanted = {*range(driver.fewest, depth + 2), 2 * depth, 4 * depth + 3, driver.given}
    return sorted(wanted - set(trips_used(driver)))


def lift_cluster(
    launched: LaunchedCode, driver: Driver, cta: int, more: Iterable[int] = ()
) -> ClusterLift:
    """The cluster of CTA `cta`, launched with all those trip counts, and `more`: those from which
    further ones are shown (`further_trips.py`)."""
    used = trips_used(driver)
    compared = sorted({*trips_compared(driver), *more} - set(used))
    runs: dict[int, Run] = {}
    for trips in sorted({*used, *compared}):
        run, errors = _run(launched, driver, cta, trips)
        reason = _unfit(launched, run, errors, trips)
        if run is None or reason:
            return _unlifted(launched, driver, cta, runs, reason)
        runs[trips] = run
    return _lifted(launched, driver, cta, runs, used)


def judged(launched: LaunchedCode, driver: Driver, cta: int, trips: int) -> Trial | None:
    """The judgement on one more launch; None where it does not run."""
    run, _ = _run(launched, driver, cta, trips)
    if run is None:
        return None
    ((_, trial),) = launched.judged_together([run], [_where(launched, driver, cta, trips)])
    return replace(trial, made=(*_made(launched, driver, cta, trips), 0))


def _made(launched: LaunchedCode, driver: Driver, cta: int, trips: int) -> tuple[Launch, int]:
    """The launch with so many trips, and the CTA of it in the place of the one given."""
    return driver.launch(launched.launch, trips), driver.cta(launched.launch, cta, trips)


def _run(
    launched: LaunchedCode, driver: Driver, cta: int, trips: int
) -> tuple[Run | None, list[Diagnostic]]:
    return launched.runner.run(*_made(launched, driver, cta, trips))


def _where(launched: LaunchedCode, driver: Driver, cta: int, trips: int) -> tuple[str, str]:
    """The label of a launch and the place of its CTA."""
    return driver.label(trips), cta_text(*_made(launched, driver, cta, trips))


def cta_text(launch: Launch, cta: int) -> str:
    """`(0, 2, 0)`."""
    return f"({', '.join(map(str, launch.coordinates(cta)))})"


def _unfit(launched: LaunchedCode, run: Run | None, errors: list[Diagnostic], trips: int) -> str:
    """Why a run is not a part of a family; nothing if it ended by itself."""
    if run is None:
        return f"with {trips} trips it does not run: {errors[0].headline}"
    missing = launched.missing(run)
    if missing is not None:
        return f"with {trips} trips {missing.headline}"
    if run.outcome.ending not in (Ending.FINISHED, Ending.HUNG):
        return f"with {trips} trips the run does not end: {run.outcome.reason}"
    return ""


def _unlifted(
    launched: LaunchedCode, driver: Driver, cta: int, runs: dict[int, Run], reason: str
) -> ClusterLift:
    """The runs so far are judged one by one."""
    trials = [judged(launched, driver, cta, trips) for trips in runs]
    return ClusterLift(driver, cta, tuple(item for item in trials if item), None, reason)


def _lifted(
    launched: LaunchedCode, driver: Driver, cta: int, runs: dict[int, Run], used: list[int]
) -> ClusterLift:
    where = [_where(launched, driver, cta, trips) for trips in runs]
    found = launched.judged_together(list(runs.values()), where)
    recordings = [item for item, _ in found]
    trials = [
        replace(item, made=(*_made(launched, driver, cta, trips), 0))
        for trips, (_, item) in zip(runs, found, strict=True)
    ]
    unsure = next((item for item in trials if item.verdict is Verdict.UNDECIDED), None)
    if unsure is not None:
        reason = f"{unsure.label} is undecided: {unsure.reason}"
        return ClusterLift(driver, cta, tuple(trials), None, reason)
    if any(peek.phase > 0 for recording in recordings for peek in recording.peeks):
        return ClusterLift(driver, cta, tuple(trials), None, PEEKED)
    programs = [
        Recorded(trips, recording.program)
        for trips, recording in zip(runs, recordings, strict=True)
    ]
    try:
        heading = heading_of(launched, driver, cta)
        lifted = lift_recordings(programs, used, heading, line_text(launched.places))
    except (NotFoldedError, NotWritableError) as error:
        return ClusterLift(driver, cta, tuple(trials), None, str(error))
    return ClusterLift(driver, cta, tuple(trials), lifted, launched=frozenset(runs))


def write_given(launched: LaunchedCode, cta: int) -> tuple[LiftedKernel | None, str]:
    """The kernel file of the launch as given, or why there is none."""
    run, errors = launched.runner.run(launched.launch, cta)
    if run is None:
        return None, errors[0].headline
    if run.outcome.ending not in (Ending.FINISHED, Ending.HUNG):
        return None, f"the run does not end: {run.outcome.reason}"
    ((recording, _),) = launched.judged_together([run], [("", cta_text(launched.launch, cta))])
    if recording.problems:
        return None, recording.problems[0][0]
    if any(peek.phase > 0 for peek in recording.peeks):
        return None, PEEKED
    try:
        heading = heading_of(launched, None, cta)
        return write_launch(recording.program, heading, line_text(launched.places)), ""
    except NotWritableError as error:
        return None, str(error)


def heading_of(launched: LaunchedCode, driver: Driver | None, cta: int) -> Heading:
    """The head of a lifted file; without a driver of one launch."""
    name = identifier(short_name(launched.function.name))[:NAME_MAX].strip("_")
    path = launched.places.source.path
    notes = [f"lifted from {path}, CTA {cta_text(launched.launch, cta)}"]
    if driver is not None:
        notes.append(f"trips: {driver} = {driver.unit} * trips")
    target = FAMILIES.get(launched.target, launched.target)
    return Heading(name or "kernel", target, path, tuple(notes))


def line_text(places: CodePlaces) -> LineOf:
    """Words the place of an operation: `line 549, gemm.py:62`."""

    def text(span: object) -> str:
        if not isinstance(span, Span):
            return ""
        source = places.source_of(span)
        return f"line {span.start_line}" + (f", {source}" if source else "")

    return text
