"""A schedule and all that is known of it, as JSON."""

from __future__ import annotations

import json

from titan.report.schedule_text import failure_lines
from titan.scheduling.explain import explain
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.scheduling.run import ScheduleRun
from titan.scheduling.store import as_data


def data(result: ScheduleRun, timings: bool = False) -> dict[str, object]:
    """Plain data; the field `schedule_file` is what `titan schedule --check` reads.

    Processor times, as `seconds`, with `timings` only: without, it depends on the input alone.
    """
    loop, schedule = result.loop, result.schedule
    found: dict[str, object] = {
        "loop": loop.name,
        "target": loop.machine.name,
        "produced_by": result.produced_by,
        **({"seconds": round(result.seconds, 6)} if timings else {}),
        "cached": result.cached,
        "evidence": {
            "kind": result.evidence.kind,
            "lower_bound": result.evidence.lower_bound,
            "detail": result.evidence.detail,
            "complete": result.evidence.complete,
            "lengths_to": result.evidence.lengths_to,
        },
        "proved": result.proved,
        "bounds": {
            b.kind: {"ii": b.ii, "witness": list(b.witness), "detail": b.detail}
            for b in result.bounds.all
        },
        "gap": result.gap,
        "notes": list(result.notes),
        "failures": [
            "\n".join(failure_lines(loop, failure))
            for outcome in result.outcomes
            for failure in outcome.failures
        ],
        "rejections": _rejections(result),
        "solvers": [
            {
                "solver": o.solver,
                **({"seconds": round(o.seconds, 6)} if timings else {}),
                "statistics": o.statistics,
            }
            for o in result.outcomes
        ],
    }
    if schedule is None:
        return found
    story = explain(loop, schedule, result.bounds)
    found["ii"] = schedule.ii
    found["length"] = schedule.length(loop)
    found["stages"] = schedule.stages(loop)
    found["strategies"] = list(story.strategies)
    found["binding"] = list(story.binding)
    found["operations"] = _operations(loop, schedule)
    found["rings"] = [
        {"operation": ring.operation, "needed": ring.needed, "slots": ring.slots, "fit": ring.fit}
        for ring in story.rings
    ]
    found["schedule_file"] = as_data(loop, schedule, result.evidence, result.refutations)
    return found


def _rejections(result: ScheduleRun) -> list[dict[str, object]]:
    """Placements that a limit of storage refused, with the values of the first."""
    loop = result.loop
    return [
        {
            "resource": one.resource,
            "group": None if one.group is None else loop.teams[one.group].name,
            "count": one.count,
            "ii": one.ii,
            "used": one.used,
            "limit": one.limit,
            "values": {loop.operations[v].name: copies for v, copies in one.cover},
        }
        for outcome in result.outcomes
        for one in outcome.rejections
    ]


def _operations(loop: Loop, schedule: Schedule) -> list[dict[str, object]]:
    """Every operation with its place in the schedule and what it takes."""
    return [
        {
            "name": operation.name,
            "cycle": start,
            "stage": start // schedule.ii,
            "row": start % schedule.ii,
            "end": start + operation.cycles,
            "group": loop.teams[team].name,
            "warps": loop.teams[team].warps,
            "units": [
                {
                    "unit": use.unit,
                    "from": use.first_cycle,
                    "cycles": use.cycles,
                    "amount": use.amount,
                }
                for use in operation.uses
            ],
        }
        for operation, start, team in zip(
            loop.operations, schedule.starts, schedule.teams, strict=True
        )
    ]


def render(results: list[ScheduleRun], timings: bool = False) -> str:
    """The results as one JSON array, indented by two, with a newline at the end."""
    return json.dumps([data(result, timings) for result in results], indent=2) + "\n"
