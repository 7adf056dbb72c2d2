"""Functions that an arm of a branch on data calls, as `sin` of binary64 does for large numbers.

What is verified so must be verified where the branch is decided, always or never, by a run that
really calls and returns; what is refuted where the function is called must not be verified.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from tests.isa.simt.running import ran
from titan.foundation.verdict import Verdict
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Launch, LaunchParameter

LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: {x: pointer}}"
MODULE = """.version 8.3
.target sm_90a
.address_size 64
.global .align 8 .b64 table[4] = {{1, 2, 3, 4}};
.shared .align 8 .b8 s[1024];
.func (.param .b32 out) inner(.param .b32 a)
{{
  .reg .b32 %r<8>;
  ld.param.u32 %r1, [a];
  xor.b32 %r2, %r1, 21;
  st.param.b32 [out], %r2;
  ret;
}}
.func (.param .b64 out) slow(.param .b64 a, .param .b64 place)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %d<16>;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d9, [place];
  {body}
  st.param.b64 [out], %d1;
  ret;
}}
.visible .entry k(.param .u64 x)
.reqntid 64
{{
  .reg .pred %p<8>;
  .reg .b32 %r<16>;
  .reg .b64 %d<16>;
  ld.param.u64 %d1, [x];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d2, %r0, 8;
  add.u64 %d3, %d1, %d2;
  mov.u32 %r3, s;
  mad.lo.u32 %r3, %r0, 8, %r3;
  st.shared.u64 [%r3], %d2;
  ld.global.u64 %d4, [%d3];
  mov.u64 %d5, %d4;
  {before}
  {decided}
  @%p1 bra FAST;
  {{
  .param .b64 first;
  .param .b64 second;
  .param .b64 result;
  st.param.b64 [first], %d4;
  st.param.b64 [second], %d3;
  call.uni (result), slow, (first, second);
  ld.param.b64 %d5, [result];
  }}
FAST:
  {behind}
  st.global.u64 [%d3], %d5;
  ret;
}}
"""
ON_DATA = "setp.lt.s64 %p1, %d4, 5;"
ALWAYS, NEVER = "setp.ne.u32 %p1, 0, 0;", "setp.eq.u32 %p1, 0, 0;"
LOOP = """
  cvt.u32.u64 %r1, %d1; and.b32 %r1, %r1, 3;
  mov.u64 %d4, table;
L:
  mul.wide.u32 %d5, %r1, 8; add.u64 %d6, %d4, %d5;
  ld.global.nc.u64 %d7, [%d6];
  add.u64 %d1, %d1, %d7;
  add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 4; @%p1 bra L;
"""
NESTED = """
  { .param .b32 one; .param .b32 two;
  cvt.u32.u64 %r1, %d1;
  st.param.b32 [one], %r1;
  call.uni (two), inner, (one);
  ld.param.b32 %r2, [two];
  }
  cvt.u64.u32 %d1, %r2;
