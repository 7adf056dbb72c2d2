"""Races that are none: the same value written twice, and values that are read for nothing.

What is shown is tried against numbers: a kernel that is verified leaves the same memory under every
schedule of the emulated device.
"""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

import pytest

from tests.sampling import part
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.numbers.native import CoreOptions
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import Launch, LaunchParameter, Options
from titan.verify.model import Finding

LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: {x: pointer, y: pointer}}"
KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.global .align 4 .b32 table[4] = {3, 1, 4, 1};
.visible .entry k(.param .u64 x, .param .u64 y)
.reqntid 64
{
  .reg .pred %p<8>;
  .reg .b32 %r<32>;
  .reg .b64 %d<16>;
  .shared .align 16 .b8 s[512];
  .local .align 8 .b8 mine[16];
  ld.param.u64 %d1, [x];
  ld.param.u64 %d2, [y];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  setp.lt.u32 %p1, %r1, 32;  // the first warp
  mul.wide.u32 %d3, %r2, 4;
  add.s64 %d1, %d1, %d3;     // x and y by the lane, the same in both warps
  add.s64 %d2, %d2, %d3;
  mov.u32 %r3, s;
  shl.b32 %r4, %r2, 2;
  add.u32 %r4, %r3, %r4;     // s by the lane
  and.b32 %r5, %r2, 7;
  shl.b32 %r5, %r5, 4;
  add.u32 %r5, %r3, %r5;     // s by rows of a matrix
  mov.u32 %r10, 0;
  mov.u32 %r11, 0;
  mov.u32 %r12, 0;
BODY
  ret;
}
"""
BUTTERFLY = "\n".join(
    f"shfl.sync.bfly.b32 %r11, %r10, {step}, 31, -1; max.f32 %r10, %r10, %r11;"
    for step in (16, 8, 4, 2, 1)
)
# %r12: what the lanes of x hold, in the second warp from the last row of four lanes to the first.
REVERSED = """ld.global.u32 %r10, [%d1]; shfl.sync.bfly.b32 %r11, %r10, 28, 31, -1;
        selp.b32 %r12, %r10, %r11, %p1;"""
# %r12: the first 16 of x, each twice; in the second warp the last of them 17 times.
REPEATED = """ld.global.u32 %r10, [%d1]; and.b32 %r6, %r2, 15; min.u32 %r7, %r2, 15;
        selp.b32 %r6, %r6, %r7, %p1; shfl.sync.idx.b32 %r12, %r10, %r6, 31, -1;"""
STORE_ROWS = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r12};"
# A branch on data, to L; an array of the thread that is filled, and an element that data choose.
ON_DATA = "ld.global.u32 %r10, [%d1]; setp.gt.u32 %p2, %r10, 9; @%p2 bra L;"
FILLED = "st.local.u32 [mine], %r10; st.local.u32 [mine+4], 7;"
CHOSEN = """and.b32 %r11, %r10, 4; mov.u32 %r13, mine; add.u32 %r13, %r13, %r11;
        ld.local.u32 %r12, [%r13];"""
CLEAN = {
    "in place, one of two copies stores": """
        ld.global.u32 %r10, [%d1]; add.f32 %r10, %r10, %r10; @%p1 st.global.u32 [%d1], %r10;""",
    "a register is overwritten before it is used": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; @%p1 st.global.u32 [%d1], %r11;
        mov.u32 %r10, 1; st.shared.u32 [%r4], %r10;""",
    "both warps compute the same from the same": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; sub.f32 %r10, %r10, %r11;
        ex2.approx.f32 %r10, %r10; st.shared.u32 [%r4], %r10;""",
    "both warps reduce the same, every lane stores": f"""
        ld.global.u32 %r10, [%d1]; {BUTTERFLY} st.shared.u32 [%r3], %r10; bar.sync 0;
        ld.shared.u32 %r11, [%r3]; @%p1 st.global.u32 [%d2], %r11;""",
    "the same through shared memory": """
        ld.global.u32 %r10, [%d1]; @%p1 st.shared.u32 [%r4], %r10; bar.sync 0;
        ld.shared.u32 %r11, [%r4]; st.shared.u32 [%r4+128], %r11;""",
    "operands of a packed sum change places": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; selp.b32 %r12, %r10, %r11, %p1;
        selp.b32 %r13, %r11, %r10, %p1; add.f16x2 %r12, %r12, %r13; st.shared.u32 [%r4], %r12;""",
    "lanes are reduced in another order": f"""
        {REVERSED} redux.sync.add.u32 %r13, %r12, -1; st.shared.u32 [%r3], %r13;""",
    "the least of the same values, some of them more often": f"""
        {REPEATED} redux.sync.min.u32 %r13, %r12, -1; st.shared.u32 [%r3], %r13;""",
    "every lane stores what all have voted": """
        ld.global.u32 %r10, [%d1]; setp.eq.u32 %p2, %r10, 0; vote.sync.ballot.b32 %r12, %p2, -1;
        st.shared.u32 [%r3], %r12;""",
    "a branch on data that only computes": """
        ld.global.u32 %r10, [%d1]; setp.eq.u32 %p2, %r10, 0; mov.u32 %r11, 3; @%p2 bra L;
        add.u32 %r11, %r10, 5; setp.lt.u32 %p3, %r11, 9; @%p3 bra L; mul.lo.u32 %r11, %r11, %r11;
        L: st.shared.u32 [%r4], %r11;""",
    "sums of two words by a carry": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; add.cc.u32 %r12, %r10, %r11;
        addc.u32 %r12, %r10, 3; st.shared.u32 [%r4], %r12;""",
    "an array of the thread, of which data choose the element": f"""
        {ON_DATA} {FILLED} {CHOSEN} L: st.shared.u32 [%r4], %r12;""",
    "an array of the thread, filled before": f"""
        st.local.u32 [mine], %r2; st.local.u32 [mine+4], 5; {ON_DATA} {CHOSEN}
        L: st.shared.u32 [%r4], %r12;""",
    "an array of the thread, filled by rounds that data decide": f"""
        {ON_DATA} mov.u32 %r13, mine; mov.u32 %r14, 0; A: st.local.u32 [%r13], %r10;
        add.u32 %r13, %r13, 4; add.u32 %r14, %r14, 1; and.b32 %r15, %r10, 3;
        setp.le.u32 %p3, %r14, %r15; @%p3 bra A; ld.local.u32 %r12, [mine];
        L: st.shared.u32 [%r4], %r12;""",
    "an array of the thread, loaded behind the branch": f"""
        st.local.u32 [mine], 1; {ON_DATA} {FILLED} L: ld.local.u32 %r12, [mine];
        st.shared.u32 [%r4], %r12;""",
    "an array of the thread in two branches": f"""
        {ON_DATA} {FILLED} {CHOSEN} L: setp.gt.u32 %p2, %r10, 99; @%p2 bra M; {CHOSEN}
        M: st.shared.u32 [%r4], %r12;""",
    "a table of the module, of which data choose the element": f"""
        {ON_DATA} mov.u64 %d4, table; and.b32 %r11, %r10, 12; cvt.u64.u32 %d5, %r11;
        add.s64 %d4, %d4, %d5; ld.global.nc.u32 %r12, [%d4]; L: st.shared.u32 [%r4], %r12;""",
    "what an arm loads": f"""
        {ON_DATA} ld.global.u32 %r12, [%d2]; L: st.shared.u32 [%r4], %r12;""",
    "an arm with an array of the thread, in place": f"""
        {ON_DATA} {FILLED} {CHOSEN} L: @%p1 st.global.u32 [%d1], %r12;""",
    "a loop on data that only computes": """
        ld.global.u32 %r10, [%d1]; and.b32 %r11, %r10, 7; mov.u32 %r12, %r10;
        A: add.u32 %r12, %r12, %r12; sub.u32 %r11, %r11, 1; setp.gt.s32 %p2, %r11, 0; @%p2 bra A;
        st.shared.u32 [%r4], %r12;""",
    "the value read goes through a branch, and is not used": """
        ld.global.u32 %r10, [%d1]; setp.eq.u32 %p2, %r10, 0; @%p2 bra L;
        add.u32 %r11, %r10, 5; L: @%p1 st.global.u32 [%d1], %r11;""",
    "rows of a matrix that end with known numbers, and are loaded": f"""
        ld.global.u32 %r10, [%d1]; and.b32 %r6, %r2, 3; setp.eq.u32 %p2, %r6, 3;
        selp.b32 %r12, 7, %r10, %p2; {STORE_ROWS} bar.sync 0; ld.shared.u32 %r11, [%r5+12];
        ld.shared.u32 %r13, [%r5]; add.u32 %r11, %r11, %r13; @%p1 st.global.u32 [%d2], %r11;""",
    "rows of a matrix, the other warp the other way round": f"""
        {REVERSED} xor.b32 %r6, %r2, 7; and.b32 %r6, %r6, 7; shl.b32 %r6, %r6, 4;
        add.u32 %r6, %r6, %r3; selp.b32 %r5, %r5, %r6, %p1; {STORE_ROWS}""",
}
# A branch on other data in whose arm a lane stores at a place of its own.
STORES_ON_DATA = """ld.global.u32 %r14, [%d2+4096]; setp.gt.u32 %p2, %r14, 9; @%p2 bra L;
        mad.lo.u32 %r13, %r1, 4, %r3; st.shared.u32 [%r13], {};
        L:"""
CLEAN["what is read is dead at a branch on data whose arms store"] = f"""
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r2;
        {STORES_ON_DATA.format("%r2")} mov.u32 %r10, 5; @%p1 st.global.u32 [%d2], %r10;"""
# A store that is never made keeps %r10 alive up to there.
NEVER = "setp.gt.u32 %p5, %r1, 4000; @%p5 st.shared.u32 [%r4], %r10;"
READ_AND_STORED_OVER = "ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r2;"
CLEAN["what is read may live on behind a branch on data whose arms do not touch it"] = f"""
        {READ_AND_STORED_OVER} {STORES_ON_DATA.format("%r2")} {NEVER}"""
CLEAN["what is read lives on behind a branch of one lane alone, whose guard others lack"] = f"""
        {READ_AND_STORED_OVER} setp.ne.u32 %p2, %r2, 0; @%p2 bra L;
        mov.u32 %r14, 1; A: sub.u32 %r14, %r14, 1; setp.ne.u32 %p3, %r14, 0; @%p3 bra A;
        L: {NEVER}"""
RACES = {
    "what is read goes to a register in the arm of a branch on other data": f"""
        {READ_AND_STORED_OVER} {STORES_ON_DATA.format("%r2; mov.u32 %r12, %r10")}
        @!%p1 st.global.u32 [%d2], %r12;""",
    "what is read is replaced in the arm of a branch on other data alone": f"""
        {READ_AND_STORED_OVER} ld.global.u32 %r14, [%d2+4096]; setp.gt.u32 %p2, %r14, 9;
        @%p2 bra L; mad.lo.u32 %r13, %r1, 4, %r3; st.shared.u32 [%r13], %r2; mov.u32 %r10, 5;
        L: @!%p1 st.global.u32 [%d2], %r10;""",
    "what is read decides an inner branch in the arm of one on other data": f"""
        {READ_AND_STORED_OVER} ld.global.u32 %r14, [%d2+4096]; setp.gt.u32 %p2, %r14, 9;
        @%p2 bra L; mad.lo.u32 %r13, %r1, 4, %r3; setp.gt.u32 %p3, %r10, 3; @%p3 bra L;
        st.shared.u32 [%r13], %r2; L:""",
    "what is read is used in a loop on other data that stores": f"""
        {READ_AND_STORED_OVER} ld.global.u32 %r14, [%d2+4096]; mad.lo.u32 %r13, %r1, 4, %r3;
        A: st.shared.u32 [%r13], %r2; add.u32 %r12, %r12, %r10; sub.u32 %r14, %r14, 1;
        setp.gt.s32 %p2, %r14, 0; @%p2 bra A; @!%p1 st.global.u32 [%d2], %r12;""",
    "what is read is used by one lane alone, behind a branch": f"""
        {READ_AND_STORED_OVER} setp.ne.u32 %p2, %r2, 0; @%p2 bra L; mov.u32 %r14, 1;
        A: sub.u32 %r14, %r14, 1; setp.ne.u32 %p3, %r14, 0; @%p3 bra A;
        @!%p1 st.global.u32 [%d2], %r10; L:""",
    "what is read is stored in the arm of a branch on other data": f"""
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r2;
        {STORES_ON_DATA.format("%r10")} mov.u32 %r10, 5;""",
    "what is read is used behind the arms of a branch on other data": f"""
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r2;
        {STORES_ON_DATA.format("%r2")} @!%p1 st.global.u32 [%d2], %r10;""",
    "in place, both copies store": """
        ld.global.u32 %r10, [%d1]; add.f32 %r10, %r10, %r10; st.global.u32 [%d1], %r10;""",
    "the value read is stored elsewhere": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11; @!%p1 st.global.u32 [%d2], %r10;
        """,
    "the value read is stored in local memory": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11; st.local.u32 [mine], %r10;
        ld.local.u32 %r12, [mine]; @!%p1 st.global.u32 [%d2], %r12;""",
    "the value read decides which value is stored": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11; setp.eq.u32 %p2, %r10, 0;
        selp.u32 %r12, 1, 2, %p2; @!%p1 st.global.u32 [%d2], %r12;""",
    "the value read decides whether to store": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11; setp.eq.u32 %p2, %r10, 0;
        @%p2 st.global.u32 [%d2], %r12;""",
    "the value read decides a branch": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11; setp.eq.u32 %p2, %r10, 0;
        @%p2 bra L; mov.u32 %r12, 1; L: @!%p1 st.global.u32 [%d2], %r12;""",
    "the value is read behind a branch on data": """
        ld.global.u32 %r10, [%d2]; setp.eq.u32 %p2, %r10, 0; @%p2 bra L;
        ld.global.u32 %r11, [%d1]; L: @%p1 st.global.u32 [%d1], %r10;
        @!%p1 st.shared.u32 [%r4], %r11;""",
    "the value read goes to an atomic": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11; red.global.add.u32 [%d2], %r10;
        """,
    "the value read goes to another lane": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11;
        shfl.sync.down.b32 %r12, %r10, 1, 31, -1; @!%p1 st.global.u32 [%d2], %r12;""",
    "the value read goes into the carry": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r11; add.cc.u32 %r13, %r10, %r10;
        addc.u32 %r12, %r11, %r11; @!%p1 st.global.u32 [%d2], %r12;""",
    "equal but for the carry": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; selp.b32 %r12, %r10, %r11, %p1;
        add.cc.u32 %r13, %r12, %r12; addc.u32 %r14, %r11, %r11; st.shared.u32 [%r4], %r14;""",
    "loaded from different places": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; selp.b32 %r12, %r10, %r11, %p1;
        st.shared.u32 [%r4], %r12;""",
    "the same bytes, signed and not": """
        ld.global.s8 %r10, [%d1]; ld.global.u8 %r11, [%d1]; selp.b32 %r12, %r10, %r11, %p1;
        st.shared.u32 [%r4], %r12;""",
    "operands in another order": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; selp.b32 %r12, %r10, %r11, %p1;
        selp.b32 %r13, %r11, %r10, %p1; sub.u32 %r12, %r12, %r13; st.shared.u32 [%r4], %r12;""",
    "loaded before and after a store": """
        ld.global.u32 %r10, [%d1]; bar.sync 0; @%p1 st.global.u32 [%d1], %r1; bar.sync 0;
        ld.global.u32 %r11, [%d1]; selp.b32 %r12, %r10, %r11, %p1; st.shared.u32 [%r4], %r12;""",
    "an array of the thread that nobody has filled": f"""
        {ON_DATA} {CHOSEN} L: st.shared.u32 [%r4], %r12;""",
    "an element that nobody has written": f"""
        {ON_DATA} st.local.u32 [mine], %r10; ld.local.u32 %r12, [mine+4];
        L: st.shared.u32 [%r4], %r12;""",
    "an array of the thread, filled with different values before": f"""
        st.local.u32 [mine], %r1; st.local.u32 [mine+4], 5; {ON_DATA} {CHOSEN}
        L: st.shared.u32 [%r4], %r12;""",
    "an array of the thread, filled with different values in the arm": f"""
        {ON_DATA} st.local.u32 [mine], %r1; st.local.u32 [mine+4], 5; {CHOSEN}
        L: st.shared.u32 [%r4], %r12;""",
    "different values left in an array of the thread by an arm": f"""
        st.local.u32 [mine], 1; {ON_DATA} st.local.u32 [mine], %r1; L: ld.local.u32 %r12, [mine];
        st.shared.u32 [%r4], %r12;""",
    "different values in the array of a thread by way of two branches": f"""
        st.local.u32 [mine], 1; {ON_DATA} st.local.u32 [mine], %r1; L: setp.gt.u32 %p2, %r10, 99;
        @%p2 bra M; ld.local.u32 %r12, [mine]; M: st.shared.u32 [%r4], %r12;""",
    "an arm that loads from different places": f"""
        selp.b64 %d4, %d1, %d2, %p1; {ON_DATA} ld.global.u32 %r12, [%d4];
        L: st.shared.u32 [%r4], %r12;""",
    "an arm that loads what is not settled": f"""
        {ON_DATA} ld.volatile.global.u32 %r12, [%d2]; L: st.shared.u32 [%r4], %r12;""",
    "the value read stays in an array of the thread behind an arm": f"""
        st.local.u32 [mine], 1; {ON_DATA} st.local.u32 [mine], %r10; L: ld.local.u32 %r12, [mine];
        @%p1 st.global.u32 [%d1], %r2; @!%p1 st.global.u32 [%d2], %r12;""",
    "the value read goes by way of the array of a thread through two branches": f"""
        st.local.u32 [mine], 1; {ON_DATA} st.local.u32 [mine], %r10;
        L: ld.global.u32 %r11, [%d2+128];
        setp.gt.u32 %p2, %r11, 99; @%p2 bra M; ld.local.u32 %r12, [mine];
        M: @%p1 st.global.u32 [%d1], %r2; @!%p1 st.global.u32 [%d2], %r12;""",
    "an arm loads what the other warp writes, for a result that is used": """
        ld.global.u32 %r10, [%d2]; setp.gt.u32 %p2, %r10, 9; @%p2 bra L; ld.global.u32 %r12, [%d1];
        L: @%p1 st.global.u32 [%d1], %r2; @!%p1 st.global.u32 [%d2], %r12;""",
    "a clock": "mov.u32 %r10, %clock; st.shared.u32 [%r4], %r10;",
    "the lanes of each warp store different values to one place, in another order": f"""
        {REVERSED} st.shared.u32 [%r3], %r12;""",
    "lanes of each warp store different values to one place, some of one more": """
        ld.global.u32 %r10, [%d1]; setp.lt.u32 %p2, %r2, 16; or.pred %p2, %p2, %p1;
        @%p2 st.shared.u32 [%r3], %r10;""",
    "a branch that only computes, of different values": """
        ld.global.u32 %r10, [%d1]; setp.eq.u32 %p2, %r10, 0; @%p2 bra L; add.u32 %r11, %r10, %r1;
        L: st.shared.u32 [%r4], %r11;""",
    "a branch that only computes, of what was there before": """
        mov.u32 %r11, %r1; ld.global.u32 %r10, [%d1]; setp.eq.u32 %p2, %r10, 0; @%p2 bra L;
        add.u32 %r11, %r10, 5; L: st.shared.u32 [%r4], %r11;""",
    "a branch that reads a clock": """
        ld.global.u32 %r10, [%d1]; setp.eq.u32 %p2, %r10, 0; @%p2 bra L; mov.u32 %r11, %clock;
        L: st.shared.u32 [%r4], %r11;""",
    "the value read is used in a branch that only computes": """
        ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r2; setp.eq.u32 %p2, %r10, 0;
        @%p2 bra L; add.u32 %r11, %r10, 5; L: @!%p1 st.global.u32 [%d2], %r11;""",
    "old values of an atomic, which differ": """
        atom.global.add.u32 %r10, [%d2], 1; st.shared.u32 [%r4], %r11;
        mov.u32 %r10, %r1; st.shared.u32 [%r4+128], %r10;""",
    "different values, stored to global memory": """
        add.u32 %r10, %r1, 5; st.global.u32 [%d1], %r10;""",
    "what an atomic leaves": """
        atom.global.exch.b32 %r10, [%d2], %r1; ld.global.u32 %r11, [%d2]; st.shared.u32 [%r4], %r11;
        """,
    "equal values, read by the other warp without a barrier": """
        ld.global.u32 %r10, [%d1]; st.shared.u32 [%r4], %r10; ld.shared.u32 %r11, [%r4];
        @%p1 st.global.u32 [%d2], %r11;""",
    "the sum of the same values, some of them more often": f"""
        {REPEATED} redux.sync.add.u32 %r13, %r12, -1; st.shared.u32 [%r3], %r13;""",
    "operands of a packed difference change places": """
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; selp.b32 %r12, %r10, %r11, %p1;
        selp.b32 %r13, %r11, %r10, %p1; sub.f16x2 %r12, %r12, %r13; st.shared.u32 [%r4], %r12;""",
    "votes of lanes in another order": f"""
        {REVERSED} setp.eq.u32 %p2, %r12, 0; vote.sync.ballot.b32 %r13, %p2, -1;
        st.shared.u32 [%r3], %r13;""",
    "rows that are equal in the lanes that give the addresses": f"""
        ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; setp.lt.u32 %p2, %r2, 8;
        or.pred %p2, %p2, %p1; selp.b32 %r12, %r10, %r11, %p2; {STORE_ROWS}""",
    "other rows at the same places": f"""
        {REVERSED} {STORE_ROWS}""",
    "a row that two lanes of one warp store, and another": f"""
        ld.global.u32 %r12, [%d1]; mov.u32 %r5, %r3; {STORE_ROWS}""",
    "a store under a guard that data decide": """
        ld.global.u32 %r10, [%d1]; setp.eq.u32 %p2, %r10, 0; @%p2 st.shared.u32 [%r4], %r10;""",
}


