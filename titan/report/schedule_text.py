"""A schedule for a terminal: what was found and why, the table, and a picture of the steady state.

Nothing here decides anything; it shows a `ScheduleRun` of titan.scheduling.run.
"""

from __future__ import annotations

from titan.scheduling.explain import ScheduleExplanation, explain
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import PlacementFailure, Schedule, StorageRejection
from titan.scheduling.phases import IssueSlot, phases
from titan.scheduling.run import ScheduleRun

PICTURE_COLUMNS = 96
ROWS_MAX = 200
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


# Who produced a schedule only because the search ran out of time.
LAST_RESORTS = ("joint, larger interval",)


def render(result: ScheduleRun, timings: bool = False) -> str:
    """The whole report; processor times with `timings` only."""
    lines = headline(result, timings)
    if result.schedule is not None:
        story = explain(result.loop, result.schedule, result.bounds)
        lines += why(result, story)
        lines += ["", *table(result.loop, result.schedule)]
        lines += ["", *picture(result.loop, result.schedule)]
        lines += ["", *phase_table(result.loop, result.schedule)]
    lines += _outcomes(result, timings)
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join(lines) + "\n"


def headline(result: ScheduleRun, timings: bool = False) -> list[str]:
    """Interval, proof and producer in lines; the lower bound if no schedule was found."""
    loop = result.loop
    if result.schedule is None:
        text = f"{loop.name} on {loop.machine.name}: no schedule found"
        return [text, f"  lower bound {result.bounds.ii}: {result.bounds.best.detail}"]
    schedule = result.schedule
    first = (
        f"{loop.name} on {loop.machine.name}: initiation interval {schedule.ii}, length "
        f"{schedule.length(loop)}, {schedule.stages(loop)} stages"
    )
    if result.proved:
        proof = f"  optimal interval: {evidence_text(result)}"
    elif result.evidence.kind != "none" and result.evidence.lower_bound == schedule.ii:
        proof = (
            f"  optimal among schedules of up to {result.evidence.lengths_to} cycles: "
            f"{result.evidence.detail}; the bound for all is {result.bounds.ii}"
        )
    else:
        proof = (
            f"  not proved optimal: the best lower bound is {result.evidence.lower_bound} "
            f"({result.evidence.detail}), gap {result.gap}"
        )
    again = ", from the cache" if result.cached else ""
    spent = f" in {result.seconds:.3f} s" if timings else ""
    return [first, proof, f"  found by {result.produced_by}{spent}{again}"]


def evidence_text(result: ScheduleRun) -> str:
    """What proves the interval optimal, worded to follow a colon."""
    evidence = result.evidence
    if evidence.kind == "bound":
        return f"it equals the {evidence.detail}"
    return evidence.detail


def why(result: ScheduleRun, story: ScheduleExplanation) -> list[str]:
    """Lines on what limits the schedule: strategies, binding limits, units, storage, rings."""
    lines = [f"  strategy: {name}" for name in story.strategies]
    lines += [f"  binds: {text}" for text in story.binding]
    units = ", ".join(f"{s.name} {s.share:.0%}" for s in story.units)
    lines.append(f"  units: {units}")
    for s in story.storage:
        lines.append(f"  storage: {s.name} {s.used} of {s.limit} ({s.share:.0%})")
    for ring in story.rings:
        have = "no ring declared" if ring.slots is None else f"{ring.slots} slots"
        fit = "" if ring.fit is None else f", {ring.fit} would fit"
        lines.append(f"  ring: {ring.operation} hides its latency with {ring.needed}; {have}{fit}")
    return lines


def table(loop: Loop, schedule: Schedule) -> list[str]:
    """Operations in the order of issue: cycle, stage, row, group, units."""
    width = max([len(op.name) for op in loop.operations] + [9])
    group = max(len(team.name) for team in loop.teams)
    head = (
        f"{'operation':{width}}  {'cycle':>7}  {'stage':>5}  {'row':>6}  {'group':{group}}  units"
    )
    lines = [head]
    order = sorted(range(len(schedule.starts)), key=lambda v: (schedule.starts[v], v))
    for v in order[:ROWS_MAX]:
        operation, start = loop.operations[v], schedule.starts[v]
        units = " ".join(f"{use.unit}:{use.cycles}" for use in operation.uses)
        team = loop.teams[schedule.teams[v]].name
        stage, row = divmod(start, schedule.ii)
        lines.append(
            f"{operation.name:{width}}  {start:>7}  {stage:>5}  {row:>6}  {team:{group}}  {units}"
        )
    if len(order) > ROWS_MAX:
        lines.append(f"... and {len(order) - ROWS_MAX} more")
    return lines


