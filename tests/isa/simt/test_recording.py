"""What runs record: the synchronising instructions of small kernels, and their faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.isa.simt.running import MAP, OUT, launch_of, module_of, of, place_of, ran
from tests.isa.texts import text_of
from titan.isa.ptx.parse import parse
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Box, MemorySpace
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, LaunchTensorMap, Options
from titan.isa.simt.outcome import Ending, Policy, Run
from titan.isa.simt.run import run

TENSOR = LaunchTensorMap(6, 0x100000, (256, 64), (512,), (64, 64), (1, 1), swizzle=3)
SMALL = LaunchTensorMap(6, 0x100000, (64, 32), (128,), (64, 32), (1, 1), swizzle=3)


def run_text(name: str, launch: Launch, options: Options | None = None, edit=None) -> Run:
    text = text_of(name)
    for old, new in edit or ():
        assert old in text
        text = text.replace(old, new)
    module, findings = parse(text, f"{name}.ptx")
    assert module is not None, findings
    return ran(module, launch, options)


def ring(count: int, edit=None, **options: int) -> Run:
    launch = Launch("ring", (1, 1, 1), (160, 1, 1), dynamic_shared_bytes=16384,
                    parameters=(LaunchParameter(MAP), LaunchParameter(count.to_bytes(4, "little"))),
                    tensor_maps={MAP: TENSOR})  # fmt: skip
    return run_text("ring", launch, Options(**options), edit)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("seed", [0, 1, 99])
def test_the_ring_finishes_and_counts(count, seed):
    found = ring(count, seed=seed)
    assert found.outcome.ending is Ending.FINISHED, found.outcome
    copies = [
        e for e in of(found, ev.AsynchronousEvent) if e.kind is ev.RecordedOperation.TENSOR_COPY
    ]
    assert len(copies) == count
    assert (
        len([e for e in of(found, ev.AsynchronousEvent) if e.kind is ev.RecordedOperation.WGMMA])
        == 4 * count
    )
    phases = [(e.barrier.offset, e.phase) for e in of(found, ev.WaitEvent) if e.warp == 0]
    assert len(phases) == count
    assert not of(found, ev.BarrierMisuse)
    assert not of(found, ev.MemoryFault)
    assert not of(found, ev.PollSteered)
    left = {number for e in of(found, ev.Exit) for number in e.in_flight}
    assert left <= {e.operation for e in copies}  # the producer ends first; a barrier tells them


def test_a_copy_names_its_bytes_and_its_barrier():
    found, tensor_copy = ring(2), ev.RecordedOperation.TENSOR_COPY
    copy = next(e for e in of(found, ev.AsynchronousEvent) if e.kind is tensor_copy)
    (read, write) = copy.effects
    tiles, full = place_of(found, "tiles"), place_of(found, "full")
    assert read.footprint.boxes == (Box(0x100000, 128, ((64, 512),)),)
    assert (read.mode, read.proxy) == (ev.Mode.READ, ev.AccessProxy.ASYNC)
    assert write.footprint.ranges() == ((tiles, tiles + 8192),)
    assert write.footprint.cta == 0
    assert copy.completes == (ev.RecordedCompletion(ev.BarrierAddress(0, full), 8192),)
    assert not copy.clipped
    assert copy.lanes == 1


def test_boxes_at_the_edge_are_clipped_and_count_whole():
    copies = [
        e for e in of(ring(5), ev.AsynchronousEvent) if e.kind is ev.RecordedOperation.TENSOR_COPY
    ]
    assert [e.clipped for e in copies] == [False] * 4 + [True]
    assert len(copies[4].effects) == 1  # nothing of the tensor is read
    assert copies[4].completes[0].bytes == 8192


def test_wgmma_reads_the_rows_of_its_descriptor():
    found = ring(1)
    event = next(e for e in of(found, ev.AsynchronousEvent) if e.kind is ev.RecordedOperation.WGMMA)
    a, b = event.effects
    # 64 rows of 128 bytes, 32 bytes of each, exchanged by the 128-byte swizzle: row r at r/2 xor 0
    tiles = place_of(found, "tiles")
    expected = sorted(tiles + row * 128 + (row % 8 // 2) * 32 for row in range(64))
    got = sorted(at for low, high in a.footprint.ranges() for at in range(low, high, 32))
    assert got == expected
    assert sum(high - low for low, high in b.footprint.ranges()) == 8 * 32
    assert len(event.registers) == 4
    assert event.accumulates
    assert event.queue is ev.RecordedQueue.WGMMA


def test_the_waits_of_a_ring_see_each_phase_once():
    found = ring(7)
    seen: dict[tuple[int, int], list[int]] = {}
    for event in of(found, ev.WaitEvent):
        seen.setdefault((event.warp, event.barrier.offset), []).append(event.phase)
    assert seen[(0, place_of(found, "full"))] == [0, 1, 2, 3]
    assert seen[(4, place_of(found, "empty"))] == [-1, 0, 1, 2]
    assert all(e.phase == e.current - 1 for e in of(found, ev.WaitEvent))


def test_a_missing_arrival_hangs_with_its_waiters():
    found = ring(7, [("\tmbarrier.arrive.shared::cta.b64 _, [%r12];\n", "")])
    assert found.outcome.ending is Ending.HUNG
    by_warp = {w.warp: w for w in found.outcome.waiters}
    assert by_warp[4].what == "mbarrier"
    assert (by_warp[4].barrier, by_warp[4].phase, by_warp[4].pending) == (
        ev.BarrierAddress(0, place_of(found, "empty")), 0, 128,
    )  # fmt: skip
    assert by_warp[0].barrier == ev.BarrierAddress(0, place_of(found, "full"))


def test_missing_bytes_hang_and_the_count_says_so():
    found = ring(1, [("[%r11], 8192", "[%r11], 9216")])
    assert found.outcome.ending is Ending.HUNG
    assert {w.bytes for w in found.outcome.waiters} == {1024}
    assert all(w.pending == 0 for w in found.outcome.waiters)


def test_accumulators_touched_before_their_wait_are_told():
    wait = "wgmma.wait_group.sync.aligned 0;"
    assert not of(ring(2), ev.RegisterBreach)
    found = ring(2, [(wait, "add.f32 %f0, %f0, %f1;\n" + wait)])
    breaches = of(found, ev.RegisterBreach)
    assert breaches
    assert {e.register for e in breaches} <= {"%f0", "%f1"}
    moved = ring(2, [(wait, "mov.f32 %f4, %f0;\n" + wait)])
    assert not of(moved, ev.RegisterBreach)
    used = ring(2, [(wait, "mov.f32 %f4, %f0; add.f32 %f5, %f4, %f4;\n" + wait)])
    assert {e.register for e in of(used, ev.RegisterBreach)} == {"%f4"}


def test_a_poll_may_only_steer_waiting():
    spin = "@!%p4 bra FULL;"
    peeked = ring(3, [(spin, "@%p4 bra GO; W: mbarrier.try_wait.parity.shared::cta.b64 %p4, "
                             "[%r11], %r9; @!%p4 bra W; GO:")])  # fmt: skip
    assert not peeked.confluence.polls
    told = ring(3, [(spin, spin + "\nselp.b32 %r20, 1, 0, %p4; @%p4 bar.warp.sync -1;")])
    assert told.confluence.polls
    assert {e.use for e in of(told, ev.PollSteered)} == {"guard"}


def test_multicast_and_remote_arrivals():
    launch = Launch("pair", (2, 1, 1), (32, 1, 1), (2, 1, 1), parameters=(LaunchParameter(MAP),),
                    tensor_maps={MAP: SMALL})  # fmt: skip
    found = run_text("pair", launch)
    assert found.outcome.ending is Ending.FINISHED, found.outcome
    (copy,) = of(found, ev.AsynchronousEvent)
    assert [e.footprint.cta for e in copy.effects] == [-1, 0, 1]
    assert [c.barrier.cta for c in copy.completes] == [0, 1]
    remote = [e for e in of(found, ev.ArriveEvent) if e.remote]
    assert sorted((e.cta, e.barrier.cta) for e in remote) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {(e.semantics, e.scope) for e in remote} == {
        (ev.AccessSemantics.RELEASE, ev.AccessScope.CLUSTER)
    }
    meetings = of(found, ev.RendezvousEvent)
    assert {e.side for e in meetings} == {ev.Side.ARRIVE, ev.Side.PASS}
    assert [e.semantics for e in meetings if e.side is ev.Side.ARRIVE] == [
        ev.AccessSemantics.RELAXED
    ] * 2


def test_tensor_memory_from_allocation_to_its_end():
    found = run_text("tensor", Launch("tensor", (1, 1, 1), (128, 1, 1)))
    assert found.outcome.ending is Ending.FINISHED, found.outcome
    work = of(found, ev.AsynchronousEvent)
    (multiply,) = [e for e in work if e.kind is ev.RecordedOperation.TENSOR_MULTIPLY]
    d, a, b = multiply.effects
    assert (d.footprint.space, d.mode) == (MemorySpace.TENSOR, ev.Mode.WRITE)
    assert d.footprint.boxes == (Box(0, 64 * 4, ((128, 2048),)),)
    assert sum(box.size_bytes for box in a.footprint.boxes) == 128 * 32
    assert sum(box.size_bytes for box in b.footprint.boxes) == 64 * 32
    loads = [e for e in work if e.kind is ev.RecordedOperation.TENSOR_LOAD]
    assert [e.effects[0].footprint.boxes[0].start for e in loads] == [
        32 * w * 2048 + 16 for w in range(4)
    ]
    (commit,) = of(found, ev.TensorCommitEvent)
    assert commit.operations == (multiply.operation,)
    assert [e.column for e in of(found, ev.TensorAllocate)] == [0]
    assert [e.known for e in of(found, ev.TensorDeallocate)] == [True]
    assert not of(found, ev.MemoryFault)
    assert not of(found, ev.RegisterBreach)
    steering = found.confluence.steering
    assert len(steering) == 4  # the address of tensor memory goes through shared memory


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("tcgen05.wait::ld.sync.aligned;\n", "", ev.RegisterBreach),
        ("[%r11+4]", "[%r11+100]", ev.MemoryFault),
        ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64",
         "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32", ev.TensorDeallocate),
    ],
)  # fmt: skip
def test_faults_of_tensor_memory(old, new, kind):
    found = run_text("tensor", Launch("tensor", (1, 1, 1), (128, 1, 1)), None, [(old, new)])
    events = of(found, kind)
    assert events
    if kind is ev.TensorDeallocate:
        assert not events[0].known


def test_cp_async_groups_and_arrivals():
    body = """
    .shared .align 16 .b8 tile[1024];
    .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2;
    ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r1, 16, %d0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 32;
    bar.warp.sync -1;
    cp.async.cg.shared.global [%r3], [%d1], 16;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r3+512], [%d1+512], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra W;
    ret;
    """
    found = ran(module_of(body), launch_of())
    assert found.outcome.ending is Ending.FINISHED, found.outcome
    first, second = of(found, ev.AsynchronousEvent)
    assert [r for e in first.effects for r in e.footprint.ranges()] == [
        (OUT, OUT + 512), (1024, 1536),
    ]  # fmt: skip
    assert second.effects[1].footprint.boxes == (Box(1536, 4, ((32, 16),)),)
    (wait,) = of(found, ev.QueueWaitEvent)
    assert wait.operations == (first.operation,)
    (arrive,) = of(found, ev.CopyArrive)
    assert arrive.operations == (second.operation,)  # the first was waited for
    assert not of(found, ev.Exit)[0].in_flight


def test_bulk_stores_left_in_flight_are_told_at_exit():
    body = """
    .shared .align 128 .b8 tile[256];
    ld.param.u64 %d0, [out]; mov.u32 %r2, tile;
    elect.sync _|%p1, -1;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2], 256;
    cp.async.bulk.commit_group;
    WAIT
    ret;
    """
    for wait, left in (("", 1), ("cp.async.bulk.wait_group.read 0;", 0)):
        found = ran(module_of(body.replace("WAIT", wait)), launch_of())
        assert sum(len(e.in_flight) for e in of(found, ev.Exit)) == left


def test_identical_bulk_copies_of_a_warp_are_one():
    body = """
    .shared .align 128 .b8 tile[256];
    ld.param.u64 %d0, [out]; mov.u32 %r2, tile;
    cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
    """
    found = ran(module_of(body), launch_of())
    assert len(of(found, ev.AsynchronousEvent)) == 1
    assert Policy.WHOLE_WARP_BULK in {e.policy for e in of(found, ev.Assumption)}


@pytest.mark.parametrize(
    ("body", "kind", "count"),
    [
        (".shared .align 8 .b8 t[64]; ld.shared.u32 %r1, [t+64]; ret;",
         ev.MemoryFaultKind.OUTSIDE, 1),
        (".shared .align 8 .b8 t[64]; ld.shared.u32 %r1, [t+2]; ret;",
         ev.MemoryFaultKind.MISALIGNED, 1),
        ("ld.param.u64 %d0, [out]; st.global.u32 [%d0+4096], %r1; ret;",
         ev.MemoryFaultKind.OUTSIDE, 1),
        ("ld.param.u64 %d0, [out]; st.global.u32 [%d0+4092], %r1; ret;",
         ev.MemoryFaultKind.OUTSIDE, 0),
        (".shared .align 8 .b8 t[64]; .shared .align 8 .b64 f;"
         " mbarrier.init.shared::cta.b64 [f], 1; mov.u32 %r2, t; ld.param.u64 %d0, [out];"
         " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+8], [%d0], 32,"
         " [f]; ret;", ev.MemoryFaultKind.MISALIGNED, 1),
    ],
)  # fmt: skip
def test_bad_addresses_are_told_and_the_run_goes_on(body, kind, count):
    found = ran(module_of(body), launch_of(allocations=(Allocation(OUT, 4096),)))
    assert found.outcome.ending is Ending.FINISHED
    assert [e.fault for e in of(found, ev.MemoryFault)].count(kind) == count


@pytest.mark.parametrize(
    ("body", "misuse"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [b];", ev.Misuse.NOT_INITIALISED),
        ("mbarrier.init.shared::cta.b64 [b], 1; mbarrier.arrive.shared::cta.b64 _, [b], 2;",
         ev.Misuse.COUNT_UNDERFLOW),
        ("mbarrier.init.shared::cta.b64 [b], 0;", ev.Misuse.COUNT_RANGE),
        ("mbarrier.init.shared::cta.b64 [b], 1; st.shared.u32 [b+4], %r1;", ev.Misuse.OVERWRITTEN),
        ("mbarrier.init.shared::cta.b64 [b], 2; mbarrier.inval.shared::cta.b64 [b];"
         " mbarrier.arrive.shared::cta.b64 _, [b];", ev.Misuse.NOT_INITIALISED),
    ],
)  # fmt: skip
def test_misuse_of_an_mbarrier(body, misuse):
    text = ".shared .align 8 .b64 b; .reg .pred q; elect.sync _|q, -1; @!q bra E;" + body
    found = ran(module_of(text + " E: ret;"), launch_of())
    assert [e.misuse for e in of(found, ev.BarrierMisuse)] == [misuse]


def test_tokens_of_arrivals():
    body = """
    .shared .align 8 .b64 b;
    mbarrier.init.shared::cta.b64 [b], 32;
    mbarrier.arrive.shared::cta.b64 %d1, [b];
    W: mbarrier.test_wait.shared::cta.b64 %p1, [b], %d1; @!%p1 bra W;
    ret;
    """
    text = body.replace("mbarrier.init", "elect.sync _|%p1, -1; @%p1 mbarrier.init", 1)
    found = ran(module_of(text), launch_of())
    assert found.outcome.ending is Ending.FINISHED
    (wait,) = of(found, ev.WaitEvent)
    assert (wait.parity, wait.phase, wait.current) == (None, 0, 1)


def test_named_barriers_by_their_thread_counts():
    body = """
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra FIRST;
    bar.arrive 3, 64; bar.sync 2, 64; ret;
    FIRST: bar.sync 3, 64; bar.sync 2, 64; ret;
    """
    found = ran(module_of(body), launch_of(block=64))
    assert found.outcome.ending is Ending.FINISHED
    sides = [(e.warp, e.number, e.side.name) for e in of(found, ev.RendezvousEvent)]
    assert sides.count((1, 3, "ARRIVE")) == 1
    assert sides.count((0, 3, "PASS")) == 1
    assert (1, 3, "PASS") not in sides
    hung = ran(module_of(body.replace("bar.sync 2, 64; ret;\n    FIRST", "ret;\n FIRST")),
               launch_of(block=64))  # fmt: skip
    assert hung.outcome.ending is Ending.HUNG
    assert [(w.what, w.number, w.pending) for w in hung.outcome.waiters] == [
        ("named barrier", 2, 32)
    ]


def test_warps_that_ended_are_not_waited_for():
    body = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra E; bar.sync 0; E: ret;"
    assert ran(module_of(body), launch_of(block=64)).outcome.ending is Ending.FINISHED


def test_a_branch_on_unknown_data_is_passed_over_with_its_accesses():
    body = """
    .shared .align 4 .b32 t;
    ld.param.u64 %d0, [out];
    mov.u32 %r2, 5; mov.u32 %r3, 6;
    st.shared.u32 [t], %r2;
    ld.global.u32 %r1, [%d0];
    setp.gt.s32 %p1, %r1, 7;
    @%p1 bra ELSE;
    st.shared.u32 [t], %r3; mov.u32 %r4, 1;
    bra MEET;
    ELSE: ld.global.u32 %r5, [%d0+64]; mov.u32 %r4, 2;
    MEET:
    ld.shared.u32 %r6, [t];
    bar.sync %r6;
    ret;
    """
    found = ran(module_of(body), launch_of())
    assert found.outcome.ending is Ending.REFUSED  # %r6 is 5 or 6
    assert [e.until for e in of(found, ev.Skipped)]
    reads = [e.footprint.ranges() for e in of(found, ev.AccessEvent) if e.mode is ev.Mode.READ]
    assert ((OUT + 64, OUT + 68),) in reads
    plain = ran(module_of(body.replace("bar.sync %r6;", "")), launch_of())
    assert plain.outcome.ending is Ending.FINISHED


def test_an_atomic_that_steers_is_told():
    body = """
    .shared .align 4 .b32 t; mov.u32 %r1, 0; st.shared.u32 [t], %r1; bar.sync 0;
    atom.shared.add.u32 %r2, [t], 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra E; bar.warp.sync -2;
    E: ret;
    """
    found = ran(module_of(body), launch_of())
    assert len(found.confluence.atomics) == 1


def test_unknown_forms_are_told_with_their_lines():
    module = module_of("tcgen05.nonsense %r1;\nret;\nwmma.load.a.sync.aligned.row.m17n16k16.f16 "
                       "{%r1}, [%d1], %r2;")  # fmt: skip
    found, findings = run(module, launch_of())
    assert found is None
    lines = [f.span.start_line for f in findings if f.span is not None]
    assert len(lines) == 2
    assert lines[1] == lines[0] + 2


@pytest.mark.parametrize(
    "launch",
    [
        Launch("other", (1, 1, 1), (32, 1, 1)),
        Launch("k", (3, 1, 1), (32, 1, 1), (2, 1, 1)),
        Launch("k", (1, 1, 1), (2048, 1, 1)),
        Launch("k", (1, 1, 1), (0, 1, 1)),
        Launch("k", (1, 1, 1), (32, 1, 1), dynamic_shared_bytes=1 << 40),
        Launch("k", (1 << 31, 1 << 16, 1 << 16), (32, 1, 1)),
        Launch("k", (1, 1, 1), (32, 1, 1), (32, 1, 1)),
        Launch("k", (1, 1, 1), (32, 1, 1), tensor_maps={MAP: replace(TENSOR, data_type=99)}),
        Launch("k", (1, 1, 1), (32, 1, 1), tensor_maps={MAP: replace(TENSOR, box=())}),
        Launch("k", (1, 1, 1), (32, 1, 1), tensor_maps={MAP: replace(TENSOR, base=-1)}),
        Launch("k", (1, 1, 1), (32, 1, 1), tensor_maps={MAP: replace(TENSOR, pixels=5)}),
    ],
)
def test_launches_that_do_not_fit(launch):
    found, findings = run(module_of("ret;"), launch)
    assert found is None
    assert findings


@pytest.mark.parametrize(
    "body",
    [
        ".local .align 8 .b8 much[99999999999]; ret;",
        ".shared .align 8 .b8 much[99999999999]; ret;",
        "ld.shared.v8.u32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%r9]; ret;",
        "mov.b64 %d0, {%h0,%h0,%h0,%h0,%h0,%h0,%h0,%h0,%h0,%h0}; ret;",
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%d0, {%r0,%r1,%r2,%r3,%r4,%r5}],"
        " [%r6]; ret;",
        "atom.shared.add.u32 {%r0, %r1}, [%r2], %r3; ret;",
        "shl.b32; ret;",
        "mbarrier.init; ret;",
        "selp.b32 %r0; ret;",
    ],
)
def test_hostile_instructions_are_refused(body):
    found, findings = run(module_of(body), launch_of())
    assert found is None
    assert findings


def test_an_access_through_a_hostile_address_is_a_fault():
    for address in ("0xFFFFFFFFFFFFFFFF", "0xFE00FFFFFFFFFFFF", "0x8000000000000000", "0"):
        for form in (
            "ld.u32 %r1, [%d1];",
            "ld.shared.u32 %r1, [%d1];",
            "ld.local.u32 %r1, [%d1];",
            "st.u32 [%d1], %r2;",
            "ld.param.u32 %r1, [%d1];",
            "ld.const.u32 %r1, [%d1];",
            "mbarrier.arrive.b64 _, [%d1];",
            "atom.shared.add.u32 %r1, [%d1], 1;",
        ):
            body = f"mov.u64 %d1, {address}; {form} ret;"
            ran(module_of(body), launch_of(allocations=(Allocation(OUT, 4096),)))


def test_a_step_may_have_missing_operands():
    """Instructions that were cut off are findings, not errors."""
    for text in (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0}, %d1;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1];",
        "tcgen05.ld.sync.aligned;",
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes;",
        "bar.sync;",
        "shfl.sync.idx.b32 %r1;",
        "cp.async.cg.shared.global [%r1];",
        "fence.proxy.tensormap::generic.acquire.gpu;",
        "setmaxnreg.inc.sync.aligned.u32;",
    ):
        found, findings = run(module_of(text + " ret;"), launch_of())
        assert found is None, text
        assert findings


def test_bytes_that_arrive_before_they_are_expected_do_not_complete_a_phase():
    """The copy is issued, and even finished, before the arrival that expects its bytes."""
    body = """
    .shared .align 128 .b8 tile[256]; .shared .align 8 .b64 bar;
    ld.param.u64 %d0, [out]; mov.u32 %r2, tile; mov.u32 %r3, 0;
    elect.sync _|%p1, -1;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d0], 256, [bar];
    L: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 400; @%p2 bra L;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W;
    ret;
    """
    found = ran(module_of(body), launch_of())
    assert found.outcome.ending is Ending.FINISHED
    (finish,), (arrive,), (wait,) = (
        of(found, k) for k in (ev.Finish, ev.ArriveEvent, ev.WaitEvent)
    )
    assert finish.sequence < arrive.sequence < wait.sequence
    assert finish.phases == (0,)
    assert (arrive.phase, arrive.completed, wait.phase) == (0, True, 0)
    assert not of(found, ev.BarrierMisuse)


def test_the_queue_of_a_tensor_core_survives_a_split_of_the_warp():
    """A lane multiplies in one branch and commits in another: the commit covers its work."""
    old = """	elect.sync _|%p4, -1;
	@%p4 tcgen05.mma.cta_group::1.kind::f16 [%r3], %d1, %d2, %r9, %p3;
	@%p4 tcgen05.commit"""
    new = """	elect.sync _|%p4, -1;
	@!%p4 bra FIRST;
	tcgen05.mma.cta_group::1.kind::f16 [%r3], %d1, %d2, %r9, %p3;
	tcgen05.mma.cta_group::1.kind::f16 [%r3], %d1, %d2, %r9, %p4;
