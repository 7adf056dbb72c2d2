"""Numbers of operands that lie in registers are judged where they are executed."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import ran
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) .reqntid 32 {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;
  .shared .align 16 .b8 m[1024];
  mov.u32 %r1, m; mov.u32 %r2, %tid.x; ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1;
  mov.u32 %r3, NUMBER;
BODY
  ret;
}
"""
LAUNCH = "entry: k\ngrid: 1\nblock: 32\nparameters: [pointer]\n"
ARRIVE = """
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra over;
  mbarrier.init.shared.b64 [%r1], 1;
  mbarrier.arrive.shared.b64 %d3, [%r1], %r3;
over:
"""
COPY = """
  mad.lo.u32 %r4, %r2, BYTES, %r1;
  mad.wide.u32 %d4, %r2, BYTES, %d2;
  cp.async.ca.shared.global [%r4], [%d4], BYTES, %r3;
  cp.async.wait_all;
"""
ALLOCATE = """
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], %r3;
  bar.warp.sync -1;
  ld.shared.u32 %r4, [%r1];
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, %r3;
"""
SYNC = "bar.sync 1, %r3;"
ARRIVE_AT = "bar.arrive 1, %r3; bar.sync 1, 64;"
REDUCE = "setp.eq.u32 %p1, %r2, 0; bar.red.popc.u32 %r4, 1, %r3, %p1;"
CASES = {
    "a barrier of all threads": (SYNC, 32, Verdict.VERIFIED, ""),
    "a barrier of a part of a warp": (SYNC, 8, Verdict.REFUTED, "TTN404"),
    "a barrier of a warp and a part": (SYNC, 40, Verdict.REFUTED, "TTN404"),
    "a reduction of all threads": (REDUCE, 32, Verdict.VERIFIED, ""),
    "a reduction of a part": (REDUCE, 31, Verdict.REFUTED, "TTN404"),
    "an arrival of a part": (ARRIVE_AT, 63, Verdict.REFUTED, "TTN404"),
    "an arrival without a count": (ARRIVE_AT, 0, Verdict.REFUTED, "TTN404"),
    "an arrival": (ARRIVE_AT, 64, Verdict.VERIFIED, ""),
    "the last barrier": ("bar.sync %r3;", 15, Verdict.VERIFIED, ""),
    "a barrier that is not there": ("bar.sync %r3;", 16, Verdict.UNDECIDED, "no barrier 16"),
    "columns of tensor memory": (ALLOCATE, 64, Verdict.VERIFIED, ""),
    "columns that are not allocated so": (ALLOCATE, 48, Verdict.UNDECIDED, "48 columns"),
    "no columns": (ALLOCATE, 0, Verdict.UNDECIDED, "0 columns"),
    "more columns than there are": (ALLOCATE, 1024, Verdict.UNDECIDED, "1024 columns"),
    "one arrival": (ARRIVE, 1, Verdict.VERIFIED, ""),
    "no arrival": (ARRIVE, 0, Verdict.REFUTED, "TTN404"),
    "the most arrivals": (ARRIVE, (1 << 20) - 1, Verdict.REFUTED, "TTN206"),
    "more arrivals than there may be": (ARRIVE, 1 << 20, Verdict.REFUTED, "TTN404"),
    "all of a copy": (COPY.replace("BYTES", "8"), 8, Verdict.VERIFIED, ""),
    "nothing of a copy": (COPY.replace("BYTES", "8"), 0, Verdict.VERIFIED, ""),
    "more than a copy": (COPY.replace("BYTES", "8"), 9, Verdict.UNDECIDED, ""),
    "more than the smallest copy": (COPY.replace("BYTES", "4"), 8, Verdict.UNDECIDED, ""),
}


def kernel(body: str, number: int) -> str:
    text = KERNEL.replace("NUMBER", str(number)).replace("BODY", body)
    return text.replace("8.0\n.target sm_90", "8.7\n.target sm_100a") if "tcgen05" in body else text


@pytest.mark.parametrize("name", CASES)
def test_numbers_beyond_their_range(name: str):
    body, number, verdict, code = CASES[name]
    described, errors = read_launch_text(LAUNCH, "k.yaml")
    assert errors == []
    source = Source("k.ptx", kernel(body, number))
    (finding,) = verify_code(source, described, CodeOptions(), [], 0.0)
    assert finding.verdict is verdict, finding.diagnostics
    said = [*(item.code for item in finding.diagnostics), *finding.notes]
    assert not code or any(code in text for text in said), said


def test_both_machines_end_at_a_copy_that_reads_too_much():
    module, findings = parse(kernel(COPY.replace("BYTES", "16"), 20), "k.ptx")
    assert module is not None, findings
    pointer = LaunchParameter((1 << 44).to_bytes(8, "little"))
    found = ran(module, Launch("k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (pointer,)))
    assert found.outcome.ending is Ending.FAULT
    assert found.outcome.reason == "a copy of 16 bytes cannot read 20"
