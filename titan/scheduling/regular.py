"""Regular schedules: one iteration alone, and what its latency costs in units and registers.

Nothing is modulo an interval here. A topological pass seats every operation at the first free cycle
from its wish on, after what it needs. Wishes are the earliest and the latest cycles, and means of
the differentiable scheduler where PyTorch is there. Every unit may have several times the capacity
of the machine; of the points (latency, units, registers) those that no other one beats are the
Pareto front. Each point has passed the checker, on the machine with so many units and with an
interval in which the iteration is over; limits of registers are not applied, as they are a column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.scheduling.assign import assign
from titan.scheduling.check import check
from titan.scheduling.gauss import GaussOptions, TorchMissing, regular_wishes, topological
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.scheduling.native import Placer
from titan.scheduling.problem import Problem, compile_problem
from titan.scheduling.storage import peak, peak_registers
from titan.scheduling.swing import depths
from titan.scheduling.table import ReservationTable

COPIES = (1, 2, 4, 8)
STRETCHES = (1.0, 1.25, 1.5, 2.0)  # latencies asked for, over the longest path
IGNORED = ("registers", "memory", "ring")


@dataclass(frozen=True, slots=True)
class RegularPoint:
    """One schedule: `latency_cycles` of an iteration, `units` (the most of every unit in use at
    once, summed over the units), `registers` (words alive at once). `copies`: how many times the
    capacity of the machine it was allowed. `front`: no other point is as good in all and better in
    one."""

    produced_by: str
    copies: int
    schedule: Schedule
    latency_cycles: int
    units: int
    registers: int
    front: bool = False


def topological_pass(problem: Problem, wish: list[int], horizon: int) -> list[int] | None:
    """Issue cycles of one iteration below `horizon`, none before its wish; None where one does
    not fit. Dependences of later iterations are none here."""
    into: list[list[tuple[int, int]]] = [[] for _ in range(problem.n)]
    for u, v, delay, distance in problem.arcs:
        if distance == 0:
            into[v].append((u, delay))
    table = ReservationTable(problem, horizon)
    starts = [-1] * problem.n
    for v in topological(problem, wish):
        t = max([wish[v], *(starts[u] + delay for u, delay in into[v])])
        last = horizon - problem.cycles[v]
        while t <= last and (found := table.probe(v, t)) is not None:
            t += found.skip
        if t > last:
            return None
        table.commit(v, t)
        starts[v] = t
    return starts


def pareto(loop: Loop, options: GaussOptions | None = None) -> list[RegularPoint]:
    """Points by latency, then units, then registers; the same point is listed once.

    `options` None does without the differentiable scheduler, as does a machine without PyTorch.
    Raises Unschedulable through the bounds of the loop.
    """
    teams = assign(loop)
    if teams is None:
        return []
    found: dict[tuple[int, int, int], RegularPoint] = {}
    for copies in COPIES:
        wide = widened(loop, copies)
        problem = compile_problem(wide, teams)
        for name, wish, horizon in _wishes(wide, problem, options):
            starts = topological_pass(problem, wish, horizon)
            point = None if starts is None else _point(wide, name, copies, starts, teams)
            if point is not None:
                key = (point.latency_cycles, point.units, point.registers)
                found.setdefault(key, point)
    return [
        replace(point, front=not any(_beats(other, key) for other in found))
        for key, point in sorted(found.items())
    ]


def widened(loop: Loop, copies: int) -> Loop:
    """The loop on a machine with `copies` times the capacity of every unit and pool."""
    machine = loop.machine
    units = {n: replace(u, capacity=u.capacity * copies) for n, u in machine.units.items()}
    pools = tuple(replace(pool, amount=pool.amount * copies) for pool in machine.pools)
    extra = tuple(replace(unit, capacity=unit.capacity * copies) for unit in loop.extra_units)
    return replace(loop, machine=replace(machine, units=units, pools=pools), extra_units=extra)


def _wishes(
    loop: Loop, problem: Problem, options: GaussOptions | None
) -> list[tuple[str, list[int], int]]:
    """(who, wished cycles, horizon) of every way to wish."""
    never = 1 + sum(problem.cycles) + sum(delay for _, _, delay, _ in problem.arcs)
    heights, depth = Placer(problem).heights(never), depths(problem, never)
    if heights is None or depth is None:
        return []
    path = max((h + d for h, d in zip(heights, depth, strict=True)), default=0)
    ends = [h + c for h, c in zip(heights, problem.cycles, strict=True)]
    found = [("earliest", depth, never)]
    for stretch in STRETCHES:
        late = round(path * stretch) + max(problem.cycles, default=1)
        found.append((f"latest of {late}", [max(0, late - end) for end in ends], late + never))
        if options is None:
            continue
        try:
            wish = regular_wishes(loop, problem, late, options)
        except TorchMissing:
            continue
        if wish is not None:
            found.append((f"gauss of {late}", wish, late + never))
    return found


def _point(
    loop: Loop, name: str, copies: int, starts: list[int], teams: tuple[int, ...]
) -> RegularPoint | None:
    low = min(starts, default=0)
    shifted = tuple(start - low for start in starts)
    length = Schedule(1, shifted, teams).length(loop)
    after = max((e.delay_cycles for e in loop.dependences if e.distance), default=0)
    spill = max((op.spill_cycles for op in loop.operations), default=0)
    ii = length + after + spill + 1
    schedule = Schedule(ii, shifted, teams)
    if any(fault.kind not in IGNORED for fault in check(loop, schedule)):
        return None
    used: dict[str, list[tuple[int, int, int]]] = {}
    for start, operation in zip(shifted, loop.operations, strict=True):
        for use in operation.uses:
            span = (start + use.first_cycle, start + use.end_cycle, use.amount)
            used.setdefault(use.unit, []).append(span)
    units = sum(peak(ii, spans)[0] for spans in used.values())
    latency = max(
        start + max(op.cycles, op.latency_cycles)
        for start, op in zip(shifted, loop.operations, strict=True)
    )
    return RegularPoint(name, copies, schedule, latency, units, peak_registers(loop, ii, shifted))


def _beats(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
