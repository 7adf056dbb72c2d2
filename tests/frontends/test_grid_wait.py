"""Global memory before `griddepcontrol.wait`: a note where it is read, undecided where written.

The reference is the happens-before engine: a warp that writes the array and then arrives at an
mbarrier is the grid before, and a wait at that mbarrier the wait for it. It writes other numbers
than the kernel, since equal ones do not race. Where the engine finds a race with that warp, the
access was early.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.verify_code import CodeOptions, verify_code

WARPS = 3  # and one more that is the grid before
KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) {
  .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>;
  .shared .align 8 .b8 s[64];
  ld.param.u64 %d1, [a]; cvta.to.global.u64 %d1, %d1;
  ld.param.u64 %d2, [b]; cvta.to.global.u64 %d2, %d2;
  mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31;
  mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
  mov.u32 %r4, s; setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r1, 0;
  @%p2 mbarrier.init.shared.b64 [%r4], 1; @%p2 mbarrier.init.shared.b64 [%r4+8], 32;
  bar.sync 0;
BODY
  ret;
}
"""
LAUNCH = "entry: k\ngrid: 1\nblock: {threads}\nparameters: [pointer, pointer]\n"
WAIT = "griddepcontrol.wait;"
MODEL = """W{n}: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0; @!%p3 bra W{n};"""
HAND_ON = "{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%r4+8];}"
LEARN = "H{n}: mbarrier.try_wait.parity.shared.b64 %p3, [%r4+8], 0; @!%p3 bra H{n};"
BEFORE = f"""setp.lt.u32 %p5, %r2, {WARPS}; @%p5 bra MAIN;
  @!%p1 bra END; mov.u32 %r9, 1000; mov.u64 %d5, %d1;
F: st.global.u32 [%d5+-{WARPS * 128}], %r9; add.u64 %d5, %d5, 4; add.u32 %r9, %r9, 1;
  setp.lt.u32 %p5, %r9, {1000 + WARPS * 32}; @%p5 bra F;
  {{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%r4];}}
  bra END; MAIN:"""
WRITE = "st.global.u32 [%d1], %r1;"


def judged(body, threads=32 * WARPS, policy="reads"):
    """The finding on a kernel of this body."""
    described, errors = read_launch_text(LAUNCH.format(threads=threads), "k.yaml")
    assert errors == []
    options = CodeOptions(schedules=2, policies=chosen((("grid_wait", policy),)))
    source = Source("k.ptx", KERNEL.replace("BODY", body))
    (finding,) = verify_code(source, described, options, [], 0.0)
    return finding


def noted(finding, text):
    """Whether a note of the finding has the text."""
    return any(text in note for note in finding.notes)