"""
BRANCHES = "setp.eq.u64 %p1, %d1, 7; @%p1 bra J; add.u64 %d1, %d1, 1;\nJ:"
RIGHT = {
    "it computes": "add.u64 %d1, %d1, 1;",
    "it branches": BRANCHES,
    "it has a loop over a table": LOOP,
    "it calls another": NESTED,
    "it stores to an address that is an argument": "st.global.u64 [%d9], %d1;",
    "it stores to a place of the lane": "mov.u32 %r1, %tid.x; mov.u32 %r2, s;"
    "mad.lo.u32 %r2, %r1, 8, %r2; st.shared.u64 [%r2], %d1;",
}
WRONG = {
    "it stores to the next lane's place": "st.global.u64 [%d9+8], %d1;",
    "it stores to one place": "mov.u32 %r1, %tid.x; mov.u32 %r2, s; st.shared.u32 [%r2], %r1;",
    "it reads the next lane's place, which is stored": "ld.global.u64 %d1, [%d9+8];",
    "it reads shared memory of another warp":
        "mov.u32 %r1, %tid.x; xor.b32 %r1, %r1, 32; mov.u32 %r2, s;"
        "mad.lo.u32 %r2, %r1, 8, %r2; ld.shared.u64 %d1, [%r2];",
    "it reads beyond shared memory": "ld.shared.u64 %d1, [s+262144];",
}  # fmt: skip
OPEN = {
    "it has a barrier": "bar.sync 0;",
    "it calls itself": "{ .param .b64 p; .param .b64 q; .param .b64 r; st.param.b64 [p], %d1;"
    "st.param.b64 [q], %d9; call.uni (r), slow, (p, q); ld.param.b64 %d1, [r]; }",
    "it may return early": "setp.eq.u64 %p1, %d1, 7; @%p1 ret;",
    "it waits for what others write": "W: ld.acquire.gpu.global.u64 %d2, [%d9];"
    "setp.eq.u64 %p1, %d2, 0; @%p1 bra W;",
    "it has a loop that cannot end":
        "setp.eq.u64 %p1, %d1, 7;\nW: add.u64 %d2, %d1, 1; @%p1 bra W;",
}  # fmt: skip


def text(body: str, decided: str = ON_DATA, before: str = "", behind: str = "") -> str:
    return MODULE.format(body=body, decided=decided, before=before, behind=behind)


def machines_agree(written: str) -> None:
    module, findings = parse(written, "k.ptx")
    assert module is not None, findings
    pointer = LaunchParameter((1 << 40).to_bytes(8, "little"))
    ran(module, Launch("k", (1, 1, 1), (64, 1, 1), (1, 1, 1), 0, (pointer,), {}, {}, ()))


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_function_in_an_arm_is_followed(body):
    for decided in (ON_DATA, ALWAYS, NEVER):
        finding = verified(text(body, decided), LAUNCH)
        assert (finding.verdict, codes(finding)) == (Verdict.VERIFIED, []), finding.notes
    machines_agree(text(body))


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_function_is_found(body):
    assert verified(text(body, ALWAYS), LAUNCH).verdict is Verdict.REFUTED
    assert verified(text(body, NEVER), LAUNCH).verdict is Verdict.VERIFIED
    finding = verified(text(body), LAUNCH)
    assert finding.verdict is Verdict.REFUTED, finding.notes
    machines_agree(text(body))


@pytest.mark.parametrize("body", OPEN.values(), ids=OPEN)
def test_what_may_not_stand_in_an_arm_is_open_in_a_function_too(body):
    assert verified(text(body), LAUNCH).verdict is not Verdict.VERIFIED


def test_a_guarded_call_and_a_loop_around_a_call():
    guarded = text(RIGHT["it computes"]).replace("call.uni", "@%p2 call")
    guarded = guarded.replace(ON_DATA, ON_DATA + "setp.lt.s64 %p2, %d4, 9;")
    assert verified(guarded, LAUNCH).verdict is Verdict.UNDECIDED
    looped = text(RIGHT["it computes"]).replace("FAST:", "bra AGAIN;\nFAST:")
    looped = looped.replace("  @%p1 bra FAST;", "AGAIN: setp.lt.s64 %p1, %d5, 5;\n  @%p1 bra FAST;")
    assert verified(looped, LAUNCH).verdict is Verdict.VERIFIED
    machines_agree(looped)


CALLED_BEFORE = """
  { .param .b64 u; .param .b64 v; .param .b64 w;
  st.param.b64 [u], 3; st.param.b64 [v], %d3;
  call.uni (w), slow, (u, v);
  ld.param.b64 %d5, [w]; }
"""


def test_what_a_function_gives_is_not_known_behind_the_arm():
    """Nor what it gave before, with known arguments: that would decide who stores."""
    behind = "setp.eq.u64 %p3, %d5, 4; @!%p3 st.shared.u64 [s], %d2;"
    finding = verified(text("add.u64 %d1, %d1, 1;", ON_DATA, CALLED_BEFORE, behind), LAUNCH)
    assert finding.verdict is not Verdict.VERIFIED
    before = CALLED_BEFORE + behind
    finding = verified(text("add.u64 %d1, %d1, 1;", ON_DATA, before), LAUNCH)
    assert finding.verdict is Verdict.VERIFIED, finding.notes
    machines_agree(text("add.u64 %d1, %d1, 1;", ON_DATA, CALLED_BEFORE, behind))
