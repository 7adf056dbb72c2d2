"""Stages of a ring that are read again without having been filled again: undecided in code."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from tests.frontends.test_traced import KERNEL, LAUNCH, verified
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.verify_code import CodeOptions, verify_code

UNUSED_TOO = chosen((("unused_reads", "refuse"),))
ALLOWED = chosen((("stale_reads", "allow"),))
TRIPS, STAGES = 9, 3
# A trip of a ring of three stages of 32 words, copied by the first warp and read by both.
COPY = "@%p1 cp.async.ca.shared.global [%r4+{at}], [%d1+{source}], 4;"
STORE = "@%p1 ld.global.u32 %r9, [%d1+{source}]; @%p1 st.shared.u32 [%r4+{at}], %r9;"
TRIP = """cp.async.wait_all; bar.sync 0;
  ld.shared.u32 %r10, [%r4+{at}]; @%p1 st.global.u32 [%d2+{source}], %r10; bar.sync 0;
"""
LOOPED_STORE = """
  mov.u32 %r13, 0; mov.u32 %r14, %r4;
L: setp.eq.u32 %p2, %r13, {left_out}; not.pred %p4, %p2;
  and.pred %p3, %p1, %p4;
  @%p3 ld.global.u32 %r9, [%d1]; @%p3 st.shared.u32 [%r14], %r9; bar.sync 0;
  ld.shared.u32 %r10, [%r14]; @%p1 st.global.u32 [%d2], %r10; bar.sync 0;
  add.u64 %d1, %d1, 128; add.u64 %d2, %d2, 128; add.u32 %r13, %r13, 1; add.u32 %r14, %r14, 128;
  rem.u32 %r15, %r13, 3; setp.eq.u32 %p2, %r15, 0; @%p2 mov.u32 %r14, %r4;
  setp.lt.u32 %p2, %r13, 9; @%p2 bra L;
"""


def ring(fill, left_out):
    """The trips, one after the other, in one of which nothing is filled."""
    parts = []
    for trip in range(TRIPS):
        at = {"at": trip % STAGES * 128, "source": trip * 128}
        parts += [fill.format(**at)] * (trip != left_out) + [TRIP.format(**at)]
    return "\n".join(parts)


@pytest.mark.parametrize("left_out", [4, 6, 8])
@pytest.mark.parametrize("looped", [False, True])
def test_a_stage_that_is_not_filled_again(left_out, looped):
    whole, broken = (
        (LOOPED_STORE.format(left_out=99), LOOPED_STORE.format(left_out=left_out))
        if looped
        else (ring(COPY, None), ring(COPY, left_out))
    )
    assert verified(whole).verdict is Verdict.VERIFIED
    finding = verified(broken)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("stage of a ring" in note for note in finding.notes), finding.notes
    assert verified(broken, policies=ALLOWED).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("left_out", [4, 8])
def test_stores_of_every_trip_are_instructions_of_their_own(left_out):
    """Where each trip stores by its own instruction nothing shows that the stages are one ring."""
    assert verified(ring(STORE, left_out)).verdict is Verdict.VERIFIED


# Each trip loads the word of the next one ahead, the last one that of a stage which is not filled.
AHEAD = """
  mov.u32 %r13, 0; mov.u32 %r14, %r4; @%p1 ld.global.u32 %r9, [%d1];
  @%p1 st.shared.u32 [%r4], %r9; bar.sync 0; ld.shared.u32 %r10, [%r4];
L: add.u64 %d1, %d1, 128; add.u32 %r13, %r13, 1; add.u32 %r14, %r14, 128;
  rem.u32 %r15, %r13, 3; setp.eq.u32 %p2, %r15, 0; @%p2 mov.u32 %r14, %r4;
  setp.lt.u32 %p2, %r13, 9; and.pred %p3, %p1, %p2;
  @%p3 ld.global.u32 %r9, [%d1]; @%p3 st.shared.u32 [%r14], %r9; bar.sync 0;
  @%p1 st.global.u32 [%d2], %r10; add.u64 %d2, %d2, 128;
  ld.shared.u32 %r10, [%r14]; bar.sync 0;
  @%p2 bra L;
