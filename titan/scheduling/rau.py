"""Rau scheduling: bounds, candidate intervals, placement arms, register awareness, diagnostics.

The warps are assigned first (`assign.py`, several styles), then operations are placed at the
smallest interval from the best lower bound up. All loops try the placement arms in their order and
end with eviction, which is the C inner loop; loops of more than `LARGE` operations are evicted
first, and try the arms where that fails. With register awareness a placement that passes a
register or memory limit is first pushed together, and rejected where that does not help; `degrade`
then also tries simpler warp assignments and fewer overlapping stages before a larger interval. What
is handed back has passed the checker.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from titan.scheduling import assign
from titan.scheduling.arms import ArmPlacement, groups, place_all
from titan.scheduling.check import ScheduleViolation, check
from titan.scheduling.compaction import push_together
from titan.scheduling.loop.bounds import Bounds, bounds
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import (
    Evidence,
    PlacementFailure,
    Schedule,
    SchedulerResult,
    StorageRejection,
)
from titan.scheduling.native import Columns, Order, Placer, read, recurrence
from titan.scheduling.problem import Problem, compile_problem
from titan.scheduling.sequence import in_sequence
from titan.scheduling.storage import Excess, excesses, value_ends
from titan.scheduling.swing import depths, pressure, swing
from titan.scheduling.work import CHECK, ROWS, SEAT, SEATS, SLOW, SearchWork, Stopwatch

LARGE = 400  # operations above which eviction, in C, comes before the arms, in Python
SHAKES = 6
SAMPLES = 8  # intervals that are tried among those that galloping jumped over
SHAKEN_MAX = 5_000
POLICIES = ("naive", "reject", "degrade")


@dataclass(frozen=True, slots=True)
class RauOptions:
    """`registers` naive ignores limits; `styles` fixes the warps.

    `search` is linear, gallop (the same answer), or auto: gallop; where more than `below_max`
    intervals were jumped over and the answer is more than `far` times the bound, some of them are
    tried, evenly spread, and again below the best of them, until none of those is feasible.
    `ii_cap` is the largest interval that is tried. `teams`: groups that operations have to have,
    None where a style chooses. Loops of more than `arms_max` operations are
    placed by eviction alone.
    """

    search: str = "auto"
    registers: str = "degrade"
    styles: tuple[str, ...] = assign.STYLES
    teams: tuple[int | None, ...] = ()
    stages_max: int | None = None
    budget_ratio: int = 8
    arms_max: int = 10_000
    ii_cap: int | None = None
    seconds: float = 60.0  # of work (`work.py`)
    below_max: int = 64
    far: float = 1.5


class _Style:
    """One warp assignment of a loop, and what places with it."""

    def __init__(self, loop: Loop, teams: tuple[int, ...], read: Columns | None) -> None:
        self.loop, self.teams, self.read, self.n = loop, teams, read, len(teams)
        self.placer = Placer((lambda: self.problem) if read is not None else self.problem, read)

    @cached_property
    def problem(self) -> Problem:
        """As plain Python places it."""
        return compile_problem(self.loop, self.teams)

    @property
    def fractional(self) -> bool:
        """Whether a pool has a window of several cycles."""
        return self.read is None and bool(self.problem.fractional)


@dataclass(slots=True)
class _Run:
    loop: Loop
    options: RauOptions
    work: SearchWork
    probes: int = 0
    placements: int = 0
    failures: list[PlacementFailure] = field(default_factory=list)
    rejections: dict[tuple[str, int | None], StorageRejection] = field(default_factory=dict)
    arms: dict[str, int] = field(default_factory=dict)
    tried: dict[int, Schedule | None] = field(default_factory=dict)
    styles: dict[str, _Style] = field(default_factory=dict)
    monotone: bool = True
    rejected: int = 0
    skipped: int = 0
    aware: bool = False
    limited: bool = False

    def expired(self) -> bool:
        """Whether the budget is spent; one way of placing is tried all the same."""
        return not self.work.left


def stage_count(loop: Loop, schedule: Schedule) -> int:
    """Stages by the latest finish, latency included: what the prologue has to fill."""
    finish = max(
        s + max(op.latency_cycles, op.cycles)
        for s, op in zip(schedule.starts, loop.operations, strict=True)
    )
    return -(-(finish + 1) // schedule.ii)


def solve(
    loop: Loop, options: RauOptions | None = None, work: SearchWork | None = None
) -> SchedulerResult:
    """The best schedule found; what it takes counts in `work` too.

    Raises Unschedulable where a bound shows that there is none.

    Cyclic garbage is not collected meanwhile: large loops make many objects that all stay, and
    looking through them took a quarter of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _solve(loop, options or RauOptions(), work)
    finally:
        if collecting:
            gc.enable()


