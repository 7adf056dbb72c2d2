"""One call for a user: choose a solver, schedule a loop in its own cycles, and say what is proved.

`rau` and `gauss` work on the loop as it is. `joint` works on the normalised loop and brings the
order it finds back to real cycles (`refine.py`). `auto` takes Rau's schedule where a bound proves
it, and asks the joint solver otherwise; of large loops first for the operations that take units
(`contract.py`). Two claims are kept apart: the optimum of the normalised
loop, and the interval of the real one against its own bounds. Normalisation rounds delays up, so a
refutation of the normalised loop refutes nothing of the real one. Where the best real interval lies
above the bound by few cycles, every smaller interval is therefore asked for in real cycles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from titan.scheduling import contract, gauss, joint, paper, rau
from titan.scheduling.check import check
from titan.scheduling.gauss import GaussOptions
from titan.scheduling.loop.bounds import Bounds, bounds
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Evidence, Schedule, SchedulerResult
from titan.scheduling.native import recurrence
from titan.scheduling.normalise import Normalised, TooSmall, normalise_loop
from titan.scheduling.refine import refine, stretched
from titan.scheduling.refutation import Refutation
from titan.scheduling.work import UNITS, SearchWork, Stopwatch

STORAGE = ("registers", "memory", "ring")  # limits that naive registers ignore
SOLVERS = ("auto", "rau", "joint", "gauss")
FORMULATIONS = ("encoded", "paper")
REAL_INTERVALS_MAX = 32
REAL_CYCLES_MAX = 8192
REAL, REDUCED = "joint, real cycles", "joint, what takes units"
JOINT_OPERATIONS = 64
RAU_SECONDS = 2.5
ANYHOW_SECONDS = 5.0
ANYHOW_TOTAL = 60
ROUGHER_TOTAL = 60  # with fewer cycles to choose from, large loops are searched further
FAR = 1.25
BUDGETS = 4  # solvers that a run may ask one after the other, each with the whole budget


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for; `total_max` is U of the cost normalisation.

    `budget_seconds`: what a solver may do, in seconds of work (`work.py`), not of any clock.

    `proofs`: where solvers refute the smaller intervals, look for proofs that plain code checks,
    as long again as the budget says. `formulation`: how the joint solver writes the problem down,
    `encoded` (`encode.py`) or `paper` (`paper.py`); `engine` is a solver of that formulation, auto
    the best that is installed; `figure` leaves constraints of the paper's formulation out.
    `search`, `ii_max` and `arms_max` are Rau's (`rau.py`); so is `stages_bound`, a limit of the
    overlapping iterations, and `teams`, groups that some operations have to have (None: any);
    the empty tuple fixes none. `gauss`: options of the differentiable scheduler but seed and time.
    """

    solver: str = "auto"
    objective: str = "edges"
    budget_seconds: float = 60.0
    total_max: int = 300
    registers: str = "degrade"
    engine: str = "auto"
    stages_max: int = 4
    seed: int = 0
    progress: bool = False
    proofs: bool = False
    formulation: str = "encoded"
    figure: int = 6
    search: str = "auto"
    ii_max: int | None = None
    arms_max: int = 10_000
    stages_bound: int | None = None
    teams: tuple[int | None, ...] = ()
    gauss: GaussOptions = field(default_factory=GaussOptions)

    def key(self) -> str:
        """All that decides the result, as text, for the cache."""
        return repr(replace(self, progress=False))


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """`schedule` is in the cycles of the loop and has passed the checker."""

    loop: Loop
    schedule: Schedule | None
    evidence: Evidence
    bounds: Bounds
    produced_by: str
    seconds: float
    outcomes: tuple[SchedulerResult, ...] = ()
    normalised: Normalised | None = None
    cached: bool = False
    notes: tuple[str, ...] = field(default=())
    refutations: tuple[Refutation, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether no smaller interval has a schedule of any length."""
        return self.schedule is not None and self.evidence.proves

    @property
    def gap(self) -> int | None:
        """Cycles between the interval and the best bound that holds for schedules of any length."""
        if self.schedule is None:
            return None
        known = self.evidence.lower_bound if self.evidence.complete else self.bounds.ii
        return self.schedule.ii - known


def run(loop: Loop, request: Request) -> ScheduleRun:
    """Schedule a loop as asked.

    With the paper's formulation and fewer figures the loop of the result is the restricted one.
    Raises Unschedulable where a bound shows that no schedule exists."""
    begin, work = Stopwatch(), SearchWork(request.budget_seconds * BUDGETS)
    if request.formulation == "paper":
        loop = paper.restricted(loop, request.figure)
    lower = bounds(loop, recurrence=recurrence)
    outcomes: list[SchedulerResult] = []
    candidates: list[tuple[str, Schedule]] = []
    normalised: Normalised | None = None
    notes: list[str] = []
    if request.solver in ("auto", "rau"):
        seconds = request.budget_seconds
        if request.solver == "auto" and len(loop.operations) <= JOINT_OPERATIONS:
            seconds = min(seconds, RAU_SECONDS)  # the joint solver follows
        options = rau.RauOptions(
            registers=request.registers, seconds=seconds, search=request.search,
            ii_cap=request.ii_max, arms_max=request.arms_max, stages_max=request.stages_bound,
            teams=request.teams,
        )  # fmt: skip
        _keep(rau.solve(loop, options, work), outcomes, candidates)
        if request.registers == "naive":
            candidates, more = _within_limits(loop, candidates)
            notes += more
    if request.solver == "gauss":
        _gauss(loop, request, work, outcomes, candidates, notes)
    if request.solver == "auto" and request.formulation == "encoded":
        _reduced(loop, request, work, lower, candidates)
    proved = any(schedule.ii == lower.ii for _, schedule in candidates)
    if request.solver == "joint" or (request.solver == "auto" and not proved):
        normalised = _joint(loop, request, work, lower, outcomes, candidates, notes)
        if request.solver == "auto" and _is_far(candidates, lower):
            rougher = replace(request, total_max=min(request.total_max, ROUGHER_TOTAL))
            _joint(loop, rougher, work, lower, outcomes, candidates, notes)
        exact = request.formulation == "encoded"
        if exact and normalised is not None and normalised.normalisation.scale != 1 and candidates:
            left = request.budget_seconds - work.done / UNITS
            _real_cycles(loop, request, work, lower, left, outcomes, candidates)
    result = _result(loop, lower, begin, outcomes, candidates, normalised, notes)
    return _with_proofs(result, request, begin) if request.proofs else result


def _reduced(
    loop: Loop,
    request: Request,
    work: SearchWork,
    lower: Bounds,
    candidates: list[tuple[str, Schedule]],
) -> None:
    """A smaller interval of a large loop most of whose operations take no unit."""
    best = min((schedule for _, schedule in candidates), key=lambda one: one.ii, default=None)
    large = len(loop.operations) > JOINT_OPERATIONS and request.stages_bound is None
    if best is None or best.ii == lower.ii or not large or not contract.applies(loop):
        return
    found = contract.improve(loop, best, lower.ii, request.budget_seconds, work)
    if found is not None:
        candidates.append((REDUCED, found))


def _within_limits(
    loop: Loop, candidates: list[tuple[str, Schedule]]
) -> tuple[list[tuple[str, Schedule]], list[str]]:
    """Candidates that keep the limits of storage, and notes on those that ignore them."""
    kept: list[tuple[str, Schedule]] = []
    notes: list[str] = []
    for solver, schedule in candidates:
        passed = [f.text for f in check(loop, schedule) if f.kind in STORAGE]
        if passed:
            text = f"a schedule of interval {schedule.ii} that ignores limits is not kept"
            notes.append(f"{text}: {passed[0]}")
        else:
            kept.append((solver, schedule))
    return kept, notes


def _is_far(candidates: list[tuple[str, Schedule]], lower: Bounds) -> bool:
    """Whether the best interval is so long that a rougher search is worth as much time again."""
    return min((one.ii for _, one in candidates), default=math.inf) > FAR * lower.ii


def _with_proofs(result: ScheduleRun, request: Request, begin: Stopwatch) -> ScheduleRun:
    """The statements of solvers replaced by refutations that have been checked, if there are."""
    found, evidence = result.schedule, result.evidence
    if found is None or evidence.kind not in ("agreement", "refutation") or not evidence.complete:
        return result
    if evidence.lower_bound != found.ii:
        return result
    from titan.scheduling.prove import prove_below

    least, loop = result.bounds.ii, result.loop
    refutations = prove_below(loop, least, found.ii, request.budget_seconds)
    if refutations is None:
        note = "no proof that plain code can check was found for the refuted intervals"
        return replace(result, notes=(*result.notes, note))
    text = f"intervals {least} to {found.ii - 1} refuted for schedules of every length, "
    text += "the proofs checked by plain code"
    evidence = Evidence("proof", found.ii, text)
    return replace(result, evidence=evidence, refutations=refutations, seconds=begin.seconds)


def _keep(
    outcome: SchedulerResult,
    outcomes: list[SchedulerResult],
    candidates: list[tuple[str, Schedule]],
) -> None:
    outcomes.append(outcome)
    if outcome.schedule is not None:
        candidates.append((outcome.solver, outcome.schedule))


def _gauss(
    loop: Loop,
    request: Request,
    work: SearchWork,
    outcomes: list[SchedulerResult],
    candidates: list[tuple[str, Schedule]],
    notes: list[str],
) -> None:
    options = replace(
        request.gauss, seed=request.seed, seconds=request.budget_seconds, progress=request.progress
    )
    outcome = gauss.solve(loop, options, work)
    _keep(outcome, outcomes, candidates)
    notes.extend(outcome.notes)


def _joint(
    loop: Loop,
    request: Request,
    work: SearchWork,
    lower: Bounds,
    outcomes: list[SchedulerResult],
    candidates: list[tuple[str, Schedule]],
    notes: list[str],
) -> Normalised | None:
    try:
        coarse = normalise_loop(loop, request.total_max)
    except TooSmall as error:
        notes.append(f"the joint solver was not run: {error}")
        return None
    options = joint.JointOptions(
        engine=request.engine if request.formulation == "encoded" else "auto",
        objective=request.objective,
        budget_seconds=request.budget_seconds,
        stages_max=request.stages_max,
        # What is refuted in coarse cycles says nothing of real ones: one solver is enough.
        second_solver=coarse.normalisation.scale == 1,
    )
    if request.formulation == "paper":
        outcome = paper.solve(coarse.loop, _paper_options(request), work)
    else:
        outcome = joint.solve(coarse.loop, options, work)
    outcomes.append(outcome)
    if outcome.schedule is None:
        notes.append(f"the joint solver found no schedule: {outcome.evidence.detail}")
        if not candidates:
            _anyhow(loop, options, work, lower, candidates)
        return coarse
    fine = outcome.schedule
    if coarse.normalisation.scale != 1:
        refined = refine(loop, coarse.loop, outcome.schedule, lower.ii)
        if refined is None:
            notes.append("the order of the normalised optimum cannot be kept in real cycles")
            return coarse
        fine = refined
    candidates.append((outcome.solver, fine))
    return coarse


def _paper_options(request: Request) -> paper.PaperOptions:
    """The engine decides both phases where one is named."""
    return paper.PaperOptions(
        engine="z3" if request.engine == "auto" else request.engine,
        modulo_engine=request.engine,
        figure=request.figure,
        budget_seconds=request.budget_seconds,
        stages_max=request.stages_max,
    )


def _anyhow(
    loop: Loop,
    options: joint.JointOptions,
    work: SearchWork,
    lower: Bounds,
    candidates: list[tuple[str, Schedule]],
) -> None:
    """Nobody found anything: a larger interval, in coarse cycles, with some work more."""
    try:
        coarse = normalise_loop(loop, ANYHOW_TOTAL)
    except TooSmall:
        return
    seconds = min(options.budget_seconds, ANYHOW_SECONDS)
    rough = joint.anyhow(coarse.loop, replace(options, budget_seconds=seconds), work)
    if rough is None:
        return
    found = refine(loop, coarse.loop, rough, lower.ii) or stretched(loop, coarse.loop, rough)
    if found is not None:
        tighter = refine(loop, loop, found, lower.ii) or found
        candidates.append(("joint, larger interval", tighter))


def _real_cycles(
    loop: Loop,
    request: Request,
    work: SearchWork,
    lower: Bounds,
    seconds: float,
    outcomes: list[SchedulerResult],
    candidates: list[tuple[str, Schedule]],
) -> None:
    """Find or refute every interval between the bound and the best candidate, in real cycles."""
    best = min(schedule.ii for _, schedule in candidates)
    if not lower.ii < best <= lower.ii + REAL_INTERVALS_MAX or best > REAL_CYCLES_MAX:
        return
    options = joint.JointOptions(
        engine=request.engine,
        objective="ii",
        budget_seconds=seconds,
        stages_max=request.stages_max,
        ii_max=best - 1,
    )
    if seconds <= 0:
        return
    outcome = replace(joint.solve(loop, options, work), solver=REAL)
    outcomes.append(outcome)
    if outcome.schedule is not None:
        candidates.append((REAL, outcome.schedule))


def _result(
    loop: Loop,
    lower: Bounds,
    begin: Stopwatch,
    outcomes: list[SchedulerResult],
    candidates: list[tuple[str, Schedule]],
    normalised: Normalised | None,
    notes: list[str],
) -> ScheduleRun:
    """The best candidate, and the strongest evidence that fits it."""
    text = f"{lower.best.kind}: {lower.best.detail}"
    evidence = Evidence("none", lower.ii, text)
    best = min(candidates, key=lambda c: (c[1].ii, c[1].length(loop)), default=None)
    schedule = best[1] if best is not None else None
    if schedule is not None:
        faults = check(loop, schedule)
        if faults:
            raise joint.Disagreement(f"the checker refuses a schedule: {faults[0].text}")
        if schedule.ii == lower.ii:
            evidence = Evidence("bound", lower.ii, text)
        elif normalised is not None and normalised.normalisation.scale == 1:
            evidence = next(o.evidence for o in outcomes if o.solver in ("joint", "paper"))
        elif real := [o.evidence for o in outcomes if o.solver == REAL]:
            evidence = real[0]
    return ScheduleRun(
        loop,
        schedule,
        evidence,
        lower,
        best[0] if best is not None else "none",
        begin.seconds,
        tuple(outcomes),
        normalised,
        False,
        tuple(notes),
    )


def cached(result: ScheduleRun) -> ScheduleRun:
    """The result, marked as one from the cache."""
    return replace(result, cached=True)
