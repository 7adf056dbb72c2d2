"""Lower bounds on the initiation interval, each with a witness that plain arithmetic re-checks.

Resource: demand of a unit over its capacity, or one operation overlapping itself. Fine density:
demand of a pooled or fractional group over its rate. Recurrence: the maximum over dependence
cycles of total delay over total distance, rounded up. Dependency: the longest dependence path must
fit into the permitted number of stages. Storage: register-cycles (or byte-cycles) that the delays
force over what the machine offers in one cycle. Waiting: the gaps between operations that wait
(`waiting.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from titan.foundation.errors import UserError
from titan.scheduling.loop.model import DATA, Dependence, Loop, Operation
from titan.scheduling.loop.recurrence import Arc, PositiveCycle
from titan.scheduling.loop.recurrence import recurrence as plain_recurrence
from titan.scheduling.loop.waiting import waiting_bound


@dataclass(frozen=True, slots=True)
class Bound:
    """`ii` at least this, because of `witness` (a unit, pool, memory or operation names)."""

    kind: str
    ii: int
    witness: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The six lower bounds of a loop."""

    resource: Bound
    recurrence: Bound
    density: Bound
    dependency: Bound
    storage: Bound
    waiting: Bound

    @property
    def all(self) -> tuple[Bound, ...]:
        """The six in their fixed order."""
        return (
            self.resource, self.recurrence, self.density, self.dependency, self.storage,
            self.waiting,
        )  # fmt: skip

    @property
    def best(self) -> Bound:
        """The largest; among equals the first in the order above."""
        return max(self.all, key=lambda bound: bound.ii)

    @property
    def ii(self) -> int:
        """The largest lower bound."""
        return self.best.ii


class Unschedulable(UserError):
    """No initiation interval exists; `witness` names the operations or the unit concerned."""

    def __init__(self, message: str, witness: tuple[str, ...]) -> None:
        super().__init__(message)
        self.witness = witness


NO_STORAGE = "no storage limit binds"
Recurrence = Callable[[int, list[Arc]], tuple[int, tuple[int, ...]]]


class Counted(Protocol):
    """What the bounds of a loop without pools and storage need, counted beforehand."""

    def recurrence(self) -> tuple[int, tuple[int, ...]]:
        """The recurrence bound and its cycle, () where none was found. Raises PositiveCycle."""

    def depth(self) -> int | None:
        """The longest path of one iteration; None where dependences of distance 0 are cyclic."""

    def demand(self) -> tuple[dict[str, int], int] | None:
        """Unit-cycles by unit, and the interval that one use alone asks for; None where one takes
        more of a unit than there is."""


def bounds(
    loop: Loop,
    stages_max: int | None = None,
    recurrence: Recurrence = plain_recurrence,
    counted: Counted | None = None,
) -> Bounds:
    """All six. Raises Unschedulable for a positive cycle of distance 0 or an impossible use."""
    if counted is not None:
        return _of_counted(loop, stages_max, recurrence, counted)
    return Bounds(
        resource_bound(loop),
        recurrence_bound(loop, recurrence),
        density_bound(loop),
        dependency_bound(loop, stages_max),
        storage_bound(loop),
        wait_bound(loop),
    )


def _of_counted(
    loop: Loop, stages_max: int | None, recurrence: Recurrence, counted: Counted
) -> Bounds:
    """The same from what was counted, and from the loop where that says too little."""
    resource = None
    if (demand := counted.demand()) is not None:
        resource = _fullest_unit(loop, demand[0])
        if demand[1] > resource.ii:
            resource = None  # one use alone binds: the loop says which
    resource = resource_bound(loop) if resource is None else resource
    try:
        ii, cycle = counted.recurrence()
    except PositiveCycle:
        cycle = ()
    closed = _closed(ii, [loop.dependences[a] for a in cycle], loop) if cycle else None
    depth = counted.depth() if stages_max is None else None
    return Bounds(
        resource,
        recurrence_bound(loop, recurrence) if closed is None else closed,
        density_bound(loop),
        dependency_bound(loop, stages_max) if depth is None else _unlimited(depth),
        Bound("storage", 1, (), NO_STORAGE),
        wait_bound(loop),
    )


