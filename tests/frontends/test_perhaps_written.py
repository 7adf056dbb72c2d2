"""Memory that is written if data so decide, and read whatever they decide: undecided."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict

WRITE = "st.shared.u32 [%r4], %r2;"
LOAD = "ld.shared.u32 %r10, [%r4];"
KEEP = "@%p1 st.global.u32 [%d1], %r10;"
READ = f"bar.sync 0; {LOAD} {KEEP}"
DATA = """shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4; ld.global.u32 %r11, [%d2+256];
setp.gt.s32 %p3, %r11, 0; setp.gt.s32 %p4, %r11, 9;
"""
ARM = "@!%p3 bra X; {} X:"


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (f"@%p3 {WRITE} {READ}", False),
        (ARM.format(WRITE) + READ, False),
        (ARM.format("st.shared.u16 [%r4], 1;") + READ, False),
        (f"{WRITE} @%p3 {WRITE} {READ}", True),
        (f"st.shared.u16 [%r4], 1; @%p3 {WRITE} {READ}", False),
        (f"@%p3 {WRITE} {WRITE} {READ}", True),
        (f"@%p3 {WRITE} @!%p3 {WRITE} {READ}", True),
        (f"@%p3 {WRITE} @!%p4 {WRITE} {READ}", False),
        (f"@%p3 {WRITE} @%p3 {WRITE} {READ}", False),
        # Read where data decide as well, masked by them, or not used.
        (f"@%p3 {WRITE} bar.sync 0; {ARM.format(LOAD + KEEP)}", True),
        (f"@%p3 {WRITE} bar.sync 0; {LOAD} selp.u32 %r10, %r10, 0, %p3; {KEEP}", True),
        (f"@%p3 {WRITE} bar.sync 0; {LOAD} selp.u32 %r10, 0, %r10, %p3; {KEEP}", False),
        (f"@%p3 {WRITE} bar.sync 0; {LOAD}", True),
        # By one lane, of those that data choose.
        (f"setp.eq.and.u32 %p5, %r1, 0, %p3; @%p5 st.shared.u32 [%r3], 1; bar.sync 0;"
         f"ld.shared.u32 %r10, [%r3]; {KEEP}", False),
        (f"setp.eq.u32 %p5, %r1, 0; @%p5 st.shared.u32 [%r3], 0; and.pred %p5, %p5, %p3;"
         f"@%p5 st.shared.u32 [%r3], 1; bar.sync 0; ld.shared.u32 %r10, [%r3]; {KEEP}", True),
        # Added to what may be there, and kept for a while.
        (f"@%p3 {WRITE} bar.sync 0; @%p1 red.shared.add.u32 [%r4], 1; {READ}", False),
        (f"@%p3 {WRITE} bar.sync 0; {LOAD} st.shared.u32 [%r4+256], %r10; bar.sync 0;"
         f"ld.shared.u32 %r10, [%r4+256]; {KEEP}", False),
        # A loop of which data decide the rounds is taken to write.
        (f"mov.u32 %r12, 0; L: {WRITE} add.u32 %r12, %r12, 1; setp.lt.s32 %p5, %r12, %r11;"
         f"@%p5 bra L; {READ}", True),
    ],
)  # fmt: skip
def test_what_data_decide_to_write(body, right):
    finding = verified(DATA + body)
    assert (finding.verdict is Verdict.VERIFIED) is right, finding.notes
    assert right or any("that nothing has written" in note for note in finding.notes)


def drawn(draw: random.Random, labels: itertools.count[int], depth: int) -> tuple[str, str]:
    """Statements that may write the word, as PTX and as an expression in `p` and `q` that says
    whether they do."""
    name, guard = draw.choice([("p", "%p3"), ("q", "%p4")])
    kind = draw.randrange(5 if depth < 3 else 2)
    if kind == 0:
        return WRITE if depth else "", "True" if depth else "False"
    if kind == 1:
        negated = draw.random() < 0.5
        text = f"@{'!' if negated else ''}{guard} {WRITE}"
        return text, f"(not {name})" if negated else name
    one, wrote = drawn(draw, labels, depth + 1)
    other, wrote_else = drawn(draw, labels, depth + 1)
    if kind == 2:
        return one + other, f"({wrote} or {wrote_else})"
    a, b = next(labels), next(labels)
    text = f"@!{guard} bra L{a}; {one} bra L{b}; L{a}: {other} L{b}:"
    return text, f"({wrote} if {name} else {wrote_else})"


def test_all_that_data_may_decide():
    draw, labels, verdicts = random.Random(3), itertools.count(), set()
    for _ in range(60):
        text, wrote = drawn(draw, labels, 0)
        always = all(eval(wrote, {"p": p, "q": q}) for p in (0, 1) for q in (0, 1))
        verdict = verified(DATA + text + READ).verdict
        expected = Verdict.VERIFIED if always else Verdict.UNDECIDED
        assert verdict is expected, (text, wrote)
        verdicts.add(verdict)
    assert len(verdicts) == 2
