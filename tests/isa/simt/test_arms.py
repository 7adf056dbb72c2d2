"""Arms of a branch on data: what both machines record, and what they refuse."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev
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


def test_tensor_memory_in_an_arm_that_a_warp_takes_together():
    run = run_of(DATA + ALLOCATED + VOTED + f"@%p2 bra DONE; {TENSOR_ARM} DONE:")
    assert run.outcome.ending is Ending.FINISHED
    kinds = [event.kind for event in of(run, ev.AsynchronousEvent)]
    operation = ev.RecordedOperation
    assert kinds == [operation.TENSOR_LOAD, operation.TENSOR_STORE]


REFUSED = {
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
    "a spin on a lock": (
        "AGAIN: atom.shared.cas.b32 %r4, [%r2], 0, %r1; setp.ne.u32 %p1, %r4, 0; @%p1 bra AGAIN;",
        "a loop that accesses memory",
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
