"""Judging a run: verdict, places in the code, conditions of confluence, what the machine saw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.frontends.story import FINISHED, FULL, Story, epilogue, ring
from titan.foundation.source.location import SourceLocation
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.trial import Trial, judge_run
from titan.isa.ptx.module import Instruction, Module
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Confluence, Ending, Outcome, Steering, Waiter


def judged(story: Story, outcome: Outcome = FINISHED, **more) -> Trial:
    count = story.line + 2
    text = "\n".join(f"    op.{n};" for n in range(count))
    outer = SourceLocation("attention.py", 35, 1)
    instructions = tuple(
        Instruction(
            "op", (str(n),), (), -1, False, n + 1, 5, SourceLocation("tile.py", n, 1, "", outer)
        )
        for n in range(count)
    )
    module = Module("k.ptx", (9, 0), ("sm_90a",), (), (), instructions)
    places = CodePlaces(module, Source("k.ptx", text))
    policies, alone = more.pop("policies", CodePolicies()), more.pop("alone", True)
    run = replace(story.run(outcome), confluence=Confluence(**more))
    if alone:
        run = replace(run, events=[_of_one_warp(event) for event in run.events])
    return judge_run(run, ("a launch", "(0, 0, 0)"), "k", places, policies)


def _of_one_warp(event: ev.Event) -> ev.Event:
    """A product of a story, which has warps and no warpgroups, as work that a warp starts alone."""
    multiplies = (
        isinstance(event, ev.AsynchronousEvent) and event.kind is ev.RecordedOperation.WGMMA
    )
    return replace(event, kind=ev.RecordedOperation.TENSOR_COPY) if multiplies else event


def test_a_clean_run_is_verified_with_its_size():
    trial = judged(ring())
    assert trial.verdict is Verdict.VERIFIED
    assert trial.diagnostics == () and trial.reason == ""
    assert trial.operations > 20


def test_a_fault_points_at_the_line_and_its_source():
    story = epilogue(fence=0)
    issue = next(item for item in story.events if isinstance(item, ev.AsynchronousEvent))
    trial = judged(story)
    assert trial.verdict is Verdict.REFUTED
    (item,) = trial.diagnostics
    assert item.code == "TTN301"
    primary = item.primary
    assert primary is not None and primary.span.start_line == issue.instruction + 1
    assert primary.label.endswith(f"[tile.py:{issue.instruction}, inlined at attention.py:35]")
    assert item.trace is not None and item.trace.steps


def test_a_race_of_merged_accesses_points_at_the_very_instruction():
    story = Story()
    story.access(0, 0, 64)
    story.access(0, 64, 64)
    story.access(0, 128, 64)
    story.access(1, 300, 8, ev.Mode.READ)
    story.access(1, 64, 8, ev.Mode.READ)
    trial = judged(story)
    (item,) = trial.diagnostics
    assert item.code == "TTN201"
    lines = {note.span.start_line for note in item.annotations}
    assert lines == {story.events[1].instruction + 1, story.events[4].instruction + 1}


def test_a_run_that_hangs_is_a_deadlock():
    story = Story()
    story.init(0, FULL, 2)
    story.sync([0, 1])
    story.arrive(0, FULL, 0)
    waiter = Waiter(0, 1, 1, story.line, "mbarrier", ev.BarrierAddress(0, FULL), phase=0, pending=1)
    trial = judged(story, Outcome(Ending.HUNG, "nothing moves", waiters=(waiter,)))
    assert trial.verdict is Verdict.REFUTED
    assert trial.diagnostics[0].code == "TTN205"


def test_a_hang_that_the_program_does_not_show_is_not_rounded_up():
    """One warp of the story multiplies alone, which is not a wait of a warpgroup."""
    alone = CodePolicies(wgmma_wait="warp")
    trial = judged(ring(), Outcome(Ending.HUNG, "nothing moves"), policies=alone)
    assert trial.verdict is Verdict.UNDECIDED
    assert trial.reason == "the run hangs: nothing moves"


@pytest.mark.parametrize(
    ("outcome", "more", "reason"),
    [
        (Outcome(Ending.REFUSED, "control is opaque", 3), {}, "control is opaque (line 4)"),
        (Outcome(Ending.BUDGET), {}, "the run has not ended after"),
        (FINISHED, {"atomics": (2,)}, "the old value of an atomic decides control flow (line 3)"),
        (FINISHED, {"polls": (0,)}, "the result of a try_wait or test_wait decides more"),
    ],
)
def test_conditions_that_fail_leave_it_undecided(outcome, more, reason):
    trial = judged(ring(), outcome, **more)
    assert trial.verdict is Verdict.UNDECIDED
    assert trial.reason.startswith(reason)


def test_steering_by_bytes_that_others_may_change_is_undecided():
    story = Story()
    story.access(0, 0, 4, ev.Mode.READ, ev.AccessSemantics.ACQUIRE)
    story.access(1, 0, 4, ev.Mode.WRITE, ev.AccessSemantics.RELAXED)
    access = story.events[0]
    assert isinstance(access, ev.AccessEvent)
    steering = Steering(0, access.instruction, access.footprint)
    assert judged(story, steering=(steering,)).verdict is Verdict.UNDECIDED
    plain = Story()
    plain.access(0, 0, 4, ev.Mode.READ)
    allowed = CodePolicies(unwritten_reads="allow")
    assert judged(plain, steering=(steering,), policies=allowed).verdict is Verdict.VERIFIED


def test_breaches_refute_and_policies_allow():
    story = ring()
    start = next(item for item in story.events if isinstance(item, ev.AsynchronousEvent))
    story.add(ev.RegisterBreach(*story.at(1, 1), "%f3", start.operation, False))
    trial = judged(story)
    assert trial.verdict is Verdict.REFUTED
    assert [item.code for item in trial.diagnostics] == ["TTN217"]
    assert len(trial.diagnostics[0].annotations) == 2
    allowed = judged(story, policies=CodePolicies(register_ready="allow"))
    assert allowed.verdict is Verdict.VERIFIED


def test_what_is_assumed_is_listed_and_may_be_refused():
    story = ring()
    story.add(ev.Assumption(*story.at(0, 1), "elected-lane"))
    trial = judged(story)
    assert trial.verdict is Verdict.VERIFIED
    assert any(text.startswith("elect.sync") for text, _, _ in trial.assumptions)
    refused = judged(story, policies=CodePolicies(elected_lane="refuse"))
    assert refused.verdict is Verdict.UNDECIDED


def test_a_multiply_without_a_fence_of_its_registers():
    story = ring()
    story.events = [item for item in story.events if not isinstance(item, ev.FenceEvent)]
    story.events = [replace(item, sequence=n) for n, item in enumerate(story.events)]
    found = [item.code for item in judged(story, alone=False).diagnostics]
    assert found == ["TTN217", "TTN220"]  # the second: one warp of the group alone multiplies


def test_a_peek_that_asks_for_another_phase_than_its_wait_is_undecided():
    story = ring()
    wait = next(n for n, item in enumerate(story.events) if isinstance(item, ev.WaitEvent))
    event = story.events[wait]
    assert isinstance(event, ev.WaitEvent)
    for phase, verdict in ((event.phase, Verdict.VERIFIED), (event.phase + 1, Verdict.UNDECIDED)):
        peek = ev.Poll(0, 0, event.warp, event.lanes, story.line, event.barrier, 0, phase)
        other = ring()
        other.line = story.line
        other.events.insert(wait, peek)
        other.events = [replace(item, sequence=n) for n, item in enumerate(other.events)]
        assert judged(other).verdict is verdict
