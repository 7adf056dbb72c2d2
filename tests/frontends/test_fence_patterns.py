"""Relaxed arrivals and waits with fences, against the patterns of the memory model.

The reference reads the two threads of a program by the text of PTX: something is released by an
arrival with release behind it, or by a fence behind it that a relaxed arrival follows.
"""

from __future__ import annotations

import random

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from tests.sampling import part
from titan.foundation.verdict import Verdict

STORE = "st.shared.u32 [%r4], %r0;"
LOAD = "ld.shared.u32 %r6, [%r4];"
OTHER = "st.shared.u32 [%r4+1024], %r0;"  # of nobody else
ARRIVE = "mbarrier.arrive.{sem}.cta.shared::cta.b64 _, [b];"
EXPECT = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b+8], 0;"  # at another barrier
COMPLETE = "mbarrier.complete_tx.relaxed.{scope}.shared::cta.b64 [b], 4;"
WAIT = "W: mbarrier.try_wait.parity.{sem}.cta.shared::cta.b64 %p2, [b], 0; @!%p2 bra W;"
FENCE = "fence.acq_rel.cta;"
LIGHT = "fence.proxy.async.shared::cta;"  # orders proxies, no threads
CLUSTER = "barrier.cluster.arrive.{how}; barrier.cluster.wait.aligned;"
SOME = "@%p3 fence.acq_rel.cta;"  # by some lanes


def text(writer: list[str], reader: list[str]) -> str:
    """Warp 0 stores, warp 1 loads the same words."""
    return kernel(
        "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b+8], 1;"
        "@%p1 mbarrier.init.shared.b64 [b], 32; bar.sync 0;"
        "and.b32 %r2, %r0, 31; setp.lt.u32 %p3, %r2, 16; shl.b32 %r2, %r2, 2; mov.u32 %r3, s;"
        "add.u32 %r4, %r3, %r2; setp.ge.u32 %p1, %r0, 32; @%p1 bra READ;"
        + "".join(writer) + "bra END; READ:" + "".join(reader) + "END:"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        ([STORE, FENCE, ARRIVE], [WAIT, FENCE, LOAD], []),
        ([STORE, ARRIVE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, FENCE, ARRIVE], [WAIT, LOAD], ["TTN305"]),
        ([FENCE, STORE, ARRIVE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, FENCE, ARRIVE], [WAIT, LOAD, FENCE], ["TTN305"]),
        ([STORE, ARRIVE, FENCE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, LIGHT, ARRIVE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, SOME, ARRIVE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, FENCE, ARRIVE], [WAIT, SOME, LOAD], ["TTN305"]),
    ],
)
def test_what_a_fence_makes_of_relaxed_operations(writer, reader, expected):
    program = text(writer, reader).replace("{sem}", "relaxed")
    assert codes(verified(program, NOTHING))[:1] == expected


def completed(writer: list[str], reader: list[str]) -> str:
    """The same, where the writer's threads complete the bytes that the phase lacks."""
    expects = (
        "mbarrier.init.shared.b64 [b], 1; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 128;"
    )
    return text(writer, reader).replace("mbarrier.init.shared.b64 [b], 32;", expects)


CLUSTER_FENCE = "fence.acq_rel.cluster;"


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        ([STORE, FENCE, COMPLETE], [WAIT, FENCE, LOAD], []),
        ([STORE, CLUSTER_FENCE, COMPLETE], [WAIT, FENCE, LOAD], []),
        ([STORE, FENCE, EXPECT, COMPLETE], [WAIT, EXPECT, FENCE, LOAD], []),
        ([STORE, COMPLETE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, FENCE, COMPLETE], [WAIT, LOAD], ["TTN305"]),
        ([FENCE, STORE, COMPLETE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, LIGHT, COMPLETE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([STORE, SOME, COMPLETE], [WAIT, FENCE, LOAD], ["TTN305"]),
        ([COMPLETE, STORE, FENCE], [WAIT, FENCE, LOAD], ["TTN201"]),
    ],
)
def test_what_a_fence_makes_of_bytes_that_threads_complete(writer, reader, expected):
    program = completed(writer, reader).replace("{sem}", "relaxed").replace("{scope}", "cta")
    assert codes(verified(program, NOTHING))[:1] == expected