def verified(body: str, **more) -> Finding:
    described, errors = read_launch_text(LAUNCH, "k.yaml")
    assert errors == []
    options = CodeOptions(schedules=2, **more)
    (finding,) = verify_code(source_of(body), described, options, [], 0.0)
    return finding


def source_of(body: str) -> Source:
    return Source("k.ptx", KERNEL.replace("BODY", body))


@pytest.mark.parametrize("body", CLEAN.values(), ids=CLEAN)
def test_what_cannot_show_is_no_race(body):
    finding = verified(body)
    assert finding.verdict is Verdict.VERIFIED, [item.headline for item in finding.diagnostics]
    assert any("shown" in note for note in finding.notes)


@pytest.mark.parametrize("body", CLEAN.values(), ids=CLEAN)
def test_both_can_be_forbidden(body):
    strict = chosen((("equal_writes", "refuse"), ("unused_reads", "refuse")))
    assert verified(body, policies=strict).verdict is Verdict.REFUTED


def test_a_race_at_an_unknown_address_is_not_known():
    unknown = "ld.global.u32 %r10, [%d2]; cvt.u64.u32 %d4, %r10; shl.b64 %d4, %d4, 2;\n"
    finding = verified(f"{unknown} st.global.u32 [%d4], %r10;")
    assert finding.verdict is Verdict.UNDECIDED
    assert any("the address of an access is not known" in note for note in finding.notes)
    known = verified(f"{unknown} ld.global.u32 %r11, [%d4];\n st.shared.u32 [%r3], %r1;")
    assert known.verdict is Verdict.REFUTED


