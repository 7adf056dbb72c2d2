"""Results that PTX leaves undefined: refuted where they are used, as unwritten registers are.

`%r5` is 0 and `%r6` the lane less 3, both known.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict

RIGHT, OPEN, WRONG = Verdict.VERIFIED, Verdict.UNDECIDED, Verdict.REFUTED
HEAD = ".reg .b16 %h<4>; mov.u32 %r5, 0; sub.u32 %r6, %r2, 3; "
KEEP = "@%p1 st.global.u32 [%d2], %r20;"
QUOTIENTS = ("div.u32", "div.s32", "rem.u32", "rem.s32")
CASES = {
    **{f"{word} by zero": (f"{word} %r20, %r1, %r5; {KEEP}", WRONG) for word in QUOTIENTS},
    **{f"{word} by zero in one lane": (f"{word} %r20, 9, %r6; {KEEP}", WRONG)
       for word in QUOTIENTS},
    "by another number": (f"div.u32 %r20, %r1, 3; {KEEP}", RIGHT),
    "of data": (f"ld.global.u32 %r10, [%d1]; div.u32 %r20, %r10, %r5; {KEEP}", WRONG),
    "by data": (f"ld.global.u32 %r10, [%d1]; div.u32 %r20, %r1, %r10; {KEEP}", RIGHT),
    "of 64 bits": ("cvt.u64.u32 %d4, %r5; div.u64 %d5, %d4, %d4; @%p1 st.global.u32 [%d5], 1;",
                   WRONG),
    "of 16 bits": (f"cvt.u16.u32 %h1, %r5; rem.s16 %h2, 5, %h1; cvt.u32.u16 %r20, %h2; {KEEP}",
                   WRONG),
    "of floating point": (f"div.rn.f32 %r20, 0f3F800000, 0f00000000; {KEEP}", RIGHT),
    "not used": ("div.u32 %r20, 5, %r5;", RIGHT),
    "masked": (f"div.u32 %r20, 5, %r5; setp.ne.u32 %p2, %r5, 0; selp.b32 %r20, %r20, 1, %p2; "
               f"{KEEP}", RIGHT),
    "masked in its lane": (f"div.u32 %r20, 5, %r6; setp.eq.u32 %p2, %r6, 0; "
                           f"selp.b32 %r20, 7, %r20, %p2; {KEEP}", RIGHT),
    "under a guard that is false": (f"setp.ne.u32 %p2, %r5, 0; mov.u32 %r20, 1; "
                                    f"@%p2 div.u32 %r20, 5, %r5; {KEEP}", RIGHT),
    "the lane is left out": ("div.u32 %r20, 5, %r6; setp.ne.and.u32 %p2, %r2, 3, %p1; "
                             "@%p2 st.global.u32 [%d2], %r20;", RIGHT),
    "in shared memory": (f"rem.u32 %r20, 5, %r5; @%p1 st.shared.u32 [%r4], %r20; bar.sync 0; "
                         f"ld.shared.u32 %r20, [%r4]; {KEEP}", OPEN),
    "control": ("div.u32 %r20, 5, %r5; setp.gt.u32 %p2, %r20, 9; @%p2 bra L; bar.sync 0; L:", OPEN),
    "an address": ("rem.u32 %r20, 5, %r5; and.b32 %r20, %r20, 12; add.u32 %r20, %r20, %r3; "
                   "@%p1 ld.shared.u32 %r21, [%r20];", OPEN),
    "rounds": ("div.u32 %r20, 5, %r5; mov.u32 %r21, 0; L: bar.sync 0; add.u32 %r21, %r21, 1; "
               "setp.lt.u32 %p2, %r21, %r20; @%p2 bra L;", OPEN),
    "least number by -1": (f"div.s32 %r20, 0x80000000, -1; {KEEP}", RIGHT),
    "fns within the word": (f"fns.b32 %r20, %r1, %r2, 1; {KEEP}", RIGHT),
    "fns beyond the word": (f"add.u32 %r6, %r2, 1; fns.b32 %r20, %r1, %r6, 1; {KEEP}", WRONG),
    "wide numbers of mul24 decide": ("mul24.lo.u32 %r20, 0x1000001, 1; setp.eq.u32 %p2, %r20, 1; "
                                     "@%p2 bra L; bar.sync 0; L:", OPEN),
    "wide numbers of mul24 from memory decide": (
        "ld.global.u32 %r10, [%d1]; mul24.lo.u32 %r20, %r10, 0x1000001; setp.eq.u32 %p2, %r20, 1; "
        "@%p2 bra L; bar.sync 0; L:", OPEN),
    "a quotient by zero of what memory holds decides": (
        "ld.global.u32 %r10, [%d1]; div.u32 %r20, %r10, 0; setp.eq.u32 %p2, %r20, 1; "
        "@%p2 bra L; bar.sync 0; L:", OPEN),
    "narrow ones": ("mul24.lo.u32 %r20, 0xffffff, 1; setp.eq.u32 %p2, %r20, 1; "
                    "@%p2 bra L; bar.sync 0; L:", RIGHT),
    "the number of a warp in its processor": (
        "mov.u32 %r20, %warpid; setp.eq.u32 %p2, %r20, 0; @%p2 bra L; bar.sync 0; L:", OPEN),
    "how many warps a processor has": (
        "mov.u32 %r20, %nwarpid; setp.eq.u32 %p2, %r20, 2; @%p2 bra L; bar.sync 0; L:", OPEN),
    **{f"the place {n} of the system's shared memory decides": (
        f"mov.u32 %r20, %reserved_smem_offset_{n}; setp.eq.u32 %p2, %r20, 0; @%p2 bra L; "
        "bar.sync 0; L:", OPEN) for n in (0, 1)},
    "the place of the system's shared memory": (
        f"mov.u32 %r20, %reserved_smem_offset_1; {KEEP}", RIGHT),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_undefined(name):
    body, verdict = CASES[name]
    finding = verified(HEAD + body)
    codes = [item.code for item in finding.diagnostics]
    assert finding.verdict is verdict, (finding.notes, codes)
    assert codes == (["TTN223"] if verdict is WRONG else [])


def test_the_line_that_leaves_it_undefined_is_named():
    (item,) = verified(f"{HEAD}\ndiv.u32 %r20, 5, %r5;\n{KEEP}").diagnostics
    line = item.annotations[0].span.start_line - 1
    assert f"holds what line {line} leaves undefined, and is used here" in item.headline