BODIES = {
    "read": ("ld.global.u32 %r10, [%d1]; griddepcontrol.wait; st.global.u32 [%d2], %r10;", "read"),
    "read in place": (
        "ld.global.u32 %r10, [%d1]; griddepcontrol.wait; st.global.u32 [%d1], %r10;",
        "changed",
    ),
    "read in place by another lane": (
        "xor.b32 %r11, %r1, 1; sub.u32 %r11, %r11, %r1; mul.wide.s32 %d4, %r11, 4;"
        " add.u64 %d4, %d4, %d1; ld.global.u32 %r10, [%d4]; griddepcontrol.wait; bar.sync 0;"
        " st.global.u32 [%d1], %r10;",
        "changed",
    ),
    "copied in place": (
        "add.u32 %r9, %r4, 16; mov.u32 %r8, %r4;"
        " @%p2 cp.async.ca.shared.global [%r9], [%d1], 16; cp.async.wait_all;"
        " griddepcontrol.wait; bar.sync 0; st.global.u32 [%d1], %r1;",
        "changed",
    ),
    "read beside": (
        "ld.global.u32 %r10, [%d1+4096]; griddepcontrol.wait; st.global.u32 [%d1], %r10;",
        "read",
    ),
    "write": ("st.global.u32 [%d2], %r1; griddepcontrol.wait;", "written"),
    "atomic": ("red.global.add.u32 [%d2], 1; griddepcontrol.wait;", "written"),
    "one lane waits": ("@%p1 griddepcontrol.wait; st.global.u32 [%d2], %r1;", "written"),
    "behind": ("griddepcontrol.wait; ld.global.u32 %r10, [%d1]; st.global.u32 [%d2], %r10;", ""),
    "one waits for all": ("@%p2 griddepcontrol.wait; bar.sync 0; st.global.u32 [%d2], %r1;", ""),
    "one waits for the warp": (
        "@%p1 griddepcontrol.wait; bar.warp.sync -1; st.global.u32 [%d2], %r1;",
        "",
    ),
    "no wait at all": ("griddepcontrol.launch_dependents; st.global.u32 [%d2], %r1;", ""),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_comes_before_the_wait(name):
    body, early = BODIES[name]
    finding = judged(body)
    undecided = Verdict.UNDECIDED if early in ("written", "changed") else Verdict.VERIFIED
    assert finding.verdict is undecided, finding.notes
    assert noted(finding, "griddepcontrol.wait") == bool(early), finding.notes
    strict, loose = judged(body, policy="none"), judged(body, policy="all")
    assert strict.verdict is (Verdict.UNDECIDED if early else Verdict.VERIFIED)
    assert loose.verdict is Verdict.VERIFIED and not noted(loose, "griddepcontrol.wait")


@st.composite
def kernels(draw):
    """Steps of each warp between CTA barriers: the same number of barriers in all warps."""
    rounds = draw(st.integers(1, 3))
    step = st.sampled_from(["wait", "wait of one lane", "write", "meet in the warp"])
    parts = [[draw(st.lists(step, max_size=3)) for _ in range(WARPS)] for _ in range(rounds)]
    relay = draw(st.sampled_from([None, 0, 1]))  # who hands on by an mbarrier, at the end
    return parts, relay


def text_of(made, wait):
    """The program of all warps; `wait`: how one waits for the grid before."""
    parts, relay = made
    numbers = iter(range(1000))
    lines = []
    words = {"write": WRITE, "meet in the warp": "bar.warp.sync -1;"}
    for number, by_warp in enumerate(parts):
        for warp, steps in enumerate(by_warp):
            label = f"N{number}_{warp}"
            lines.append(f"setp.ne.u32 %p4, %r2, {warp}; @%p4 bra {label};")
            for one in steps:
                if one == "wait of one lane":
                    skip = f"S{next(numbers)}"
                    lines.append(f"@!%p1 bra {skip}; {wait.format(n=next(numbers))} {skip}:")
                else:
                    lines.append(words.get(one) or wait.format(n=next(numbers)))
            lines.append(f"{label}:")
        lines.append(f"bar.sync 1, {32 * WARPS};")
    if relay is not None:
        lines.append(f"setp.ne.u32 %p4, %r2, {relay}; @%p4 bra R; {HAND_ON} R:")
        lines.append(LEARN.format(n=next(numbers)) + WRITE)
    return "\n".join(lines)


@given(made=kernels())
def test_as_the_order_of_a_grid_in_front(made):
    """Undecided exactly where a warp that has written the array before the wait races."""
    text = text_of(made, WAIT)
    if WAIT not in text:
        return
    mine = judged(text)
    assert mine.verdict in (Verdict.VERIFIED, Verdict.UNDECIDED), mine.notes
    model = judged(f"{BEFORE}\n{text_of(made, MODEL)}\nEND:", threads=32 * (WARPS + 1))
    assert model.verdict in (Verdict.VERIFIED, Verdict.REFUTED), model.notes
    assert (mine.verdict is Verdict.VERIFIED) == (model.verdict is Verdict.VERIFIED)


def test_a_lane_that_polls_twice_has_met_nobody():
    """Polls of a spinning wait are no rounds of a loop that meets behind it."""
    steps = ["wait of one lane", "wait of one lane", "write"]
    for behind in (["meet in the warp"], []):
        made = [[[], steps, behind]], None
        model = judged(f"{BEFORE}\n{text_of(made, MODEL)}\nEND:", threads=32 * (WARPS + 1))
        assert model.verdict is Verdict.REFUTED
