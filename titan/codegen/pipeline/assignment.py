"""Where a form runs what the schedule has put on a warp group: the two have to agree.

A form deals operations out by what they are: the rows of group g run on the g-th computing group,
loads by an engine on the producer, products whose results stand in tensor memory on the group that
issues them, what corrects accumulators there on the correction group. Where all waves load (AMD),
each wave does its share of every load, whatever group the schedule names. A schedule that only
renames groups of equal warps and registers gives the same kernel; any other assignment is refused
with the operations that are elsewhere, and cycles are found again for that of the form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from titan.codegen.tile.cost import parts_of
from titan.codegen.tile.loops import origins
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.scheduling.check import check
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.scheduling.run import Request, ScheduleRun, run

COMPUTING = ("consumer", "waves", "softmax")
REPORTED_MAX = 3
Search = Callable[[Loop, Request], ScheduleRun]


def form_teams(tile: TileProgram, loop: Loop) -> tuple[int | None, ...]:
    """The group of the form for every operation of the loop; None where all groups have a share."""
    number = {group.name: i for i, group in enumerate(loop.teams)}
    known = rates(loop.machine.name)
    parts = parts_of(tile, known)
    kinds = {operation.name: operation.kind for operation in tile.body}
    of = origins(tile, loop.machine)
    found: list[int | None] = []
    for operation in loop.operations:
        origin = of[operation.name]
        if origin.group is None:
            found.append(number.get("producer"))
        elif (
            kinds[origin.operation] == "mma"
            and operation.name == f"{origin.operation}_{origin.group}"
        ):
            on_one = known.matrix.result == "tensor"
            found.append(number["mma"] if on_one else _computing(number, origin.group))
        elif parts is not None and origin.operation == parts.correct.name:
            found.append(number["correction"])
        else:
            found.append(_computing(number, origin.group))
    return tuple(found)


def _computing(number: dict[str, int], group: int) -> int | None:
    return next((number[f"{w}{group}"] for w in COMPUTING if f"{w}{group}" in number), None)


def misplaced(tile: TileProgram, loop: Loop, schedule: Schedule) -> list[str]:
    """What the schedule has elsewhere than the form; empty where groups are only renamed."""
    wanted = form_teams(tile, loop)
    pairs = {(a, b) for a, b in zip(schedule.teams, wanted, strict=True) if b is not None}
    renamed = len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
    if renamed and all(_equal(loop, a, b) for a, b in pairs):
        return []
    return [
        f"`{operation.name}` is on {loop.teams[a].name}, the form has it on {loop.teams[b].name}"
        for operation, a, b in zip(loop.operations, schedule.teams, wanted, strict=True)
        if b is not None and a != b
    ]


def _equal(loop: Loop, a: int, b: int) -> bool:
    return replace(loop.teams[a], name="") == replace(loop.teams[b], name="")


def as_the_form(
    tile: TileProgram, loop: Loop, result: ScheduleRun, seconds: float, search: Search | None = None
) -> tuple[ScheduleRun | None, str]:
    """The result with the groups of the form, and why the schedule's own are not taken ("" where
    they are). None where neither its cycles hold with them, nor those that Rau finds for them, nor
    the joint solver comes to them. `search` schedules a loop."""
    schedule = result.schedule
    if schedule is None:
        return result, ""
    elsewhere = misplaced(tile, loop, schedule)
    if not elsewhere:
        return result, ""
    more = f" and {len(elsewhere) - REPORTED_MAX} more" if len(elsewhere) > REPORTED_MAX else ""
    reason = f"the warp assignment has no form: {'; '.join(elsewhere[:REPORTED_MAX])}{more}"
    wanted = form_teams(tile, loop)
    pairs = zip(schedule.teams, wanted, strict=True)
    moved = replace(schedule, teams=tuple(a if b is None else b for a, b in pairs))
    if not check(loop, moved):
        note = "operations run on the groups of the form; the cycles of the schedule hold there"
        return replace(result, schedule=moved, notes=(*result.notes, note)), reason
    fixed = Request(solver="rau", budget_seconds=seconds, teams=wanted)
    for request in (fixed, Request(solver="joint", budget_seconds=seconds)):
        other = (search or run)(loop, request)
        if other.schedule is not None and not misplaced(tile, loop, other.schedule):
            note = "cycles were found again for the groups of the form"
            return replace(other, notes=(*other.notes, note)), reason
    return None, reason
