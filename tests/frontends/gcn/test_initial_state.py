"""What a kernel has when it begins: places of work-items, and registers by its descriptor."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.isa.gcn.assembly import parse_assembly

ROWS = "{grid: 1, block: [64, 2, 1], dynamic_shared: 0, parameters: [pointer, 5]}"
ADDED = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v2, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v3, v2, s[4:5]
s_waitcnt vmcnt(0)
v_add_u32_e32 v3, 1, v3
global_store_dword v2, v3, s[4:5]"""
OFFSET = "\t\t.amdhsa_accum_offset"


def asking(text: str, **settings: int) -> str:
    """The text with settings of the kernel in place of what it has."""
    for name, value in settings.items():
        lines = [line for line in text.split("\n") if f".amdhsa_{name} " not in line]
        text = "\n".join(lines).replace(
            "\t.end_amdhsa_kernel", f"\t\t.amdhsa_{name} {value}\n\t.end_amdhsa_kernel"
        )
    return text


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_rows_of_work_items_are_told_apart_only_where_the_kernel_asks(target):
    """Two waves add to the same 64 words where v0 has the place along x alone."""
    text = kernel(ADDED, target, threads=128)
    for asked, expected in ((None, Verdict.REFUTED), (0, Verdict.REFUTED), (1, Verdict.VERIFIED)):
        made = text if asked is None else asking(text, system_vgpr_workitem_id=asked)
        assert judged(made, ROWS).verdict is expected


def test_a_place_along_z_is_not_there_unless_asked_for():
    text = kernel(ADDED, threads=128)
    deep = ROWS.replace("[64, 2, 1]", "[64, 1, 2]")
    for asked, expected in ((1, Verdict.REFUTED), (2, Verdict.VERIFIED)):
        assert judged(asking(text, system_vgpr_workitem_id=asked), deep).verdict is expected


SMALL = {"next_free_vgpr": 60, "accum_offset": 32, "next_free_sgpr": 20}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("v_mov_b32_e32 v31, 0", ""),
        ("v_mov_b32_e32 v32, 0", "v32 is none of the 32 registers of its kind that `k` asks for"),
        ("v_mov_b64_e32 v[30:31], 0", ""),
        ("ds_read_b128 v[30:33], v1", "v33 is none of the 32"),
        ("v_accvgpr_write_b32 a31, v0", ""),
        ("v_accvgpr_write_b32 a32, v0", "a32 is none of the 32"),
        ("s_mov_b32 s31, 0", ""),
        ("s_mov_b32 s32, 0", "s32 is none of the 32"),
        ("s_mov_b64 vcc, 0", ""),
        ("s_mov_b32 m0, 0", ""),
    ],
)
def test_registers_are_those_that_the_kernel_asks_for(line, words):
    """60 vector registers are eight granules of 8, of which 32 are no accumulation registers."""
    text = asking(kernel(f"{line}\ns_waitcnt vmcnt(0) lgkmcnt(0)"), **SMALL)
    found, errors = parse_assembly(Source("k.s", text))
    assert (found is None) is bool(words)
    assert [error.code for error in errors] == ["TTN406"] * bool(words)
    assert words in (errors[0].headline if errors else "")


def test_registers_of_a_kernel_are_not_those_of_the_next_one():
    """Without `.size` a kernel ends where the next one begins."""
    first, second = (
        asking(kernel("v_mov_b32_e32 v40, 0"), **(SMALL if small else {}))
        for small in (True, False)
    )
    renamed = second.replace("k:", "other:", 1).replace("_kernel k\n", "_kernel other\n")
    renamed = renamed.replace(" k\n", " other\n").replace(" k.kd", " other.kd")
    found, errors = parse_assembly(Source("k.s", renamed + first))
    assert found is None and len(errors) == 1, errors
    swapped = asking(kernel("v_mov_b32_e32 v20, 0"), **SMALL) + renamed
    found, errors = parse_assembly(Source("k.s", swapped))
    assert found is not None, errors


def test_a_scalar_load_begins_at_a_whole_word():
    """9 is the place of the word at 8, which the launch has: the wave knows that it is 5."""
    lines = """s_load_dword s6, s[0:1], 0x9
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s6, {}
s_cbranch_scc1 .Lend
ds_write_b32 v0, v0 offset:8192
s_waitcnt lgkmcnt(0)
.Lend:
s_endpgm"""
    for number, expected in ((5, Verdict.VERIFIED), (6, Verdict.REFUTED)):
        text = kernel(lines.format(number)).replace("\t.Lend:", ".Lend:")
        launch = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
        assert judged(text, launch).verdict is expected
