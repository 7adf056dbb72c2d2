"""Lanes of a warp and matrices of 8 by 8: what a lane has of one is as what it loads or stores."""

from __future__ import annotations

from random import Random

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from tests.sampling import part
from titan.isa.simt import events as ev

SHARED = ".shared .align 16 .b8 s[4096];"
PLACES = """
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
mad.lo.u32 %r3, %r1, 16, %r2;       // the row of which the lane gives the address
mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;
shr.u32 %r8, %r1, 2; and.b32 %r9, %r1, 3;
mad.lo.u32 %r10, %r8, 16, %r2; mad.lo.u32 %r10, %r9, 4, %r10;   // its word of a matrix
mad.lo.u32 %r11, %r9, 32, %r2; mad.lo.u32 %r11, %r8, 2, %r11;   // its column, transposed: two rows
mov.u16 %h1, 0;
"""
STORE = "st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];"
CLASHES = {  # the body, and how many instructions clash
    "loaded where others stored": (f"{STORE} {LOAD}", 1),
    "loaded where others stored, synchronised": (f"{STORE} bar.warp.sync -1; {LOAD}", 0),
    "the lower half has met": (
        f"setp.lt.u32 %p2, %r1, 16; {STORE} @%p2 bar.warp.sync 0xffff; {LOAD}", 1),
    "loaded, then stored over": (f"{LOAD} {STORE}", 1),
    "loaded, synchronised, stored over": (f"{LOAD} bar.warp.sync -1; {STORE}", 0),
    "stored as a matrix, loaded by lanes": (
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4}; ld.shared.u32 %r0, [%r3];", 1),
    "stored as a matrix, its own word": (
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4}; ld.shared.u32 %r0, [%r10];", 0),
    "stored as a matrix, loaded as one": (
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4};"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r3];", 0),
    "stored as a matrix, loaded transposed": (
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4};"
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r5}, [%r3];", 1),
    "stored as a matrix, one lane stores it in bulk": (
        "ld.param.u64 %d0, [out]; setp.eq.u32 %p1, %r1, 0;"
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r4, %r5, %r6, %r7};"
        "fence.proxy.async; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2], 512;",
        1),
    "copied by another lane": (
        "ld.param.u64 %d0, [out]; cp.async.cg.shared.global [%r3], [%d0], 16; cp.async.wait_all;"
        f"{LOAD}", 1),
}  # fmt: skip


def clashes(body: str) -> list[int]:
    """The instructions, counted from the last one, that clash with what other lanes did."""
    found = ran(module_of(PLACES + body + "ret;", before=SHARED), launch_of())
    events = [event for event in of(found, ev.LaneClash) if isinstance(event, ev.LaneClash)]
    return [event.instruction for event in events]


@pytest.mark.parametrize("name", CLASHES)
def test_a_matrix_is_read_and_written_by_the_lanes_that_have_it(name: str) -> None:
    body, count = CLASHES[name]
    assert len(clashes(body)) == count


def as_lanes(load: bool, transposed: bool, at: int) -> str:
    """What the lanes of `.x1` load or store, written as accesses of each lane."""
    word = "ld.shared.u32 %r12, [%r10{}];" if load else "st.shared.u32 [%r10{}], %r12;"
    half = "ld.shared.u16 %h1, [%r11{}];" if load else "st.shared.u16 [%r11{}], %h1;"
    if not transposed:
        return word.format(f"+{at}")
    return half.format(f"+{at}") + half.format(f"+{at + 16}")


def as_matrix(load: bool, transposed: bool, at: int) -> str:
    """The same as one instruction."""
    kind = "m8n8.x1.trans.shared.b16" if transposed else "m8n8.x1.shared.b16"
    if load:
        return f"ldmatrix.sync.aligned.{kind} {{%r12}}, [%r3+{at}];"
    return f"stmatrix.sync.aligned.{kind} [%r3+{at}], {{%r12}};"


MEETINGS = (
    "bar.warp.sync -1;",
    "and.b32 %r13, %r1, 16; shl.b32 %r14, 0xffff, %r13; bar.warp.sync %r14;",
    "and.b32 %r13, %r1, 1; shl.b32 %r14, 0x55555555, %r13; bar.warp.sync %r14;",
)


def step(random: Random) -> tuple[str, str]:
    """One random step: with a matrix, and as accesses of lanes."""
    kind = random.randrange(4)
    if kind == 0:
        text = random.choice(MEETINGS)
        return text, text
    if kind == 1:
        size = random.choice((2, 4, 8))
        shift = random.randrange(32)
        at = f"add.u32 %r13, %r1, {shift}; and.b32 %r13, %r13, 31;" \
             f"mad.lo.u32 %r13, %r13, {size}, %r2;"  # fmt: skip
        access = random.choice(("ld", "st"))
        register = {2: "%h2", 4: "%r15", 8: "%d3"}[size]
        places = f"[%r13], {register}" if access == "st" else f"{register}, [%r13]"
        text = f"{at} {access}.shared.u{8 * size} {places};"
        return text, text
    load, transposed, at = random.random() < 0.5, random.random() < 0.5, random.choice((0, 64, 128))
    return as_matrix(load, transposed, at), as_lanes(load, transposed, at)


def test_random_programs_clash_as_those_of_single_lanes() -> None:
    """A program clashes if and only if it does with each matrix as accesses of its lanes."""
    clashing = 0
    count = part(240)
    for seed in range(count):
        random = Random(seed)
        steps = [step(random) for _ in range(random.randint(2, 6))]
        before = "mov.u32 %r12, 0; mov.u32 %r15, 0; mov.u16 %h2, 0; mov.u64 %d3, 0;"
        found = [bool(clashes(before + "".join(item[way] for item in steps))) for way in (0, 1)]
        assert found[0] == found[1], (seed, steps)
        clashing += found[0]
    assert count // 8 < clashing < count
