"""`cp.async.mbarrier.arrive` without `.noinc`: several before one arrival, as `cuda::memcpy_async`
makes of a tile in pieces, with bytes expected of bulk copies in between."""

from __future__ import annotations

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
.reqntid 64
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %d<8>;
  .shared .align 128 .b8 s[4096];
  .shared .align 8 .b8 b[8];
  ld.param.u64 %d1, [x];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, s;
  shl.b32 %r3, %r1, 4;
  cvt.u64.u32 %d2, %r3;
  add.s64 %d1, %d1, %d2;
  add.u32 %r4, %r2, %r3;     // 16 bytes of each thread
  xor.b32 %r5, %r3, 512;
  add.u32 %r5, %r2, %r5;     // those of a thread of the other warp
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared.b64 [b], 64;
  bar.sync 0;
  mov.u32 %r6, 0;
ROUND:
  BODY
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p2, %r6, 2;
  @%p2 bra ROUND;
  ret;
}
"""
FIRST = "cp.async.ca.shared.global [%r4], [%d1], 16;\n"
SECOND = "cp.async.ca.shared.global [%r4+1024], [%d1+1024], 16;\n"
BULK = """@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
  [s+2048], [%d1+2048], 1024, [b];
@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 1024;
"""
SIGNAL = "cp.async.mbarrier.arrive.shared.b64 [b];\n"
ARRIVE = "mbarrier.arrive.shared.b64 %d4, [b];\n"
WAIT = "W: mbarrier.try_wait.shared.b64 %p3, [b], %d4;\n@!%p3 bra W;\n"
READ = """ld.shared.u32 %r7, [%r5]; ld.shared.u32 %r8, [%r5+1024]; ld.shared.u32 %r9, [%r5+2048];
bar.sync 0;
"""
PIECES = FIRST + SIGNAL + SECOND + SIGNAL + BULK
RIGHT = PIECES + ARRIVE + WAIT + READ
FAULTS = {
    "the second piece is not signalled": FIRST + SIGNAL + SECOND + BULK + ARRIVE + WAIT + READ,
    "the second piece is copied after its signal": (
        FIRST + SIGNAL + SIGNAL + SECOND + BULK + ARRIVE + WAIT + READ),
    "nobody waits": PIECES + ARRIVE + READ,
    "what is read may be overwritten": RIGHT.replace("bar.sync 0;", ""),
    "bytes are not expected": RIGHT.replace("@%p1 mbarrier.expect_tx", "//"),
    "the arrival comes before a piece": (
        FIRST + SIGNAL + ARRIVE + SECOND + SIGNAL + BULK + WAIT + READ),
}  # fmt: skip


def finding_of(body: str) -> Finding:
    """What is found of 64 threads that fill a tile in pieces, twice."""
    launch, errors = read_launch_text("{grid: 1, dynamic_shared: 0, parameters: [pointer]}", "l")
    assert errors == []
    source = Source("k.ptx", KERNEL.replace("BODY", body))
    (finding,) = verify_code(source, launch, CodeOptions(schedules=1), [], 0.0)
    return finding


@pytest.mark.parametrize(
    "pieces",
    [
        FIRST + SIGNAL + SECOND + SIGNAL + BULK,
        BULK + FIRST + SIGNAL + SIGNAL.join([SECOND, ""]) + SIGNAL,
    ],
)
def test_pieces_that_one_arrival_hands_over(pieces):
    finding = finding_of(pieces + ARRIVE + WAIT + READ)
    assert finding.verdict is Verdict.VERIFIED, (finding.diagnostics, finding.notes)


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_faults_in_it_are_found(body):
    assert finding_of(body).verdict in (Verdict.REFUTED, Verdict.UNDECIDED)