@pytest.mark.parametrize(("between", "expected"), [(FENCE, []), ("", ["TTN201"])])
def test_lanes_hand_over_by_bytes_that_they_complete(between, expected):
    """Lane 0 stores and completes the phase, lane 1 of the same warp waits and loads."""
    program = kernel(
        "setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p3, %r0, 1; @%p1 mbarrier.init.shared.b64 [b], 1;"
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 4; bar.sync 0;"
        f"@%p1 st.shared.u32 [s], 1; {between.replace('fence', '@%p1 fence')}"
        "@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [b], 4; @!%p3 bra END;"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra W;"
        "ld.shared.u32 %r5, [s]; END:",
        32,
    )
    assert codes(verified(program, NOTHING))[:1] == expected


@pytest.mark.parametrize(("fence", "expected"), [("cluster", []), ("cta", ["TTN305"])])
def test_bytes_completed_for_another_cta_need_a_fence_of_the_cluster(fence, expected):
    """Rank 1 writes to rank 0's memory and completes the phase of its mbarrier."""
    body = (
        "mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64"
        " [b], 1; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 4;"
        "@%p1 fence.mbarrier_init.release.cluster;"
        + CLUSTER.format(how="aligned") + "@%p1 bra READ; mov.u32 %r2, s; mov.u32 %r3, b;"
        "mapa.shared::cluster.u32 %r4, %r2, 0; mapa.shared::cluster.u32 %r5, %r3, 0;"
        f"st.shared::cluster.u32 [%r4], 7; fence.acq_rel.{fence};"
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r5], 4; bra END;"
        "READ: W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [b], 0;"
        "@!%p2 bra W;"
        "ld.shared.u32 %r6, [s]; END:" + CLUSTER.format(how="aligned")
    )  # fmt: skip
    found = codes(verified(kernel(body, 1), "{grid: 2, cluster: 2, dynamic_shared: 0}"))
    assert found[:1] == expected


def released(writer: list[str]) -> bool:
    """Whether the store of the writer is before its arrival, in the order of the model."""
    arrival = next(n for n, step in enumerate(writer) if "arrive" in step or "complete" in step)
    if STORE not in writer[:arrival]:
        return False
    between = writer[writer.index(STORE) : arrival]
    return "release" in writer[arrival] or FENCE in between


def acquired(reader: list[str]) -> bool:
    wait = next(n for n, step in enumerate(reader) if "try_wait" in step)
    if LOAD not in reader[wait:]:
        return False
    return "acquire" in reader[wait] or FENCE in reader[wait : reader.index(LOAD)]


def test_random_programs():
    """What is verified is ordered; what is ordered with nothing in between is verified."""
    draw = random.Random(3)
    seen = set()
    for _ in range(part(240, 6)):
        ends = [ARRIVE.format(sem=sem) for sem in ("relaxed", "release")]
        writer = [STORE, draw.choice((*ends, COMPLETE.format(scope="cta")))]
        reader = [WAIT.format(sem=draw.choice(("relaxed", "acquire"))), LOAD]
        for steps in (writer, reader):
            for _ in range(draw.randint(0, 2)):
                others = (FENCE, LIGHT, OTHER, SOME, EXPECT)
                steps.insert(draw.randint(0, len(steps)), draw.choice(others))
        reader = [step for step in reader if step != OTHER]
        ordered = released(writer) and acquired(reader)
        form = completed if any("complete" in step for step in writer) else text
        verdict = verified(form(writer, reader), NOTHING).verdict
        seen.add((ordered, verdict is Verdict.VERIFIED))
        assert ordered or verdict is not Verdict.VERIFIED, (writer, reader)
        if ordered and OTHER not in writer:
            assert verdict is Verdict.VERIFIED, (writer, reader)
    assert {(True, True), (False, False)} <= seen


@pytest.mark.parametrize(
    ("before", "how", "expected"),
    [
        ("", "aligned", []),
        ("", "relaxed.aligned", ["TTN305"]),
        ("fence.acq_rel.cluster;", "relaxed.aligned", []),
        ("fence.acq_rel.cta;", "relaxed.aligned", ["TTN305"]),
    ],
)
def test_a_relaxed_arrival_at_the_barrier_of_the_cluster(before, how, expected):
    body = (
        "shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r0;"
        + before + CLUSTER.format(how=how) + "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1;"
        "mapa.shared::cluster.u32 %r6, %r4, %r5; ld.shared::cluster.u32 %r7, [%r6];"
        + CLUSTER.format(how="aligned")
    )  # fmt: skip
    launch = "{grid: 2, cluster: 2, dynamic_shared: 0}"
    assert codes(verified(kernel(body), launch))[:1] == expected