"""
USED = "  @%p1 st.global.u32 [%d2], %r10;\n"


def test_what_the_last_trip_loads_ahead_and_nobody_uses_is_none():
    assert verified(AHEAD).verdict is Verdict.VERIFIED
    for finding in (verified(AHEAD + USED), verified(AHEAD, policies=UNUSED_TOO)):
        assert finding.verdict is Verdict.UNDECIDED
        assert any("stage of a ring" in note for note in finding.notes), finding.notes


# Products of A, which is stored once, and of B in a ring: two for a trip, the last trip behind the
# loop. Both operands are read by one instruction.
PRODUCTS = """
  .reg .f32 %f<4>; .reg .b64 %e<4>; shl.b32 %r4, %r1, 1; add.u32 %r4, %r3, %r4;
  shl.b32 %r5, %r1, 5; add.u32 %r5, %r3, %r5; mov.u32 %r6, 0; mov.u16 %h1, 0;
  st.shared.v4.b32 [%r5], {{%r6, %r6, %r6, %r6}}; st.shared.v4.b32 [%r5+16], {{%r6, %r6, %r6, %r6}};
  mov.b32 %f0, %r6; mov.b32 %f1, %r6; mov.b32 %f2, %r6; mov.b32 %f3, %r6;
  mov.u32 %r13, 0; mov.u32 %r14, 4096;
L: add.u32 %r15, %r4, %r14; setp.ne.u32 %p2, %r13, {left_out};
  @%p2 st.shared.b16 [%r15], %h1; fence.proxy.async; bar.sync 0;
  setp.eq.u32 %p3, %r13, {last}; @%p3 bra T;
  {product} add.u32 %r13, %r13, 1;
  add.u32 %r14, %r14, 256; setp.eq.u32 %p2, %r14, {end}; @%p2 mov.u32 %r14, 4096; bra L;
T: {product}
"""
PRODUCT = """shr.u32 %r16, %r3, 4; cvt.u64.u32 %e0, %r16; add.u32 %r16, %r3, %r14;
  shr.u32 %r16, %r16, 4;
  cvt.u64.u32 %e1, %r16; or.b64 %e0, %e0, 0x1000080000; or.b64 %e1, %e1, 0x1000080000;
  wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
  {%f0, %f1, %f2, %f3}, %e0, %e1, 1, 1, 1, 0, 0; add.s64 %e0, %e0, 128;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
  {%f0, %f1, %f2, %f3}, %e0, %e1, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0;"""


def products(trips, stages, left_out=99):
    body = PRODUCTS.format(
        product=PRODUCT, left_out=left_out, last=trips - 1, end=4096 + 256 * stages
    )
    text = KERNEL.replace(".reqntid 64", ".reqntid 128").replace("s[512]", "s[8192]")
    text = text.replace(".reg .pred", ".reg .b16 %h<2>; .reg .pred").replace("BODY", body)
    described, errors = read_launch_text(LAUNCH, "k.yaml")
    assert errors == []
    (finding,) = verify_code(Source("k.ptx", text), described, CodeOptions(schedules=2), [], 0.0)
    return finding


@pytest.mark.parametrize(("trips", "stages"), [(2, 1), (3, 1), (4, 1), (9, 3)])
def test_one_operand_stays_while_the_other_turns(trips, stages):
    finding = products(trips, stages)
    assert finding.verdict is Verdict.VERIFIED, (finding.notes, finding.diagnostics)


@pytest.mark.parametrize("left_out", [4, 6, 7])
def test_one_operand_stays_and_a_stage_of_the_other_is_not_filled(left_out):
    finding = products(9, 3, left_out)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("stage of a ring" in note for note in finding.notes), finding.notes


START = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v5, 0
s_mov_b32 s8, 0
s_mov_b32 s9, 0
s_waitcnt lgkmcnt(0)
.LBB0_1:
v_add_u32_e32 v2, s9, v1
s_cmp_eq_u32 s8, LEFT_OUT
s_cbranch_scc1 .LBB0_2
global_load_dword v3, v1, s[4:5]
s_waitcnt vmcnt(0)
ds_write_b32 v2, v3
.LBB0_2:
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v4, v2
s_waitcnt lgkmcnt(0)
global_store_dword v1, v4, s[4:5] offset:2048
s_barrier
s_add_u32 s4, s4, 256
s_addc_u32 s5, s5, 0
s_add_i32 s8, s8, 1
s_add_i32 s9, s9, 256
s_cmp_eq_u32 s9, 768
s_cselect_b32 s9, 0, s9
s_cmp_lt_u32 s8, 9
s_cbranch_scc1 .LBB0_1
"""


@pytest.mark.parametrize("left_out", [4, 6, 8])
def test_a_stage_in_lds_that_is_not_filled_again(left_out):
    launch = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
    broken = kernel(START.replace("LEFT_OUT", str(left_out)))
    assert judged(kernel(START.replace("LEFT_OUT", "99")), launch).verdict is Verdict.VERIFIED
    finding = judged(broken, launch)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("stage of a ring" in note for note in finding.notes), finding.notes
    assert judged(broken, launch, policies=ALLOWED).verdict is Verdict.VERIFIED