FIRST:
	and.b32 %r20, %r1, 3;
	setp.eq.u32 %p6, %r20, 1;
	@%p6 bra SECOND;
	mov.u32 %r21, 1;
SECOND:
	@%p4 tcgen05.commit"""
    found = run_text("tensor", Launch("tensor", (1, 1, 1), (128, 1, 1)), None, [(old, new)])
    assert found.outcome.ending is Ending.FINISHED, found.outcome
    work = [
        e for e in of(found, ev.AsynchronousEvent) if e.kind is ev.RecordedOperation.TENSOR_MULTIPLY
    ]
    assert [e.effects[0].mode for e in work] == [ev.Mode.WRITE, ev.Mode.ATOMIC]
    (commit,) = of(found, ev.TensorCommitEvent)
    assert commit.operations == tuple(e.operation for e in work)
    assert commit.lanes == work[0].lanes == 1


@pytest.mark.parametrize("rows", [64, 128])
def test_an_operand_in_tensor_memory_has_its_rows_where_the_sums_have_them(rows):
    """64 rows lie in 16 lanes of each quarter: the lanes between may hold another operand."""
    descriptor = 1 << 4 | 1 << 7 | 1 << 10 | 16 >> 3 << 17 | rows >> 4 << 24
    old = "tcgen05.mma.cta_group::1.kind::f16 [%r3], %d1, %d2, %r9, %p3;"
    new = f"tcgen05.mma.cta_group::1.kind::f16 [%r3], [%r3+8], %d2, {descriptor}, %p3;"
    launch = Launch("tensor", (1, 1, 1), (128, 1, 1))
    found = run_text("tensor", launch, None, [(old, new)])
    kind = ev.RecordedOperation.TENSOR_MULTIPLY
    (product,) = (event for event in of(found, ev.AsynchronousEvent) if event.kind is kind)
    lanes = {
        mode: {
            low // 2048
            for effect in product.effects
            if effect.footprint.space is MemorySpace.TENSOR and effect.mode is mode
            for low, _ in effect.footprint.ranges()
        }
        for mode in (ev.Mode.READ, ev.Mode.WRITE)
    }
    places = {row // 16 * 32 + row % 16 if rows == 64 else row for row in range(rows)}
    assert lanes[ev.Mode.READ] == lanes[ev.Mode.WRITE] == places


POLLING = """
    mov.u32 %r1, barrier;
    setp.ne.u32 %p2, %tid.x, 0;
    @%p2 bra MET;
    mbarrier.init.shared.b64 [%r1], 1;
