"""Recordings of hand-written events, decided by the happens-before engine."""

from __future__ import annotations

import pytest

from tests.frontends.story import EMPTY, FULL, TILE, Story, epilogue, ring
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.alike import merged_alike
from titan.isa.simt import events as ev
from titan.sync.fault import FaultKind
from titan.verify.replay import replay


def kind_of(story: Story, **policies: str) -> FaultKind | None:
    """None where the recording is verified; a fault replays on the reference interpreter."""
    program = story.recording(**policies).program
    result = analyse(program)
    if result.verdict is Verdict.VERIFIED:
        return None
    assert result.verdict is Verdict.REFUTED, result.remark
    assert result.fault is not None and result.trace is not None
    replay(program, result.trace)
    return result.fault.kind


@pytest.mark.parametrize("tiles", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_ring_is_verified(tiles, depth):
    assert kind_of(ring(tiles, depth)) is None


def test_no_wait_for_the_empty_stage():
    assert kind_of(ring(wait_empty=False)) in (
        FaultKind.OVERWRITE_IN_FLIGHT,
        FaultKind.OVER_ARRIVAL,
        FaultKind.UNOBSERVED_PHASE,
    )


def test_release_before_the_tensor_core_is_done():
    assert kind_of(ring(drain=False)) is FaultKind.OVERWRITE_IN_FLIGHT


def test_fewer_bytes_expected_than_copied():
    assert kind_of(ring(expect=TILE // 2)) is FaultKind.TRANSACTION_MISMATCH


def test_exit_while_a_copy_is_in_flight():
    assert kind_of(ring(tiles=5, depth=2, consumed=4)) is FaultKind.LEAK_AT_EXIT


def test_an_epilogue_is_verified():
    assert kind_of(epilogue()) is None


def test_a_fence_of_one_lane_does_not_fence_the_others():
    assert kind_of(epilogue(fence=1)) is FaultKind.MISSING_FENCE
    assert kind_of(epilogue(fence=1), fence_rule="path") is None


def test_an_epilogue_without_fence_barrier_or_wait():
    assert kind_of(epilogue(fence=0)) is FaultKind.MISSING_FENCE
    assert kind_of(epilogue(sync=False)) in (
        FaultKind.OVERWRITE_IN_FLIGHT,
        FaultKind.MISSING_FENCE,
    )
    assert kind_of(epilogue(wait=False)) is FaultKind.LEAK_AT_EXIT


def test_a_wait_of_another_lane_does_not_wait():
    story = epilogue(wait=False)
    story.drain(0, ev.RecordedQueue.BULK, 0, True, lanes=2)
    assert kind_of(story) is FaultKind.LEAK_AT_EXIT


def test_atomic_accesses_do_not_race_with_each_other():
    story = Story()
    for warp in (0, 1):
        story.access(warp, 0, 4, ev.Mode.ATOMIC, ev.AccessSemantics.RELAXED)
    assert kind_of(story) is None
    story.access(1, 0, 4, ev.Mode.READ)
    assert kind_of(story) is FaultKind.DATA_RACE


@pytest.mark.parametrize("synced", [True, False])
def test_plain_and_atomic_accesses_are_ordered_by_barriers(synced):
    story = Story()
    story.access(0, 0, 64)
    story.sync([0, 1], generation=0)
    for warp in (0, 1):
        story.access(warp, 8 * warp, 40, ev.Mode.ATOMIC, ev.AccessSemantics.RELAXED)
    if synced:
        story.sync([0, 1], generation=1)
    story.access(1, 0, 64, ev.Mode.READ)
    assert (kind_of(story) is None) == synced


@pytest.mark.parametrize("ordered", [True, False])
def test_the_bytes_of_a_barrier_are_handed_over_in_order(ordered):
    story = Story()
    story.access(1, FULL, 8)
    if ordered:
        story.sync([0, 1])
    story.init(0, FULL, 1)
    assert kind_of(story) is (None if ordered else FaultKind.DATA_RACE)


def test_accesses_that_nothing_separates_are_one_operation():
    story = Story()
    for low in range(0, 1024, 64):
        story.access(0, low, 64)
    story.sync([0, 1])
    story.access(1, 0, 1024, ev.Mode.READ)
    program = story.recording().program
    assert [len(role.body) for role in program.roles] == [2, 2]
    assert len(program.buffers) == 16


def test_a_lapped_wait_is_found():
    """Two warps wait for a barrier whose rounds only one of them takes part in."""
    story = Story(3)
    story.init(0, FULL, 1)
    story.init(0, EMPTY, 1)
    story.sync([0, 1, 2])
    for phase in range(3):
        story.arrive(0, FULL, phase)
        story.wait(1, FULL, phase)
        story.wait(2, FULL, phase)
        story.arrive(1, EMPTY, phase)
        story.wait(0, EMPTY, phase)
    assert kind_of(story) is FaultKind.LAPPED_WAIT


def test_parts_of_a_warp_that_run_side_by_side_are_not_decided():
    story = Story()
    story.init(1, FULL, 2)
    story.access(0, 64, 8, lanes=1)
    story.arrive(0, FULL, 0, lanes=2)
    assert story.recording().problems == []
    story.access(0, 64, 8, lanes=1)
    assert "side by side" in story.recording().problems[0][0]
    story.events.pop()
    story.access(0, 64, 8, lanes=3)
    story.access(0, 64, 8, lanes=1)
    assert story.recording().problems == []


def test_weak_accesses_of_other_lanes_do_not_run_side_by_side():
    """A part that only accesses memory is placed by the run, whatever the others do meanwhile."""
    story = Story()
    story.init(1, FULL, 4)
    story.arrive(0, FULL, 0, lanes=1)
    story.access(0, 128, 8, lanes=2)
    story.arrive(0, FULL, 0, lanes=1)
    assert story.recording().problems == []
    story.access(0, 128, 8, lanes=2)
    assert "side by side" in story.recording().problems[0][0]


@pytest.mark.parametrize(("met", "together"), [(3, True), (1, False), (4, False)])
def test_parts_of_a_warp_are_one_again_where_an_election_waits_for_them(met, together):
    story = Story()
    story.init(1, FULL, 2)
    for lanes in (1, 2):
        story.arrive(0, FULL, 0, lanes=lanes)
    story.add(ev.Elect(*story.at(0, met), met, 0))
    story.access(0, 64, 8, lanes=1)
    assert (story.recording().problems == []) is together


@pytest.mark.parametrize(
    "story",
    [ring(), ring(wait_empty=False), ring(drain=False), ring(expect=TILE // 2), epilogue(fence=0)],
)
def test_regions_that_are_used_alike_may_be_one(story):
    """One region for those that all operations use alike gives the same answer."""
    program = story.recording().program
    ((fewer,), stands) = merged_alike([program])
    assert set(stands) == {item.name for item in fewer.buffers}
    whole, merged = analyse(program), analyse(fewer)
    assert whole.verdict is merged.verdict
    assert (whole.fault is None) is (merged.fault is None)
    if whole.fault is not None and merged.fault is not None:
        assert whole.fault.kind is merged.fault.kind


def test_what_lies_apart_from_all_that_is_written_is_left_out():
    story = Story()
    story.access(0, 0, 64)
    story.sync([0, 1])
    story.access(1, 32, 64, ev.Mode.READ)
    story.access(1, 1 << 20, 64, ev.Mode.READ)
    recording = story.recording()
    names = [item.name for item in recording.program.buffers]
    assert names == ["shared+0x20..0x3f"]
    assert kind_of(story) is None
