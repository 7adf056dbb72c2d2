"""Timelines of runs: lanes, arrows and tracks say what the executed steps did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.language.kernel.examples import ROOT
from titan.report.timeline import Timeline, sample_run, timeline_of
from titan.report.verdict_trace import trace
from titan.sync import program as ir
from titan.sync.fault import Actor
from titan.sync.state import key_of
from titan.verify.fences import load
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_file
from titan.verify.replay import Played, replay

OPTIONS = VerifyOptions(save_traces=None)
KERNELS = [
    *(ROOT / "examples").glob("*.yaml"),
    *(ROOT / "protocols" / f"{name}.yaml" for name in ("hopper_gemm_pingpong", "fa4_forward")),
]


def of_example(name: str) -> Finding:
    return verify_file(str(ROOT / "examples" / f"{name}.yaml"), OPTIONS)[0]


@pytest.fixture(scope="module")
def refuted() -> tuple[Finding, Timeline, tuple[Played, ...]]:
    finding = of_example("early_release")
    assert finding.program is not None and finding.trace is not None
    played = replay(finding.program, finding.trace)
    return finding, timeline_of(played.machine, played.steps, played.last), played.steps


def test_lanes_are_agents_and_what_they_started(refuted):
    _, timeline, steps = refuted
    assert timeline.lane_names == ("producer", "engine of producer", "consumer")
    assert len(timeline.steps) == len(timeline.lanes) == len(steps)
    for lane, played in zip(timeline.lanes, steps, strict=True):
        assert lane.startswith("engine of") == (played.step.actor is not Actor.AGENT)


def test_arrows_of_a_counterexample(refuted):
    _, timeline, _ = refuted
    told = {(arrow.kind, arrow.label) for arrow in timeline.arrows if arrow.kind == "phase"}
    assert told == {("phase", "operands_full[0] phase 0"), ("phase", "operands_empty[0] phase 0")}
    # The stage is given back and taken again while the product still reads it.
    reading = next(track for track in timeline.tracks if track.name == "A[0]").segments[-1]
    taken = next(arrow for arrow in timeline.arrows if "empty[0]" in arrow.label)
    assert reading.busy == "reading"
    assert reading.first < taken.first < taken.last <= reading.last


def program(path: Path) -> ir.SyncProgram:
    """The program of a file, not verified."""
    return load(path.read_text(encoding="utf-8"), str(path), OPTIONS).programs[0]


def test_every_wait_that_passes_on_a_completed_phase_has_its_arrow():
    """Against the states themselves, for runs of several kernels."""
    waits = 0
    for path in KERNELS:
        run = sample_run(program(path), 8, 500)
        assert run is not None and run.last is not None
        timeline = timeline_of(run.machine, run.played, run.last)
        arrows = {arrow.last: arrow for arrow in timeline.arrows if arrow.kind == "phase"}
        for number, item in enumerate(run.played, 1):
            operation = run.machine.control.operation_of(item.before, item.step.agent)
            if item.step.actor is not Actor.AGENT or not isinstance(operation, ir.Wait):
                continue
            agent = run.machine.agents[item.step.agent]
            values = item.before.positions[agent.number].values
            key = key_of(operation.barrier, run.machine.control.environment(agent, values))
            phase = dict(item.before.barriers)[key].phase
            assert (number in arrows) == (phase > 0)
            if phase > 0:
                waits += 1
                cause = run.played[arrows[number].first - 1]
                assert cause.after is not None
                assert dict(cause.before.barriers)[key].phase == phase - 1
                assert dict(cause.after.barriers)[key].phase == phase
    assert waits > 30


def test_flights_begin_and_end():
    run = sample_run(program(ROOT / "examples" / "ring.yaml"), 3, 400)
    assert run is not None and run.last is not None
    assert run.machine.steps(run.last) == []  # it came to its end
    timeline = timeline_of(run.machine, run.played, run.last)
    ends = [arrow.last for arrow in timeline.arrows if arrow.kind == "flight"]
    finished = [n for n, item in enumerate(run.played, 1) if item.step.actor is Actor.FINISH]
    assert sorted(ends) == finished
    for arrow in timeline.arrows:
        assert 1 <= arrow.first < arrow.last <= len(timeline.steps)


def test_tracks_have_no_holes(refuted):
    _, timeline, _ = refuted
    for track in timeline.tracks:
        assert [item.first for item in track.segments[1:]] == [
            item.last + 1 for item in track.segments[:-1]
        ]
        assert track.segments[0].first == 0
        assert track.segments[-1].last == len(timeline.steps)


def test_named_barriers_have_arrows_to_what_waited():
    run = sample_run(program(ROOT / "examples" / "named_barriers.yaml"), 2, 100)
    assert run is not None and run.last is not None
    timeline = timeline_of(run.machine, run.played, run.last)
    told = [(timeline.steps[a.first - 1], timeline.steps[a.last - 1]) for a in timeline.arrows]
    assert [(a.agent, a.text.split(",")[0], b.agent, b.text.split(" (")[0]) for a, b in told] == [
        ("second", "arrive first_may_go", "first", "store shared_result"),
        ("first", "arrive second_may_go", "second", "store shared_result"),
    ] * 2


def test_a_trace_for_perfetto(refuted):
    finding, timeline, _ = refuted
    events = json.loads(trace([finding]))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    assert [event["ts"] for event in slices] == list(range(1, len(timeline.steps) + 1))
    assert [event["name"] for event in slices] == [step.text for step in timeline.steps]
    starts = [event for event in events if event["ph"] == "s"]
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert len(starts) == len(ends) == len(timeline.arrows)
    for event in starts:  # each end lies within a slice of its thread, or Perfetto drops it
        for at in (event, ends[event["id"]]):
            assert any(s["tid"] == at["tid"] and s["ts"] < at["ts"] < s["ts"] + 1 for s in slices)
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M" and event["pid"] == 2}
    assert {"A[0]", "operands_full[0]"} <= tracks


def test_a_run_ends_at_its_bound():
    run = sample_run(program(ROOT / "examples" / "ring.yaml"), 3, 5)
    assert run is not None and len(run.played) == 5
