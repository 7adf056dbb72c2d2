"""Attempts to wait for a barrier in the arm of a branch on data, whose result spares a later wait.

As in an attention kernel whose correction is left out where no maximum has grown: the next barrier
is asked in the arm. What is verified so must be verified where the branch is decided, in any
pattern of rounds, by runs that know nothing of arms.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.isa.simt.running import launch_of, of, ran
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.ptx.parse import parse
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Options
from titan.verify.model import Finding

LAUNCH = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer]}"
# Warp 0 fills one buffer in three rounds, warp 1 reads it. %p4: data leave out the arm.
KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.shared .align 16 .b8 memory[256];
.entry k(.param .u64 out)
{{
.reg .pred %p<16>;
.reg .b32 %r<40>;
.reg .b64 %d<8>;
ld.param.b64 %d1, [out];
ld.global.b32 %r1, [%d1];
mov.u32 %r2, memory;
mov.u32 %r9, %tid.x;
shl.b32 %r10, %r9, 2;
and.b32 %r10, %r10, 127;
add.u32 %r10, %r10, %r2;
setp.ne.u32 %p2, %r9, 0;
@%p2 bra MADE;
mbarrier.init.shared.b64 [%r2], 32;
mbarrier.init.shared.b64 [%r2+8], 32;
mbarrier.init.shared.b64 [%r2+16], 32;
MADE:
bar.sync 0;
setp.ge.u32 %p1, %r9, 32;
mov.u32 %r4, 0;
@%p1 bra READER;
FILL:
and.b32 %r5, %r4, 1;
xor.b32 %r5, %r5, 1;
EMPTY:
mbarrier.try_wait.parity.shared.b64 %p5, [%r2+8], %r5;
@!%p5 bra EMPTY;
st.shared.u32 [%r10+64], %r4;
mbarrier.arrive.shared.b64 %d2, [%r2];
add.u32 %r4, %r4, 1;
setp.lt.u32 %p6, %r4, 3;
@%p6 bra FILL;
bra DONE;
READER:
mov.pred %p8, -1;
mov.u32 %r6, 0;
READ:
@!%p8 bra KNOWN;
FULL:
mbarrier.try_wait.parity.shared.b64 %p7, [%r2], %r6;
@!%p7 bra FULL;
KNOWN:
ld.shared.u32 %r7, [%r10+64];
st.global.u32 [%d1+128], %r7;
mbarrier.arrive.shared.b64 %d3, [%r2+8];
add.u32 %r4, %r4, 1;
xor.b32 %r6, %r6, 1;
setp.ge.u32 %p6, %r4, 3;
@%p6 bra DONE;
{decided}
{before}
@%p4 bra JOIN;
{arm}
JOIN:
{behind}
bra READ;
DONE:
ret;
}}
"""
DATA = "setp.lt.s32 %p3, %r1, 5;\nvote.sync.any.pred %p4, %p3, -1;"
NEEDED = "mov.pred %p8, -1;"
ATTEMPT = "mbarrier.try_wait.parity.shared.b64 %p9, [%r2], %r6;"
SPARED = f"{ATTEMPT}\nnot.pred %p8, %p9;"
STORED = "st.shared.u32 [%r2+192], %r1;"
RIGHT = {
    "the next wait is spared": (NEEDED, SPARED, ""),
    "beside what the arm does": (NEEDED, f"{STORED}\n{SPARED}", ""),
    "not spared": (NEEDED, ATTEMPT, ""),
    "from another register": (NEEDED + "mov.pred %p10, -1;",
                              f"{ATTEMPT}\nnot.pred %p10, %p9;", "mov.pred %p8, %p10;"),
    "an attempt behind the arm": (NEEDED, STORED, SPARED),
    "a wait": (NEEDED, f"AGAIN:\n{ATTEMPT}\n@!%p9 bra AGAIN;\nmov.pred %p8, 0;", ""),
}  # fmt: skip
WRONG = {
    "spared without an attempt": (NEEDED, "mov.pred %p8, 0;", ""),
    "spared where it fails": (NEEDED, f"{ATTEMPT}\nmov.pred %p8, %p9;", ""),
    "spared whatever the attempt gives": (NEEDED, f"{SPARED}\nmov.pred %p8, 0;", ""),
    "another barrier": (NEEDED, "xor.b32 %r8, %r6, 1;\n" +
                        SPARED.replace("[%r2]", "[%r2+8]").replace("%r6", "%r8"), ""),
    "a wait for the phase before": (
        NEEDED, "xor.b32 %r8, %r6, 1;\nAGAIN:\n" + ATTEMPT.replace("%r6", "%r8") +
        "\n@!%p9 bra AGAIN;\nmov.pred %p8, 0;", ""),
    "the phase before": (NEEDED, "xor.b32 %r8, %r6, 1;\n" + SPARED.replace("%r6", "%r8"), ""),
    "spared where the arm is left out": ("mov.pred %p8, 0;", SPARED, ""),
    "a barrier that nobody has made": (NEEDED, SPARED.replace("[%r2]", "[%r2+32]"), ""),
    "what it gives is stored": (NEEDED, SPARED + "selp.u32 %r8, 1, 2, %p9;\n"
                                "st.global.u32 [%d1+256], %r8;", ""),
    "lanes apart": ("setp.lt.s32 %p4, %r9, %r1;" + NEEDED, SPARED, ""),
}  # fmt: skip
# A third barrier, with the phases of the first. It may be complete before the data is there.
BESIDE = (NEEDED, SPARED.replace("[%r2]", "[%r2+16]"), "")
BEHIND = (NEEDED, STORED, SPARED.replace("[%r2]", "[%r2+16]"))


