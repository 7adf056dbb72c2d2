"""What shipped compilers and libraries write, in small: found in real PTX, kept as a test each."""

from __future__ import annotations

import pytest

from tests.frontends.story import ALL, Story, shared
from tests.frontends.test_verify_code import LAUNCH, NOTHING, codes, kernel, ring, verified
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import chosen
from titan.frontends.ptx.remarks import REMARKS
from titan.isa.simt import events as ev

PEEK = """
	mov.u32 %r6, s;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 mbarrier.init.shared.b64 [b], 32;
	bar.sync 0;
	setp.ne.u32 %p2, %r1, 0;
	@%p2 bra WAITS;
	st.shared.u32 [s], 1;
	mbarrier.arrive.shared.b64 _, [b];
	bra DONE;
WAITS:
	mbarrier.try_wait.parity.shared.b64 %p3, [b], 0;
	@%p3 bra READY;
	mov.u32 %r5, b;
	mov.u32 %r6, s;
AGAIN:
	mbarrier.try_wait.parity.shared.b64 %p3, [%r5], 0;
	@!%p3 bra AGAIN;
READY:
	ld.shared.u32 %r4, [{address}];
DONE:
"""


@pytest.mark.parametrize(
    ("address", "verdict"), [("s", Verdict.VERIFIED), ("%r6", Verdict.UNDECIDED)]
)
def test_what_is_computed_for_a_wait_alone_steers_nothing_behind_it(address, verdict):
    """CuTe DSL computes the barrier's address where the peek before has failed."""
    finding = verified(kernel(PEEK.replace("{address}", address)), NOTHING)
    assert finding.verdict is verdict, finding.notes


def lapping() -> str:
    """The ring with a third warp that waits for free stages and copies nothing, as TileLang 0.1.15
    writes its producers: every thread waits, and one takes part."""
    changes = [
        (".reqntid 64", ".reqntid 96"),
        ("setp.ne.u32 %p2, %r3, 0", "setp.eq.u32 %p2, %r3, 1"),
        ("\t@%p3 bra DONE;\nPRODUCER:", "PRODUCER:"),
        ("\tmbarrier.arrive.expect_tx", "\t@%p3 bra NEXT;\n\tmbarrier.arrive.expect_tx"),
        ("[%r12];\n\tadd.u32 %r7, %r7, 1;", "[%r12];\nNEXT:\n\tadd.u32 %r7, %r7, 1;"),
    ]
    text = ring()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("trips", [3, 5])
def test_a_producer_that_waits_without_taking_part_is_lapped(trips):
    finding = verified(lapping(), LAUNCH.replace("n: 5", f"n: {trips}"), ctas=(0,))
    assert codes(finding) == ["TTN212"]
    assert finding.diagnostics[0].trace is not None


def test_a_producer_that_waits_without_taking_part_is_safe_in_the_first_rounds():
    """Until the first stage is used again nobody can be lapped: one round of the ring."""
    finding = verified(lapping(), LAUNCH.replace("n: 5", "n: 0"), ctas=(0,))
    assert finding.verdict is Verdict.VERIFIED


EPILOGUE = """
	shl.b32 %r2, %r0, 2;
	mov.u32 %r3, s;
	add.u32 %r4, %r3, %r2;
	xor.b32 %r5, %r2, 256;
	add.u32 %r5, %r3, %r5;
	st.shared.u32 [%r4], %r0;
	{arrive}
	bar.sync 1, 128;
	ld.shared.u32 %r6, [%r5];
"""


@pytest.mark.parametrize(("arrive", "expected"), [("bar.arrive 1, 128;", ["TTN210"]), ("", [])])
def test_warps_that_arrive_and_then_wait_at_one_barrier_complete_it_twice(arrive, expected):
    """FlashInfer's epilogue: half of the warps may complete it before the others have stored."""
    text = kernel(EPILOGUE.replace("{arrive}", arrive), 128)
    assert codes(verified(text, NOTHING)) == expected


def loads(used: int) -> Story:
    """Two tcgen05.ld of warp 0; the registers of one are used; warp 1 overwrites that memory."""
    story = Story()
    for low in (0, 64):
        story.asynchronous(0, ev.RecordedQueue.TENSOR_LOAD, low, 64)
    operation = 1 if used == 0 else 2
    story.add(ev.RegisterBreach(*story.at(0, ALL), "%r1", operation, False))
    story.sync([0, 1])
    effect = ev.RecordedEffect(shared(0, 64), ev.Mode.WRITE, ev.AccessProxy.ASYNC)
    kind, done = ev.RecordedOperation.TENSOR_COPY, ev.BarrierAddress(0, 4096)
    story.init(1, 4096, 1)
    story.arrive(1, 4096, 0, 64)
    completion = ev.RecordedCompletion(done, 64)
    story.add(ev.AsynchronousEvent(*story.at(1, 1), 9, kind, (effect,), (completion,)))
    story.wait(1, 4096, 0)
    story.sync([0, 1], generation=1)
    story.drain(0, ev.RecordedQueue.TENSOR_LOAD)
    return story


@pytest.mark.parametrize(
    ("used", "policy", "verdict"),
    [
        (0, "allow", Verdict.REFUTED),
        (0, "use", Verdict.VERIFIED),
        (1, "use", Verdict.VERIFIED),  # loads end in their order
    ],
)
def test_a_use_of_a_register_may_stand_for_the_wait_of_its_load(used, policy, verdict):
    """CuTe DSL writes no tcgen05.wait::ld."""
    recording = loads(used).recording(load_ready=policy)
    assert not recording.problems
    assert analyse(recording.program).verdict is verdict
    assert ("load-use" in recording.remarks) == (policy == "use")


