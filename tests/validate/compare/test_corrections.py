"""Which arms of a branch on data the comparison admits."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import REGISTERS
from titan.foundation.source.span import Source
from titan.isa.ptx.parse import parse_source
from titan.validate.compare.corrections import only_corrects

LOAD = "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2, %r3, %r4}, [%r9+16];"
STORE = "tcgen05.st.sync.aligned.16x256b.x1.b32 [%r9+16], {%r1, %r2, %r3, %r4};"
MULTIPLY = "mul.f32 %f1, %f1, %f2;"
WAITS = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
GOOD = (LOAD, WAITS[0], MULTIPLY, STORE, WAITS[1])


def judged(*lines):
    body = "\n".join(lines)
    text = ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k()\n"
    module, findings = parse_source(
        Source("kernel.ptx", f"{text}{{\n{REGISTERS}\n{body}\nret;\n}}\n")
    )
    assert module is not None, findings
    return only_corrects(module.instructions, 0, len(lines))


def test_what_is_loaded_computed_and_stored_to_the_same_columns():
    assert judged(*GOOD)
    assert judged(*GOOD, *GOOD)


ADDRESS = "add.s32 %r20, %r9, 16;", "mov.b32 %r21, %r20;", "add.s32 %r9, %r9, -16;"
BY_PARTS = (
    LOAD, WAITS[0], ADDRESS[0], ADDRESS[1], MULTIPLY, STORE.replace("%r9+16", "%r21"), WAITS[1],
)  # fmt: skip


BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"


def test_fences_of_tensor_memory_may_stand_around_them():
    assert judged(AFTER, *GOOD, BEFORE)
    assert not judged(AFTER, *GOOD[:3], BEFORE)
    assert not judged(AFTER, BEFORE)


def test_addresses_are_sums_of_what_a_register_held_before_and_a_number():
    assert judged(*BY_PARTS)
    assert judged(LOAD, WAITS[0], ADDRESS[2], STORE.replace("+16", "+32"), WAITS[1])
    moved = [line.replace("%r20, %r9, 16", "%r20, %r9, 32") for line in BY_PARTS]
    assert not judged(*moved)
    for wrong in ("add.s32 %r20, %r9, %r8;", "add.s32 %r20, %r8, 16;", "shl.b32 %r20, %r9, 1;",
                  "add.s16 %r20, %r9, 16;", "sub.s32 %r20, %r9, 16;"):  # fmt: skip
        assert not judged(*[wrong if line == ADDRESS[0] else line for line in BY_PARTS]), wrong
    overwritten = LOAD.replace("%r4", "%r21"), STORE.replace("%r9+16", "%r21")
    assert not judged(ADDRESS[0], ADDRESS[1], overwritten[0], WAITS[0], overwritten[1], WAITS[1])


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (MULTIPLY,),
        GOOD[:3],
        GOOD[3:],
        (*GOOD, LOAD),
        (*GOOD[:3], STORE.replace("+16", "+32"), WAITS[1]),
        (*GOOD[:3], STORE.replace("%r9", "%r10"), WAITS[1]),
        (*GOOD[:3], STORE.replace("16x256b.x1", "32x32b.x4"), WAITS[1]),
        (LOAD, WAITS[0], "add.s32 %r9, %r9, 1;", STORE, WAITS[1]),
        (LOAD, WAITS[0], "mul.lo.s32 %r9, %r9, 1;", STORE, WAITS[1]),
        (*GOOD, "st.shared.b32 [%r5], %r1;"),
        (*GOOD, "ld.shared.b32 %r1, [%r5];"),
        (*GOOD, "bar.warp.sync -1;"),
        (*GOOD, "fence.proxy.async;"),
        (*GOOD, "fence.acq_rel.cta;"),
        (*GOOD, "mbarrier.arrive.shared.b64 _, [%r5];"),
        (*GOOD, "@%p1 mul.f32 %f1, %f1, %f2;"),
    ],
)
def test_everything_else_is_none(lines):
    assert not judged(*lines)
