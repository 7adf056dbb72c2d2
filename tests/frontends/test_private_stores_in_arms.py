"""What arms of branches on data store to memory of a thread, which nobody else sees."""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import source_of, verified
from tests.isa.simt.running import OUT, launch_of
from titan.foundation.verdict import Verdict
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import LaunchParameter
from titan.isa.simt.run import run

DATA = "ld.global.u32 %r10, [%d1]; setp.gt.s32 %p2, %r10, 0; st.local.v2.u32 [mine], {1, 2};"
# A barrier of the whole CTA where the word is 1 (or 2): each warp has to know that.
DECIDES = "setp.eq.u32 %p3, %r11, {n}; @!%p3 bra M; bar.sync 0; M:"
LOADED = "ld.local.u32 %r11, [mine];" + DECIDES.format(n=1)
SECOND = "ld.local.u32 %r11, [mine+4];" + DECIDES.format(n=2)
ARMS = {
    "nothing": ("mov.u32 %r12, 5;", True, True),
    "a store": ("st.local.u32 [mine], 0;", False, True),
    "a store of the other word": ("st.local.u32 [mine+4], 0;", True, False),
    "a store of a part": ("st.local.u8 [mine+3], 0;", False, True),
    "a store of both": ("st.local.v2.u32 [mine], {0, 0};", False, False),
    "at an address from before": ("st.local.u32 [%d4+4], 0;", True, False),
    "at an address of the arm": (
        "add.u64 %d5, %d4, 4; st.local.u32 [%d5], 0;", True, False),
    "at an address by data": ("st.local.u32 [%d6], 0;", False, False),
    "in a loop": (
        "mov.u32 %r12, 0; L: st.local.u32 [mine+4], %r12; add.u32 %r12, %r12, 1;"
        "setp.lt.u32 %p4, %r12, %r10; @%p4 bra L;", True, False),
    "in an arm of the arm": (
        "setp.gt.s32 %p4, %r10, 9; @%p4 bra N; st.local.u32 [mine+4], 0; N:", True, False),
}  # fmt: skip


@pytest.mark.parametrize(("arm", "first", "second"), ARMS.values(), ids=ARMS)
@pytest.mark.parametrize("which", [0, 1])
def test_what_an_arm_may_have_stored_is_unknown(arm, first, second, which):
    ready = (
        "mov.u64 %d4, mine; and.b32 %r13, %r10, 4; cvt.u64.u32 %d6, %r13; add.u64 %d6, %d6, %d4;"
    )
    body = f"{DATA} {ready} @!%p2 bra J; {arm} J: {(LOADED, SECOND)[which]}"
    finding = verified(body)
    known = (first, second)[which]
    assert finding.verdict is (Verdict.VERIFIED if known else Verdict.UNDECIDED), finding.notes
    module, _ = parse_source(source_of(body))
    assert module is not None
    pointers = tuple(LaunchParameter(at.to_bytes(8, "little")) for at in (OUT, OUT + 4096))
    launch = launch_of(block=64, parameters=pointers)
    runs = [run(module, launch, native=native)[0] for native in (False, None)]
    assert runs[0] is not None and runs[1] is not None
    assert runs[0].outcome == runs[1].outcome
    assert list(runs[0].events) == list(runs[1].events)