def picture(loop: Loop, schedule: Schedule) -> list[str]:
    """One line a unit, one column a slice of the interval, one letter an operation."""
    if len(loop.operations) > len(LETTERS):
        return ["(too many operations for a picture; see --html)"]
    columns = min(PICTURE_COLUMNS, schedule.ii)
    units = sorted({use.unit for op in loop.operations for use in op.uses})
    width = max((len(unit) for unit in units), default=4)
    lines = [f"steady state, {schedule.ii} cycles; a column is {schedule.ii / columns:.4g}"]
    for unit in units:
        cells = ["."] * columns
        for v, operation in enumerate(loop.operations):
            for use in operation.uses:
                if use.unit != unit:
                    continue
                begin = schedule.starts[v] + use.first_cycle
                for column in _columns(begin, use.cycles, schedule.ii, columns):
                    cells[column] = LETTERS[v] if cells[column] == "." else "*"
        lines.append(f"{unit:>{width}} |{''.join(cells)}|")
    legend = "  ".join(f"{LETTERS[v]}={op.name}" for v, op in enumerate(loop.operations))
    return [*lines, f"{'':{width}}  {legend}"]


def _columns(begin: int, cycles: int, ii: int, columns: int) -> set[int]:
    """Columns that a block touches by more than half, or the one it begins in."""
    found = {(begin % ii) * columns // ii}
    scale = ii / columns
    for column in range(columns):
        middle = (column + 0.5) * scale
        if (middle - begin) % ii < cycles:
            found.add(column)
    return found


def phase_table(loop: Loop, schedule: Schedule) -> list[str]:
    """Prologue, steady state and epilogue, each in the order of issue."""
    parts = phases(loop, schedule)
    return [
        _phase(loop, "prologue", parts.prologue),
        _phase(loop, "steady state", parts.steady),
        _phase(loop, "epilogue", parts.epilogue),
    ]


def _phase(loop: Loop, title: str, issues: tuple[IssueSlot, ...]) -> str:
    if not issues:
        return f"{title}: nothing"
    shown = [
        f"{issue.cycle}:{loop.operations[issue.operation].name}[{_iteration(title, issue)}]"
        for issue in issues[:ROWS_MAX]
    ]
    more = f" ... and {len(issues) - ROWS_MAX} more" if len(issues) > ROWS_MAX else ""
    return f"{title}: {' '.join(shown)}{more}"


def _iteration(title: str, issue: IssueSlot) -> str:
    if title == "prologue":
        return str(issue.iteration)
    base = "i" if title == "steady state" else "n"
    return f"{base}{issue.iteration:+d}" if issue.iteration else base


def _outcomes(result: ScheduleRun, timings: bool) -> list[str]:
    lines = []
    for outcome in result.outcomes:
        numbers = ", ".join(f"{key} {value}" for key, value in outcome.statistics.items())
        spent = f"{outcome.seconds:.3f} s; " if timings else ""
        lines.append(f"{outcome.solver}: {spent}{numbers}")
        if outcome.solver == "joint" and result.normalised is not None and outcome.schedule:
            scale = result.normalised.normalisation
            lines.append(
                f"  normalised loop: interval {outcome.schedule.ii}, length "
                f"{outcome.schedule.length(result.normalised.loop)}; {outcome.evidence.detail}; "
                f"scale {float(scale.scale):.4g}, F {scale.distortion}, "
                f"largest error of a ratio {float(scale.ratio_error):.1%}"
            )
        lines += [rejection_line(result.loop, one) for one in outcome.rejections]
    failures = [failure for outcome in result.outcomes for failure in outcome.failures]
    if result.schedule is None or result.produced_by in LAST_RESORTS or in_sequence(result):
        for failure in failures[-1:]:
            lines += failure_lines(result.loop, failure)
    elif failures:
        last = failures[-1]
        name = result.loop.operations[last.operation].name
        lines.append(
            f"on the way: no slot for `{name}` at interval {last.ii}, rejected by "
            f"{last.pool or 'its dependences'} (all of it with --format json)"
        )
    return ["", *lines] if lines else []


def in_sequence(result: ScheduleRun) -> bool:
    """Is the schedule Rau's last resort?"""
    arms = [o.statistics.get("arms") for o in result.outcomes if o.solver == result.produced_by]
    return any(isinstance(found, dict) and "in sequence" in found for found in arms)


def rejection_line(loop: Loop, rejection: StorageRejection) -> str:
    """How many placements one limit of storage refused, and the first of them."""
    where = rejection.resource
    if rejection.group is not None:
        where += f" of group {loop.teams[rejection.group].name}"
    values = ", ".join(f"{loop.operations[v].name} x{copies}" for v, copies in rejection.cover)
    return (
        f"  {rejection.count} placements rejected for {where}: at interval {rejection.ii} "
        f"{values} take {rejection.used} of {rejection.limit}"
    )


def failure_lines(loop: Loop, failure: PlacementFailure) -> list[str]:
    """The six things to know about a placement that failed."""
    low, high = failure.window
    rows = ", ".join(f"{unit} row {row}: {held} of {cap}" for unit, row, held, cap in failure.rows)
    footprint = ", ".join(f"{u} {c} cycles from {f} x{a}" for u, f, c, a in failure.footprint)
    members = ", ".join(loop.operations[v].name for v in failure.group)
    return [
        f"no slot for `{loop.operations[failure.operation].name}` at interval {failure.ii}",
        f"  it takes {failure.cycles} cycles: {footprint}",
        f"  rows in conflict: {rows or 'none'}",
        f"  its dependences permit cycles {low} to {'any' if high is None else high}",
        f"  rejected by: {failure.pool or 'its dependences'}",
        f"  group {failure.order} ({members}), stage {failure.stage}",
    ]


def comparison(titles: list[str], results: list[ScheduleRun], timings: bool = False) -> str:
    """Two results side by side, and the ratio of their intervals."""
    rows: list[tuple[str, list[str]]] = []
    stories = [
        explain(r.loop, r.schedule, r.bounds) if r.schedule is not None else None for r in results
    ]
    for name, show in (
        ("initiation interval", lambda r: str(r.schedule.ii)),
        ("length", lambda r: str(r.schedule.length(r.loop))),
        ("stages", lambda r: str(r.schedule.stages(r.loop))),
        ("lower bound", lambda r: str(r.evidence.lower_bound)),
        ("proved optimal", lambda r: "yes" if r.proved else "no"),
        ("found by", lambda r: r.produced_by),
        *((("seconds", lambda r: f"{r.seconds:.3f}"),) if timings else ()),
    ):
        rows.append((name, [show(r) if r.schedule is not None else "-" for r in results]))
    for name in ("strategies", "units", "storage"):
        rows.append((name, [_story(story, name) for story in stories]))
    lines = ["", *[f"{name}: {' | '.join(cells)}" for name, cells in rows]]
    lines[0] = f"A is {titles[0]}, B is {titles[1]}"
    found = [r.schedule for r in results if r.schedule is not None]
    if len(found) == 2:
        lines.append(f"interval of B over A: {found[1].ii / found[0].ii:.4f}")
        lines += _moved(results)
    return "\n".join(lines) + "\n"


def _story(story: ScheduleExplanation | None, name: str) -> str:
    if story is None:
        return "-"
    if name == "strategies":
        return "; ".join(story.strategies) or "none by name"
    shares = story.units if name == "units" else story.storage
    return ", ".join(f"{s.name} {s.share:.0%}" for s in shares) or "none"


def _moved(results: list[ScheduleRun]) -> list[str]:
    """Operations of both loops whose stage or group differs."""
    a, b = results
    if a.schedule is None or b.schedule is None:
        return []
    lines = []
    for name, v in a.loop.index.items():
        w = b.loop.index.get(name)
        if w is None:
            continue
        one = (a.schedule.stage(v), a.loop.teams[a.schedule.teams[v]].name)
        two = (b.schedule.stage(w), b.loop.teams[b.schedule.teams[w]].name)
        if one != two:
            lines.append(f"  {name}: stage {one[0]} on {one[1]} | stage {two[0]} on {two[1]}")
    return ["operations placed differently:", *lines] if lines else []
