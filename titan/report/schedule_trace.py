"""A schedule as a timeline in the Chrome trace format, which Perfetto reads.

One cycle is shown as a microsecond.
Process 1 shows the units, process 2 the warp groups.
"""

from __future__ import annotations

import json

from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule

ITERATIONS_MAX = 64


def trace(loop: Loop, schedule: Schedule, iterations: int | None = None) -> str:
    """The events of a short run, as JSON."""
    count = min(iterations or schedule.stages(loop) + 3, ITERATIONS_MAX)
    units = sorted({use.unit for op in loop.operations for use in op.uses})
    events: list[dict[str, object]] = [_name(1, 0, "process_name", "units")]
    events.append(_name(2, 0, "process_name", "warp groups"))
    events += [_name(1, i, "thread_name", unit) for i, unit in enumerate(units)]
    events += [_name(2, i, "thread_name", team.name) for i, team in enumerate(loop.teams)]
    for iteration in range(count):
        for v, operation in enumerate(loop.operations):
            start = schedule.starts[v] + iteration * schedule.ii
            detail = {"iteration": iteration, "stage": schedule.stage(v)}
            window = operation.issue_window
            events.append(_span(2, schedule.teams[v], operation.name, start, window, detail))
            for use in operation.uses:
                begin = start + use.first_cycle
                thread = units.index(use.unit)
                events.append(_span(1, thread, operation.name, begin, use.cycles, detail))
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"


def _name(process: int, thread: int, kind: str, name: str) -> dict[str, object]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}


def _span(
    process: int, thread: int, name: str, begin: int, cycles: int, detail: dict[str, int]
) -> dict[str, object]:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": begin,
        "dur": cycles,
        "args": detail,
    }
