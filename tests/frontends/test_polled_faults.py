"""Code that goes by one test of a barrier: refuted where the machine comes to the fault."""

from __future__ import annotations

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %d<8>;
.shared .align 128 .b8 memory[1152];
ld.param.b64 %d1, [out];
mov.b32 %r1, %tid.x;
mov.b32 %r2, memory;
add.s32 %r3, %r2, 1024;
setp.eq.u32 %p1, %r1, 0;
@%p1 mbarrier.init.shared.b64 [%r3], 1;
bar.sync 0;
@!%p1 bra READ;
mbarrier.arrive.expect_tx.shared.b64 %d2, [%r3], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 128, [%r3];
READ:
mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;
{after}
ld.shared.u32 %r4, [%r2];
st.global.u32 [%d1+4096], %r4;
DONE:
mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
@!%p3 bra DONE;
ret;
}}
"""


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ("@!%p2 bra READ;", Verdict.VERIFIED),  # waits
        ("@%p2 bra GO;\nst.global.u32 [%d1+8192], %r1;\nGO:", Verdict.REFUTED),  # goes on anyway
        ("@!%p2 bra DONE;", Verdict.UNDECIDED),  # reads if it has arrived
    ],
)
def test_what_follows_a_test_of_a_barrier(after, verdict):
    launch, errors = read_launch_text("{grid: 1, block: 1, parameters: [pointer]}", "l.yaml")
    assert errors == []
    source = Source("k.ptx", TEXT.format(after=after))
    (finding,) = verify_code(source, launch, CodeOptions(schedules=0), [], 0.0)
    assert finding.verdict is verdict, finding.notes
    codes = [item.code for item in finding.diagnostics]
    assert codes == (["TTN203"] if verdict is Verdict.REFUTED else [])
