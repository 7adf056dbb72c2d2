"""Branches and loops of which data decide for each lane, against lanes that part in known ways.

What is verified where the guard is not known must not be refuted where it is.
"""

from __future__ import annotations

import re
from random import Random

from tests.frontends.test_arms import HEAD, TAIL, items, verdict_on
from tests.sampling import part
from titan.foundation.verdict import Verdict

DIVIDED = {
    "store": "st.shared.u32 [%r2+{at}], %r1;",
    "load": "ld.shared.u32 %r10, [%r2+{at}];",
    "own store": "st.shared.u32 [%r40], %r1;",
    "own load": "ld.shared.u32 %r10, [%r40];",
    "other load": "ld.shared.u32 %r10, [%r41];",
    "other store": "st.shared.u32 [%r41], %r1;",
    "atomic": "atom.shared.add.u32 %r11, [%r40], 1;",
}
LANES = """
mov.u32 %r42, %laneid; shr.u32 %r43, %r42, 1;
mov.u32 %r44, %tid.x; shl.b32 %r44, %r44, 2; add.u32 %r44, %r44, 64; add.u32 %r40, %r2, %r44;
xor.b32 %r45, %r44, 4; add.u32 %r41, %r2, %r45;
"""
GUARDS = {"lane 0": "%r42, 1", "half": "%r42, 16", "all": "%r42, 32", "none": "%r42, 0"}
MEET = {**DIVIDED, "meet": "bar.warp.sync -1;", "meet again": "bar.warp.sync -1;"}


def by_data(random: Random) -> str:
    """A branch with its arms, or accesses with a guard, by %p8."""
    arm, other = items(random, DIVIDED, 2), items(random, DIVIDED, 2)
    if random.random() < 0.3:
        lines = re.sub(r"^@!?%p1 ", "", f"{arm}\n{other}", flags=re.MULTILINE).split("\n")
        return "\n".join(f"@{random.choice(['', '!'])}%p8 {line}" for line in lines if line)
    inner = random.choice(["", "@%p1 bra IN;", "setp.lt.u32 %p5, %r42, 8; @%p5 bra IN;"])
    return f"@%p8 bra OTHER;\n{inner}\n{arm}\nIN: bra DONE;\nOTHER:\n{other}\nDONE:\n"


def divided(seed: int) -> Verdict:
    """The verdict where data may divide a warp, not better than where lanes are known to part."""
    random = Random(seed)
    first, last = items(random, MEET, 3), items(random, MEET, 3)
    arms = by_data(random)
    head = HEAD.replace("memory[256]", "memory[512]") + f"{LANES}{first}\n"
    unknown = verdict_on(f"{head}setp.lt.s32 %p8, %r1, 5;\n{arms}\n{last}{TAIL}")
    if unknown is Verdict.VERIFIED:
        for name, lanes in GUARDS.items():
            known = f"{head}setp.lt.u32 %p8, {lanes};\n{arms}\n{last}{TAIL}"
            assert verdict_on(known) is not Verdict.REFUTED, (seed, name)
    return unknown


def test_no_arm_that_divides_a_warp_hides_a_fault():
    verdicts = [divided(seed) for seed in range(part(100))]
    assert verdicts.count(Verdict.VERIFIED) >= part(5)
    assert verdicts.count(Verdict.REFUTED) >= part(5)


ROUNDS = {
    "none": "mov.u32 %r29, 0;",
    "one": "mov.u32 %r29, 1;",
    "some": "and.b32 %r29, %r42, 3;",
    "half": "shr.u32 %r29, %r42, 4;",
    "many": "mov.u32 %r29, 3;",
}
ROUND = {
    **DIVIDED,
    "next": "add.u32 %r30, %r30, 4;",
    "indexed store": "add.u32 %r31, %r40, %r30; st.shared.u32 [%r31], %r1;",
    "indexed load": "add.u32 %r31, %r40, %r30; ld.shared.u32 %r32, [%r31];",
}


def looped(seed: int) -> Verdict:
    """The verdict where data decide how often each lane goes round."""
    random = Random(seed)
    first, last = items(random, MEET, 3), items(random, MEET, 3)
    body = items(random, ROUND, 4)
    if random.random() < 0.3:
        inner = items(random, DIVIDED, 1)
        body += f"\nsetp.eq.s32 %p9, %r28, 1; @%p9 bra SKIP;\n{inner}\nSKIP:"
    head = HEAD.replace("memory[256]", "memory[1024]") + f"{LANES}{first}\n"
    head += "mov.u32 %r28, 0; mov.u32 %r30, 0;\n"
    rest = f"setp.eq.u32 %p6, %r29, 0; @%p6 bra OUT;\nAGAIN:\n{body}\n"
    rest += "add.u32 %r28, %r28, 1; setp.lt.u32 %p6, %r28, %r29;\n@%p6 bra AGAIN;\n"
    rest += f"OUT:\n{last}{TAIL}"
    unknown = verdict_on(f"{head}and.b32 %r29, %r1, 3;\n{rest}")
    if unknown is Verdict.VERIFIED:
        for name, rounds in ROUNDS.items():
            assert verdict_on(f"{head}{rounds}\n{rest}") is not Verdict.REFUTED, (seed, name)
    return unknown


def test_no_loop_that_lanes_leave_one_by_one_hides_a_fault():
    verdicts = [looped(seed) for seed in range(part(70))]
    assert verdicts.count(Verdict.VERIFIED) >= part(10)
    assert verdicts.count(Verdict.REFUTED) >= part(10)
