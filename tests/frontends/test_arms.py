"""Branches on data of which both arms count as taken, against the two runs that decide them.

What is verified with the arm counted in must be verified with the branch always taken and never
taken: two runs that know nothing of arms.
"""

from __future__ import annotations

from random import Random

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code

LAUNCH = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer]}"
HEAD = """.version 8.7
.target sm_100a
.address_size 64
.shared .align 16 .b8 memory[256];
.entry k(.param .u64 out)
{
.reg .pred %p<16>;
.reg .b32 %r<160>;
.reg .b64 %d<8>;
ld.param.b64 %d1, [out];
ld.global.b32 %r1, [%d1];
mov.u32 %r2, memory;
mov.u32 %r9, %tid.x;
shr.u32 %r9, %r9, 5;
setp.eq.u32 %p1, %r9, 0;
setp.lt.s32 %p3, %r1, 5;
vote.sync.any.pred %p4, %p3, -1;
@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 64;
bar.sync 0;
ld.shared.b32 %r3, [%r2];
"""
TAIL = """
bar.sync 0;
@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64;
ret;
}
"""
ANYWHERE = {
    "store": "st.shared.u32 [%r2+{at}], %r1;",
    "load": "ld.shared.u32 %r10, [%r2+{at}];",
    "atomic": "atom.shared.add.u32 %r11, [%r2+{at}], 1;",
    "tensor load": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1{at}}}, [%r3];",
    "use": "add.u32 %r12, %r1{at}, 1;",
    "tensor store": "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {{%r1}};",
    "wait for loads": "tcgen05.wait::ld.sync.aligned;",
    "wait for stores": "tcgen05.wait::st.sync.aligned;",
    "shuffle": "shfl.sync.bfly.b32 %r13, %r1, 1, 31, -1;",
    "tensor fence before": "tcgen05.fence::before_thread_sync;",
    "tensor fence after": "tcgen05.fence::after_thread_sync;",
}
OUTSIDE = {**ANYWHERE, "barrier": "bar.sync 0;", "second barrier": "bar.sync 0;"}


def items(random: Random, among: dict[str, str], most: int) -> str:
    lines = []
    for _ in range(random.randint(0, most)):
        name = random.choice(sorted(among))
        guard = "" if "barrier" in name else random.choice(["", "@%p1 ", "@!%p1 "])
        lines.append(guard + among[name].format(at=random.choice((16, 20, 24))))
    return "\n".join(lines)


def program(seed: int) -> tuple[str, str, str]:
    """The text before the branch, the branch with its arms, and the text behind it."""
    random = Random(seed)
    first, arm = items(random, OUTSIDE, 4), items(random, ANYWHERE, 4)
    other = items(random, ANYWHERE, 3) if random.random() < 0.5 else ""
    return HEAD + first, f"{arm}\nbra DONE;\nOTHER:\n{other}\nDONE:\n", items(random, OUTSIDE, 4)


def verdict_on(text: str) -> Verdict:
    described, errors = read_launch_text(LAUNCH, "launch.yaml")
    assert errors == []
    options = CodeOptions(schedules=0)
    (finding,) = verify_code(Source("k.ptx", text), described, options, [], 0.0)
    assert finding.verdict is not Verdict.REFUSED, finding.diagnostics
    return finding.verdict


LOOPED = {
    name: text
    for name, text in ANYWHERE.items()
    if "tensor" not in name and name not in ("use", "wait for loads", "wait for stores")
}
LOOPED |= {
    "next": "add.u32 %r30, %r30, 4;",
    "indexed store": "add.u32 %r31, %r2, %r30; st.shared.u32 [%r31+{at}], %r1;",
    "indexed load": "add.u32 %r31, %r2, %r30; ld.shared.u32 %r32, [%r31+{at}];",
    "read index": "ld.shared.u32 %r33, [%r2+{at}]; and.b32 %r30, %r33, 28;",
}


def loop(seed: int) -> tuple[str, str]:
    """The text before a loop whose rounds are %r29, and the loop with what comes behind it."""
    random = Random(seed)
    first = items(random, OUTSIDE, 3)
    body, last = items(random, LOOPED, 4), items(random, OUTSIDE, 3)
    head = f"{HEAD}st.shared.u32 [%r2+16], 4;\nbar.sync 0;\n{first}\nmov.u32 %r30, 0;\n"
    head += "mov.u32 %r28, 0;\n"
    rounds = "add.u32 %r28, %r28, 1;\nsetp.lt.u32 %p6, %r28, %r29;\n"
    rounds += "vote.sync.any.pred %p7, %p6, -1;\n@%p7 bra AGAIN;\n"
    return head, f"AGAIN:\n{body}\n{rounds}{last}{TAIL}"


def looped(seed: int) -> Verdict:
    """The verdict with rounds that data decide, which must not be better than with given ones."""
    first, rest = loop(seed)
    unknown = verdict_on(f"{first}and.b32 %r29, %r1, 3;\n{rest}")
    if unknown is Verdict.VERIFIED:
        for rounds in range(4):
            known = verdict_on(f"{first}mov.u32 %r29, {rounds};\n{rest}")
            assert known is Verdict.VERIFIED, (seed, rounds)
    return unknown