def test_global_memory_may_be_assumed():
    """What is not known may be equal; what is known to differ is not."""
    assumed = chosen((("equal_writes", "assumed"),))
    body = "ld.global.u32 %r10, [%d2]; add.u32 %r10, %r10, %r1; st.global.u32 [%d1], %r10;"
    assert verified(body).verdict is Verdict.REFUTED
    assert verified(body, policies=assumed).verdict is Verdict.VERIFIED
    known = RACES["different values, stored to global memory"]
    assert verified(known, policies=assumed).verdict is Verdict.REFUTED


def test_the_old_value_of_an_atomic_is_no_value_of_all_interleavings():
    finding = verified("atom.global.add.u32 %r10, [%d2], 1; st.shared.u32 [%r4], %r10;")
    assert finding.verdict is not Verdict.VERIFIED


@pytest.mark.parametrize("body", RACES.values(), ids=RACES)
def test_what_may_show_stays_a_race(body):
    finding = verified(body)
    assert finding.verdict is Verdict.REFUTED
    assert "TTN201" in [item.code for item in finding.diagnostics]


def test_lanes_that_store_one_of_two_sums_over_the_warp_are_undecided():
    """The two are compared, which has to follow what redux makes; equal ones are one value."""
    chosen = """ld.global.u32 %r10, [%d1]; OTHER redux.sync.add.u32 %r12, %r10, -1;
        redux.sync.add.u32 %r13, %r11, -1; setp.lt.u32 %p2, %r2, 9; selp.b32 %r12, %r12, %r13, %p2;
        st.shared.u32 [%r3], %r12;"""
    finding = verified(chosen.replace("OTHER", "ld.global.u32 %r11, [%d2];"))
    assert finding.verdict is Verdict.UNDECIDED
    assert any("that they write the same values is not shown" in note for note in finding.notes)
    alike = verified(chosen.replace("OTHER", "shfl.sync.bfly.b32 %r11, %r10, 28, 31, -1;"))
    assert alike.verdict is Verdict.VERIFIED


