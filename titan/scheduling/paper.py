"""Twill's search as the paper states it (Algorithm 1), over its own formulation (figures 4 to 6).

For every interval from the best bound up: the shortest modulo schedule without regard to warps and
storage, an integer linear program (figure 4); then joint schedules with storage (figure 5) and
warps (figure 6) of that length and of every longer one with as many overlapping iterations. The
first joint schedule ends the search. What it refutes is refuted up to those lengths only. Slow and
literal: for loops whose costs are normalised to small sums.

`figure` leaves constraints out: 4 keeps neither storage nor warps, 5 keeps storage in one group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.foundation.errors import InternalError
from titan.scheduling.check import check
from titan.scheduling.faithful import Formulation
from titan.scheduling.loop.bounds import Bounds, bounds, longest_paths
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Evidence, Schedule, SchedulerResult
from titan.scheduling.native import recurrence
from titan.scheduling.paper_engines import EngineMissing, IntegerProgram, PaperEngine, engine
from titan.scheduling.work import SearchWork, Stopwatch

FIGURES = (4, 5, 6)


class PaperDisagreement(InternalError):
    """The checker refuses a schedule of the paper's formulation: a fault of TITAN."""


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """`engine` decides the joint problem, `modulo_engine` the integer program (auto: as installed).

    `figure`: 4, 5 or 6, see the text of the module. `stages_max` bounds the length of a schedule.
    """

    engine: str = "z3"
    modulo_engine: str = "auto"
    figure: int = 6
    budget_seconds: float = 60.0
    stages_max: int = 4


def restricted(loop: Loop, figure: int) -> Loop:
    """The loop with the constraints of figures 4 to `figure` only."""
    if figure >= 6:
        return loop
    operations = tuple(replace(op, warps=1, variable_latency=False) for op in loop.operations)
    if figure < 5:
        operations = tuple(
            replace(op, registers=0, footprints=(), slots=None, streaming=False)
            for op in operations
        )
    return replace(loop, operations=operations, groups=())


def solve(
    loop: Loop, options: PaperOptions | None = None, work: SearchWork | None = None
) -> SchedulerResult:
    """The first joint schedule that Algorithm 1 meets; what it takes counts in `work` too.

    Raises Unschedulable, EngineMissing and Uncounted."""
    options = options or PaperOptions()
    search = _Search(restricted(loop, options.figure), options, work)
    lower = bounds(search.loop, recurrence=recurrence)
    begin = Stopwatch()
    best, ii = None, lower.ii
    last = max(lower.ii, sum(op.cycles for op in loop.operations) + 1)
    while best is None and ii <= last and not search.spent:
        best = search.at(ii)
        ii += best is None and not search.spent
    statistics: dict[str, object] = {
        "engine": search.joint.name, "modulo_engine": search.modulo.name,
        "figures": f"4 to {options.figure}", "variables": search.variables,
        "constraints": search.constraints, "solver_calls": search.calls,
        "intervals_refuted": ii - lower.ii,
    }  # fmt: skip
    evidence = _evidence(lower, best, ii, search)
    return SchedulerResult("paper", best, evidence, begin.seconds, statistics)


def _evidence(lower: Bounds, best: Schedule | None, ii: int, search: _Search) -> Evidence:
    if best is None:
        text = "no interval up to that of one iteration after the other is feasible"
        if search.spent:
            text = f"the budget was spent at interval {ii}"
        return Evidence("none", lower.ii, text)
    if best.ii == lower.ii:
        return Evidence("bound", lower.ii, f"{lower.best.kind}: {lower.best.detail}")
    text = (
        f"intervals {lower.ii} to {best.ii - 1} refuted by {search.joint.name} for schedules with "
        "as many overlapping iterations as the shortest modulo schedule has"
    )
    return Evidence("refutation", best.ii, text, search.lengths_to, complete=False)


class _Search:
    """State and statistics of one search."""

    def __init__(self, loop: Loop, options: PaperOptions, whole: SearchWork | None) -> None:
        self.loop, self.options = loop, options
        self.joint: PaperEngine = engine(options.engine)
        self.modulo: PaperEngine = _modulo_engine(options.modulo_engine)
        self.relaxed = restricted(loop, 4)
        self.work = SearchWork(options.budget_seconds, whole)
        self.spent = False
        self.calls = self.variables = self.constraints = 0
        self.lengths_to: int | None = None

    def at(self, ii: int) -> Schedule | None:
        """A joint schedule at one interval, or None: there is none, or the budget is spent."""
        shortest = self.shortest(ii)
        if shortest is None:
            self.refuted_to(self.options.stages_max * ii)
            return None
        stages = -(-shortest // ii)
        for length in range(shortest, stages * ii + 1):
            found = self.attempt(self.loop, ii, length, self.joint)
            if found is not None or self.spent:
                return found
        self.refuted_to(stages * ii)
        return None

    def refuted_to(self, length: int) -> None:
        """Schedules of one interval are refuted up to this length."""
        self.lengths_to = length if self.lengths_to is None else min(self.lengths_to, length)

    def shortest(self, ii: int) -> int | None:
        """The length of the shortest modulo schedule (figure 4); None where there is none."""
        ends = zip(longest_paths(self.relaxed), self.relaxed.operations, strict=True)
        low = max(t + op.cycles for t, op in ends)
        high = max(low, self.options.stages_max * ii)
        found = self.attempt(self.relaxed, ii, high, self.modulo)
        if found is None:
            return None
        high = found.length(self.relaxed)
        while low < high and not self.spent:
            middle = (low + high) // 2
            shorter = self.attempt(self.relaxed, ii, middle, self.modulo)
            if shorter is None:
                low = middle + 1
            else:
                high = shorter.length(self.relaxed)
        return None if self.spent else high

    def attempt(self, loop: Loop, ii: int, length: int, solver: PaperEngine) -> Schedule | None:
        """A schedule of at most this length; None where there is none or the budget is spent."""
        if not self.work.left:
            self.spent = True
            return None
        formulation = Formulation(loop, ii, length)
        formulation.build()
        self.calls += 1
        self.variables = max(self.variables, formulation.booleans)
        self.constraints = max(self.constraints, formulation.assertions)
        found = formulation.solve(self.work, solver)
        if found is None:
            self.spent = True
        if not isinstance(found, Schedule):
            return None
        faults = check(loop, found, length)
        if faults:
            raise PaperDisagreement(f"the checker refuses a solution: {faults[0].text}")
        return found


def _modulo_engine(name: str) -> PaperEngine:
    """The solver of the integer program: SCIP or CBC where OR-tools is installed, else Z3."""
    if name != "auto":
        return engine(name)
    for known in ("scip", "cbc"):
        try:
            return IntegerProgram(known)
        except EngineMissing:
            continue
    return engine("z3")