def test_no_loop_on_data_hides_a_fault():
    verdicts = [looped(seed) for seed in range(30)]
    assert verdicts.count(Verdict.VERIFIED) >= 3
    assert verdicts.count(Verdict.REFUTED) >= 3


def compared(seed: int) -> Verdict:
    """The verdict with both arms, which must not be better than those with either one."""
    first, arms, last = program(seed)
    both = verdict_on(f"{first}\n@%p4 bra OTHER;\n{arms}{last}{TAIL}")
    if both is Verdict.VERIFIED:
        for decided in ("", "bra OTHER;"):
            alone = verdict_on(f"{first}\n{decided}\n{arms}{last}{TAIL}")
            assert alone is Verdict.VERIFIED, (seed, decided)
    return both


def test_no_arm_hides_a_fault():
    verdicts = [compared(seed) for seed in range(40)]
    assert verdicts.count(Verdict.VERIFIED) >= 5
    assert verdicts.count(Verdict.REFUTED) >= 5


# As `tl.histogram` of Triton: all warps clear the bins, each lane counts what it has loaded.
HISTOGRAM = """.version 8.7
.target sm_90a
.address_size 64
.shared .align 16 .b8 bins[64];
.entry histogram(.param .u64 in, .param .u64 out)
{
.reg .pred %p<4>;
.reg .b32 %r<12>;
.reg .b64 %d<8>;
mov.u32 %r1, %tid.x;
ld.param.b64 %d1, [in];
mad.wide.u32 %d1, %r1, 4, %d1;
ld.global.b32 %r2, [%d1];
and.b32 %r3, %r1, 15;
shl.b32 %r3, %r3, 2;
mov.u32 %r4, bins;
add.u32 %r5, %r4, %r3;
st.shared.b32 [%r5], 0; // clear
bar.sync 0; // cleared
setp.gt.u32 %p1, %r2, 15;
@%p1 bra DONE;
shl.b32 %r6, %r2, 2;
add.u32 %r6, %r6, %r4;
atom.relaxed.sys.shared.add.u32 %r7, [%r6], 1;
DONE:
bar.sync 0; // counted
ld.shared.b32 %r8, [%r5];
ld.param.b64 %d2, [out];
mad.wide.u32 %d2, %r3, 1, %d2;
setp.lt.u32 %p2, %r1, 16;
@%p2 red.global.add.u32 [%d2], %r8;
ret;
}
"""


def histogram(old: str = "", new: str = "") -> Verdict:
    described, errors = read_launch_text(LAUNCH.replace("[", "[pointer, "), "launch.yaml")
    assert errors == []
    source = Source("histogram.ptx", HISTOGRAM.replace(old, new) if old else HISTOGRAM)
    (finding,) = verify_code(source, described, CodeOptions(), [], 0.0)
    return finding.verdict


def test_a_histogram_that_all_warps_clear():
    assert histogram() is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("[%r5], 0; // clear", "[%r5], %r1;", Verdict.REFUTED),
        ("bar.sync 0; // cleared", "", Verdict.UNDECIDED),
        ("bar.sync 0; // counted", "", Verdict.UNDECIDED),
    ],
)
def test_faults_of_the_histogram(old, new, verdict):
    """Which bin is counted is not known, so a race with that is not either."""
    assert histogram(old, new) is verdict


WAITING = """.version 8.7
.target sm_90a
.address_size 64
.entry k(.param .u64 flag)
{
.reg .pred %p<4>;
.reg .b32 %r<12>;
.reg .b64 %d<8>;
ld.param.b64 %d1, [flag];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra OTHERS;
AGAIN:
ld.acquire.gpu.global.b32 %r2, [%d1];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra AGAIN;
OTHERS:
bar.sync 0;
REST
ret;
}
"""
GIVEN = "setp.eq.u32 %p3, %r1, 32; @%p3 st.release.gpu.global.b32 [%d1+{at}], 1;"
LOCK = "T: atom.global.cas.b32 %r3, [%d1+64], 0, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra T;"


@pytest.mark.parametrize(
    "rest",
    [
        "",
        GIVEN.format(at=4),
        GIVEN.format(at=0),
        LOCK,
        f"setp.eq.u32 %p3, %r1, 33; @!%p3 bra END; {LOCK} END:",
    ],
    ids=["another block", "another word", "a warp of this block", "a lock", "a lock of one thread"],
)
def test_a_wait_for_memory_is_not_decided(rest):
    """Such a wait orders two warps or blocks, which is not modelled."""
    described, errors = read_launch_text(LAUNCH, "launch.yaml")
    assert errors == []
    source = Source("k.ptx", WAITING.replace("REST", rest))
    (finding,) = verify_code(source, described, CodeOptions(), [], 0.0)
    assert finding.verdict is Verdict.UNDECIDED, finding.notes


@pytest.mark.heavy
@pytest.mark.long
def test_no_arm_hides_a_fault_at_length():
    for seed in range(40, 1500):
        compared(seed)
        looped(seed)
