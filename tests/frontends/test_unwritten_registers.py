"""Registers and memory of a thread that nothing has written: refuted where their values are used.

`%r20` to `%r31`, `%p2` to `%p7` and `%d4` to `%d15` are unwritten; `mine` is memory of a thread.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import verified
from tests.frontends.test_verify_code import verified as verified_text
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import chosen

RIGHT, OPEN, WRONG = Verdict.VERIFIED, Verdict.UNDECIDED, Verdict.REFUTED
FIRST = "setp.lt.u32 %p2, %r2, 16;"  # a predicate that is known
DATA = "ld.global.u32 %r10, [%d1]; setp.gt.s32 %p2, %r10, 0;"  # one that is not
WIDE = "mul.wide.u32 %d6, %r2, 4; add.s64 %d6, %d6, %d1;"  # the place of 8 bytes of each lane
# The place of each thread in global memory.
APART = "shr.u32 %r7, %r1, 5; mul.wide.u32 %d6, %r7, 128; add.s64 %d6, %d6, %d2;"
OWN = "shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r3;"  # the place of each thread in shared memory
KEEP = "@%p1 st.global.u32 [%d2], %r20;"

MASKED = {
    "nothing writes it": (f"{KEEP}", WRONG),
    "some lanes write it": (f"{FIRST} @%p2 mov.u32 %r20, 1; {KEEP}", WRONG),
    "all lanes write it": (f"{FIRST} @%p2 mov.u32 %r20, 1; @!%p2 mov.u32 %r20, 2; {KEEP}", RIGHT),
    "a masked load": (f"{FIRST} @%p2 ld.global.u32 %r20, [%d1]; {KEEP}", WRONG),
    "a masked load with another value": (
        f"{FIRST} mov.u32 %r20, 0; @%p2 ld.global.u32 %r20, [%d1]; {KEEP}",
        RIGHT,
    ),
    "a masked load and store": (
        f"{FIRST} and.pred %p3, %p2, %p1; @%p2 ld.global.u32 %r20, [%d1];"
        "add.u32 %r20, %r20, 1; @%p3 st.global.u32 [%d2], %r20;",
        RIGHT,
    ),
    "a masked load and selection": (
        f"{FIRST} @%p2 ld.global.u32 %r20, [%d1]; selp.b32 %r20, %r20, 0, %p2; {KEEP}",
        RIGHT,
    ),
    "selected the other way": (
        f"{FIRST} @%p2 ld.global.u32 %r20, [%d1]; selp.b32 %r20, 0, %r20, %p2; {KEEP}",
        WRONG,
    ),
    "on the way that is not taken": (
        "setp.lt.u32 %p2, %r2, 99; @%p2 bra L; st.global.u32 [%d2], %r20; L:",
        RIGHT,
    ),
    "written on the way taken": (
        f"setp.lt.u32 %p2, %r2, 99; @!%p2 bra L; mov.u32 %r20, 1; L: {KEEP}",
        RIGHT,
    ),
    "in a loop, before its first write": (
        "mov.u32 %r21, 0; L: add.u32 %r22, %r20, 1; mov.u32 %r20, 1; add.u32 %r21, %r21, 1;"
        "setp.lt.u32 %p2, %r21, 3; @%p2 bra L; @%p1 st.global.u32 [%d2], %r22;",
        RIGHT,
    ),
    "in a loop, with the first trip": (
        "mov.u32 %r21, 0; mov.u32 %r23, 0; L: xor.b32 %r23, %r23, %r20; mov.u32 %r20, 1;"
        "add.u32 %r21, %r21, 1; setp.lt.u32 %p2, %r21, 3; @%p2 bra L;"
        "@%p1 st.global.u32 [%d2], %r23;",
        WRONG,
    ),
}
DATA_DECIDE = {
    "masked by data": (f"{DATA} @%p2 ld.global.u32 %r20, [%d1]; {KEEP}", OPEN),
    "the same mask of the store": (
        f"{DATA} @%p2 ld.global.u32 %r20, [%d1]; @%p1 bra L; mov.pred %p2, 0; L:",
        RIGHT,
    ),
    "load and store with one mask": (
        f"{DATA} setp.gt.and.s32 %p2, %r10, 0, %p1; @%p2 ld.global.u32 %r20, [%d1];"
        "add.u32 %r20, %r20, 1; @%p2 st.global.u32 [%d2], %r20;",
        RIGHT,
    ),
    "load and store with opposite masks": (
        f"{DATA} setp.gt.and.s32 %p2|%p3, %r10, 0, %p1; @%p2 ld.global.u32 %r20, [%d1];"
        "@%p3 st.global.u32 [%d2], %r20;",
        OPEN,
    ),
    "the mask changes in between": (
        f"{DATA} setp.gt.and.s32 %p2, %r10, 0, %p1; @%p2 ld.global.u32 %r20, [%d1];"
        "setp.gt.and.s32 %p2, %r10, 1, %p1; @%p2 st.global.u32 [%d2], %r20;",
        OPEN,
    ),
    "load and selection with one mask": (
        f"{DATA} @%p2 ld.global.u32 %r20, [%d1]; selp.b32 %r20, %r20, 0, %p2; {KEEP}",
        RIGHT,
    ),
    "load and selection with opposite masks": (
        f"{DATA} @%p2 ld.global.u32 %r20, [%d1]; selp.b32 %r20, 0, %r20, %p2; {KEEP}",
        OPEN,
    ),
    "one guard or its opposite writes it": (
        f"{DATA} @%p2 mov.u32 %r20, 1; @!%p2 mov.u32 %r20, 2; {KEEP}",
        RIGHT,
    ),
    "one guard or another one writes it": (
        f"{DATA} setp.gt.s32 %p3, %r10, 9; @%p2 mov.u32 %r20, 1; @!%p3 mov.u32 %r20, 2; {KEEP}",
        OPEN,
    ),
    "the guard of the store is made of it": (
        f"{DATA} @%p2 mov.u32 %r20, 1; and.pred %p3, %p2, %p1; @%p3 st.global.u32 [%d2], %r20;",
        RIGHT,
    ),
    "with a comparison": (
        f"{DATA} {APART} @%p2 mov.u32 %r20, 1; setp.lt.and.u32 %p3, %r2, 9, %p2;"
        "@%p3 st.global.u32 [%d6], %r20;",
        RIGHT,
    ),
    "as one of two": (
        f"{DATA} {APART} @%p2 mov.u32 %r20, 1; setp.lt.or.u32 %p3, %r2, 9, %p2;"
        "@%p3 st.global.u32 [%d6], %r20;",
        OPEN,
    ),
    "where neither holds": (
        f"{DATA} not.pred %p3, %p1; @!%p2 mov.u32 %r20, 1; or.pred %p4, %p2, %p3;"
        "@!%p4 st.global.u32 [%d2], %r20;",
        RIGHT,
    ),
    "of the opposite": (
        f"{DATA} @%p2 mov.u32 %r20, 1; not.pred %p4, %p2; and.pred %p3, %p4, %p1;"
        "@%p3 st.global.u32 [%d2], %r20;",
        OPEN,
    ),
    "made of it before it changed": (
        f"{DATA} @%p2 mov.u32 %r20, 1; and.pred %p3, %p2, %p1; setp.gt.s32 %p2, %r10, 9;"
        "@%p3 st.global.u32 [%d2], %r20;",
        RIGHT,
    ),
    "made of it behind its change": (
        f"{DATA} @%p2 mov.u32 %r20, 1; setp.gt.s32 %p2, %r10, 9; and.pred %p3, %p2, %p1;"
        "@%p3 st.global.u32 [%d2], %r20;",
        OPEN,
    ),
    "one arm writes it": (f"{DATA} @%p2 bra L; mov.u32 %r20, 1; L: {KEEP}", OPEN),
    "both arms write it": (
        f"{DATA} @%p2 bra L; mov.u32 %r20, 1; bra M; L: mov.u32 %r20, 2; M: {KEEP}",
        RIGHT,
    ),
    "both arms load it": (
        f"{DATA} @%p2 bra L; ld.global.u32 %r20, [%d1]; bra M;"
        f"L: ld.global.u32 %r20, [%d1+128]; M: {KEEP}",
        RIGHT,
    ),
    "one arm writes it and another one of the same guard uses it": (
        f"{DATA} @%p2 bra L; ld.global.u32 %r20, [%d1]; L: mov.u32 %r21, 0; @%p2 bra M;"
        "@%p1 st.global.u32 [%d2], %r20; M:",
        RIGHT,
    ),
    "a branch within the arm writes it before its use there": (
        f"{DATA} setp.gt.s32 %p3, %r10, 7; @%p2 bra L; @%p3 bra X; mov.u32 %r20, 1;"
        f"X: {KEEP} mov.u32 %r20, 2; bra M; L: mov.u32 %r20, 3; M:",
        OPEN,
    ),
    "both ways within the arm do": (
        f"{DATA} setp.gt.s32 %p3, %r10, 7; @%p2 bra L; @%p3 bra X; mov.u32 %r20, 1; bra Y;"
        f"X: mov.u32 %r20, 5; Y: {KEEP} mov.u32 %r20, 2; bra M; L: mov.u32 %r20, 3; M:",
        RIGHT,
    ),
    "the arm changes the guard that its use has": (
        f"{DATA} ld.global.u32 %r11, [%d1+128]; @!%p2 bra L; ld.global.u32 %r20, [%d1];"
        "setp.gt.s32 %p2, %r11, 0; L: setp.gt.and.s32 %p3, %r11, 7, %p1; @!%p2 bra M;"
        "@%p1 st.global.u32 [%d2], %r20; M:",
        OPEN,
    ),
    "the arm changes its guard before it uses it": (
        f"{DATA} @%p2 mov.u32 %r20, 1; @%p2 bra L; setp.gt.s32 %p2, %r10, 9;"
        "@%p1 st.global.u32 [%d2], %r20; L:",
        OPEN,
    ),
    "one arm writes it and the other one of the same guard uses it": (
        f"{DATA} @%p2 bra L; ld.global.u32 %r20, [%d1]; L: mov.u32 %r21, 0; @!%p2 bra M;"
        "@%p1 st.global.u32 [%d2], %r20; M:",
        OPEN,
    ),
    "another register in the arm": (
        f"{DATA} @%p2 bra L; add.u32 %r21, %r10, 1; bra M; L: mov.u32 %r21, 2; M:"
        "@%p1 st.global.u32 [%d2], %r21; mov.b64 %d4, {%r20, %r21};",
        RIGHT,
    ),
}
BITS = {
    "packed beside what is written": (
        "mov.b64 %d4, {%r20, %r2}; mov.b64 {_, %r21}, %d4;@%p1 st.global.u32 [%d2], %r21;",
        RIGHT,
    ),
    "packed, and the other half": (
        "mov.b64 %d4, {%r2, %r20}; mov.b64 {_, %r21}, %d4;@%p1 st.global.u32 [%d2], %r21;",
        WRONG,
    ),
    "a byte of the written half": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h1, %h2}; @%p1 st.global.b8 [%d2], %r21;",
        RIGHT,
    ),
    "a byte of the other half": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h2, %h1}; @%p1 st.global.b8 [%d2], %r21;",
        WRONG,
    ),
    "chosen by prmt": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h1, %h2}; prmt.b32 %r21, %r21, 0, 0x7771;"
        "@%p1 st.global.u32 [%d2], %r21;",
        RIGHT,
    ),
    "chosen by prmt, the wrong one": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h1, %h2}; prmt.b32 %r21, %r21, 0, 0x7772;"
        "@%p1 st.global.u32 [%d2], %r21;",
        WRONG,
    ),
    "cut off": ("and.b32 %r21, %r20, 0; @%p1 st.global.u32 [%d2], %r21;", RIGHT),
    "cut off in part": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h1, %h2}; and.b32 %r21, %r21, 0xffff;"
        "@%p1 st.global.u32 [%d2], %r21;",
        RIGHT,
    ),
    "shifted out": (
        f"{WIDE} mov.b64 %d4, {{%r20, %r2}}; shr.u64 %d4, %d4, 32; @%p1 st.global.u64 [%d6], %d4;",
        RIGHT,
    ),
    "shifted too little": (
        f"{WIDE} mov.b64 %d4, {{%r20, %r2}}; shr.u64 %d4, %d4, 31; @%p1 st.global.u64 [%d6], %d4;",
        WRONG,
    ),
    "sums of halves": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h2, %h1}; add.s16x2 %r21, %r21, %r21;"
        "mov.b32 {_, %h3}, %r21; @%p1 st.global.u16 [%d2], %h3;",
        RIGHT,
    ),
    "a sum carries": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h2, %h1}; add.s32 %r21, %r21, %r1;"
        "mov.b32 {_, %h3}, %r21; @%p1 st.global.u16 [%d2], %h3;",
        OPEN,
    ),
    "converted in pairs": (
        "cvt.rn.bf16x2.f32 %r21, %r20, %r2; mov.b32 {%h3, _}, %r21;@%p1 st.global.u16 [%d2], %h3;",
        RIGHT,
    ),
    "converted in pairs, the other one": (
        "cvt.rn.bf16x2.f32 %r21, %r20, %r2; mov.b32 {_, %h3}, %r21;@%p1 st.global.u16 [%d2], %h3;",
        WRONG,
    ),
    "products of pairs": (
        "cvt.u16.u32 %h1, %r1; mov.b32 %r21, {%h2, %h1}; mul.bf16x2 %r21, %r21, %r21;"
        "mov.b32 {_, %h3}, %r21; @%p1 st.global.u16 [%d2], %h3;",
        RIGHT,
    ),
    "a part of a vector": (f"{WIDE} @%p1 st.global.v2.u32 [%d6], {{%r1, %r20}};", OPEN),
    "all of a vector": (f"{WIDE} @%p1 st.global.v2.u32 [%d6], {{%r21, %r20}};", WRONG),
    "times something": ("mul.lo.u32 %r21, %r20, %r1; @%p1 st.global.u32 [%d2], %r21;", OPEN),
}
USED = {
    "an address": ("ld.global.u32 %r21, [%d4];", WRONG),
    "an address in shared memory": ("@%p1 st.shared.u32 [%r20], %r1;", WRONG),
    "a guard of a store": (f"{OWN} @%p2 st.shared.u32 [%r6], %r1;", WRONG),
    "a guard of arithmetic": ("@%p2 mov.u32 %r10, 1;", RIGHT),
    "a guard of arithmetic that is stored": (
        "@%p2 mov.u32 %r10, 1; @%p1 st.global.u32 [%d2], %r10;",
        OPEN,
    ),
    "a branch": (f"{OWN} @%p2 bra L; st.shared.u32 [%r6], %r1; L:", WRONG),
    "a branch around arithmetic": ("@%p2 bra L; mov.u32 %r10, 1; L:", OPEN),
    "a comparison": (
        f"{OWN} setp.lt.s32 %p3, %r20, 5; @%p3 bra L; st.shared.u32 [%r6], %r1; L:",
        OPEN,
    ),
    "the parity of a wait": (
        "setp.eq.u32 %p3, %r1, 0; @%p3 mbarrier.init.shared.b64 [s], 1; bar.sync 0;"
        "@%p3 mbarrier.arrive.shared.b64 _, [s]; W: mbarrier.try_wait.parity.shared.b64 %p4, [s],"
        "%r20; @!%p4 bra W;",
        OPEN,
    ),
    "the count of a barrier": (
        "setp.eq.u32 %p3, %r1, 0; @%p3 mbarrier.init.shared.b64 [s], %r20; bar.sync 0;",
        OPEN,
    ),
    "the lanes of a vote": ("vote.sync.any.pred %p3, %p1, %r20;", OPEN),
    "an atomic operation": ("red.global.add.u32 [%d2], %r20;", WRONG),
    "kept in shared memory": (f"{OWN} st.shared.u32 [%r6], %r20;", RIGHT),
    "through shared memory": (
        "@%p1 st.shared.u32 [%r4], %r20; bar.sync 0; ld.shared.u32 %r21, [%r4];"
        "@%p1 st.global.u32 [%d2], %r21;",
        OPEN,
    ),
    "from another lane": (
        "setp.eq.u32 %p3, %r2, 3; @!%p3 mov.u32 %r20, %r1;"
        "shfl.sync.idx.b32 %r21, %r20, 5, 31, -1; @%p1 st.global.u32 [%d2], %r21;",
        RIGHT,
    ),
    "from the wrong lane": (
        "setp.eq.u32 %p3, %r2, 3; @!%p3 mov.u32 %r20, %r1;"
        "shfl.sync.idx.b32 %r21, %r20, 3, 31, -1; @%p1 st.global.u32 [%d2], %r21;",
        WRONG,
    ),
}
LOW = "setp.lt.u32 %p4, %r2, 8; @!%p4 bra E;"  # lanes 0 to 7 only
EXCHANGED = {
    "a sum of the lanes that take part": (
        f"{LOW} shfl.sync.down.b32 %r21, %r1, 4, 31, 255; add.u32 %r20, %r1, %r21;"
        "shfl.sync.down.b32 %r21, %r20, 2, 31, 255; add.u32 %r20, %r20, %r21;"
        "shfl.sync.down.b32 %r21, %r20, 1, 31, 255; add.u32 %r20, %r20, %r21;"
        "setp.eq.and.u32 %p5, %r2, 0, %p1; @%p5 st.global.u32 [%d2], %r20; E:",
        RIGHT,
    ),
    "another lane's sum": (
        f"{LOW} shfl.sync.down.b32 %r21, %r1, 4, 31, 255;"
        "setp.eq.and.u32 %p5, %r2, 5, %p1; @%p5 st.global.u32 [%d2], %r21; E:",
        WRONG,
    ),
    "from a lane that does not take part": (
        f"{LOW} shfl.sync.idx.b32 %r20, %r1, 20, 31, 255; {KEEP} E:",
        WRONG,
    ),
    "from one that does": (f"{LOW} shfl.sync.idx.b32 %r20, %r1, 7, 31, 255; {KEEP} E:", RIGHT),
    "within segments": (f"{LOW} shfl.sync.down.b32 %r20, %r1, 4, 0x181f, 255; {KEEP} E:", RIGHT),
    "an address from a lane that does not take part": (
        f"{LOW} shfl.sync.idx.b32 %r20, %r4, 20, 31, 255; ld.shared.u32 %r21, [%r20]; E:",
        WRONG,
    ),
    "from a lane that has ended": (
        "setp.lt.u32 %p4, %r2, 8; @%p4 exit; shfl.sync.idx.b32 %r20, %r1, 5, 31, 0xffffffff;"
        f"{KEEP}",
        WRONG,
    ),
    "from a lane that has not": (
        "setp.lt.u32 %p4, %r2, 8; @%p4 exit; shfl.sync.idx.b32 %r20, %r1, 9, 31, 0xffffffff;"
        f"{KEEP}",
        RIGHT,
    ),
}
LOCAL = {
    "memory of a thread, written": (
        "st.local.u32 [mine], %r1; ld.local.u32 %r21, [mine]; @%p1 st.global.u32 [%d2], %r21;",
        RIGHT),
    "memory of a thread": ("ld.local.u32 %r21, [mine]; @%p1 st.global.u32 [%d2], %r21;", OPEN),
    "memory of a thread, the next word": (
        "st.local.u32 [mine], %r1; ld.local.u32 %r21, [mine+4]; @%p1 st.global.u32 [%d2], %r21;",
        OPEN),
    "memory of a thread, in half of the lanes": (
        f"{FIRST} @%p2 st.local.u32 [mine], %r1; ld.local.u32 %r21, [mine];"
        "@%p1 st.global.u32 [%d2], %r21;", OPEN),
    "memory of a thread by a generic address": (
        "mov.u64 %d4, mine; cvta.local.u64 %d4, %d4; st.u32 [%d4], %r1; ld.u32 %r21, [%d4];"
        "@%p1 st.global.u32 [%d2], %r21;", RIGHT),
    "kept in memory of a thread": (
        "st.local.u32 [mine], %r20; ld.local.u32 %r21, [mine]; @%p1 st.global.u32 [%d2], %r21;",
        OPEN),
    "kept in memory of a thread, and not used": (
        "st.local.u32 [mine], %r20; ld.local.u32 %r21, [mine]; add.u32 %r21, %r21, 1;", RIGHT),
    "kept beside what is used": (
        "st.local.v2.u32 [mine], {%r20, %r1}; ld.local.u32 %r21, [mine+4];"
        "@%p1 st.global.u32 [%d2], %r21;", RIGHT),
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "verdict"),
    [pytest.param(*case, id=name)
     for table in (MASKED, DATA_DECIDE, BITS, USED, EXCHANGED, LOCAL)
     for name, case in table.items()],
)  # fmt: skip
def test_what_nothing_has_written(body, verdict):
    body = f".reg .b16 %h<4>; {body}"
    finding = verified(body)
    codes = [item.code for item in finding.diagnostics]
    assert finding.verdict is verdict, (finding.notes, codes)
    assert codes == (["TTN223"] if verdict is WRONG else [])
    allowed = verified(body, policies=chosen((("unwritten_reads", "allow"),)))
    assert "TTN223" not in [item.code for item in allowed.diagnostics]


CALLS = """.version 8.7
.target sm_90a
.address_size 64
.func (.param .b32 r) f(.param .b32 a, .param .b32 first)
{
  .reg .b32 %r<9>; .reg .pred %p<3>;
  ld.param.b32 %r1, [a]; ld.param.b32 %r2, [first]; setp.ne.u32 %p1, %r2, 0;
  BODY
  ret;
}
.visible .entry k(.param .u64 x)
.reqntid 32
{
  .reg .b32 %r<9>; .reg .b64 %d<9>;
  ld.param.u64 %d1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
  { .param .b32 p0; .param .b32 p1; .param .b32 q; st.param.b32 [p0], %r1; st.param.b32 [p1], 1;
    call.uni (q), f, (p0, p1); ld.param.b32 %r2, [q]; }
  { .param .b32 p0; .param .b32 p1; .param .b32 q; st.param.b32 [p0], %r1; st.param.b32 [p1], 0;
    call.uni (q), f, (p0, p1); ld.param.b32 %r3, [q]; }
  st.global.u32 [%d1], %r3;
  ret;
}
"""


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("add.u32 %r3, %r1, 1; st.param.b32 [r], %r3;", RIGHT),
        ("add.u32 %r3, %r1, 1;", OPEN),
        ("@%p1 st.param.b32 [r], %r1;", OPEN),
        ("@!%p1 st.param.b32 [r], %r1;", RIGHT),
        ("@%p1 mov.u32 %r4, 5; st.param.b32 [r], %r4;", OPEN),
        ("@!%p1 mov.u32 %r4, 5; st.param.b32 [r], %r4;", RIGHT),
    ],
)
def test_a_call_knows_nothing_of_the_call_before(body, verdict):
    """The second call of two gives what is stored."""
    text = CALLS.replace("BODY", body)
    finding = verified_text(text, "{grid: 1, dynamic_shared: 0, parameters: [pointer]}")
    assert finding.verdict is verdict, finding.notes
