"""Why a schedule is what it is: what binds the interval, and the strategies it amounts to.

Strategies are recognised from the schedule alone, by conditions stated with each, all of which have
to hold for all operations that they refer to; they are names for people, and nothing depends on
them. A sub-tile is a set of operations that share values, loads left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.scheduling.loop.bounds import Bounds, ring_footprint
from titan.scheduling.loop.model import DATA, Loop
from titan.scheduling.model import Schedule
from titan.scheduling.storage import peak, value_ends

MATRIX_UNITS = ("TC", "MFMA")
EXPONENTIAL_UNITS = ("SFU", "TRANS")


@dataclass(frozen=True, slots=True)
class Saturation:
    """A resource and how full it is: `used` of `limit` (cycles of an interval, words, bytes)."""

    name: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        """Used over limit, 0 where there is no limit."""
        return self.used / self.limit if self.limit else 0.0


@dataclass(frozen=True, slots=True)
class RingSlots:
    """Slots a streaming operation needs to hide its latency, those it has, and those that fit."""

    operation: str
    needed: int
    slots: int | None
    fit: int | None


@dataclass(frozen=True, slots=True)
class ScheduleExplanation:
    """What binds the interval, how full everything is, strategies by name, ring slots."""

    binding: tuple[str, ...]
    units: tuple[Saturation, ...]
    storage: tuple[Saturation, ...]
    strategies: tuple[str, ...]
    rings: tuple[RingSlots, ...]


def explain(loop: Loop, schedule: Schedule, bounds: Bounds) -> ScheduleExplanation:
    """Why a schedule is what it is, from the schedule and the bounds of its loop."""
    binding = tuple(
        f"{bound.kind}: {bound.detail}" for bound in bounds.all if bound.ii == schedule.ii
    )
    if not binding:
        near = bounds.best
        binding = (
            f"no bound reaches {schedule.ii}; the best is {near.kind} {near.ii}: {near.detail}",
        )
    storage = tuple(storage_use(loop, schedule))
    tight = tuple(
        f"{s.name} is nearly full: {s.used} of {s.limit}" for s in storage if s.share > 0.9
    )
    return ScheduleExplanation(
        binding + tight,
        tuple(unit_use(loop, schedule)),
        storage,
        strategies(loop, schedule),
        tuple(rings(loop, schedule)),
    )


def unit_use(loop: Loop, schedule: Schedule) -> list[Saturation]:
    """Cycles of each unit an interval, the fullest first."""
    used: dict[str, int] = {}
    for operation in loop.operations:
        for use in operation.uses:
            used[use.unit] = used.get(use.unit, 0) + use.cycles * use.amount
    found = [Saturation(u, n, schedule.ii * loop.units[u].capacity) for u, n in used.items()]
    return sorted(found, key=lambda s: (-s.share, s.name))


def storage_use(loop: Loop, schedule: Schedule) -> list[Saturation]:
    """Peaks of registers a group and of each memory."""
    ends = value_ends(loop, schedule.ii, schedule.starts)
    spans = list(zip(schedule.starts, ends, strict=True))
    found = []
    for team, group in enumerate(loop.teams):
        words = loop.team_words(team)
        if words is None:
            continue
        mine = [
            (b, e, op.registers)
            for v, ((b, e), op) in enumerate(zip(spans, loop.operations, strict=True))
            if schedule.teams[v] == team
        ]
        found.append(Saturation(f"registers of {group.name}", peak(schedule.ii, mine)[0], words))
    for memory, limit in sorted(loop.limits.items()):
        fixed = sum(ring_footprint(op, memory) for op in loop.operations)
        moving = [
            (b, e, dict(op.footprints).get(memory, 0))
            for (b, e), op in zip(spans, loop.operations, strict=True)
            if op.slots is None
        ]
        total = fixed + peak(schedule.ii, moving)[0]
        if total:
            found.append(Saturation(memory, total, limit))
    return found


def rings(loop: Loop, schedule: Schedule) -> list[RingSlots]:
    """For each streaming operation: slots that hide its latency, and how many more fit."""
    ends = value_ends(loop, schedule.ii, schedule.starts)
    free = {s.name: s.limit - s.used for s in storage_use(loop, schedule)}
    found = []
    for operation, start, end in zip(loop.operations, schedule.starts, ends, strict=True):
        if not operation.streaming:
            continue
        needed = max(1, -(-(end - start + operation.latency_cycles) // schedule.ii))
        fit = None
        for memory, amount in operation.footprints:
            if amount and operation.slots is not None and memory in free:
                room = operation.slots + free[memory] // amount
                fit = room if fit is None else min(fit, room)
        found.append(RingSlots(operation.name, needed, operation.slots, fit))
    return found


def strategies(loop: Loop, schedule: Schedule) -> tuple[str, ...]:
    """Names of published strategies that this schedule is an instance of."""
    found = []
    if loads_on_producer(loop, schedule):
        found.append("loads on a producer warp")
    ahead = gemms_ahead(loop, schedule)
    if ahead and all(ahead):
        found.append("first GEMM moved into the prologue")
    elif any(ahead):
        of = f"{sum(ahead)} of {len(ahead)} sub-tiles"
        found.append(f"first GEMM moved into the prologue for {of}")
    if ping_pong(loop, schedule):
        found.append("ping-pong: one group on the matrix unit while another is off it")
    if three_groups(loop, schedule):
        found.append("three kinds of groups: GEMM, softmax, and rescale")
    return tuple(found)


def users(loop: Loop, units: tuple[str, ...]) -> list[int]:
    """The operations that use one of the units."""
    return [v for v, op in enumerate(loop.operations) if any(use.unit in units for use in op.uses)]


def loads_on_producer(loop: Loop, schedule: Schedule) -> bool:
    """All operations of variable latency are on a group that runs nothing else."""
    special = {v for v, op in enumerate(loop.operations) if op.variable_latency}
    teams = {schedule.teams[v] for v in special}
    others = {schedule.teams[v] for v in range(len(loop.operations)) if v not in special}
    return bool(special) and len(teams) == 1 and not teams & others


def reachable(loop: Loop, v: int) -> set[int]:
    """Operations that need v of the same iteration."""
    out: dict[int, list[int]] = {}
    for e in loop.dependences:
        if e.distance == 0 and e.kind == DATA:
            out.setdefault(e.source, []).append(e.sink)
    seen, queue = set(), [v]
    while queue:
        for w in out.get(queue.pop(), ()):
            if w not in seen:
                seen.add(w)
                queue.append(w)
    return seen


def sub_tiles(loop: Loop) -> list[set[int]]:
    """Operations that share values, loads (streaming operations) left out."""
    parent = list(range(len(loop.operations)))

    def find(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    for e in loop.dependences:
        ends = (loop.operations[e.source], loop.operations[e.sink])
        if e.kind == DATA and not any(op.streaming for op in ends):
            parent[find(e.source)] = find(e.sink)
    found: dict[int, set[int]] = {}
    for v, operation in enumerate(loop.operations):
        if not operation.streaming:
            found.setdefault(find(v), set()).add(v)
    return list(found.values())


def gemms_ahead(loop: Loop, schedule: Schedule) -> list[bool]:
    """For each GEMM that needs no other, in a sub-tile with exponentials that need it: whether it
    runs a stage (an iteration) or more ahead of every GEMM that needs it."""
    gemms = set(users(loop, MATRIX_UNITS))
    exponentials = set(users(loop, EXPONENTIAL_UNITS))
    ahead = []
    for members in sub_tiles(loop):
        after = {v: reachable(loop, v) for v in members & gemms}
        for v, behind in after.items():
            later = behind & gemms
            if later and behind & exponentials and not any(v in other for other in after.values()):
                ahead.append(all(schedule.stage(w) > schedule.stage(v) for w in later))
    return ahead


def ping_pong(loop: Loop, schedule: Schedule) -> bool:
    """Two or more sub-tiles of GEMMs and exponentials, each wholly on one group and alone there,
    and any two of these groups run exponentials while the other has the matrix unit."""
    gemms, exponentials = users(loop, MATRIX_UNITS), users(loop, EXPONENTIAL_UNITS)
    tiles = [t for t in sub_tiles(loop) if t & set(gemms) and t & set(exponentials)]
    teams = [{schedule.teams[v] for v in members} for members in tiles]
    if len(tiles) < 2 or any(len(of) != 1 for of in teams):
        return False
    if len({min(of) for of in teams}) != len(tiles):
        return False
    rows = [
        (rows_of(loop, schedule, t, MATRIX_UNITS), rows_of(loop, schedule, t, EXPONENTIAL_UNITS))
        for t in tiles
    ]
    return all(a[0] & b[1] and b[0] & a[1] for i, a in enumerate(rows) for b in rows[:i])


def rows_of(loop: Loop, schedule: Schedule, members: set[int], units: tuple[str, ...]) -> set[int]:
    """The rows of the interval in which some of the operations take one of the units."""
    return {
        (schedule.starts[v] + use.first_cycle + k) % schedule.ii
        for v in members
        for use in loop.operations[v].uses
        if use.unit in units
        for k in range(use.cycles)
    }


def three_groups(loop: Loop, schedule: Schedule) -> bool:
    """GEMMs, softmax and the rescaling of the accumulator are on disjoint sets of groups, and the
    softmax of each sub-tile is on one group.

    The rescaling is whatever lies on the way from a carried GEMM result back to a GEMM without
    passing an exponential; the softmax is all else of a sub-tile with GEMMs and exponentials, the
    maximum, the sum and the conversion as well as the exponentials.
    """
    gemms, exponentials = set(users(loop, MATRIX_UNITS)), set(users(loop, EXPONENTIAL_UNITS))
    after_gemm = {
        e.sink for e in loop.dependences if e.source in gemms and e.distance and e.kind == DATA
    }
    rescale = set()
    for v in after_gemm - gemms:
        way = {v} | {w for w in reachable(loop, v) if reachable(loop, w) & gemms}
        rescale |= way - gemms - exponentials
    tiles = [tile for tile in sub_tiles(loop) if tile & gemms and tile & exponentials]
    softmax = [{schedule.teams[v] for v in tile - gemms - rescale} for tile in tiles]
    if not softmax or any(len(of) != 1 for of in softmax):
        return False
    products, corrections = ({schedule.teams[v] for v in members} for members in (gemms, rescale))
    kinds = (products, set().union(*softmax), corrections)
    return all(kinds) and sum(map(len, kinds)) == len(set().union(*kinds))