def recurrence_bound(loop: Loop, recurrence: Recurrence = plain_recurrence) -> Bound:
    """Recurrence MII with the critical cycle, first operation first."""
    arcs = [(e.source, e.sink, e.delay_cycles, e.distance) for e in loop.dependences]
    try:
        ii, cycle = recurrence(len(loop.operations), arcs)
    except PositiveCycle as error:
        names = tuple(loop.operations[arcs[a][0]].name for a in error.arcs)
        raise Unschedulable("dependences of distance 0 form a cycle", names[:20]) from None
    if not cycle:
        return Bound("recurrence", ii, (), "no dependence cycle binds")
    return _closed(ii, [loop.dependences[a] for a in cycle], loop)


def _closed(ii: int, cycle: list[Dependence], loop: Loop) -> Bound:
    """The bound that a cycle of dependences gives."""
    names = tuple(loop.operations[e.source].name for e in cycle)
    delay = sum(e.delay_cycles for e in cycle)
    distance = sum(e.distance for e in cycle)
    path = " -> ".join((*names, names[0])) if len(names) < 12 else f"{len(names)} operations"
    text = f"delay {delay} over distance {distance} on {path}"
    return Bound("recurrence", ii, names, text)


def demand(operation: Operation, unit: str) -> int:
    """Unit-cycles that one iteration's instance takes."""
    return sum(use.cycles * use.amount for use in operation.uses if use.unit == unit)


