"""Functions that wait for their callers, or that data let be called with addresses."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.foundation.verdict import Verdict

HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<24>; .reg .b64 %d<16>;"
LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: {x: pointer}}"

# ------------------------------------------------------------------ waits whose callers loop

TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], %r3; selp.u32 %r1, 1, 0, %p1;"
WAITING = """
.func (.param .b32 o) address(.param .b64 a)
{{ .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; cvta.to.shared.u64 %d2, %d1;
  cvt.u32.u64 %r1, %d2; st.param.b32 [o], %r1; ret; }}
.func (.param .b32 o) attempt(.param .b64 a, .param .b32 b)
{{ {registers}
  ld.param.u64 %d1, [a]; ld.param.u32 %r3, [b];
  {{ .param .b64 pa; .param .b32 po; st.param.b64 [pa], %d1; call.uni (po), address, (pa);
  ld.param.b32 %r2, [po]; }}
  {attempt}
  setp.ne.u32 %p2, %r1, 0; selp.u32 %r4, 1, 0, %p2; st.param.b32 [o], %r4; ret; }}
.func (.param .b32 o) until(.param .b64 a, .param .b32 b)
{{ {registers}
  ld.param.u64 %d1, [a]; ld.param.u32 %r3, [b];
  L: {{ .param .b64 pa; .param .b32 pb; .param .b32 po; st.param.b64 [pa], %d1;
  st.param.b32 [pb], %r3; call.uni (po), attempt, (pa, pb); ld.param.b32 %r1, [po]; }}
  setp.eq.u32 %p1, %r1, 0; @%p1 bra L; st.param.b32 [o], %r1; ret; }}
.visible .entry k(.param .u64 x)
.reqntid 128
{{ {registers}
  .shared .align 8 .b64 bar[1]; .shared .align 16 .b8 s[512];
  ld.param.u64 %d1, [x]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.u64 %d3, %d1, %d2;
  mov.u32 %r5, bar; setp.eq.u32 %p3, %r0, 0;
  @%p3 mbarrier.init.shared::cta.b64 [%r5], 128;
  bar.sync 0;
  shl.b32 %r6, %r0, 2; mov.u32 %r7, s; add.u32 %r8, %r7, %r6; st.shared.u32 [%r8], %r0;
  mbarrier.arrive.shared::cta.b64 _, [%r5];
  mov.u64 %d4, bar; cvta.shared.u64 %d4, %d4;
  {wait}
  xor.b32 %r6, %r6, 256; add.u32 %r8, %r7, %r6; ld.shared.u32 %r9, [%r8];
  st.global.u32 [%d3], %r9;
  ret; }}
"""
CALL = """{{ .param .b64 pa; .param .b32 pb; .param .b32 po; st.param.b64 [pa], %d4;
  st.param.b32 [pb], {parity}; call.uni (po), {name}, (pa, pb); ld.param.b32 %r10, [po]; }}"""
ROUND = "setp.eq.u32 %p4, %r10, 0; @%p4 bra W;"


def waiting(wait: str, attempt: str = TRY) -> str:
    return HEAD + WAITING.format(registers=REGISTERS, attempt=attempt, wait=wait)


def asked(name: str, parity: int = 0) -> str:
    return CALL.format(name=name, parity=parity)


def counted(rounds: int) -> str:
    return (
        f"mov.u32 %r11, 0; W: {asked('attempt')} add.u32 %r11, %r11, 1;"
        f"setp.lt.u32 %p5, %r11, {rounds}; setp.eq.and.u32 %p4, %r10, 0, %p5; @%p4 bra W;"
    )


WAITS = {
    "the caller loops": "W: " + asked("attempt") + ROUND,
    "a function loops around a function": asked("until"),
    "nvcc -G's loop": "W: "
    + asked("attempt")
    + "cvt.u16.u32 %h1, %r10; setp.ne.s16 %p4, %h1, 0; not.pred %p5, %p4; not.pred %p6, %p5;"
    "@%p6 bra OUT; bra.uni AGAIN; AGAIN: bra.uni W; OUT:",
}
NO_WAITS = {
    "nobody loops": asked("attempt"),
    "the loop is turned round": "W: " + asked("attempt") + ROUND.replace("eq", "ne"),
    "a number of rounds": counted(3),
    "the phase before": "W: " + asked("attempt", 1) + ROUND,
    "the phase before, in the function": asked("until", 1),
    "the loop is skipped by some": "setp.gt.u32 %p6, %r0, 99; @%p6 bra B; W: "
    + asked("attempt")
    + ROUND
    + "B:",
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_in_a_function_is_one(wait):
    finding = verified(waiting(wait), LAUNCH)
    assert (finding.verdict, codes(finding)) == (Verdict.VERIFIED, []), finding.notes
    always = verified(waiting(wait, TRY + "mov.u32 %r1, 1;"), LAUNCH)
    assert always.verdict is not Verdict.VERIFIED


@pytest.mark.parametrize("wait", NO_WAITS.values(), ids=NO_WAITS)
def test_what_does_not_wait_is_not_verified(wait):
    assert verified(waiting(wait), LAUNCH).verdict is not Verdict.VERIFIED


# ------------------------------------------------------------- addresses that are arguments

ARM = """
.func fill(.param .b64 a, .param .b32 b)
{{ .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<4>;
  ld.param.u64 %d1, [a]; ld.param.u32 %r1, [b];
  st.u32 [%d1], %r1; st.u32 [%d1+4], %r1; ret; }}