def kernel(parts: tuple[str, str, str], decided: str = DATA) -> str:
    before, arm, behind = parts
    return KERNEL.format(decided=decided, before=before, arm=arm, behind=behind)


def verified(text: str, policies: CodePolicies | None = None) -> Finding:
    described, errors = read_launch_text(LAUNCH, "launch.yaml")
    assert errors == []
    options = CodeOptions(schedules=4, policies=policies or CodePolicies())
    (finding,) = verify_code(Source("k.ptx", text), described, options, [], 0.0)
    return finding


def patterns() -> list[str]:
    """The branch decided by the round: in all patterns of two rounds."""
    return [
        f"shr.u32 %r20, {first + 2 * second}, %r6;\nand.b32 %r20, %r20, 1;\n"
        "setp.eq.u32 %p4, %r20, 1;"
        for first, second in product((0, 1), repeat=2)
    ]


@pytest.mark.parametrize("parts", RIGHT.values(), ids=RIGHT)
def test_an_attempt_in_an_arm_is_followed(parts):
    finding = verified(kernel(parts))
    assert finding.verdict is Verdict.VERIFIED, (finding.notes, finding.diagnostics)
    for decided in patterns():
        assert verified(kernel(parts, decided)).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("parts", WRONG.values(), ids=WRONG)
def test_what_an_attempt_does_not_give_is_not_verified(parts):
    assert verified(kernel(parts)).verdict in (Verdict.REFUTED, Verdict.UNDECIDED)


@pytest.mark.parametrize("decided", [DATA, *patterns()[:-1]])  # the last leaves the arm out
@pytest.mark.parametrize("parts", [BESIDE, BEHIND], ids=["in the arm", "behind it"])
def test_an_attempt_at_another_barrier_may_not_spare_the_wait(parts, decided):
    """Whether it passes before the data is there, no run has to show."""
    store = "st.shared.u32 [%r10+64], %r4;"
    early = f"mbarrier.arrive.shared.b64 %d2, [%r2+16];\n{store}"
    allowed = CodePolicies(unobserved_phase="allow")
    finding = verified(kernel(parts, decided).replace(store, early), allowed)
    assert finding.verdict in (Verdict.REFUTED, Verdict.UNDECIDED)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("parts", [*RIGHT.values(), *WRONG.values(), BESIDE])
def test_both_machines_make_the_same_attempts(parts, fails):
    module, findings = parse(kernel(parts), "k.ptx")
    assert module is not None, findings
    for seed in range(3):
        found = ran(module, launch_of(block=64), Options(seed=seed, first_poll_fails=fails))
        assert of(found, ev.Skipped) or found.outcome.ending != 0
