"""Lowering to mbarrier rings, judged by the reference search: good ones verify."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.language.lower.examples import (
    PRODUCER,
    blackwell_gemm,
    e,
    hopper_gemm,
    loop,
    operands,
    tiles,
    when,
)
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.source.span import whole_file
from titan.foundation.verdict import Verdict
from titan.language.lower import LoweringRefused, lower, lower_with_notes
from titan.language.protocol import model as m
from titan.sync import program as ir
from titan.sync.fault import FaultKind


def verdict(program: ir.SyncProgram, count: int) -> FaultKind | None:
    """The fault kind that the search finds with `count` tiles, None when it verifies."""
    result = explore_reference(program, {"tiles": count}, Budget(60_000))
    assert result.verdict is not Verdict.UNDECIDED
    return result.trace.fault.kind if result.trace else None


def replaced(protocol: m.Protocol, role: str, body: m.Body) -> m.Protocol:
    roles = tuple(
        replace(item, body=body) if item.name == role else item for item in protocol.roles
    )
    return replace(protocol, roles=roles)


def ring_of(transport: m.Transport, consumer: m.Body, **more: object) -> m.Protocol:
    """One ring of depth 2 with the plain producer and the given consumer body in a tile loop."""
    roles = (
        replace(PRODUCER, agents=int(more.pop("producers", 1))),  # type: ignore[call-overload]
        m.ProtocolRole(
            "consumer",
            (loop("tiles", *consumer),),
            int(more.pop("consumers", 1)),  # type: ignore[call-overload]
        ),
    )
    ring = m.Ring("operands", ("A",), 2, transport=transport, **more)  # type: ignore[arg-type]
    return m.Protocol(
        "ring", "sm_90a", (ring,), roles, tiles(), (ir.Buffer("A", 2, bytes_per_stage=1024),)
    )


READ = (
    m.WaitReady("operands", e("t")),
    m.ReadStage("operands", e("t")),
    m.Release("operands", e("t")),
)
TENSOR = (
    m.WaitReady("operands", e("t")),
    m.Issue(operands("t"), "group"),
    m.Drain("group"),
    m.Release("operands", e("t")),
)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_hopper_gemm_verifies(depth: int, count: int) -> None:
    assert verdict(lower(hopper_gemm(depth, 1)), count) is None


def test_one_stage_cannot_hold_back_a_release() -> None:
    """With depth 1 the consumer waits for tile 1 before it releases tile 0."""
    assert verdict(lower(hopper_gemm(1, 1)), 2) is FaultKind.DEADLOCK


def test_every_consumer_counts_for_the_empty_barrier() -> None:
    program = lower(hopper_gemm(2, 2))
    counts = {barrier.name: barrier.count for barrier in program.barriers}
    assert counts == {"operands_full": 1, "operands_empty": 2}
    assert verdict(program, 3) is None


def test_blackwell_gemm_verifies() -> None:
    for count in (0, 1, 2):
        assert verdict(lower(blackwell_gemm()), count) is None


def test_release_before_drain_is_found_after_lowering() -> None:
    body = (
        loop(
            "tiles",
            m.WaitReady("operands", e("t")),
            m.Issue(operands("t"), "group"),
            m.Release("operands", e("t")),
        ),
        m.Drain("group"),
    )
    assert verdict(lower(replaced(hopper_gemm(1, 1), "consumer", body)), 2) in (
        FaultKind.OVERWRITE_IN_FLIGHT,
    )


def test_missing_release_deadlocks_after_lowering() -> None:
    body = (loop("tiles", m.WaitReady("operands", e("t")), m.ReadStage("operands", e("t"))),)
    assert verdict(lower(replaced(hopper_gemm(2, 1), "consumer", body)), 3) is FaultKind.DEADLOCK


def test_produce_without_acquire_is_found_after_lowering() -> None:
    body = (loop("tiles", m.Produce("operands", e("t"))),)
    found = verdict(lower(replaced(hopper_gemm(1, 1), "producer", body)), 3)
    assert found is not None


def test_generic_reads_get_a_fence_and_a_note() -> None:
    lowered = lower_with_notes(ring_of(m.Transport.BULK, READ))
    assert any("proxy fence added" in note.text for note in lowered.notes)
    assert verdict(lowered.program, 4) is None
    bare = lower(ring_of(m.Transport.BULK, READ), add_fences=False)
    assert verdict(bare, 4) is FaultKind.MISSING_FENCE_WAR


def test_a_fence_of_the_user_is_not_doubled() -> None:
    fence = m.Primitive(ir.Fence(ir.FenceKind.ASYNC))
    body = (READ[0], READ[1], fence, READ[2])
    program = lower(ring_of(m.Transport.BULK, body))
    fences = [op for role in program.roles for op in ir.walk(role.body) if isinstance(op, ir.Fence)]
    assert len(fences) == 1
    assert verdict(program, 4) is None


def test_stores_are_shared_out_and_fenced_before_the_tensor_core() -> None:
    protocol = ring_of(m.Transport.STORE, TENSOR, producers=2)
    program = lower(protocol)
    assert program.buffers[0].parts == 2
    assert program.barriers[0].count == 2
    assert verdict(program, 3) is None
    assert verdict(lower(protocol, add_fences=False), 3) is FaultKind.MISSING_FENCE


def test_asynchronous_copies_arrive_behind_themselves() -> None:
    assert verdict(lower(ring_of(m.Transport.ASYNC_COPY, READ, producers=2)), 3) is None
    protocol = ring_of(m.Transport.ASYNC_COPY, TENSOR)
    assert verdict(lower(protocol), 3) is None
    assert verdict(lower(protocol, add_fences=False), 3) is FaultKind.MISSING_FENCE


def test_two_bulk_producers_share_one_stage() -> None:
    program = lower(ring_of(m.Transport.BULK, TENSOR, producers=2))
    assert program.barriers[0].count == 2
    assert verdict(program, 3) is None


def test_collective_release_meets_at_a_named_barrier() -> None:
    protocol = ring_of(m.Transport.BULK, TENSOR, consumers=2, release=m.ReleaseMode.COLLECTIVE)
    program = lower(protocol)
    assert program.barriers[1].count == 1
    assert program.named_barriers[0].name == "operands_readers"
    assert verdict(program, 3) is None


def partial(produce: m.Produce, consumer: m.Body) -> m.Protocol:
    body = (loop("tiles", m.Acquire("operands", e("t")), produce),)
    return replaced(ring_of(m.Transport.BULK, consumer), "producer", body)


def test_zero_bytes_for_the_last_tile() -> None:
    produce = m.Produce("operands", e("t"), bytes=e("1024 * (t + 1 < tiles)"))
    for count in (0, 1, 3):
        assert verdict(lower(partial(produce, TENSOR)), count) is None


def test_always_zero_bytes() -> None:
    assert verdict(lower(partial(m.Produce("operands", e("t"), bytes=e(0)), READ)), 3) is None


def test_poison_must_be_branched_on() -> None:
    produce = m.Produce("operands", e("t"), poison=e("t + 1 == tiles"))
    asking = (
        TENSOR[0],
        m.WhenPoisoned("operands", e("t"), otherwise=TENSOR[1:3]),
        TENSOR[3],
    )
    assert verdict(lower(partial(produce, asking)), 3) is None
    assert verdict(lower(partial(produce, TENSOR)), 3) is FaultKind.STALE_READ


def test_poison_that_the_index_does_not_tell_is_refused() -> None:
    produce = m.Produce("operands", e("2 * t"), poison=e("t == 0"))
    asking = (m.WhenPoisoned("operands", e("t")),)
    with pytest.raises(LoweringRefused) as refused:
        lower(partial(produce, asking))
    assert refused.value.diagnostics[0].code == "TTN401"


def test_several_bulk_copies_of_one_slot() -> None:
    body = (
        loop(
            "tiles",
            m.Acquire("operands", e("t")),
            m.Produce("operands", e("t"), buffers=("A",), last=False),
            m.Produce("operands", e("t"), buffers=("B",)),
        ),
    )
    program = lower(replaced(hopper_gemm(2, 1), "producer", body))
    assert verdict(program, 3) is None


def test_two_groups_on_one_queue_get_thresholds() -> None:
    body = (
        loop(
            "tiles",
            m.WaitReady("operands", e("t")),
            m.Issue(operands("t"), "first"),
            m.Issue(operands("t"), "second"),
            m.Drain("first"),
            m.Drain("second"),
            m.Release("operands", e("t")),
        ),
    )
    program = lower(replaced(hopper_gemm(2, 1), "consumer", body))
    waits = [op for op in ir.walk(program.roles[1].body) if isinstance(op, ir.QueueWait)]
    assert [wait.pending for wait in waits] == [e(1), e(0)]
    assert [queue.name for queue in program.queues] == ["wgmma"]
    assert verdict(program, 3) is None


def test_finalize_drains() -> None:
    body = (
        loop("tiles", m.WaitReady("operands", e("t")), m.Issue(operands("t"), "group")),
        m.Finalize(),
    )
    assert verdict(lower(replaced(hopper_gemm(2, 1), "consumer", body)), 2) is None
    assert (
        verdict(lower(replaced(hopper_gemm(2, 1), "consumer", body[:1])), 2)
        is FaultKind.LEAK_AT_EXIT
    )


def test_release_after_a_group() -> None:
    body = (
        loop(
            "tiles",
            m.WaitReady("operands", e("t")),
            m.Issue(operands("t"), "group"),
            m.Release("operands", e("t"), after="group"),
        ),
    )
    for target in ("sm_90a", "sm_100a"):
        ending = (*body, m.Drain("group"))
        program = lower(replaced(hopper_gemm(2, 1, target), "consumer", ending))
        assert verdict(program, 4) is None, target


def test_tcgen05_cannot_leave_groups_unless_asked() -> None:
    protocol = hopper_gemm(2, 1, "sm_100a")
    with pytest.raises(LoweringRefused) as refused:
        lower(protocol)
    assert refused.value.diagnostics[0].code == "TTN401"
    lowered = lower_with_notes(protocol, rewrites=frozenset({"drain_all"}))
    assert any("no wait by count" in note.text for note in lowered.notes)
    assert verdict(lowered.program, 3) is None


def test_spans_and_labels_go_with_the_operations() -> None:
    place = whole_file("kernel.yaml")
    first = PRODUCER.body[0]
    assert isinstance(first, m.For)
    body = (loop("tiles", m.Acquire("operands", e("t"), span=place), first.body[1]),)
    program = lower(replaced(hopper_gemm(), "producer", body))
    waits = [op for op in ir.walk(program.roles[0].body) if isinstance(op, ir.Wait)]
    assert waits[0].span == place
    assert waits[0].label == "acquire operands[t]: wait empty"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"rings": (m.Ring("operands", ("A", "C"), 2),)}, "TTN011"),
        ({"rings": (m.Ring("operands", ("A", "B"), 3),)}, "TTN017"),
        ({"rings": (m.Ring("operands", ("A", "B"), 0),)}, "TTN009"),
        ({"rings": (m.Ring("operands", ("A",), 2, transport=m.Transport.LDS_DMA),)}, "TTN401"),
        ({"rings": (m.Ring("operands", ("A",), 2, transport=m.Transport.MMA),)}, "TTN401"),
        ({"rings": (m.Ring("operands", ("A",), 2, free_count=2**20),)}, "TTN404"),
        ({"rings": (m.Ring("other", ("A",), 2),)}, "TTN011"),
        ({"target": "sm_70"}, "TTN010"),
    ],
)
def test_refusals(change: dict[str, object], code: str) -> None:
    with pytest.raises(LoweringRefused) as refused:
        lower(replace(hopper_gemm(), **change))  # type: ignore[arg-type]
    assert refused.value.diagnostics[0].code == code


def test_index_with_offset_and_when() -> None:
    """The unified time loop: produce t, consume t - 1, guards on both sides."""
    time = m.For(
        "t",
        e(0),
        e("tiles + 1"),
        (
            when("t < tiles", m.Acquire("operands", e("t")), m.Produce("operands", e("t"))),
            when(
                "t >= 1",
                m.WaitReady("operands", e("t - 1")),
                m.ReadStage("operands", e("t - 1")),
                m.Release("operands", e("t - 1")),
            ),
        ),
    )
    protocol = replace(
        hopper_gemm(2, 1), roles=(m.ProtocolRole("everything", (time,)),), target="sm_90a"
    )
    for count in (0, 1, 2, 5):
        assert verdict(lower(protocol), count) is None


def test_finalize_waits_for_readers_of_another_cta() -> None:
    """The consumer's last arrivals come after the producer's CTA would have ended."""
    protocol = ring_of(m.Transport.BULK, READ)
    producer, consumer = protocol.roles
    there = replace(
        protocol,
        roles=(producer, replace(consumer, cta=1)),
        buffers=(replace(protocol.buffers[0], cta=1),),
    )
    assert verdict(lower(there), 2) is FaultKind.LEAK_AT_EXIT
    ended = replace(producer, body=(*producer.body, m.Finalize()))
    for count in (0, 1, 2, 3):
        program = lower(replace(there, roles=(ended, there.roles[1])))
        assert verdict(program, count) is None, count
    counted = replace(
        ended,
        body=(
            loop(
                "tiles",
                m.Acquire("operands", e("n")),
                m.Produce("operands", e("n")),
                m.Count("n", e("n + 1")),
            ),
            m.Finalize(),
        ),
        variables=(("n", 0),),
    )
    program = lower(replace(there, roles=(counted, there.roles[1])))
    assert verdict(program, 3) is None
