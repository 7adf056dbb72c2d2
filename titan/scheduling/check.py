"""Checks a modulo schedule against every constraint, by counting on the unrolled program.

Trusted. Plain code: it imports the loop model and nothing of the schedulers, and no solver. It
lays out enough successive iterations that one whole interval `[base, base + ii)` is in the steady
state, counts what is in use in each of its cycles, and compares with the limits. All amounts are
non-negative and prologue and epilogue run subsets of the steady state, so an interval that fits
shows that the whole program fits. Lifetimes are counted for every copy that overlaps that
interval, however long the value lives (an unrolling to the schedule's length alone misses values
that outlive it). Data and order dependences are kept apart: order ends no lifetime and moves no
data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import accumulate

from titan.scheduling.loop.model import DATA, Dependence, Loop, Operation
from titan.scheduling.model import Schedule

FAULTS_MAX = 100
ROWS_LISTED = 1 << 16
KINDS = (
    "shape",
    "start",
    "completion",
    "dependence",
    "spill",
    "capacity",
    "pool",
    "memory",
    "ring",
    "warps",
    "variable-latency",
    "registers",
    "concurrency",
)


@dataclass(frozen=True, slots=True)
class ScheduleViolation:
    """One violated constraint: its kind (of KINDS), a message, and the operations concerned."""

    kind: str
    text: str
    operations: tuple[str, ...] = ()


def check(
    loop: Loop, schedule: Schedule, length_max: int | None = None, faults_max: int = FAULTS_MAX
) -> list[ScheduleViolation]:
    """Every violated constraint, at most `faults_max`; an empty list means that it holds.

    `length_max` is the length that the schedule claims to respect, if it claims one.
    """
    shape = list(_shape(loop, schedule))
    if shape:
        return shape[:faults_max]
    faults: list[ScheduleViolation] = []
    for part in (
        _completion(loop, schedule, length_max),
        _dependences(loop, schedule),
        _teams(loop, schedule),
        _capacity(loop, schedule),
        _pools(loop, schedule),
        _storage(loop, schedule),
        _concurrency(loop, schedule),
    ):
        for fault in part:
            faults.append(fault)
            if len(faults) >= faults_max:
                return faults
    return faults


def _shape(loop: Loop, schedule: Schedule) -> Iterator[ScheduleViolation]:
    n = len(loop.operations)
    if not isinstance(schedule.ii, int) or isinstance(schedule.ii, bool) or schedule.ii < 1:
        yield ScheduleViolation(
            "shape", f"the initiation interval is {schedule.ii!r}, not a positive integer"
        )
    if len(schedule.starts) != n or len(schedule.teams) != n:
        counts = f"{len(schedule.starts)} starts and {len(schedule.teams)} groups"
        yield ScheduleViolation("shape", f"the schedule has {counts} for {n} operations")
        return
    whole = {*map(type, schedule.starts), *map(type, schedule.teams)} <= {int}
    numbered = whole and set(schedule.teams).issubset(range(len(loop.teams)))
    if numbered and min(schedule.starts, default=0) >= 0:
        return
    for operation, start, team in zip(
        loop.operations, schedule.starts, schedule.teams, strict=True
    ):
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            text = f"`{operation.name}` starts at {start!r}, not at a cycle from 0"
            yield ScheduleViolation("start", text, (operation.name,))
        if not isinstance(team, int) or not 0 <= team < len(loop.teams):
            text = f"`{operation.name}` is on warp group {team!r} of {len(loop.teams)}"
            yield ScheduleViolation("warps", text, (operation.name,))


def _completion(
    loop: Loop, schedule: Schedule, length_max: int | None
) -> Iterator[ScheduleViolation]:
    if length_max is None:
        return
    for operation, start in zip(loop.operations, schedule.starts, strict=True):
        if start + operation.cycles > length_max:
            end = start + operation.cycles
            text = f"`{operation.name}` ends at {end}, after the claimed length {length_max}"
            yield ScheduleViolation("completion", text, (operation.name,))


def _dependences(loop: Loop, schedule: Schedule) -> Iterator[ScheduleViolation]:
    ii, starts, teams = schedule.ii, schedule.starts, schedule.teams
    one_team = len(set(teams)) < 2
    if one_team and not [
        e
        for e in loop.dependences
        if starts[e.sink] - starts[e.source] + e.distance * ii < e.delay_cycles
    ]:
        return
    for e in loop.dependences:
        gap = starts[e.sink] - starts[e.source] + e.distance * ii
        if gap < e.delay_cycles:
            u, v = loop.operations[e.source], loop.operations[e.sink]
            text = f"`{v.name}` follows `{u.name}` after {gap} cycles, needs {e.delay_cycles}"
            yield ScheduleViolation("dependence", text, (u.name, v.name))
        elif one_team or not _crosses(schedule, e):
            continue
        elif gap < e.delay_cycles + (u := loop.operations[e.source]).spill_cycles:
            v = loop.operations[e.sink]
            text = (
                f"`{v.name}` follows `{u.name}` of another warp group after {gap} cycles, "
                f"needs {e.delay_cycles} and {u.spill_cycles} for the transfer"
            )
            yield ScheduleViolation("spill", text, (u.name, v.name))


def _crosses(schedule: Schedule, e: Dependence) -> bool:
    return e.kind == DATA and schedule.teams[e.source] != schedule.teams[e.sink]


def _teams(loop: Loop, schedule: Schedule) -> Iterator[ScheduleViolation]:
    if not loop.groups:
        return
    producer = next((i for i, team in enumerate(loop.groups) if team.variable_latency), None)
    for operation, team in zip(loop.operations, schedule.teams, strict=True):
        group = loop.groups[team]
        if group.warps < operation.warps:
            text = f"`{operation.name}` needs {operation.warps} warps, "
            text += f"`{group.name}` has {group.warps}"
            yield ScheduleViolation("warps", text, (operation.name,))
        if producer is not None and operation.variable_latency != (team == producer):
            what = "has" if operation.variable_latency else "has no"
            text = f"`{operation.name}` {what} variable latency and is on warp group `{group.name}`"
            yield ScheduleViolation("variable-latency", text, (operation.name,))


def _steady_rows(ii: int, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """How often copies of `[begin, end)`, one every `ii` cycles, cover the cycles of one interval.

    Yields (first, last, count): rows first up to last of the interval are covered count more times.
    """
    whole, rest = divmod(end - begin, ii)
    if whole:
        yield 0, ii, whole
    first = begin % ii
    if rest:
        last = first + rest
        yield first, min(last, ii), 1
        if last > ii:
            yield 0, last - ii, 1


class _Profile:
    """A sum of blocks over the rows of one interval, with the names of who contributes."""

    __slots__ = ("blocks", "change", "ii")

    def __init__(self, ii: int) -> None:
        self.ii = ii
        self.change: defaultdict[int, int] = defaultdict(int)
        self.blocks: list[tuple[int, int, str]] = []

    def add(self, begin: int, end: int, amount: int, name: str | None = None) -> None:
        """`name` None: nobody asks who contributes."""
        if amount == 0 or end <= begin:
            return
        for first, last, count in _steady_rows(self.ii, begin, end):
            self.change[first] += amount * count
            self.change[last] -= amount * count
            if name is not None:
                self.blocks.append((first, last, name))

    def peak(self) -> tuple[int, int]:
        """The largest sum and the first row that has it."""
        best, where, total = 0, 0, 0
        for row in sorted(self.change):
            total += self.change[row]
            if total > best and row < self.ii:
                best, where = total, row
        return best, where

    def rows(self) -> list[int]:
        total, out = 0, []
        for row in range(self.ii):
            total += self.change.get(row, 0)
            out.append(total)
        return out

    def at(self, row: int) -> tuple[str, ...]:
        """Who contributes at `row`."""
        return tuple(sorted({b[2] for b in self.blocks if b[0] <= row < b[1]}))


def _capacity(loop: Loop, schedule: Schedule) -> Iterator[ScheduleViolation]:
    ii = schedule.ii
    profiles: defaultdict[str, _Profile] = defaultdict(lambda: _Profile(ii))
    rows_listed = ii if ii <= ROWS_LISTED else 0  # lists are read faster, and ask for all rows
    # Two intervals long: what wraps around ends in the second, which is then the first again.
    changes = defaultdict[str, list[int]](lambda: [0] * (2 * rows_listed))
    for operation, start in zip(loop.operations, schedule.starts, strict=True):
        for use in operation.uses:
            first, cycles = (start + use.first_cycle) % ii, use.cycles
            if 0 < cycles < rows_listed:  # as `add` does, and most uses are like this
                change, amount = changes[use.unit], use.amount
                change[first] += amount
                change[first + cycles] -= amount
            else:
                profiles[use.unit].add(first, first + cycles, use.amount)
    for unit, twice in changes.items():
        change = _wrapped(twice, rows_listed)
        alone = unit in loop.units and unit not in profiles
        if alone and max(accumulate(change)) <= loop.units[unit].capacity:
            continue
        for row, amount in enumerate(change):
            if amount:
                profiles[unit].change[row] += amount
    for unit, profile in sorted(profiles.items()):
        peak, row = profile.peak()
        if unit not in loop.units:
            names = _users(loop, schedule, {unit}, row)
            yield ScheduleViolation("capacity", f"there is no unit {unit}", names)
        elif peak > loop.units[unit].capacity:
            text = f"{unit} is used {peak} times at cycle {row} of the steady state, "
            names = _users(loop, schedule, {unit}, row)
            yield ScheduleViolation(
                "capacity", f"{text}capacity {loop.units[unit].capacity}", names
            )


def _wrapped(twice: list[int], ii: int) -> list[int]:
    """Changes over the rows of one interval, from those over two: what is in use at the end of the
    first goes on at its beginning."""
    once = [change + again for change, again in zip(twice[:ii], twice[ii:], strict=True)]
    if once:
        once[0] += sum(twice[:ii])
    return once


def _users(loop: Loop, schedule: Schedule, units: Container[str], row: int) -> tuple[str, ...]:
    """The operations that take one of the units in a row of the interval."""
    found = set()
    for operation, start in zip(loop.operations, schedule.starts, strict=True):
        for use in operation.uses:
            if use.unit in units and use.amount:
                begin = start + use.first_cycle
                rows = _steady_rows(schedule.ii, begin, begin + use.cycles)
                if any(first <= row < last for first, last, _ in rows):
                    found.add(operation.name)
    return tuple(sorted(found))


def _pools(loop: Loop, schedule: Schedule) -> Iterator[ScheduleViolation]:
    for pool in loop.pools:
        weights = dict(pool.members)
        profile = _Profile(schedule.ii)
        for operation, start in zip(loop.operations, schedule.starts, strict=True):
            for use in operation.uses:
                begin = start + use.first_cycle
                weight = weights.get(use.unit, 0)
                profile.add(begin, begin + use.cycles, use.amount * weight)
        if not profile.change:
            continue
        rows = profile.rows()
        whole, rest = divmod(pool.window_cycles, schedule.ii)
        constant = whole * sum(rows)
        window = sum(rows[i % schedule.ii] for i in range(rest))
        for row in range(schedule.ii):
            if constant + window > pool.amount:
                text = f"pool {pool.name} is used {constant + window} times in the "
                text += f"{pool.window_cycles} cycles from {row}, amount {pool.amount}"
                members = {unit for unit, weight in pool.members if weight}
                yield ScheduleViolation("pool", text, _users(loop, schedule, members, row))
                break
            if rest:
                window += rows[(row + rest) % schedule.ii] - rows[row]


def lifetimes(loop: Loop, schedule: Schedule) -> list[tuple[int, int]]:
    """Begin and end (exclusive) of the value of each operation of iteration 0."""
    ends = list(schedule.starts)
    for e in loop.dependences:
        if e.kind == DATA:
            use = schedule.starts[e.sink] + e.distance * schedule.ii + e.hold_cycles
            ends[e.source] = max(ends[e.source], use)
    return list(zip(schedule.starts, ends, strict=True))


def _storage(loop: Loop, schedule: Schedule) -> Iterator[ScheduleViolation]:
    if not any([o.registers or o.footprints or o.slots is not None for o in loop.operations]):
        return  # nothing is stored
    lives = lifetimes(loop, schedule)
    memories: dict[str, _Profile] = {}
    fixed: dict[str, int] = {}
    registers = [_Profile(schedule.ii) for _ in loop.teams]
    for v, (operation, (begin, end)) in enumerate(zip(loop.operations, lives, strict=True)):
        if operation.registers:
            registers[schedule.teams[v]].add(begin, end, operation.registers, operation.name)
        if operation.slots is not None:
            yield from _ring(operation, schedule.ii, begin, end)
        for memory, amount in operation.footprints:
            if operation.slots is not None:
                fixed[memory] = fixed.get(memory, 0) + operation.slots * amount
            else:
                profile = memories.setdefault(memory, _Profile(schedule.ii))
                profile.add(begin, end, amount, operation.name)
    for memory in sorted({*memories, *fixed}):
        profile = memories.get(memory, _Profile(schedule.ii))
        peak, row = profile.peak()
        total = peak + fixed.get(memory, 0)
        if memory not in loop.limits:
            yield ScheduleViolation("memory", f"there is no memory {memory}", profile.at(row))
        elif total > loop.limits[memory]:
            text = f"{memory} holds {total} at cycle {row} of the steady state, "
            yield ScheduleViolation(
                "memory", f"{text}capacity {loop.limits[memory]}", profile.at(row)
            )
    for team, profile in enumerate(registers):
        limit = loop.team_words(team)
        peak, row = profile.peak()
        if limit is not None and peak > limit:
            text = f"warp group `{loop.teams[team].name}` holds {peak} register words at cycle "
            yield ScheduleViolation(
                "registers", f"{text}{row} of the steady state, limit {limit}", profile.at(row)
            )


def _ring(operation: Operation, ii: int, begin: int, end: int) -> Iterator[ScheduleViolation]:
    copies = -(-(end - begin) // ii)
    if operation.slots is not None and copies > operation.slots:
        text = f"`{operation.name}` has {copies} values alive at once and {operation.slots} slots"
        yield ScheduleViolation("ring", text, (operation.name,))


def blocks(loop: Loop, schedule: Schedule, e: Dependence) -> bool:
    """Does the sink of `e` wait with its warps: by the dependence, or for a transfer it needs?"""
    return e.blocking or (_crosses(schedule, e) and loop.operations[e.source].spill_cycles > 0)


def _concurrency(loop: Loop, schedule: Schedule) -> Iterator[ScheduleViolation]:
    """No other operation of the group is being issued when a waiting operation starts."""
    if not loop.groups:
        return
    waiting = sorted({e.sink for e in loop.dependences if blocks(loop, schedule, e)})
    members: dict[int, list[int]] = {}
    for v, team in enumerate(schedule.teams):
        members.setdefault(team, []).append(v)
    for v in waiting:
        for o in members[schedule.teams[v]]:
            since = (schedule.starts[v] - schedule.starts[o]) % schedule.ii
            if o != v and since < loop.operations[o].issue_window:
                a, b = loop.operations[v].name, loop.operations[o].name
                group = loop.teams[schedule.teams[v]].name
                text = f"`{a}` waits on warp group `{group}` while `{b}` is being issued there"
                yield ScheduleViolation("concurrency", text, (a, b))