def test_a_use_of_an_earlier_load_says_nothing_of_a_later_one():
    story = loads(0)
    write = next(item for item in story.events if getattr(item, "operation", 0) == 9)
    moved = ev.RecordedEffect(shared(64, 64), ev.Mode.WRITE, ev.AccessProxy.ASYNC)
    place = story.events.index(write)
    story.events[place] = ev.AsynchronousEvent(
        write.sequence, write.cta, write.warp, write.lanes, write.instruction, 9,
        ev.RecordedOperation.TENSOR_COPY, (moved,), write.completes,
    )  # fmt: skip
    assert analyse(story.recording(load_ready="use").program).verdict is Verdict.REFUTED


TENSOR_MEMORY = """
	tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32;
	ld.shared.u32 %r3, [s];
	tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3];
	{between}
	tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r0};
	tcgen05.wait::st.sync.aligned;
	tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
	{after}
"""
STORE = "st.shared.u32 [s+1024], %r4;"


@pytest.mark.parametrize(
    ("between", "after", "policy", "expected"),
    [
        ("", "", (), []),
        ("", "", (("load_ready", "use"),), []),
        ("", "", (("unused_reads", "refuse"),), ["TTN202"]),
        ("tcgen05.wait::ld.sync.aligned;", STORE, (), []),
        ("", "tcgen05.wait::ld.sync.aligned;" + STORE, (), ["TTN202"]),
        ("", STORE, (), ["TTN202"]),
        ("", "mov.b32 %r5, %r4; " + STORE.replace("r4", "r5"), (), ["TTN202"]),
    ],
)
def test_a_load_of_tensor_memory_of_which_nothing_is_used(between, after, policy, expected):
    """FlashInfer's sparse attention loads scores that are then masked."""
    body = TENSOR_MEMORY.replace("{between}", between).replace("{after}", after)
    text = kernel(body, 32).replace("sm_90a", "sm_100a").replace("version 8.3", "version 8.8")
    finding = verified(text, NOTHING, policies=chosen(policy))
    assert codes(finding) == expected, finding.diagnostics
    assert any("used nowhere" in note for note in finding.notes) == (not expected and not between)


USE = "add.u32 %r5, %r4, 1;"
WAIT_FOR_LOAD = "tcgen05.wait::ld.sync.aligned;"


@pytest.mark.parametrize(
    ("between", "after", "policy", "expected"),
    [
        (USE, "", "convention", []),
        (USE, "", "use", []),
        (USE, "", "allow", ["TTN202"]),
        (USE, "", "refuse", ["TTN217"]),
        (USE, WAIT_FOR_LOAD, "convention", ["TTN202"]),  # the module knows of the wait
        (USE, WAIT_FOR_LOAD, "use", []),
        (USE + WAIT_FOR_LOAD, "", "allow", []),
        (WAIT_FOR_LOAD + USE, "", "refuse", []),
        ("", USE, "convention", ["TTN202"]),  # used when it has been overwritten
    ],
)
def test_in_kernels_of_cute_dsl_without_any_wait_for_loads_a_use_waits(
    between, after, policy, expected
):
    """CuTe DSL has no tcgen05.wait::ld in any kernel; what has one in the module needs all."""
    body = TENSOR_MEMORY.replace("{between}", between).replace("{after}", after)
    text = kernel(body, 32).replace("sm_90a", "sm_100a").replace("version 8.3", "version 8.8")
    text = text.replace(".entry k(", ".entry kernel_cutlass_k(")
    finding = verified(text, NOTHING, policies=chosen((("load_ready", policy),)))
    assert codes(finding)[:1] == expected, finding.diagnostics
    if not expected:
        noted = any(REMARKS["load-use"] in note for note in finding.notes)
        assert noted == (WAIT_FOR_LOAD not in between)


@pytest.mark.parametrize("entry", ["k", "my_kernel_cutlass_k", "_ZN7cutlass13device_kernelIXE"])
def test_in_any_other_kernel_the_only_wait_for_loads_may_not_be_forgotten(entry):
    body = TENSOR_MEMORY.replace("{between}", USE).replace("{after}", "")
    text = kernel(body, 32).replace("sm_90a", "sm_100a").replace("version 8.3", "version 8.8")
    finding = verified(text.replace(".entry k(", f".entry {entry}("), NOTHING)
    assert codes(finding)[:1] == ["TTN202"], finding.diagnostics
    assert any("load_ready=use" in text for item in finding.diagnostics for text in item.helps)


COMPLETING = """
	setp.eq.u32 %p1, %r0, 0;
	setp.eq.u32 %p2, %r0, 32;
	@%p1 mbarrier.init.shared.b64 [b], 1;
	bar.sync 0;
	{before}
	@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [b], {expected};
	@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [b], 16;
W:	mbarrier.try_wait.parity.shared.b64 %p3, [b], 0;
	@!%p3 bra W;
	{after}
"""


@pytest.mark.parametrize(
    ("expected", "before", "after", "found"),
    [
        (16, "", "", []),
        (32, "", "", ["TTN205"]),
        (8, "", "", ["TTN207"]),
        (16, "@%p2 st.shared.u32 [s], 1;", "@%p1 ld.shared.u32 %r3, [s];", []),
        (16, "@%p1 st.shared.u32 [s], 1;", "@%p2 ld.shared.u32 %r3, [s];", ["TTN305"]),
    ],
)
def test_bytes_that_a_thread_completes(expected, before, after, found):
    """CUTLASS's unit tests of pipelines imitate copies so; nothing is published by it."""
    text = COMPLETING.replace("{expected}", str(expected))
    text = text.replace("{before}", before).replace("{after}", after)
    assert codes(verified(kernel(text), NOTHING)) == found
