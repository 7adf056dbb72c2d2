"""Loads that give a number, as the launch says what memory holds, and of which nothing is used.

Held against numbers: what is verified with some memory leaves the same behind under every schedule
of the emulated device, with random kernels whose control, predicates and lanes rest on that memory.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.frontends.test_traced import X, Y, results, source_of
from tests.sampling import part
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

LAUNCH = f"{{grid: 1, dynamic_shared: 0, parameters: {{x: {X}, y: {Y}}}}}"
# What both warps read at x and one of them overwrites; %p1 is the first warp.
OVERWRITTEN = "ld.global.u32 %r10, [%d1]; @%p1 st.global.u32 [%d1], %r2;"
EVEN = "and.b32 %r13, %r10, 1; setp.eq.u32 %p2, %r13, 0;"
CLEAN = {
    "in place, as often as memory says": """
        ld.global.u32 %r6, [%d2]; and.b32 %r6, %r6, 3;
        A: ld.global.u32 %r10, [%d1]; add.u32 %r10, %r10, 1; @%p1 st.global.u32 [%d1], %r10;
        setp.gt.s32 %p2, %r6, 0; sub.u32 %r6, %r6, 1; @%p2 bra A;""",
    "in place, where memory says so": """
        ld.global.u32 %r6, [%d2]; and.b32 %r6, %r6, 1; setp.eq.u32 %p2, %r6, 0;
        @%p2 ld.global.u32 %r10, [%d1]; and.pred %p2, %p2, %p1;
        @%p2 st.global.u32 [%d1], %r10;""",
    "of what is read only a register is made that is overwritten": f"""
        {OVERWRITTEN} {EVEN} selp.u32 %r12, 1, 2, %p2; mov.u32 %r12, 3;
        @!%p1 st.global.u32 [%d2], %r12;""",
    "overwritten in two halves": f"""
        {OVERWRITTEN} mov.u32 %r12, %r10; mov.pred %p2, %p1; and.b32 %r12, %r2, 7;
        @!%p1 st.global.u32 [%d2], %r12;""",
}
SHOWN = {
    "stored": "@!%p1 st.global.u32 [%d2], %r10;",
    "in a sum": "add.u32 %r12, %r10, 1; @!%p1 st.global.u32 [%d2], %r12;",
    "which value is taken": f"""
        {EVEN} selp.u32 %r12, 1, 2, %p2; @!%p1 st.global.u32 [%d2], %r12;""",
    "which value that is not known is taken": f"""
        mov.u32 %r6, %clock; mov.u32 %r7, %clock; {EVEN} selp.u32 %r12, %r6, %r7, %p2;
        @!%p1 st.global.u32 [%d2], %r12;""",
    "which lanes write a register": f"""
        {EVEN} mov.u32 %r12, 1; @%p2 mov.u32 %r12, 2; @!%p1 st.global.u32 [%d2], %r12;""",
    "that no lane writes a register": """
        setp.eq.u32 %p2, %r10, -1; mov.u32 %r12, 1; @%p2 mov.u32 %r12, 2;
        @!%p1 st.global.u32 [%d2], %r12;""",
    "that all lanes write a register": """
        setp.ne.u32 %p2, %r10, -1; mov.u32 %r12, 1; @%p2 mov.u32 %r12, 2;
        @!%p1 st.global.u32 [%d2], %r12;""",
    "whether to store": f"""
        {EVEN} mov.u32 %r12, 7; mov.pred %p3, %p2; @!%p1 add.u32 %r12, %r12, 1;
        @%p1 setp.eq.u32 %p3, %r2, 99; @%p3 st.global.u32 [%d2], %r12;""",
    "where to store": """
        and.b32 %r6, %r10, 3; mul.wide.u32 %d4, %r6, 4; add.s64 %d4, %d2, %d4;
        @!%p1 st.shared.u32 [%r4], %r2; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r4;
        @!%p1 ld.shared.u32 %r12, [%r6]; @!%p1 st.shared.u32 [%r4+128], %r12;""",
    "a branch": """
        setp.eq.u32 %p2, %r10, -1; mov.u32 %r12, 1; @%p2 bra L; mov.u32 %r12, 2;
        L: @!%p1 st.global.u32 [%d2], %r12;""",
    "a branch that no lane takes": """
        setp.ne.u32 %p2, %r10, -1; mov.u32 %r12, 1; @!%p2 bra L; mov.u32 %r12, 2;
        L: @!%p1 st.global.u32 [%d2], %r12;""",
    "how often a loop goes round": """
        and.b32 %r6, %r10, 3; mov.u32 %r12, 0;
        A: add.u32 %r12, %r12, 1; sub.u32 %r6, %r6, 1; setp.gt.s32 %p2, %r6, 0; @%p2 bra A;
        @!%p1 st.global.u32 [%d2], %r12;""",
    "which lane is asked": """
        and.b32 %r6, %r10, 31; shfl.sync.idx.b32 %r12, %r2, %r6, 31, -1;
        @!%p1 st.global.u32 [%d2], %r12;""",
    "a vote": f"""
        {EVEN} vote.sync.ballot.b32 %r12, %p2, -1; @!%p1 st.global.u32 [%d2], %r12;""",
    "a reduction": "redux.sync.add.u32 %r12, %r10, -1; @!%p1 st.global.u32 [%d2], %r12;",
    "an atomic": "@!%p1 red.global.add.u32 [%d2], %r10;",
    "by way of shared memory": """
        st.shared.u32 [%r4], %r2; @!%p1 st.shared.u32 [%r4+128], %r10; bar.sync 0;
        ld.shared.u32 %r12, [%r4+128]; @!%p1 st.global.u32 [%d2], %r12;""",
    "by way of local memory": """
        st.local.u32 [mine], %r10; mov.u32 %r10, 0; ld.local.u32 %r12, [mine];
        @!%p1 st.global.u32 [%d2], %r12;""",
    "a register that is written in two halves": f"""
        {EVEN} mov.u32 %r12, %r10; setp.lt.u32 %p3, %r2, 9; @%p3 mov.u32 %r12, 5;
        @!%p1 st.global.u32 [%d2], %r12;""",
    "a branch that nobody knows, whose arms compute": """
        mov.u32 %r6, %clock; setp.eq.u32 %p2, %r6, 0; mov.u32 %r12, 0; @%p2 bra L;
        add.u32 %r12, %r10, 5; L: @!%p1 st.global.u32 [%d2], %r12;""",
}  # fmt: skip


def decided(body: str, memory: dict[int, bytes], **policies: str) -> Finding:
    described, errors = read_launch_text(LAUNCH, "k.yaml")
    assert errors == []
    described.memory.update(memory)
    options = CodeOptions(schedules=2, policies=chosen(tuple(policies.items())))
    (finding,) = verify_code(source_of(body), described, options, [], 0.0)
    return finding


def random_memory(seed: int) -> dict[int, bytes]:
    random = Random(seed)
    return {X: random.randbytes(128), Y: random.randbytes(128)}


@pytest.mark.parametrize("body", CLEAN.values(), ids=CLEAN)
def test_a_number_that_nothing_is_made_of_does_not_race(body):
    finding = decided(body, random_memory(3))
    assert finding.verdict is Verdict.VERIFIED, [item.headline for item in finding.diagnostics]
    assert decided(body, random_memory(3), unused_reads="refuse").verdict is Verdict.REFUTED


@pytest.mark.parametrize("body", SHOWN.values(), ids=SHOWN)
def test_a_number_that_shows_races(body):
    finding = decided(f"{OVERWRITTEN} {body}", random_memory(3))
    assert finding.verdict is Verdict.REFUTED
    assert "TTN201" in [item.code for item in finding.diagnostics]


STATEMENTS = (
    "ld.global.u32 %A, [%d1];", "ld.global.u32 %A, [%d2];", "ld.shared.u32 %A, [%r4];",
    "st.global.u32 [%d1], %A;", "st.global.u32 [%d2], %A;", "st.shared.u32 [%r4], %A;",
    "add.u32 %A, %B, %C;", "selp.b32 %A, %B, %C, %P;", "mov.u32 %A, %r2;", "mov.u32 %A, %B;",
    "and.b32 %r6, %B, 3; setp.lt.u32 %P, %r6, 2;", "setp.eq.u32 %P, %A, %B;",
    "setp.ne.u32 %P, %A, 77;", "and.b32 %r6, %A, 31; shfl.sync.idx.b32 %B, %C, %r6, 31, -1;",
    "vote.sync.ballot.b32 %A, %P, -1;", "redux.sync.or.b32 %A, %B, -1;",
    "@%P bra L#; mov.u32 %A, %B; L#:", "@%P bra L#; add.u32 %A, %B, 5; mov.u32 %B, %C; L#:",
    "bar.sync 0;", "bar.sync 0;",
)  # fmt: skip
GUARDED = ("ld", "st", "add", "mov", "selp")
PREDICATES = ("%p1", "%p2", "%p3")


def random_body(random: Random) -> str:
    lines = ["setp.lt.u32 %p2, %r2, 16; mov.pred %p3, %p1;"]
    for number in range(random.randint(5, 13)):
        line = random.choice(STATEMENTS).replace("#", str(number))
        for place in "ABC":
            line = line.replace(f"%{place}", random.choice(("%r10", "%r11", "%r12")))
        line = line.replace("%P", random.choice(PREDICATES[1:]))
        if line.startswith(GUARDED) and random.random() < 0.5:
            line = f"@{random.choice(('', '!'))}{random.choice(PREDICATES)} {line}"
        lines.append(line)
    return "\n".join([*lines, "bar.sync 0;", "ld.shared.u32 %r10, [%r4];",
                      "@%p1 st.global.u32 [%d2], %r10;"])  # fmt: skip


def test_what_is_verified_with_memory_leaves_the_same_under_every_schedule():
    seen: Counter[str] = Counter()
    for seed in range(part(500)):
        body = random_body(Random(seed))
        finding = decided(body, {X: Random(7).randbytes(128), Y: Random(8).randbytes(128)})
        kind = finding.verdict.value
        seen[kind] += 1
        if any("nothing is used" in note or "unused" in note for note in finding.notes):
            seen["unused"] += 1
        if finding.verdict is Verdict.VERIFIED:
            assert len(results(body)) == 1, body
        elif finding.verdict is Verdict.REFUTED and seen[kind] <= 60:
            seen["differ"] += len(results(body)) > 1
    print(seen)
    assert seen["verified"] >= part(20) and seen["differ"] >= part(20)