.func (.param .b32 o) sum(.param .b64 a)
{{ .reg .b32 %r<8>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [a]; ld.u32 %r1, [%d1]; ld.u32 %r2, [%d1+4]; add.u32 %r3, %r1, %r2;
  st.param.b32 [o], %r3; ret; }}
.visible .entry k(.param .u64 x)
.reqntid 64
{{ {registers}
  .shared .align 16 .b8 s[512]; .local .align 8 .b8 own[8];
  ld.param.u64 %d1, [x]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 8; add.u64 %d3, %d1, %d2;
  ld.global.u32 %r1, [%d3]; setp.gt.u32 %p1, %r1, 9;
  mov.u64 %d5, s; cvta.shared.u64 %d6, %d5; add.u64 %d7, %d6, %d2;
  mov.u64 %d8, own; cvta.local.u64 %d9, %d8;
  st.local.u32 [%d8], 1; st.local.u32 [%d8+4], 2; mov.u32 %r9, 0;
  {before}
  @!%p1 bra SKIP;
  {arm}
SKIP:
  {behind}
  st.global.u32 [%d3], %r9;
  ret; }}
"""
OTHER = "xor.b64 %d10, %d2, 256; add.u64 %d11, %d6, %d10; ld.u32 %r9, [%d11];"


def fill(address: str) -> str:
    return f"""{{ .param .b64 pa; .param .b32 pb; st.param.b64 [pa], {address};
  st.param.b32 [pb], %r1; call.uni fill, (pa, pb); }}"""


def total(address: str) -> str:
    return f"""{{ .param .b64 pa; .param .b32 po; st.param.b64 [pa], {address};
  call.uni (po), sum, (pa); ld.param.b32 %r9, [po]; }}"""


START = "st.v2.u32 [%d7], {%r0, %r0};"
RIGHT = {
    "local memory": ("", fill("%d9"), "ld.local.u32 %r9, [%d8+4];"),
    "global memory is read": ("", total("%d3"), ""),
    "global memory is stored": ("", fill("%d3"), ""),
    "shared memory is stored": (START, fill("%d7"), "bar.sync 0;" + OTHER),
    "shared memory is read": (START + "bar.sync 0;", total("%d7"), ""),
    "one call after another": (START, fill("%d7") + total("%d7"), ""),
}
WRONG = {
    "no barrier behind": (START, fill("%d7"), OTHER),
    "the next lane's place": ("", "add.u64 %d12, %d7, 8;" + fill("%d12"), START),
    "the next lane's half": ("", "add.u64 %d12, %d3, 4;" + fill("%d12"), ""),
    "beyond local memory": ("", "add.u64 %d9, %d9, 4;" + fill("%d9"), ""),
    "all store to one place": ("", fill("%d6"), ""),
    "another warp's place is read": (START, "xor.b64 %d10, %d2, 256;"
                                     "add.u64 %d11, %d6, %d10;" + total("%d11"), ""),
}  # fmt: skip


def in_arm(parts: tuple[str, str, str]) -> str:
    before, arm, behind = parts
    return HEAD + ARM.format(registers=REGISTERS, before=before, arm=arm, behind=behind)


@pytest.mark.parametrize("parts", RIGHT.values(), ids=RIGHT)
def test_an_address_is_known_where_data_let_a_function_be_called(parts):
    finding = verified(in_arm(parts), LAUNCH)
    assert (finding.verdict, codes(finding)) == (Verdict.VERIFIED, []), finding.notes


@pytest.mark.parametrize("parts", WRONG.values(), ids=WRONG)
def test_what_is_wrong_at_an_address_is_found(parts):
    assert verified(in_arm(parts), LAUNCH).verdict is Verdict.REFUTED
    never = in_arm(parts).replace("setp.gt.u32 %p1, %r1, 9;", "setp.ne.u32 %p1, 0, 0;")
    if parts[2] != OTHER:
        assert verified(never, LAUNCH).verdict is Verdict.VERIFIED


# --------------------------------------------------------------------- functions that are reached

UNKNOWN = """
.func unknown(.param .b64 a)
{ .reg .b64 %d<4>; ld.param.u64 %d1, [a]; call %d1, (), prototype;
  prototype: .callprototype _ (); ret; }
.func between(.param .b64 a)
{ .reg .b64 %d<4>; .reg .pred %p<3>; ld.param.u64 %d1, [a];
  L: { .param .b64 pa; st.param.b64 [pa], %d1; call unknown, (pa); }
  setp.eq.u64 %p1, %d1, 9; @%p1 bra L; ret; }
"""
USE = "{ .param .b64 pa; st.param.b64 [pa], %d1; call between, (pa); }"
KERNEL = ".visible .entry k(.param .u64 x)\n.reqntid 64\n{ .reg .b64 %d<4>; ld.param.u64 %d1, [x]; "
REACHED = {
    "by nothing": (UNKNOWN + KERNEL + "ret; }", False),
    "by another entry": (
        UNKNOWN + KERNEL + "ret; }" + KERNEL.replace(" k(", " l(") + USE + "ret; }",
        False,
    ),
    "by way of a function": (UNKNOWN + KERNEL + USE + "ret; }", True),
    "by a table": (
        UNKNOWN + ".global .align 8 .u64 table[1] = {unknown};" + KERNEL + "ret; }",
        True,
    ),
}


@pytest.mark.parametrize(("text", "reached"), REACHED.values(), ids=REACHED)
def test_what_no_entry_reaches_does_not_matter(text, reached):
    finding = verified(HEAD + text, LAUNCH.replace("{grid", "{entry: k, grid"))
    assert codes(finding) == (["TTN010"] if reached else [])
    assert finding.verdict is (Verdict.REFUSED if reached else Verdict.VERIFIED)