def test_runs_that_are_too_long_to_trace_are_undecided(monkeypatch):
    """Only where warps repeat each other's accesses: another race is one in any case."""
    for module in ("titan.isa.simt.tracing.traced", "titan.frontends.ptx.trial"):
        monkeypatch.setattr(f"{module}.INSTRUCTIONS_MAX", 9)
    finding = verified(CLEAN["both warps compute the same from the same"])
    assert finding.verdict is Verdict.UNDECIDED
    assert any("values are compared in runs of up to 9" in note for note in finding.notes)
    assert any(note.startswith("suspected: warp 0 and warp 1") for note in finding.notes)
    race = verified("@%p1 st.shared.u32 [%r4], %r1; @!%p1 ld.shared.u32 %r10, [%r4];")
    assert race.verdict is Verdict.REFUTED


STATEMENTS = (
    "ld.global.u32 %A, [%d1];", "ld.global.u32 %A, [%d2];", "ld.shared.u32 %A, [%r4];",
    "st.global.u32 [%d1], %A;", "st.shared.u32 [%r4], %A;", "st.shared.u32 [%r4], %A;",
    "add.u32 %A, %B, %C;", "sub.u32 %A, %B, %C;", "mad.lo.u32 %A, %B, %C, %B;",
    "selp.b32 %A, %B, %C, %p1;", "mov.u32 %A, %r1;", "prmt.b32 %A, %B, %C, 0x3210;",
    "shfl.sync.bfly.b32 %A, %B, 1, 31, -1;", "bar.sync 0;", "bar.sync 0;",
    "redux.sync.add.u32 %A, %B, -1;", "redux.sync.or.b32 %A, %B, -1;",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%A};",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%A}, [%r5];",
    "st.local.u32 [mine], %A;", "ld.local.u32 %A, [mine];",
    "setp.gt.u32 %p2, %B, %C; @%p2 bra L; mov.u32 %A, %C; L:",
    "setp.gt.u32 %p2, %B, 9; @%p2 bra L; st.local.u32 [mine], %A; L:",
    "setp.gt.u32 %p2, %B, 9; @%p2 bra L; st.local.u32 [mine+4], %B; ld.local.u32 %A, [mine]; L:",
    "setp.gt.u32 %p2, %B, 9; @%p2 bra L; ld.global.u32 %A, [%d1]; L:",
)  # fmt: skip
GUARDED = ("ld", "st", "add", "mov")
X, Y = 0x10000, 0x20000
SCHEDULES = [(0, "turn"), *((seed, way) for way in ("turn", "starve", "ahead") for seed in (1, 2))]