def _solve(loop: Loop, options: RauOptions, work: SearchWork | None) -> SchedulerResult:
    begin = Stopwatch()
    columns = read(loop) if len(loop.operations) > LARGE else None
    lower = bounds(loop, options.stages_max, recurrence, columns)
    limited = any(loop.team_words(team) is not None for team in range(len(loop.teams)))
    run = _Run(loop, options, SearchWork(options.seconds, work))
    run.aware = limited and options.registers != "naive"
    run.limited = limited or (columns is None and holds_storage(loop))
    for style in options.styles:
        teams = assign.assign(loop, style)
        if teams is not None and options.teams:
            pairs = zip(teams, options.teams, strict=True)
            teams = tuple(chosen if wanted is None else wanted for chosen, wanted in pairs)
        if teams is None or any(teams == other.teams for other in run.styles.values()):
            continue
        run.styles[style] = _Style(loop, teams, columns)
    cap = options.ii_cap or (sequential_ii(loop) if columns is None else columns.sequential_ii)
    probe = _probe(run)
    search = linear if options.search == "linear" else gallop
    ii = search(run, probe, lower.ii, cap)
    schedule = run.tried.get(ii) if ii is not None else None
    if schedule is None:
        schedule = _in_sequence(run, lower.ii, cap)
    statistics: dict[str, object] = {
        "intervals_tried": run.probes,
        "placements": run.placements,
        "arms": dict(sorted(run.arms.items())),
        "rejected_for_storage": run.rejected,
        "monotone": run.monotone,
        "intervals_skipped": run.skipped,
        "work": run.work.done,
    }
    if schedule is not None and columns is not None:
        latest = columns.latest(schedule.starts)
        statistics["stage_count"] = -(-(latest + 1) // schedule.ii)
    elif schedule is not None:
        statistics["stage_count"] = stage_count(loop, schedule)
    evidence = _evidence(lower, schedule)
    return SchedulerResult(
        "rau", schedule, evidence, begin.seconds, statistics, (), tuple(run.failures[-5:]),
        tuple(sorted(run.rejections.values(), key=lambda one: -one.count)),
    )  # fmt: skip


def _in_sequence(run: _Run, lower: int, cap: int) -> Schedule | None:
    """The last resort of small loops, the budget spent: no overlap but what refining adds."""
    loop, options = run.loop, run.options
    if len(loop.operations) > LARGE or options.stages_max is not None:
        return None
    found = [in_sequence(loop, style.teams, lower) for style in run.styles.values()]
    known = [schedule for schedule in found if schedule is not None and schedule.ii <= cap]
    if not known:
        return None
    run.arms["in sequence"] = 1
    return min(known, key=lambda schedule: schedule.ii)


def sequential_ii(loop: Loop) -> int:
    """An interval at which nothing overlaps, transfers included."""
    delays = sum(max(0, e.delay_cycles) for e in loop.dependences if e.distance == 0)
    spills = sum(op.spill_cycles + op.cycles for op in loop.operations)
    carried = max((e.delay_cycles for e in loop.dependences), default=0)
    return delays + spills + carried + 1


def _evidence(lower: Bounds, schedule: Schedule | None) -> Evidence:
    best = lower.best
    text = f"{best.kind}: {best.detail}"
    if schedule is not None and schedule.ii == lower.ii:
        return Evidence("bound", lower.ii, text)
    return Evidence("none", lower.ii, text)


def _probe(run: _Run) -> Callable[[int], bool]:
    def feasible(ii: int) -> bool:
        if ii not in run.tried:
            run.probes += 1
            run.tried[ii] = attempt(run, ii)
        return run.tried[ii] is not None

    return feasible


def linear(run: _Run, feasible: Callable[[int], bool], low: int, cap: int) -> int | None:
    """The smallest interval that the probe accepts."""
    for ii in range(low, cap + 1):
        if feasible(ii):
            return ii
        if run.expired():
            return None
    return None


def gallop(run: _Run, feasible: Callable[[int], bool], low: int, cap: int) -> int | None:
    """The same answer: gallop up, bisect down, then try what was skipped.

    Feasibility of a heuristic is not monotone in the interval, so what bisection leaves untried
    below its answer is tried too; `run.monotone` records whether that changed anything.
    """
    step, ii, failed = 1, low, low - 1
    while not feasible(ii):
        failed = ii
        if ii < cap and run.expired():
            large = len(run.loop.operations) > LARGE  # small ones go in sequence
            return cap if large and feasible(cap) else None
        if ii >= cap:
            return linear(run, feasible, low, cap)
        ii, step = min(ii + step, cap), step * 2
    high = ii
    while high - failed > 1 and not run.expired():
        middle = (failed + high) // 2
        if feasible(middle):
            high = middle
        else:
            failed = middle
    while untried := [smaller for smaller in range(low, high) if smaller not in run.tried]:
        most = run.options.below_max
        if run.options.search != "auto" or len(untried) <= most:
            break
        better = None
        if high > run.options.far * low:
            better = next((ii for ii in _spread(untried, SAMPLES) if feasible(ii)), None)
        if better is None or run.expired():
            run.skipped = sum(ii not in run.tried for ii in untried)
            return high if better is None else better
        run.monotone, high = False, better
    for number, smaller in enumerate(untried):
        if run.expired():
            run.skipped = len(untried) - number
            break
        if feasible(smaller):
            run.monotone = False
            return smaller
    return high


def _spread(intervals: list[int], count: int) -> list[int]:
    """So many of the intervals, the smallest and then evenly apart."""
    return [intervals[i * len(intervals) // count] for i in range(count)]


def attempt(run: _Run, ii: int) -> Schedule | None:
    """One interval: every warp assignment, every way of placing, the storage limits."""
    for name, style in run.styles.items():
        for arm, starts in _placements(run, ii, style):
            schedule = _settle(run, ii, starts, style)
            if schedule is not None:
                run.arms[arm] = run.arms.get(arm, 0) + 1
                run.arms[f"style {name}"] = run.arms.get(f"style {name}", 0) + 1
                return schedule
        if run.options.registers == "reject" or run.expired():
            break
    return None


def _placements(run: _Run, ii: int, style: _Style) -> Iterator[tuple[str, list[int]]]:
    """(arm, issue cycles) of every way of placing that manages, one after the other."""
    placer = style.placer
    heights = placer.by_height(ii)
    if heights is None:
        return
    options, large = run.options, style.n > LARGE
    if not large and style.n <= options.arms_max:
        listed = placer.numbers(heights)
        if run.aware:
            starts, seats = swing(style.problem, ii, listed, run.loop)
            run.work.spend(SEAT * seats)
            if starts is not None:
                yield "swing", starts
        yield from _by_arms(run, ii, style.problem, listed)
    orders: list[tuple[str, Order]] = []
    for ratio in (2, options.budget_ratio):
        for name, priority in _remember(_priorities(style, ii, heights), orders):
            if orders[0][0] != name and run.expired():
                return
            starts, steps, seats = placer.place(ii, max(ratio * style.n, 400), priority)
            run.placements += steps
            run.work.spend(placement_units(style, ii, steps, seats))
            if starts is not None:
                yield f"evict by {name}", starts
    if large and style.n <= options.arms_max and not run.expired():
        yield from _by_arms(run, ii, style.problem, placer.numbers(heights))


def placement_units(style: _Style, ii: int, steps: int, seats: int) -> int:
    """What so many placements with eviction count, and the seats that they examined. Plain Python
    places where pools are fractional."""
    if style.fractional:
        return SLOW * (steps + seats)
    return steps + steps * style.placer.rows(ii) // (ROWS * style.n) + seats // SEATS


def _by_arms(
    run: _Run, ii: int, problem: Problem, heights: list[int]
) -> Iterator[tuple[str, list[int]]]:
    """What the arms place, group by group; where they fail, that is recorded."""
    state = ArmPlacement(problem, ii, heights, pressure(run.loop), run.loop.parents)
    placed = place_all(state, groups(problem, heights))
    run.work.spend(SEAT * state.looked)
    if placed:
        for arm, count in state.arms_used.items():
            run.arms[f"{arm} groups"] = run.arms.get(f"{arm} groups", 0) + count
        yield "arms", list(state.starts)
    elif state.failure is not None:
        run.failures.append(state.failure)


def _remember(
    fresh: Iterator[tuple[str, Order]], known: list[tuple[str, Order]]
) -> Iterator[tuple[str, Order]]:
    """Orders are costly for large loops: made when they are needed, and once."""
    if known:
        yield from known
        return
    for order in fresh:
        known.append(order)
        yield order


def _priorities(style: _Style, ii: int, order: Order) -> Iterator[tuple[str, Order]]:
    """Orders for eviction: height; then widest reservation first; then least slack. Large loops
    that reserve units for several cycles take the widest first: seldom does height leave gaps."""
    first = [("height", order), ("width", style.placer.by_width(order))]
    wide = style.n > LARGE and style.placer.rows(ii) > style.placer.reservations
    yield from first[::-1] if wide else first
    heights = style.placer.numbers(order)
    scale = max(heights, default=0) + 1
    depth = depths(style.problem, ii)
    if depth is not None:
        path = max((h + d for h, d in zip(heights, depth, strict=True)), default=0)
        slack = [path - h - d for h, d in zip(heights, depth, strict=True)]
        yield "slack", [-s * scale + h for s, h in zip(slack, heights, strict=True)]
    for turn in range(SHAKES if style.n <= SHAKEN_MAX else 0):
        yield f"shaken height {turn}", shaken(heights, turn)


def shaken(heights: list[int], turn: int) -> list[int]:
    """Heights with a fixed pseudo-random addition, larger with every round (a plain congruential
    generator, so that the order is the same everywhere)."""
    state, found = turn + 1, []
    for height in heights:
        state = (state * 1103515245 + 12345) % (1 << 31)
        found.append(height * 64 + (state >> 8) % (64 * (turn + 1)))
    return found


def _settle(run: _Run, ii: int, starts: list[int], style: _Style) -> Schedule | None:
    """The placement if it keeps the limits, perhaps pushed together; else None."""
    loop, teams = run.loop, style.teams
    run.work.spend(CHECK * (len(loop.operations) + len(loop.dependences)))
    low = min(starts, default=0)
    if low and not style.fractional:
        starts = [s - low for s in starts]
    schedule = Schedule(ii, tuple(starts), teams)
    if run.options.stages_max is not None and schedule.stages(loop) > run.options.stages_max:
        return None
    if run.options.registers != "naive" and run.limited and _over(loop, schedule):
        pushed = push_together(style.problem, ii, list(starts), run.work)
        schedule = Schedule(ii, tuple(pushed), teams)
        if over := _over(loop, schedule):
            run.rejected += 1
            for one in over:
                known = run.rejections.setdefault((one.resource, one.group), one)
                run.rejections[one.resource, one.group] = replace(known, count=known.count + 1)
            return None
    faults = check(loop, schedule)
    if run.options.registers == "naive":
        faults = [f for f in faults if f.kind not in ("registers", "memory", "ring")]
    return schedule if not faults else None


def holds_storage(loop: Loop) -> bool:
    """Whether a value takes memory or a ring."""
    return any(op.footprints or op.slots is not None for op in loop.operations)


def _over(loop: Loop, schedule: Schedule) -> list[StorageRejection]:
    """The limits of storage that a placement passes, each once; counts are those of the caller."""
    over = excesses(loop, schedule.ii, schedule.starts, schedule.teams)
    if over:
        return [_passed(loop, schedule.ii, one) for one in over]
    faults = [f for f in check(loop, schedule) if f.kind == "ring"]
    return [_ring(loop, schedule, fault) for fault in faults]


def _passed(loop: Loop, ii: int, excess: Excess) -> StorageRejection:
    group = excess.team
    if group is not None:
        amounts = [op.registers for op in loop.operations]
        limit = loop.team_words(group) or 0
    else:
        amounts = [dict(op.footprints).get(excess.what, 0) for op in loop.operations]
        rings = [op.slots * a for op, a in zip(loop.operations, amounts, strict=True) if op.slots]
        limit = loop.limits[excess.what] - sum(rings)
    used = sum(amounts[v] * copies for v, copies in excess.cover)
    return StorageRejection(excess.what, group, 0, ii, used, limit, tuple(excess.cover))


def _ring(loop: Loop, schedule: Schedule, fault: ScheduleViolation) -> StorageRejection:
    """A ring with fewer slots than values that are alive at once."""
    ii, v = schedule.ii, loop.index[fault.operations[0]]
    end = value_ends(loop, ii, schedule.starts)[v]
    copies, slots = -(-(end - schedule.starts[v]) // ii), loop.operations[v].slots or 0
    name = f"ring of {loop.operations[v].name}"
    return StorageRejection(name, None, 0, ii, copies, slots, ((v, copies),))


__all__ = ["POLICIES", "RauOptions", "solve", "stage_count"]
