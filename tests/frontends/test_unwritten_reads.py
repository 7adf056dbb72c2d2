"""Reads of shared memory that nothing has written: undecided where their values are used."""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import chosen

LOAD = "ld.shared.u32 %r10, [%r4];"  # by the lane, in both warps
KEEP = "@%p1 st.global.u32 [%d1], %r10;"
WRITE = "st.shared.u32 [%r4], %r2;"
COPY = "cp.async.ca.shared.global [%r4], [%d1], 4; cp.async.wait_all;"


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (f"{WRITE} bar.sync 0; {LOAD} {KEEP}", Verdict.VERIFIED),
        (f"{LOAD} {KEEP}", Verdict.UNDECIDED),
        (f"{LOAD} bar.sync 0; {WRITE} {KEEP}", Verdict.UNDECIDED),
        (f"@%p1 {COPY} bar.sync 0; {LOAD} {KEEP}", Verdict.VERIFIED),
        # A part of the lanes, of the bytes, of the places.
        (f"setp.lt.u32 %p2, %r2, 31; @%p2 {WRITE} bar.sync 0; {LOAD} {KEEP}", Verdict.UNDECIDED),
        (f"st.shared.u16 [%r4], 1; bar.sync 0; {LOAD} {KEEP}", Verdict.UNDECIDED),
        (f"{WRITE} bar.sync 0; ld.shared.u32 %r10, [%r4+128]; {KEEP}", Verdict.UNDECIDED),
        # Used for an address, for a branch, and for nothing.
        (f"{LOAD} mul.wide.u32 %d4, %r10, 4; add.s64 %d4, %d4, %d2; ld.global.u32 %r11, [%d4];",
         Verdict.UNDECIDED),
        (f"{LOAD} setp.ne.and.u32 %p2, %r10, 0, %p1; @!%p2 bra L; st.global.u32 [%d1], 1; L:",
         Verdict.UNDECIDED),
        (f"{LOAD} add.u32 %r11, %r10, 1;", Verdict.VERIFIED),
        # Packed beside what is written, and taken apart again.
        (f"{LOAD} mov.b64 %d4, {{%r10, %r2}}; mov.b64 {{_, %r10}}, %d4; {KEEP}", Verdict.VERIFIED),
        (f"{LOAD} mov.b64 %d4, {{%r2, %r10}}; mov.b64 {{_, %r10}}, %d4; {KEEP}", Verdict.UNDECIDED),
        # Kept for a while, added to, read as a matrix.
        (f"{LOAD} @%p1 st.shared.u32 [%r4+128], %r10; bar.sync 0; ld.shared.u32 %r10, [%r4+128];"
         f"{KEEP}", Verdict.UNDECIDED),
        (f"{LOAD} @%p1 st.shared.u32 [%r4+128], %r10; bar.sync 0; {WRITE} bar.sync 0; {LOAD}"
         f"{KEEP}",
         Verdict.VERIFIED),
        (f"@%p1 red.shared.add.u32 [%r4], 1; bar.sync 0; {LOAD} {KEEP}", Verdict.UNDECIDED),
        (f"{WRITE} bar.sync 0; @%p1 red.shared.add.u32 [%r4], 1; bar.sync 0; {LOAD} {KEEP}",
         Verdict.VERIFIED),
        (f"@%p1 atom.shared.exch.b32 %r11, [%r4], 1; bar.sync 0; {LOAD} {KEEP}", Verdict.VERIFIED),
        (f"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r10}}, [%r3]; {KEEP}", Verdict.UNDECIDED),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r3];", Verdict.VERIFIED),
        # Loaded beside its guard, as compilers do, and selected.
        (f"setp.lt.u32 %p2, %r2, 16; @%p2 {WRITE} bar.sync 0; {LOAD} selp.u32 %r10, %r10, 0, %p2;"
         f"{KEEP}", Verdict.VERIFIED),
        (f"setp.lt.u32 %p2, %r2, 16; @%p2 {WRITE} bar.sync 0; {LOAD} selp.u32 %r10, 0, %r10, %p2;"
         f"{KEEP}", Verdict.UNDECIDED),
    ],
)  # fmt: skip
def test_what_nothing_has_written(body, verdict):
    finding = verified(body)
    assert finding.verdict is verdict, finding.notes
    if verdict is Verdict.UNDECIDED:
        assert any("that nothing has written" in note for note in finding.notes)
        allowed = chosen((("unwritten_reads", "allow"),))
        assert verified(body, policies=allowed).verdict is not Verdict.UNDECIDED
