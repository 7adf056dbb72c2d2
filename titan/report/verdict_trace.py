"""Counterexamples in the Chrome trace format, which Perfetto and chrome://tracing read.

A step is a slice of one microsecond at its number: interleavings have an order and no times.
Process 1 has the agents and what they have started, process 2 barriers and memory. Arrows are flow
events.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from titan.report.timeline import Timeline, sample_run, timeline_of
from titan.verify.model import Finding
from titan.verify.replay import replay

Event = dict[str, object]
TRIPS, STEPS_MAX = 4, 2000


def trace(findings: Sequence[Finding]) -> str:
    """The counterexample of each finding, or an interleaving of it, one after the other, as JSON.

    Each finding has two processes of its own.
    """
    events: list[Event] = []
    for number, finding in enumerate(findings):
        found = _timeline(finding)
        if found is not None:
            events += _events(found, 2 * number + 1, finding.kernel)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"


def _timeline(finding: Finding) -> Timeline | None:
    if finding.program is None:
        return None
    if finding.trace is not None:
        played = replay(finding.program, finding.trace)
        return timeline_of(played.machine, played.steps, played.last)
    run = sample_run(finding.program, TRIPS, STEPS_MAX)
    if run is None or run.last is None:
        return None
    return timeline_of(run.machine, run.played, run.last)


def _events(timeline: Timeline, process: int, kernel: str) -> list[Event]:
    lanes = {name: number for number, name in enumerate(timeline.lane_names)}
    made = [_name(process, 0, "process_name", f"{kernel}: agents")]
    made += [_name(process, number, "thread_name", name) for name, number in lanes.items()]
    for step, lane in zip(timeline.steps, timeline.lanes, strict=True):
        detail = {"step": step.number, "follows": step.follows}
        if step.span is not None:
            detail["line"] = step.span.start_line
        made.append(_slice(process, lanes[lane], step.text, step.number, 1, detail))
    for number, arrow in enumerate(timeline.arrows):
        ends = ((arrow.first, "s"), (arrow.last, "f"))
        for at, phase in ends:
            made.append({
                "ph": phase, "id": process * 100_000 + number, "cat": arrow.kind, "bp": "e",
                "name": arrow.label or arrow.kind, "pid": process, "ts": at + 0.5,
                "tid": lanes[timeline.lanes[at - 1]],
            })  # fmt: skip
    state = process + 1
    made.append(_name(state, 0, "process_name", f"{kernel}: barriers and memory"))
    for number, track in enumerate(timeline.tracks):
        made.append(_name(state, number, "thread_name", track.name))
        for item in track.segments:
            text = f"{item.text}{f', {item.busy}' if item.busy else ''}"
            length = item.last - item.first + 1
            made.append(_slice(state, number, text, item.first, length, {"kind": track.kind}))
    return made


def _name(process: int, thread: int, kind: str, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}


def _slice(process: int, thread: int, name: str, start: int, length: int, detail: object) -> Event:
    return {"ph": "X", "pid": process, "tid": thread, "name": name, "ts": start, "dur": length,
            "args": detail}  # fmt: skip
