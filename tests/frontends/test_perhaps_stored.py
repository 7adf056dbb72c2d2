"""Stores of two warps to one word that some lanes may not do, in all combinations."""

from __future__ import annotations

from itertools import product

import pytest

from tests.frontends.test_loops_on_data_with_barriers import verdict_of
from titan.foundation.verdict import Verdict

OWN = """
mul.wide.u32 %d2, %r9, 4; add.u64 %d3, %d1, %d2; ld.global.u32 %r3, [%d3];
setp.ne.u32 %p2, %r3, 0; setp.lt.u32 %p4, %r9, 32; setp.ge.u32 %p5, %r9, 32;
ld.global.u32 %r11, [%d1+512]; ld.global.u32 %r12, [%d1+516];
"""
WAYS = {
    "certain": "st.shared.u32 [%r2], {};",
    "in an arm": "@%p2 bra A{0}; st.shared.u32 [%r2], {1}; A{0}:",
    "guarded": "@%p2 st.shared.u32 [%r2], {};",
    "in a loop": "mov.u32 %r13, {1}; B{0}: st.shared.u32 [%r2], %r13; ld.global.u32 %r14, [%d3+4];"
    "setp.ne.u32 %p6, %r14, 0; add.u64 %d3, %d3, 4; @%p6 bra B{0};",
}
VALUES = ("1", "2", "%r11", "%r12")


def of_warp(number: int, way: str, value: str) -> str:
    text = WAYS[way].replace("{}", value).replace("{1}", value).replace("{0}", f"_{number}")
    return f"@!%p{4 + number} bra E{number};\n{text}\nE{number}:\n"


@pytest.mark.parametrize("ways", list(product(WAYS, repeat=2)))
def test_stores_do_not_race_where_both_write_the_same(ways: tuple[str, str]) -> None:
    for one, other in product(VALUES, repeat=2):
        body = OWN + "st.shared.u32 [%r2], 0; bar.sync 0;\n"  # read where no lane stores
        body += of_warp(0, ways[0], one) + of_warp(1, ways[1], other)
        body += "bar.sync 0; ld.shared.u32 %r5, [%r2]; st.global.u32 [%d1+1024], %r5;"
        found = verdict_of(body).verdict
        if one != other:
            assert found is Verdict.REFUTED, (one, other)
        elif "in a loop" not in ways:  # lanes of a warp may be in different rounds there
            assert found is Verdict.VERIFIED, (one, other)


def test_what_changes_in_a_loop_is_not_one_value() -> None:
    text = WAYS["in a loop"].replace("ld.global", "add.u32 %r13, %r13, 1; ld.global")
    parts = [f"@!%p{4 + n} bra E{n};\n{text.format(f'_{n}', 1)}\nE{n}:\n" for n in (0, 1)]
    assert verdict_of(OWN + "".join(parts)).verdict is not Verdict.VERIFIED