def resource_bound(loop: Loop) -> Bound:
    """Resource MII with the unit that binds."""
    totals: dict[str, int] = {}
    alone: dict[tuple[str, int, int], str] = {}
    for operation in loop.operations:
        for use in operation.uses:
            totals[use.unit] = totals.get(use.unit, 0) + use.cycles * use.amount
            if use.amount > loop.units[use.unit].capacity:
                raise Unschedulable(
                    f"`{operation.name}` takes {use.amount} of {use.unit}, which has "
                    f"{loop.units[use.unit].capacity}",
                    (operation.name, use.unit),
                )
            alone.setdefault((use.unit, use.cycles, use.amount), operation.name)
    best = _fullest_unit(loop, totals)
    for (unit, cycles, amount), name in sorted(alone.items()):
        copies = loop.units[unit].capacity // amount
        ii = -(-cycles // copies)
        if ii > best.ii:
            text = f"`{name}` overlaps itself on {unit}: {cycles} cycles, {copies} at a time"
            best = Bound("resource", ii, (unit, name), text)
    return best


def _fullest_unit(loop: Loop, totals: dict[str, int]) -> Bound:
    """The bound of the unit that is taken longest, of those with so many unit-cycles."""
    best = Bound("resource", 1, (), "no unit is used")
    for unit, total in sorted(totals.items()):
        capacity = loop.units[unit].capacity
        ii = -(-total // capacity)
        if ii > best.ii or not best.witness:
            text = f"{unit} takes {total} cycles an iteration at capacity {capacity}"
            best = Bound("resource", max(ii, 1), (unit,), text)
    return best


def density_bound(loop: Loop) -> Bound:
    """Fine-density MII over the pools of the machine."""
    best = Bound("density", 1, (), "no pool is used")
    for pool in loop.pools:
        weights = dict(pool.members)
        total = sum(
            weights[use.unit] * use.cycles * use.amount
            for operation in loop.operations
            for use in operation.uses
            if use.unit in weights
        )
        ii = -(-total * pool.window_cycles // pool.amount)
        if total and (ii > best.ii or not best.witness):
            rate = f"{pool.amount} in {pool.window_cycles}"
            text = f"pool {pool.name} takes {total} an iteration at a rate of {rate}"
            best = Bound("density", max(1, ii), (pool.name,), text)
    return best


def longest_paths(loop: Loop) -> list[int]:
    """Earliest issue cycles within one iteration (distance-0 dependences only)."""
    n = len(loop.operations)
    earliest = [0] * n
    waiting = [0] * n
    out: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for e in loop.dependences:
        if e.distance == 0:
            out[e.source].append((e.sink, e.delay_cycles))
            waiting[e.sink] += 1
    ready = deque(v for v in range(n) if not waiting[v])
    seen = 0
    while ready:
        u = ready.popleft()
        seen += 1
        begin = earliest[u]
        for v, delay in out[u]:
            if begin + delay > earliest[v]:  # noqa: PLR1730 - a call of max costs more
                earliest[v] = begin + delay
            waiting[v] -= 1
            if not waiting[v]:
                ready.append(v)
    if seen < n:
        names = tuple(loop.operations[v].name for v in range(n) if waiting[v])
        raise Unschedulable("dependences of distance 0 form a cycle", names[:20])
    return earliest


def dependency_bound(loop: Loop, stages_max: int | None) -> Bound:
    """Depth of one iteration over the permitted stages; 1 when stages are not limited."""
    earliest = longest_paths(loop)
    ends = [t + op.cycles for t, op in zip(earliest, loop.operations, strict=True)]
    depth = max(ends, default=0)
    last = ends.index(depth) if ends else 0
    if stages_max is None or not loop.operations:
        return _unlimited(depth)
    ii = max(1, -(-depth // stages_max))
    text = f"one iteration takes {depth} cycles and at most {stages_max} stages may overlap"
    return Bound("dependency", ii, (loop.operations[last].name,), text)


def _unlimited(depth: int) -> Bound:
    return Bound("dependency", 1, (), f"one iteration takes {depth} cycles; stages unlimited")


def storage_bound(loop: Loop) -> Bound:
    """Register or memory residence that the delays alone force, over the capacity."""
    best = Bound("storage", 1, (), NO_STORAGE)
    hold = [0] * len(loop.operations)
    for e in loop.dependences:
        if e.kind == DATA:
            hold[e.source] = max(hold[e.source], e.delay_cycles + e.hold_cycles)
    pairs = list(zip(loop.operations, hold, strict=True))
    words = [loop.team_words(team) for team in range(len(loop.teams))]
    if all(word is not None for word in words):
        supply = sum(word for word in words if word is not None)
        total = sum(operation.registers * cycles for operation, cycles in pairs)
        if total:
            ii = _ratio(total, supply, "registers")
            if ii > best.ii:
                text = f"values take {total} register-cycles an iteration of {supply} a cycle"
                best = Bound("storage", ii, ("registers",), text)
    for memory, capacity in sorted(loop.limits.items()):
        fixed = sum(ring_footprint(operation, memory) for operation in loop.operations)
        total = sum(
            cycles * dict(operation.footprints).get(memory, 0)
            for operation, cycles in pairs
            if operation.slots is None
        )
        if fixed > capacity:
            text = f"rings take {fixed} of {memory}, of which {capacity} are left for them"
            raise Unschedulable(text, (memory,))
        if total:
            ii = _ratio(total, capacity - fixed, memory)
            if ii > best.ii:
                text = f"values take {total} {memory}-cycles an iteration of {capacity - fixed}"
                best = Bound("storage", ii, (memory,), text)
    return best


def wait_bound(loop: Loop) -> Bound:
    """Gaps that operations which wait leave for the long ones of their group."""
    found = waiting_bound(loop)
    if found is None:
        return Bound("waiting", 1, (), "no operation waits between long ones")
    text = f"on group {found.group} {', '.join(found.waits)} wait and take {found.unit}, "
    text += f"{', '.join(found.long)} are issued between them"
    return Bound("waiting", found.ii, (*found.waits, *found.long), text)


def _ratio(total: int, supply: int, what: str) -> int:
    if supply <= 0:
        raise Unschedulable(f"values need {what} and none is available", (what,))
    return -(-total // supply)


def ring_footprint(operation: Operation, memory: str) -> int:
    """What the ring of an operation with slots takes of `memory` for the whole loop."""
    if operation.slots is None:
        return 0
    return operation.slots * dict(operation.footprints).get(memory, 0)
