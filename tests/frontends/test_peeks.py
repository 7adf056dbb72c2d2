"""Tests of a barrier for a phase whose predecessor another warp has waited for."""

from __future__ import annotations

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code

# Warp 2 fills one buffer twice; warp 0 reads the first filling, warp 1 the second one, after a copy
# that was started later than the first filling and says nothing of it.
TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %d<8>;
.shared .align 128 .b8 memory[2048];
ld.param.b64 %d1, [out];
mov.b32 %r1, %tid.x;
shr.u32 %r5, %r1, 5;
mov.b32 %r2, memory;
add.s32 %r3, %r2, 1024;
add.s32 %r4, %r2, 1032;
add.s32 %r8, %r2, 1040;
add.s32 %r7, %r2, 1152;
setp.eq.u32 %p1, %r1, 0;
@!%p1 bra BEGIN;
mbarrier.init.shared.b64 [%r3], 1;
mbarrier.init.shared.b64 [%r4], 1;
mbarrier.init.shared.b64 [%r8], 1;
BEGIN:
bar.sync 0;
setp.eq.u32 %p2, %r5, 0;
@%p2 bra FIRST;
setp.eq.u32 %p2, %r5, 1;
@%p2 bra SECOND;
setp.ne.u32 %p2, %r1, 64;
@%p2 bra END;
mbarrier.arrive.expect_tx.shared.b64 %d2, [%r3], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 128, [%r3];
mbarrier.arrive.expect_tx.shared.b64 %d2, [%r8], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%d1], 128, [%r8];
EMPTY:
mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0;
@!%p3 bra EMPTY;
mbarrier.arrive.expect_tx.shared.b64 %d2, [%r3], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 128, [%r3];
bra END;
FIRST:
mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
@!%p3 bra FIRST;
ld.shared.u32 %r6, [%r2];
bar.arrive 1, 64;
bar.warp.sync 0xffffffff;
@%p1 mbarrier.arrive.shared.b64 %d2, [%r4];
bra END;
SECOND:
mbarrier.try_wait.parity.shared.b64 %p3, [%r8], 0;
@!%p3 bra SECOND;
{before}
mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 1;
{between}
@%p3 bra ARRIVED;
WAIT:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 1;
@!%p4 bra WAIT;
ARRIVED:
ld.shared.u32 %r6, [%r2];
END:
ret;
}}
"""
TURN = "bar.sync 1, 64;"


@pytest.mark.parametrize(
    ("before", "between", "verdict"),
    [
        (TURN, "", Verdict.VERIFIED),  # after the first warp's turn
        ("", TURN, Verdict.UNDECIDED),  # passes at once where the first filling has not arrived
    ],
)
def test_a_peek_of_the_warp_whose_turn_it_is(before, between, verdict):
    launch, errors = read_launch_text("{grid: 1, block: 96, parameters: [pointer]}", "l.yaml")
    assert errors == []
    source = Source("k.ptx", TEXT.format(before=before, between=between))
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    assert finding.verdict is verdict, (finding.notes, finding.diagnostics)
    doubt = "may test mbarrier+0x800[0] for phase 1 before phase 0 is complete"
    assert any(doubt in note for note in finding.notes) is (verdict is Verdict.UNDECIDED)