def random_body(random: Random) -> str:
    lines = []
    for _ in range(random.randint(4, 12)):
        line = random.choice(STATEMENTS)
        for place in "ABC":
            line = line.replace(f"%{place}", random.choice(("%r10", "%r11", "%r12")))
        if line.startswith(GUARDED) and random.random() < 0.4:
            line = random.choice(("@%p1 ", "@!%p1 ")) + line
        line = line.replace("bra L", f"bra L{len(lines)}").replace(" L:", f" L{len(lines)}:")
        lines.append(line)
    own = "st.local.u32 [mine], 1; st.local.u32 [mine+4], 2;"
    return "\n".join([own, *lines, "bar.sync 0;", "ld.shared.u32 %r10, [%r4];",
                      "@%p1 st.global.u32 [%d2], %r10;"])  # fmt: skip


def results(body: str) -> set[bytes]:
    """What the kernel leaves in memory under some schedules, with random inputs."""
    module, _ = parse_source(source_of(body))
    assert module is not None
    data = Random(7).randbytes(128), Random(8).randbytes(128)
    found = set()
    for seed, schedule in SCHEDULES:
        memory = {X: data[0], Y: data[1]}
        parameters = tuple(LaunchParameter(struct.pack("<Q", at)) for at in (X, Y))
        launch = Launch("k", (1, 1, 1), (64, 1, 1), (1, 1, 1), 0, parameters, {}, memory, ())
        asked = CoreOptions(threads=1, schedule=schedule)
        done, findings = compute(module, launch, Options(seed=seed), asked=asked)
        assert done is not None, findings
        found.add(done.contents(X, 128)[0] + done.contents(Y, 128)[0])
    return found


def test_what_is_verified_leaves_the_same_memory_under_every_schedule():
    seen: Counter[str] = Counter()
    for seed in range(part(400)):
        body = random_body(Random(seed))
        finding = verified(body)
        kind = finding.verdict.value
        if any("shown" in note for note in finding.notes):
            kind += ", shown"
        seen[kind] += 1
        if finding.verdict is Verdict.VERIFIED:
            assert len(results(body)) == 1, body
        elif finding.verdict is Verdict.REFUTED and seen[kind] <= 60:
            seen["differ"] += len(results(body)) > 1
    assert seen["verified, shown"] >= part(12) and seen["verified"] >= part(20)
    assert seen["differ"] >= part(20)  # the schedules do show races
