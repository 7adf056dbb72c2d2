"""The joint optimum: initiation interval, length, registers and cross-warp values, with evidence.

Intervals are tried from the best lower bound up. For each, a near horizon comes first; within it
the length is bisected. Where it is refuted, every length is asked for at once, in the distances
that limits leave between operations (`reach.py`): a refutation there holds without a horizon.
Where limits bound nothing, the horizon ends where no longer schedule can help: from any feasible
schedule, empty stages between operations can be removed without lengthening a lifetime, so
schedules of `complete_horizon` cycles are enough. Where that is too far, the search stops at the
stated number of stages and says so; a refutation then holds up to that length only.

Ties are broken in a fixed order: interval, length, peak of register words alive, values in
registers that cross warp groups (others stand in memory that both groups reach), warps that idle
while others of their group issue. Every schedule that leaves this module has passed the checker.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

from titan.foundation.errors import InternalError
from titan.scheduling import cnf
from titan.scheduling.check import check
from titan.scheduling.encode import Encoding, Infeasible, precedence, shortest
from titan.scheduling.loop.bounds import Bounds, Unschedulable, bounds, ring_footprint
from titan.scheduling.loop.model import DATA, Dependence, Loop
from titan.scheduling.model import Evidence, Schedule, SchedulerResult
from titan.scheduling.native import recurrence
from titan.scheduling.reach import Reach, reach
from titan.scheduling.storage import Excess, excesses, least_registers, peak_registers
from titan.scheduling.work import CHECK, BudgetSpent, SearchWork, Stopwatch

COVERS_MAX = 6
OBJECTIVES = ("ii", "length", "registers", "edges")


class Disagreement(InternalError):
    """The checker refuses what a solver found, or two solvers disagree: a fault of TITAN."""


@dataclass(frozen=True, slots=True)
class JointOptions:
    """`objective` names the last tie-break that is decided; `stages_max` bounds the horizon.

    `budget_seconds` is a number of units of work (`work.py`)."""

    engine: str = "auto"
    objective: str = "edges"
    budget_seconds: float = 60.0
    stages_max: int = 4
    second_solver: bool = True
    ii_max: int | None = None
    length_max: int | None = None


@dataclass(slots=True)
class Search:
    """State and statistics of one search."""

    loop: Loop
    options: JointOptions
    work: SearchWork
    calls: int = 0
    refuted: list[int] = field(default_factory=list)
    covers: int = 0
    pairs: int = 0
    variables: int = 0
    clauses: int = 0
    seconds_encoding: float = 0.0
    agreements: list[str] = field(default_factory=list)
    engine: str = ""

    def remaining(self) -> SearchWork:
        """The work that may still be done. Raises BudgetSpent."""
        if not self.work.left:
            raise BudgetSpent
        return self.work


def complete_horizon(loop: Loop, ii: int) -> int:
    """A length within which a feasible interval has a schedule (see the text of the module).

    Between successive stages in use a gap larger than any stage distance that a dependence asks
    for, and than any distance over which a value is carried, can be closed: residues and groups
    stay, dependences still hold, no lifetime grows.
    """
    n = len(loop.operations)
    gap = 1
    spill = max((op.spill_cycles for op in loop.operations), default=0)
    for _, _, weight in precedence(loop, ii):
        gap = max(gap, -(-(weight + spill) // ii) + 1)
    for e in loop.dependences:
        if e.kind == DATA:
            gap = max(gap, e.distance + 1)
    longest = max((op.cycles for op in loop.operations), default=1)
    return ((n - 1) * gap + 1) * ii + longest


def solve(
    loop: Loop, options: JointOptions | None = None, work: SearchWork | None = None
) -> SchedulerResult:
    """The joint optimum; what it takes counts in `work` too.

    Raises Unschedulable, and Disagreement if TITAN itself is at fault."""
    options = options or JointOptions()
    begin = Stopwatch()
    lower = bounds(loop, recurrence=recurrence)
    search = Search(loop, options, SearchWork(options.budget_seconds, work))
    search.engine = cnf.available()[0] if options.engine == "auto" else options.engine
    ii_max = options.ii_max or _last_interval(loop, lower)
    complete, lengths_to, ii = True, None, lower.ii
    best: Schedule | None = None
    try:
        while best is None and ii <= ii_max:
            best, whole, horizon = _interval(search, ii)
            if best is None:
                search.refuted.append(ii)
                complete = complete and whole
                lengths_to = lengths_to if whole else horizon
                ii += 1
    except BudgetSpent:
        return _unfinished(search, begin, lower, ii, complete, lengths_to)
    evidence = _evidence(search, lower, ii, complete, lengths_to)
    if best is None:
        text = f"every interval up to {ii_max} is refuted"
        kind = evidence.kind if complete and ii > lower.ii else "none"
        detail = evidence.detail if kind != "none" else text
        known = ii if complete else lower.ii
        evidence = Evidence(kind, known, detail, evidence.lengths_to, complete)
    return _outcome(search, begin, best, evidence)


def anyhow(
    loop: Loop, options: JointOptions | None = None, work: SearchWork | None = None
) -> Schedule | None:
    """Some schedule at twice the best bound, or at four times, and so on; None when the budget is
    spent.

    For when the search upwards did not end: larger intervals are easier.
    """
    options = options or JointOptions()
    search = Search(loop, options, SearchWork(options.budget_seconds, work))
    search.engine = cnf.available()[0] if options.engine == "auto" else options.engine
    lower = bounds(loop, recurrence=recurrence)
    last, ii = _last_interval(loop, lower), lower.ii
    try:
        while ii < last:
            ii = min(2 * ii, last)
            try:
                horizon = max(shortest(loop, ii), 2 * ii)
                found = Attempt(search, ii, horizon).find(horizon)
            except Infeasible:
                continue
            if found is not None:
                return found
    except BudgetSpent:
        return None
    return None


def _last_interval(loop: Loop, lower: Bounds) -> int:
    """One iteration after the other, with every transfer: nothing is feasible only beyond this."""
    delays = sum(e.delay_cycles + loop.operations[e.source].spill_cycles for e in loop.dependences)
    return max(lower.ii, sum(op.cycles for op in loop.operations) + delays) + 1


def _interval(search: Search, ii: int) -> tuple[Schedule | None, bool, int]:
    """Best schedule at `ii`; whether a refusal holds for all lengths; and the last horizon."""
    loop = search.loop
    try:
        least = shortest(loop, ii)
        within = reach(loop, ii)
    except Infeasible:
        return None, True, 0
    full = complete_horizon(loop, ii)
    last = min(full, max(least, search.options.stages_max * ii))
    if search.options.length_max is not None:
        last = search.options.length_max
        if last < least:
            return None, last >= full, last
    near = min(least + ii, last)
    found = _within_horizon(search, ii, near, least, near == last)
    if found is None and within is not None and search.options.length_max is None:
        any_length = _of_any_length(search, ii, within)
        if any_length is None:
            return None, True, 0
        last = max(last, any_length.length(loop))
    if found is not None or near == last:
        return found, found is not None or last >= full, near
    found = _within_horizon(search, ii, last, least, final=True)
    return found, found is not None or last >= full, last


def _within_horizon(
    search: Search, ii: int, horizon: int, least: int, final: bool
) -> Schedule | None:
    try:
        return Attempt(search, ii, horizon).best(least, final)
    except Infeasible:
        return None


def _of_any_length(search: Search, ii: int, within: Reach) -> Schedule | None:
    """A schedule of whatever length, or None: there is none."""
    try:
        attempt = Attempt(search, ii, within.cycles, within)
        found = attempt.find(None)
        if found is None:
            attempt.confirm()
        attempt.count()
    except Infeasible:
        return None
    return found


class Attempt:
    """One encoding with its solver; bisects the length, then the further objectives."""

    def __init__(self, search: Search, ii: int, horizon: int, within: Reach | None = None) -> None:
        self.search = search
        self.ii = ii
        self.horizon = horizon
        begin = Stopwatch()
        span = (within.low, within.high) if within is not None else None
        self.encoding = Encoding(search.loop, ii, horizon, span, search.work)
        self.solver = cnf.solver(search.engine)
        self.solver.load(self.encoding.cnf, search.work)
        self.covers: dict[tuple[str, int | None], int] = {}
        search.seconds_encoding += begin.seconds
        search.remaining()

    def best(self, least: int, final: bool) -> Schedule | None:
        """The best schedule within the horizon by the objective; None where there is none."""
        best = self.find(self.horizon)
        if best is None:
            if final:
                self.confirm()
            self.count()
            return None
        depth = OBJECTIVES.index(self.search.options.objective)
        ties = (lambda found: self.shorten(found, least), self.tighten, self.gather)
        for break_tie in ties[:depth]:
            try:
                best = break_tie(best)
            except BudgetSpent:  # the interval is found; what breaks ties is left as it is
                break
        self.count()
        return best

    def count(self) -> None:
        """Keep the size of the largest formula."""
        search, formula = self.search, self.encoding.cnf
        search.variables = max(search.variables, formula.variables)
        search.clauses = max(search.clauses, len(formula.clauses))

    def shorten(self, best: Schedule, least: int) -> Schedule:
        """Bisect the length; the last refusal shows that nothing shorter exists."""
        low, high = least, best.length(self.search.loop)
        first = True
        while low < high:
            middle = low if first else (low + high) // 2
            first = False
            found = self.find(middle)
            if found is None:
                low = middle + 1
            else:
                best, high = found, found.length(self.search.loop)
        return best

    def tighten(self, best: Schedule) -> Schedule:
        """Fewer register words alive at once, at the same length: bisected over multiples of what
        all words are multiples of, from what every schedule needs."""
        loop = self.search.loop
        length = best.length(loop)
        step = gcd(*(operation.registers for operation in loop.operations)) or 1
        low = -(-least_registers(loop, self.ii) // step) * step
        high = peak_registers(loop, self.ii, best.starts)
        while low < high:
            middle = low + (high - low) // step // 2 * step
            found = self.find(length, registers_max=middle)
            if found is None:
                low = middle + step
            else:
                best, high = found, peak_registers(loop, self.ii, found.starts)
        return best

    def gather(self, best: Schedule) -> Schedule:
        """Fewer values in registers that cross groups, then fewer idle warps, at the same length
        and registers."""
        loop = self.search.loop
        length, registers = best.length(loop), peak_registers(loop, self.ii, best.starts)
        guards: tuple[int, ...] = ()
        for literals, cost in (
            (self.crossing_literals(), crossings),
            (self.idle_literals(), idle_warps),
        ):
            total = sum(weight for _, weight in literals)
            guard = 0
            while cost(loop, best.teams):
                allow = cost(loop, best.teams) - 1
                guard = self.encoding.cnf.variable()
                self.encoding.cnf.at_most([*literals, (guard, total - allow)], total)
                found = self.find(length, registers_max=registers, also=(*guards, guard))
                if found is None:
                    break
                best = found
            reached = self.encoding.cnf.variable()
            allow = cost(loop, best.teams)
            self.encoding.cnf.at_most([*literals, (reached, total - allow)], total)
            guards = (*guards, reached)
        return best

    def crossing_literals(self) -> list[tuple[cnf.Literal, int]]:
        """For each pair with values in registers between them: it is on two groups; how many."""
        pairs: dict[tuple[int, int], int] = {}
        for e in self.search.loop.dependences:
            if moves_registers(self.search.loop, e) and e.source != e.sink:
                key = (min(e.source, e.sink), max(e.source, e.sink))
                pairs[key] = pairs.get(key, 0) + 1
        return [(self.encoding.crosses(u, v), count) for (u, v), count in sorted(pairs.items())]

    def idle_literals(self) -> list[tuple[cnf.Literal, int]]:
        """For each operation and group: it runs there; warps of the group that idle meanwhile."""
        loop = self.search.loop
        return [
            (on, team.warps - operation.warps)
            for operation, row in zip(loop.operations, self.encoding.on, strict=True)
            for on, team in zip(row, loop.teams, strict=True)
            if on is not False and team.warps > operation.warps
        ]

    def find(
        self, length: int | None, registers_max: int | None = None, also: tuple[int, ...] = ()
    ) -> Schedule | None:
        """A schedule no longer than `length`, with storage and waits added as they are broken."""
        search, loop, encoding = self.search, self.search.loop, self.encoding
        assumptions = encoding.ends_by(length) if length is not None else []
        if assumptions is None:
            return None
        guards: list[int] = list(also)
        limit_guard: int | None = None
        examined = CHECK * (len(loop.operations) + len(loop.dependences))
        while True:
            self.solver.load(encoding.cnf, search.work)
            encoding.cnf.bound(search.work)
            search.calls += 1
            search.work.spend(examined)
            extra = [limit_guard] if limit_guard is not None else []
            answer = self.solver.solve([*assumptions, *guards, *extra], search.remaining())
            if answer is None:
                raise BudgetSpent
            if not answer:
                return None
            starts, teams = encoding.decode(self.solver.value)
            broken = excesses(loop, self.ii, starts, teams)
            for excess in broken:
                self.forbid(excess)
            if not broken and registers_max is not None:
                over = excesses(loop, self.ii, starts, teams, registers_max)
                broken = over
                if over:
                    guard = limit_guard or encoding.cnf.variable()
                    limit_guard = guard
                    for excess in over:
                        encoding.forbid(excess.cover, None, guard)
            schedule = Schedule(self.ii, starts, teams)
            if self.separate(schedule) or broken:
                continue
            if length is None:
                first = min(starts, default=0)
                schedule = replace(schedule, starts=tuple(t - first for t in starts))
            self.confirm_schedule(schedule, self.horizon if length is not None else None)
            return schedule

    def forbid(self, excess: Excess) -> None:
        """Write the cover down for every group whose limit it passes."""
        loop = self.search.loop
        self.search.covers += 1
        key = (excess.what, excess.team)
        self.covers[key] = self.covers.get(key, 0) + 1
        if self.covers[key] > COVERS_MAX:
            self.write_out(excess)
            return
        if excess.team is None:
            self.encoding.forbid(excess.cover, None)
            return
        total = sum(loop.operations[v].registers * count for v, count in excess.cover)
        teams = [
            team
            for team in range(len(loop.teams))
            if (words := loop.team_words(team)) is not None and words < total
        ]
        self.encoding.forbid(excess.cover, teams)

    def write_out(self, excess: Excess) -> None:
        """Covers for this limit keep coming: encode the limit in full, once."""
        loop = self.search.loop
        if excess.team is not None:
            for team, group in enumerate(loop.teams):
                words = loop.team_words(team)
                alike = group.warps == loop.teams[excess.team].warps
                if alike and words is not None:
                    self.encoding.limit_registers(team, words)
                    self.covers[(excess.what, team)] = -1 << 30
            return
        rings = sum(ring_footprint(op, excess.what) for op in loop.operations)
        amounts = [
            0 if op.slots is not None else dict(op.footprints).get(excess.what, 0)
            for op in loop.operations
        ]
        self.encoding.limit_memory(amounts, loop.limits[excess.what] - rings)

    def separate(self, schedule: Schedule) -> bool:
        """Write down the pairs that a waiting operation breaks; were there any?"""
        found = False
        for v, o in broken_pairs(self.search.loop, schedule):
            self.encoding.keep_apart(v, o)
            self.search.pairs += 1
            found = True
        return found

    def confirm_schedule(self, schedule: Schedule, length_max: int | None) -> None:
        """Raises Disagreement where the checker refuses the schedule."""
        faults = check(self.search.loop, schedule, length_max)
        if faults:
            raise Disagreement(f"the checker refuses a solution: {faults[0].text}")

    def confirm(self) -> None:
        """A second solver refutes the same clauses, if there is one."""
        names = [name for name in cnf.available() if name != self.search.engine]
        if not self.search.options.second_solver or not names:
            return
        other = cnf.solver(names[0])
        copy = cnf.Cnf()
        copy.variables, copy.clauses = self.encoding.cnf.variables, self.encoding.cnf.clauses
        other.load(copy, self.search.work)
        answer = other.solve((), self.search.remaining())
        if answer:
            raise Disagreement(f"{other.name} finds a solution where {self.solver.name} does not")
        if answer is False:
            self.search.agreements.append(other.name)


def broken_pairs(loop: Loop, schedule: Schedule) -> list[tuple[int, int]]:
    """(v, o): v waits at its start while o of the same group is being issued."""
    if not loop.has_teams:
        return []
    teams = schedule.teams
    waits = {
        e.sink
        for e in loop.dependences
        if e.blocking
        or (
            e.kind == DATA
            and teams[e.source] != teams[e.sink]
            and loop.operations[e.source].spill_cycles
        )
    }
    return [
        (v, o)
        for v in sorted(waits)
        for o in range(len(teams))
        if o != v
        and teams[o] == teams[v]
        and (schedule.starts[v] - schedule.starts[o]) % schedule.ii
        < loop.operations[o].issue_window
    ]


def moves_registers(loop: Loop, e: Dependence) -> bool:
    """Whether a dependence hands on a value in registers, which a transfer would have to move."""
    return e.kind == DATA and loop.operations[e.source].spill_cycles > 0


def crossings(loop: Loop, teams: tuple[int, ...]) -> int:
    """Data dependences of values in registers whose ends are on different groups."""
    return sum(
        moves_registers(loop, e) and teams[e.source] != teams[e.sink] for e in loop.dependences
    )


def idle_warps(loop: Loop, teams: tuple[int, ...]) -> int:
    """Warps that idle while others of their group issue, over all operations."""
    return sum(
        max(0, loop.teams[team].warps - operation.warps)
        for operation, team in zip(loop.operations, teams, strict=True)
    )


def _evidence(
    search: Search, lower: Bounds, ii: int, complete: bool, lengths_to: int | None
) -> Evidence:
    if ii == lower.ii:
        best = lower.best
        return Evidence("bound", ii, f"{best.kind}: {best.detail}")
    agreed = len(search.agreements) >= 1
    by = f"{search.engine} and {search.agreements[0]}" if agreed else search.engine
    text = f"intervals {lower.ii} to {ii - 1} refuted by {by}"
    if complete:
        text += ", for schedules of every length"
    else:
        text += f", for schedules of at most {search.options.stages_max} stages"
    kind = "agreement" if agreed else "refutation"
    return Evidence(kind, ii, text, None if complete else lengths_to, complete)


def _unfinished(
    search: Search,
    begin: Stopwatch,
    lower: Bounds,
    ii: int,
    complete: bool,
    lengths_to: int | None,
) -> SchedulerResult:
    bound = ii if complete else lower.ii
    text = f"the budget of {search.options.budget_seconds:.3g} was spent at interval {ii}"
    return _outcome(search, begin, None, Evidence("none", bound, text, lengths_to, complete))


def _outcome(
    search: Search, begin: Stopwatch, best: Schedule | None, evidence: Evidence
) -> SchedulerResult:
    statistics: dict[str, object] = {
        "engine": search.engine,
        "variables": search.variables,
        "clauses": search.clauses,
        "solver_calls": search.calls,
        "intervals_refuted": len(search.refuted),
        "covers_added": search.covers,
        "waits_added": search.pairs,
        "work": search.work.done,
        "seconds_encoding": round(search.seconds_encoding, 4),
    }
    if best is not None:
        statistics["registers"] = peak_registers(search.loop, best.ii, best.starts)
        statistics["crossings"] = crossings(search.loop, best.teams)
        statistics["idle_warps"] = idle_warps(search.loop, best.teams)
    return SchedulerResult("joint", best, evidence, begin.seconds, statistics)


__all__ = ["OBJECTIVES", "Disagreement", "JointOptions", "Unschedulable", "anyhow", "solve"]
