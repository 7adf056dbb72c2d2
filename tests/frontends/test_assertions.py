"""Branches on data of which one way ends in a trap, as that of a failed assertion."""

from __future__ import annotations

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, Options
from titan.isa.simt.outcome import Ending

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.extern .func __assertfail (.param .b64 a, .param .b32 b);
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %d<8>;
.shared .align 4 .b8 memory[256];
ld.param.b64 %d1, [out];
mov.b32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.b32 %r3, memory;
add.s32 %r3, %r3, %r2;
cvt.u64.u32 %d2, %r2;
add.s64 %d2, %d1, %d2;
ld.global.u32 %r4, [%d2];
{checked}
GOOD:
st.shared.u32 [%r3], %r4;
{between}
ld.shared.u32 %r5, [memory];
st.global.u32 [%d2+1024], %r5;
ret;
}}
"""
CALL = """setp.lt.u32 %p1, %r4, 100;
@%p1 bra GOOD;
{ .param .b64 x; st.param.b64 [x], %d1; .param .b32 y; st.param.b32 [y], 7;
call.uni __assertfail, (x, y); }"""
LOOP = (
    "mov.b32 %r7, 0;\nAGAIN:\nld.global.u32 %r4, [%d2];\n"
    + CALL.replace("GOOD", "NEXT")
    + """
NEXT:
add.u32 %r7, %r7, 1;
setp.lt.u32 %p2, %r7, 3;
@%p2 bra AGAIN;"""
)
TRAP = "setp.lt.u32 %p1, %r4, 100;\n@%p1 bra GOOD;\ntrap;"
STORE = "setp.lt.u32 %p1, %r4, 100;\n@%p1 bra OTHER;\ntrap;\nOTHER:\nst.shared.u32 [%r3], %r1;"
WAIT = "bar.sync 0;"
NOTE = "data do not lead to a trap, as a failed assertion does"


def judged(checked, between):
    launch, errors = read_launch_text("{grid: 1, block: 64, parameters: [pointer]}", "l.yaml")
    assert errors == []
    source = Source("k.ptx", TEXT.format(checked=checked, between=between))
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    return finding


@pytest.mark.parametrize("checked", [CALL, TRAP, LOOP, STORE])
@pytest.mark.parametrize(("between", "verdict"), [(WAIT, Verdict.VERIFIED), ("", Verdict.REFUTED)])
def test_what_follows_an_assertion_is_decided(checked, between, verdict):
    finding = judged(checked, between)
    assert finding.verdict is verdict, finding.notes
    assert any(NOTE in note for note in finding.notes)


def test_a_trap_beside_accesses_on_data_is_undecided():
    """The arms are executed for their accesses, and one ends the run."""
    both = "setp.lt.u32 %p1, %r4, 100;\n@%p1 bra LESS;\nsetp.lt.u32 %p2, %r4, 200;\n"
    both += "@%p2 bra MORE;\ntrap;\nMORE:\nst.shared.u32 [%r3+4], %r1;\nbra GOOD;\nLESS:\n"
    finding = judged(both, WAIT)
    assert finding.verdict is Verdict.UNDECIDED
    assert "in its arms" in " ".join(finding.notes)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("value", "ending", "reason"),
    [
        ("mov.u32 %r4, 0;", Ending.FINISHED, ""),
        ("mov.u32 %r4, 200;", Ending.FAULT, "trap"),
        ("ld.shared.u32 %r4, [memory+252];", Ending.REFUSED, "decides whether a trap is reached"),
    ],
)
def test_with_numbers_an_assertion_fails_or_is_not_known(native, value, ending, reason):
    module, _ = parse(TEXT.format(checked=value + TRAP, between=WAIT), "k.ptx")
    assert module is not None
    launch = Launch(
        None, (1, 1, 1), (32, 1, 1), memory={4096: bytes(2048)},
        parameters=(LaunchParameter((4096).to_bytes(8, "little")),),
        allocations=(Allocation(4096, 2048),),
    )  # fmt: skip
    computed, _ = compute(module, launch, Options(), native=native)
    assert computed is not None
    assert computed.run.outcome.ending is ending
    assert reason in computed.run.outcome.reason
