"""Loops in which nothing changes: a wave that polls what another one has to store."""

from __future__ import annotations

import re

import pytest

from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.verify import verify_assembly
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions
from titan.isa.waves.standing_loops import STANDS

START = "v_mov_b32 v4, 0; v_mov_b32 v5, 0; s_mov_b32 s9, 0; s_mov_b32 s10, 0; "
POLL = (
    "{start} .La: ds_read_b32 v2, v4; s_waitcnt lgkmcnt(0); v_readfirstlane_b32 s9, v2;"
    " s_cmp_eq_u32 s9, {wanted}; s_cbranch_scc0 .La"
)
STORED = "ds_write_b32 v4, v5; s_waitcnt lgkmcnt(0); s_barrier;"
STANDING = {
    "polls what is never stored": POLL.format(start=STORED, wanted=5),
    "goes round alone": ".La: s_branch .La",
    "in two states": ".La: s_xor_b32 s9, s9, 1; s_cmp_lg_u32 s9, 7; s_cbranch_scc1 .La",
    "in 1000 states": (
        ".La: s_add_u32 s9, s9, 1; s_cmp_lg_u32 s9, 1000; s_cselect_b32 s9, s9, 0;"
        " s_cmp_lg_u32 s9, 1000; s_cbranch_scc1 .La"
    ),
    "in lanes": ".La: v_xor_b32 v5, 1, v5; s_branch .La",
    "around a loop that ends": (
        ".La: s_mov_b32 s9, 0; .Lb: s_add_u32 s9, s9, 1; s_cmp_lg_u32 s9, 100;"
        " s_cbranch_scc1 .Lb; s_branch .La"
    ),
}
ENDING = {
    "polls what is stored": POLL.format(start=STORED, wanted=0),
    "counts": ".La: s_add_u32 s9, s9, 1; s_cmp_lg_u32 s9, 5000; s_cbranch_scc1 .La",
    "counts in lanes": (
        ".La: v_add_u32 v5, 1, v5; s_nop 4; v_readfirstlane_b32 s9, v5; s_cmp_lg_u32 s9, 500;"
        " s_mov_b32 s9, 0; s_cbranch_scc1 .La"
    ),
    "counts in the LDS": (
        f"{STORED} .La: ds_read_b32 v5, v4; s_waitcnt lgkmcnt(0); v_add_u32 v5, 1, v5;"
        " ds_write_b32 v4, v5; s_nop 4; v_readfirstlane_b32 s9, v5; v_mov_b32 v5, 0;"
        " s_cmp_lg_u32 s9, 500; s_mov_b32 s9, 0; s_waitcnt lgkmcnt(0); s_cbranch_scc1 .La"
    ),
    "is left in the last lane": (
        ".La: s_lshl_b64 exec, 1, 0; s_add_u32 s10, s10, 1; s_cmp_lg_u32 s10, 3000;"
        " s_mov_b64 exec, -1; s_cbranch_scc1 .La"
    ),
}


def judged(body: str) -> tuple[Verdict, str]:
    text = kernel((START + body).replace(";", "\n"))
    described, errors = read_launch_text("{grid: 1, block: 64, parameters: [pointer, 5]}", "l.yaml")
    assert not errors
    source = Source("k.s", re.sub(r"^\t(\.L\w+:)", r"\1", text, flags=re.MULTILINE))
    found = next(iter(verify_assembly(source, described, CodeOptions(steps_max=200_000), [], 0.0)))
    return found.verdict, " ".join(
        [*found.notes, *(item.headline + " ".join(item.notes) for item in found.diagnostics)]
    )


@pytest.mark.parametrize("name", STANDING)
def test_loops_that_stand(name: str) -> None:
    """Undecided at once, with the reason, though the budget would be long in being spent."""
    verdict, text = judged(STANDING[name])
    assert verdict is Verdict.UNDECIDED
    assert STANDS in text


@pytest.mark.parametrize("name", ENDING)
def test_loops_that_end(name: str) -> None:
    assert judged(ENDING[name])[0] is Verdict.VERIFIED
