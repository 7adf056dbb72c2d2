"""Lowering to wait counters: thresholds, saturation, refusals and rewrites; the search judges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.language.lower.examples import (
    PRODUCER,
    e,
    hopper_gemm,
    loop,
    mi300_gemm,
    operands,
    tiles,
    when,
)
from tests.language.lower.test_nvidia import verdict
from titan.language.lower import LoweringRefused, lower, lower_with_notes
from titan.language.protocol import model as m
from titan.sync import program as ir
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind


def waits(program: ir.SyncProgram, counter: str, role: int = 0) -> list[ir.QueueWait]:
    return [
        operation
        for operation in ir.walk(program.roles[role].body)
        if isinstance(operation, ir.QueueWait) and operation.queue == counter
    ]


@pytest.mark.parametrize(("depth", "distance"), [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2)])
def test_waves_that_fill_and_read(depth: int, distance: int) -> None:
    program = lower(mi300_gemm(depth, distance))
    for count in (0, 1, 2, 3, 2 * depth + 1):
        assert verdict(program, count) is None


def test_threshold_is_steady_and_falls_in_the_tail() -> None:
    (wait,) = waits(lower(mi300_gemm(4, 3, buffers=("A", "B"))), "vmcnt")
    values = [evaluate(wait.pending, {"t": t, "tiles": 8}) for t in range(3, 11)]
    assert values == [6, 6, 6, 6, 6, 4, 2, 0]


def test_the_wait_stands_before_the_barrier() -> None:
    operations = list(ir.walk(lower(mi300_gemm()).roles[0].body))
    kinds = [type(operation) for operation in operations]
    first = kinds.index(ir.BarrierSync)
    assert kinds[first - 1] is ir.QueueWait
    without = [operation for operation in operations if isinstance(operation, ir.Asynchronous)]
    assert [operation.queue for operation in without] == ["vmcnt", "lgkmcnt"]


def test_running_too_far_ahead_is_found() -> None:
    assert verdict(lower(mi300_gemm(2, 2)), 3) is FaultKind.OVERWRITE_IN_FLIGHT


def test_a_larger_threshold_is_found() -> None:
    program = lower(mi300_gemm(2, 1))
    (loop_,) = program.roles[0].body
    assert isinstance(loop_, ir.Loop)

    def weaker(operation: ir.Operation) -> ir.Operation:
        if isinstance(operation, ir.Branch):
            then = tuple(weaker(item) for item in operation.then)
            return replace(operation, then=then)
        if isinstance(operation, ir.QueueWait) and operation.queue == "vmcnt":
            return replace(operation, pending=e(1))
        return operation

    body = (replace(loop_, body=tuple(weaker(item) for item in loop_.body)),)
    broken = replace(program, roles=(replace(program.roles[0], body=body),))
    assert verdict(broken, 1) is not None


def split(depth: int, *consumer: m.Statement, waves: int = 1) -> m.Protocol:
    producer = replace(PRODUCER, agents=2, threads=64)
    reader = m.ProtocolRole("reader", (loop("tiles", *consumer),), waves, 64)
    return replace(mi300_gemm(depth), roles=(producer, reader))


READ = (
    m.WaitReady("operands", e("t")),
    m.ReadStage("operands", e("t")),
    m.Release("operands", e("t")),
)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_split_roles_meet_equally_many_barriers(depth: int) -> None:
    program = lower(split(depth, *READ, waves=2))
    for count in (0, 1, 2, depth + 2):
        assert verdict(program, count) is None


def test_split_roles_that_cannot_match_are_refused_with_the_reason() -> None:
    late = (READ[0], READ[1], when("t >= 1", m.Release("operands", e("t - 1"))))
    with pytest.raises(LoweringRefused) as refused:
        lower(split(2, *late))
    (item,) = refused.value.diagnostics
    assert item.code == "TTN401"
    assert "cannot be matched" in item.headline
    assert item.notes


def test_roles_with_other_barriers_are_refused() -> None:
    other = m.ProtocolRole("idle", (), 1, 64)
    protocol = mi300_gemm()
    with pytest.raises(LoweringRefused) as refused:
        lower(replace(protocol, roles=(*protocol.roles, other)))
    assert "different orders" in refused.value.diagnostics[0].headline


def test_a_wait_for_the_middle_is_refused_or_grouped() -> None:
    protocol = mi300_gemm(4, 0)
    body = (
        m.Produce("operands", e(0)),
        m.Produce("operands", e(1)),
        m.WaitReady("operands", e(1)),
        m.ReadStage("operands", e(1)),
        m.Release("operands", e(1)),
        m.WaitReady("operands", e(0)),
        m.ReadStage("operands", e(0)),
        m.Release("operands", e(0)),
    )
    middle = replace(protocol, roles=(replace(protocol.roles[0], body=body),))
    with pytest.raises(LoweringRefused) as refused:
        lower(middle)
    assert refused.value.diagnostics[0].code == "TTN401"
    grouped = lower(middle, rewrites=frozenset({"group"}))
    assert verdict(grouped, 1) is None


def test_a_wait_behind_the_frontier_is_refused() -> None:
    protocol = mi300_gemm(2, 0, buffers=("A", "B"))
    rings = (
        m.Ring("a", ("A",), 2, transport=m.Transport.LDS_DMA),
        m.Ring("b", ("B",), 2, transport=m.Transport.LDS_DMA),
    )
    body = (
        loop(
            "tiles",
            m.Produce("a", e("t")),
            m.Produce("b", e("t")),
            m.WaitReady("b", e("t")),
            m.WaitReady("a", e("t")),
            m.Release("a", e("t")),
            m.Release("b", e("t")),
        ),
    )
    backwards = replace(protocol, rings=rings, roles=(replace(protocol.roles[0], body=body),))
    with pytest.raises(LoweringRefused) as refused:
        lower(backwards)
    assert refused.value.diagnostics[0].code == "TTN401"
    wait_a, wait_b = m.WaitReady("a", e("t")), m.WaitReady("b", e("t"))
    again = (m.Produce("a", e("t")), m.Produce("b", e("t")), wait_a, wait_b, wait_a)
    twice = replace(backwards, roles=(replace(protocol.roles[0], body=(loop("tiles", *again),)),))
    with pytest.raises(LoweringRefused) as refused:
        lower(twice)
    assert refused.value.diagnostics[0].code == "TTN402"


def test_thresholds_saturate_with_a_note() -> None:
    protocol = mi300_gemm(4, 3)
    big = (replace(protocol.buffers[0], bytes_per_stage=2 * 256 * 32),)
    lowered = lower_with_notes(replace(protocol, buffers=big))
    assert any("TTN403" in note.text for note in lowered.notes)
    (wait,) = waits(lowered.program, "vmcnt")
    assert evaluate(wait.pending, {"t": 4, "tiles": 20}) == 2
    assert verdict(lowered.program, 3) is None


def test_bulk_needs_the_transport_rewrite() -> None:
    protocol = replace(hopper_gemm(2, 1), target="gfx942")
    with pytest.raises(LoweringRefused):
        lower(protocol)
    lowered = lower_with_notes(protocol, rewrites=frozenset({"transport", "unspecialise"}))
    assert [role.name for role in lowered.program.roles] == ["producer_consumer"]
    assert any("all waves run all roles" in note.text for note in lowered.notes)
    for count in (0, 1, 2, 4):
        assert verdict(lowered.program, count) is None


def test_depth_rewrite_is_tried_first() -> None:
    lowered = lower_with_notes(
        split(2, READ[0], READ[1], when("t >= 1", m.Release("operands", e("t - 1")))),
        rewrites=frozenset({"unspecialise"}),
    )
    assert lowered.program.roles[0].agents == 3


def test_stores_are_published_by_lgkmcnt() -> None:
    protocol = mi300_gemm(2, 1)
    ring = replace(protocol.rings[0], transport=m.Transport.STORE)
    program = lower(replace(protocol, rings=(ring,)))
    assert not waits(program, "vmcnt")
    for count in (0, 1, 3):
        assert verdict(program, count) is None


def test_ordinary_loads_count_on_vmcnt() -> None:
    """A prefetch of another buffer between copy and wait raises the threshold by one."""
    protocol = mi300_gemm(2, 0)
    load = m.Primitive(
        ir.Asynchronous((ir.Effect("G", tile=None),), queue="vmcnt", label="global load")
    )
    body = (loop("tiles", m.Produce("operands", e("t")), load, *READ), m.Finalize())
    mixed = replace(
        protocol,
        roles=(replace(protocol.roles[0], body=body),),
        queues=(ir.Queue("vmcnt", grouped=False),),
        buffers=(*protocol.buffers, ir.Buffer("G", space=ir.Space.GLOBAL, initial=0)),
    )
    program = lower(mixed)
    assert [wait.pending for wait in waits(program, "vmcnt")] == [e(1), e(0)]
    assert verdict(program, 2) is None


def test_tensor_memory_is_refused() -> None:
    protocol = mi300_gemm()
    issue = m.Issue(operands("t"), "mfma", accumulates=operands("t"))
    body = (loop("tiles", issue),)
    with pytest.raises(LoweringRefused):
        lower(replace(protocol, roles=(replace(protocol.roles[0], body=body),), parameters=tiles()))
