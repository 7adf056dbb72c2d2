"""Arms of a branch on data: what both machines record, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Allocation, LaunchParameter
from titan.isa.simt.outcome import Ending

SLOT = ".shared .align 16 .b8 memory[256];\n"
DATA = "ld.param.b64 %d1, [out]; ld.global.b32 %r1, [%d1]; mov.u32 %r2, memory; "
VOTED = "setp.lt.s32 %p1, %r1, 5; vote.sync.any.pred %p2, %p1, -1; "
ALLOCATED = (
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32; ld.shared.b32 %r3, [%r2]; "
)


def run_of(body: str, block: int = 32):
    return ran(module_of(body + " ret;", SLOT), launch_of(block=block))


def test_an_atomic_in_an_arm_is_an_access():
    run = run_of(
        DATA + "setp.gt.u32 %p1, %r1, 15; @%p1 bra DONE; atom.shared.add.u32 %r4, [%r2], 1; "
        "DONE: st.shared.u32 [%r2+4], %r4;"
    )
    assert run.outcome.ending is Ending.FINISHED
    assert ev.Mode.ATOMIC in [event.mode for event in of(run, ev.AccessEvent)]
    assert not run.confluence.atomics


def test_an_atomic_under_an_unknown_guard_is_an_access():
    run = run_of(DATA + "setp.gt.u32 %p1, %r1, 15; @%p1 atom.shared.add.u32 %r4, [%r2], 1;")
    assert run.outcome.ending is Ending.FINISHED
    assert ev.Mode.ATOMIC in [event.mode for event in of(run, ev.AccessEvent)]


def test_the_old_value_in_an_arm_decides_nothing_there():
    """A counter whose value is known counts as any value once an arm may have changed it."""
    run = run_of(DATA + "st.shared.u32 [%r2], 0; setp.gt.u32 %p1, %r1, 15; @%p1 bra DONE; "
                 "atom.shared.add.u32 %r4, [%r2], 1; setp.eq.u32 %p2, %r4, 7; @!%p2 bra DONE; "
                 "st.shared.u32 [%r2+64], %r4; DONE:")  # fmt: skip
    assert run.outcome.ending is Ending.FINISHED
    assert any(event.footprint.bounds[0] & 0xFF == 64 for event in of(run, ev.AccessEvent))


def test_a_mark_from_before_the_arm_is_seen_in_it():
    run = run_of(DATA + "st.shared.u32 [%r2], 0; atom.shared.add.u32 %r4, [%r2], 1; "
                 "setp.eq.u32 %p2, %r4, 7; setp.gt.u32 %p1, %r1, 15; @%p1 bra DONE; @%p2 bra DONE; "
                 "st.shared.u32 [%r2+64], %r4; DONE:")  # fmt: skip
    assert run.confluence.atomics


TENSOR_ARM = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r3]; tcgen05.wait::ld.sync.aligned; "
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r5}; tcgen05.wait::st.sync.aligned; "
)


MOVED = VOTED.replace("vote", "mov.b32 %r9, -1; vote").replace("%p1, -1", "%p1, %r9")


@pytest.mark.parametrize("voted", [VOTED, MOVED])
def test_tensor_memory_in_an_arm_that_a_warp_takes_together(voted):
    run = run_of(DATA + ALLOCATED + voted + f"@%p2 bra DONE; {TENSOR_ARM} DONE:")
    assert run.outcome.ending is Ending.FINISHED
    kinds = [event.kind for event in of(run, ev.AsynchronousEvent)]
    operation = ev.RecordedOperation
    assert kinds == [operation.TENSOR_LOAD, operation.TENSOR_STORE]


def test_fences_of_tensor_memory_in_an_arm_are_recorded_and_those_of_memory_left_out():
    arm = f"tcgen05.fence::after_thread_sync; {TENSOR_ARM} fence.acq_rel.cta; "
    arm += "tcgen05.fence::before_thread_sync; "
    run = run_of(DATA + ALLOCATED + VOTED + f"@%p2 bra DONE; {arm} DONE:")
    assert run.outcome.ending is Ending.FINISHED
    fences = [event.kind for event in of(run, ev.FenceEvent)]
    assert fences == [ev.RecordedFence.TENSOR_AFTER, ev.RecordedFence.TENSOR_BEFORE]


LOOP = "mov.u32 %r7, 3; {0}: sub.u32 %r7, %r7, 1; setp.ne.u32 %p4, %r7, 0; @%p4 bra {0}; "
BETWEEN = {  # what stands between the vote and the branch, in blocks of its own
    "a loop": LOOP.format("WAIT"),
    "a known branch": "setp.lt.u32 %p4, %r1, 1000; @%p4 bra NEAR; add.u32 %r7, %r7, 1; NEAR: ",
    "arithmetic behind it": LOOP.format("WAIT") + "not.pred %p2, %p2; not.pred %p2, %p2;",
}


@pytest.mark.parametrize("name", BETWEEN)
def test_the_vote_may_stand_in_a_block_before(name):
    run = run_of(DATA + ALLOCATED + VOTED + BETWEEN[name] + f"@%p2 bra DONE; {TENSOR_ARM} DONE:")
    assert run.outcome.ending is Ending.FINISHED
    assert len(of(run, ev.AsynchronousEvent)) == 2


REFUSED = {
    "a vote before a block on one of two ways": (
        ALLOCATED + VOTED + "setp.eq.u32 %p4, %r1, 3; @%p4 bra NEAR; setp.eq.u32 %p2, %r1, 5; "
        f"NEAR: @%p2 bra DONE; {TENSOR_ARM} DONE:",
        "in its arms synchronises",
    ),
    "a vote on one of two ways to the branch": (
        ALLOCATED + "setp.lt.s32 %p2, %r1, 5; ld.global.b32 %r1, [%d1]; setp.lt.u32 %p4, %r3, 1; "
        "@%p4 bra NEAR; vote.sync.any.pred %p2, %p2, -1; NEAR: "
        f"@%p2 bra DONE; {TENSOR_ARM} DONE:",
        "in its arms synchronises",
    ),
    "a vote changed by a lane on the way": (
        ALLOCATED + VOTED + LOOP.format("WAIT") + "setp.eq.and.u32 %p2, %r1, 3, %p2; "
        f"@%p2 bra DONE; {TENSOR_ARM} DONE:",
        "in its arms synchronises",
    ),
    "votes of two blocks": (
        ALLOCATED + VOTED + LOOP.format("NEAR") + "vote.sync.all.pred %p3, %p1, -1; "
        + LOOP.format("FAR") + f"xor.pred %p2, %p2, %p3; @%p2 bra DONE; {TENSOR_ARM} DONE:",
        "in its arms synchronises",
    ),
    "a vote of lanes in a mask that was moved": (
        ALLOCATED + MOVED.replace("%r9, -1", "%r9, 0xFFFF") + f"@%p2 bra DONE; {TENSOR_ARM} DONE:",
        "",
    ),
    "a vote of all lanes in a mask that changes": (
        ALLOCATED + MOVED.replace("vote", "@%p1 mov.b32 %r9, 0xFFFF; vote")
        + f"@%p2 bra DONE; {TENSOR_ARM} DONE:",
        "",
    ),
    "lanes go different ways": (
        ALLOCATED + f"setp.lt.s32 %p2, %r1, 5; @%p2 bra DONE; {TENSOR_ARM} DONE:",
        "in its arms synchronises",
    ),
    "a vote of some lanes": (
        ALLOCATED + f"setp.lt.s32 %p1, %r1, 5; vote.sync.any.pred %p2, %p1, %r1; @%p2 bra DONE; "
        f"{TENSOR_ARM} DONE:",
        "members",
    ),
    "lanes go different ways within an arm": (
        ALLOCATED + VOTED + "@%p2 bra DONE; setp.lt.s32 %p4, %r1, 9; @%p4 bra DONE; "
        + TENSOR_ARM + "DONE:",
        "divides the warp",
    ),
    "the arm ends a load from before": (
        ALLOCATED + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r3]; " + VOTED
        + "@%p2 bra DONE; tcgen05.wait::ld.sync.aligned; DONE:",
        "started before it",
    ),
    "the arm uses a register of a load from before": (
        ALLOCATED + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r3]; " + VOTED
        + "@%p2 bra DONE; add.u32 %r7, %r6, 1; st.shared.u32 [%r2+8], %r7; DONE:",
        "started before it",
    ),
    "the other arm ends what one arm started": (
        ALLOCATED + VOTED + "@%p2 bra OTHER; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r1}; "
        "bra DONE; OTHER: tcgen05.wait::st.sync.aligned; DONE:",
        "started before it",
    ),
    "a barrier": (VOTED + "@%p2 bra DONE; bar.sync 0; DONE:", "in its arms synchronises"),
    "a loop that takes tensor memory": (
        ALLOCATED + "AGAIN: ld.global.b32 %r1, [%d1]; " + VOTED + TENSOR_ARM + "@%p2 bra AGAIN;",
        "in its arms synchronises",
    ),
    "a loop with a shuffle that lanes leave one by one": (
        "AGAIN: ld.global.b32 %r1, [%d1]; " + VOTED + "@%p2 bra DONE; setp.lt.s32 %p4, %r1, 9; "
        "shfl.sync.bfly.b32 %r8, %r1, 1, 31, -1; st.shared.u32 [%r2], %r8; @%p4 bra AGAIN; DONE:",
        "in its arms synchronises",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    body, reason = REFUSED[name]
    outcome = run_of(DATA + body).outcome
    assert outcome.ending is Ending.REFUSED
    assert reason in outcome.reason


def test_what_lanes_store_is_known_by_address():
    """Lanes in any order, places in the order of their addresses; not where two overlap."""
    numbered = DATA + "mov.u32 %r4, %tid.x; xor.b32 %r4, %r4, 3; shl.b32 %r5, %r4, 2; "
    run = run_of(numbered + "add.u32 %r5, %r5, %r2; st.shared.u32 [%r5], %r4;")
    (store,) = of(run, ev.AccessEvent)[1:]
    assert store.value == b"".join(lane.to_bytes(4, "little") for lane in range(32))
    halves = numbered.replace("shl.b32 %r5, %r4, 2", "shl.b32 %r5, %r4, 1")
    run = run_of(halves + "add.u32 %r5, %r5, %r2; st.shared.u32 [%r5], %r4;")
    assert of(run, ev.AccessEvent)[1].value is None


def test_a_loop_on_data_has_the_accesses_of_any_round():
    """The first round loads a number that is known; later ones load what the loop has stored."""
    run = run_of(DATA + "st.shared.u32 [%r2], 8; mov.u32 %r5, 0; AGAIN: ld.shared.u32 %r6, [%r2]; "
                 "add.u32 %r7, %r2, %r6; st.shared.u32 [%r7], %r1; st.shared.u32 [%r2], %r1; "
                 "add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra AGAIN;")  # fmt: skip
    assert run.outcome.ending is Ending.FINISHED
    assumed = [event.policy for event in of(run, ev.Assumption)]
    assert "opaque-address" in assumed


def test_a_fence_in_an_arm_is_left_out():
    run = run_of(DATA + "setp.gt.u32 %p1, %r1, 15; @%p1 bra DONE; st.global.u32 [%d1], %r1; "
                 "membar.gl; DONE:")  # fmt: skip
    assert run.outcome.ending is Ending.FINISHED
    assert not of(run, ev.FenceEvent)


OWN = ".local .align 8 .b8 mine[16]; "
STORED = OWN + DATA + "st.local.u32 [mine], 4; setp.gt.u32 %p1, %r1, 15; "
CHANGED = {  # what an arm, and nothing else, does to memory of the thread
    "a store": "@%p1 bra DONE; st.local.u32 [mine], 8; DONE: ",
    "a store in the other arm": (
        "@%p1 bra OTHER; add.u32 %r3, %r1, 1; bra DONE; OTHER: st.local.u32 [mine], 8; DONE: "),
    "a store of the same number": "@%p1 bra DONE; st.local.u32 [mine], 4; DONE: ",
    "a store through a pointer": (
        "cvta.local.u64 %d3, mine; @%p1 bra DONE; st.u32 [%d3], 8; DONE: "),
    "a store in an arm of an arm": (
        "@%p1 bra DONE; setp.lt.u32 %p2, %r1, 9; @%p2 bra DONE; st.local.u32 [mine], 8; DONE: "),
    "a loop of stores": (
        "AGAIN: st.local.u32 [mine], %r1; sub.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r1, 15; "
        "@%p1 bra AGAIN; "),
}  # fmt: skip


LEFT = {
    "a store elsewhere": "@%p1 bra DONE; st.local.u32 [mine+8], 8; DONE: ",
    "a load": "@%p1 bra DONE; ld.local.u32 %r3, [mine]; DONE: ",
}


@pytest.mark.parametrize("name", [*CHANGED, *LEFT])
def test_what_an_arm_stores_in_memory_of_the_thread_is_unknown(name):
    arm = {**CHANGED, **LEFT}[name]
    run = run_of(STORED + arm + "ld.local.u32 %r4, [mine]; add.u32 %r5, %r2, %r4; "
                 "st.shared.u32 [%r5], %r1;")  # fmt: skip
    assert run.outcome.ending is Ending.FINISHED
    assumed = [event.policy for event in of(run, ev.Assumption)]
    assert assumed == ([] if name in LEFT else ["opaque-address"])


def test_a_loop_that_may_wait_for_others_is_refused():
    run = run_of(DATA + "AGAIN: ld.acquire.gpu.global.b32 %r5, [%d1]; setp.eq.u32 %p1, %r5, 0; "
                 "@%p1 bra AGAIN;")  # fmt: skip
    assert run.outcome.ending is Ending.REFUSED


POINTED = "ld.param.b64 %d2, [in]; cvta.to.global.u64 %d2, %d2; ld.global.s32 %d3, [%d2]; "
INDEXED = {
    "by a product": ("mul.wide.s32 %d4, %r1, 4; add.s64 %d5, %d2, %d4;", True),
    "by a sum of a product": ("mad.wide.s32 %d5, %r1, 4, %d2;", True),
    "through a move": ("mov.b64 %d6, %d2; shl.b64 %d4, %d3, 2; sub.s64 %d5, %d6, %d4;", True),
    "one of two pointers": ("selp.b64 %d6, %d1, %d2, %p1; add.s64 %d5, %d6, %d3;", False),
    "a difference of pointers": ("sub.s64 %d6, %d1, %d2; mad.wide.s32 %d5, %r1, 4, %d6;", False),
    "a pointer from memory": ("ld.global.b64 %d6, [%d2]; add.s64 %d5, %d6, 4;", False),
    "a variable of the module": ("mov.u64 %d6, table; mad.wide.s32 %d5, %r1, 4, %d6;", None),
    "a variable of the module less a product": (
        "mov.u64 %d6, table; sub.s64 %d6, %d6, %d3; add.s64 %d5, %d6, 120;",
        None,
    ),
    "a variable of the module or a pointer": (
        "mov.u64 %d7, table; selp.b64 %d6, %d7, %d2, %p1; add.s64 %d5, %d6, %d3;",
        False,
    ),
    "a pointer in halves": ("mov.b64 %d5, {%r1, %r2};", False),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_unknown_index_stays_with_its_pointer(name):
    made, stays = INDEXED[name]
    both = ".param .u64 out, .param .u64 in"
    body = DATA + "setp.eq.u32 %p1, %r1, 0; " + POINTED + made + "ld.global.b32 %r6, [%d5]; ret;"
    pointers = (0x10000, 0x20000)
    launch = launch_of(
        parameters=tuple(LaunchParameter(at.to_bytes(8, "little")) for at in pointers)
    )
    launch = replace(launch, pointed=tuple(Allocation(at, 0x1000) for at in pointers))
    run = ran(module_of(body, SLOT + ".global .align 4 .b32 table[4]; ", both), launch)
    low, high = of(run, ev.AccessEvent)[-1].footprint.bounds
    of_module = low > 0x20000 and high - low == 16
    assert ((low, high) == (0x20000, 0x21000), of_module) == (stays is True, stays is None)
    assert [e.policy for e in of(run, ev.Assumption)] == [
        "opaque-address" if stays is False else "opaque-index"
    ]


def test_an_unknown_place_in_memory_of_the_thread_is_that_of_nobody_else():
    body = OWN + DATA + "and.b32 %r3, %r1, 12; mov.u32 %r4, mine; add.u32 %r4, %r4, %r3; "
    run = run_of(body + "st.local.u32 [%r4], %r1; ld.local.u32 %r5, [%r4];")
    assert not of(run, ev.Assumption)


@pytest.mark.parametrize(("less", "faults"), [(12, 0), (28, 1)])
def test_registers_of_32_bits_wrap_in_memory_of_the_thread(less, faults):
    """`[r + 24]` of a place less a number, as in the slow path of `cosf`."""
    run = run_of(OWN + DATA + f"mov.u32 %r4, mine; sub.u32 %r4, %r4, {less}; "
                 "st.local.u32 [%r4+24], %r1;")  # fmt: skip
    assert len(of(run, ev.MemoryFault)) == faults


def test_lanes_come_to_the_blocks_of_a_loop_that_known_guards_let_them():
    run = run_of(DATA + "mov.u32 %r4, %tid.x; setp.eq.u32 %p3, %r4, 3; AGAIN: @!%p3 bra NEXT; "
                 "st.shared.u32 [%r2], %r1; NEXT: ld.global.b32 %r1, [%d1]; "
                 "setp.lt.s32 %p1, %r1, 5; @%p1 bra AGAIN;", 64)  # fmt: skip
    stores = [event for event in of(run, ev.AccessEvent) if event.mode is ev.Mode.WRITE]
    assert {(event.warp, event.lanes) for event in stores} == {(0, 1 << 3)}