MET:
    bar.sync 0;
AGAIN:
    mov.u32 %r2, barrier;
    {more}
    mbarrier.try_wait.parity.shared.b64 %p1, [%r2], {parity};
    @!%p1 bra AGAIN;
    ld.shared.u32 %r4, [%r2+8];
    {after}
    ret;
"""


@pytest.mark.parametrize(
    ("more", "after", "steers"),
    [
        ("", "", False),
        ("add.s32 %r3, %r2, 16;", "ld.shared.u32 %r4, [%r3];", False),
        ("add.s32 %r3, %r3, 4;", "ld.shared.u32 %r4, [%r3];", True),  # counts the rounds
        ("@%p2 mov.u32 %r3, %r2;", "ld.shared.u32 %r4, [%r3];", True),
        ("mov.u32 %r3, 4; mov.u32 %r3, %r2;", "ld.shared.u32 %r4, [%r3];", True),
    ],
)
def test_what_every_round_of_a_wait_makes_alike_is_no_result_of_the_wait(more, after, steers):
    body = "mov.u32 %r3, 4096;\n" + POLLING.format(more=more, parity=1, after=after)
    before = ".shared .align 8 .b8 barrier[64];"
    found = ran(module_of(body, before), launch_of())
    assert bool(found.confluence.polls) is steers
    hangs = "mov.u32 %r3, 4096;\n" + POLLING.format(more="", parity=0, after="")
    assert ran(module_of(hangs, before), launch_of()).outcome.ending is Ending.HUNG


def test_an_asynchronous_reduction_without_a_barrier_is_an_ordinary_one():
    body = "ld.param.b64 %d1, [out]; mov.b64 %d2, 1; "
    body += "red.async.release.gpu.global.add.u64 [%d1], %d2; ret;"
    (access,) = of(ran(module_of(body), launch_of(block=32)), ev.AccessEvent)
    assert access.mode is ev.Mode.ATOMIC
    assert access.semantics is ev.AccessSemantics.RELEASE
    assert access.footprint.space is MemorySpace.GLOBAL
