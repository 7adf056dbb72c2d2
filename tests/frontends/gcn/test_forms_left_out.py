"""Values that a form of an instruction changes: none of them may be taken as the plain result."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.isa.gcn.assembly import parse_assembly

ONE = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
WAIT = "\ns_waitcnt lgkmcnt(0)"


def verdict(lines, **launch):
    text = ONE.replace("64", str(launch.get("block", 64)))
    return judged(kernel(lines), text)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("v_mov_b32 v2, v1 row_shr:1", "v_mov_b32_dpp"),
        ("v_add_u32 v2, v1, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", "v_add_u32_dpp"),
        ("v_mov_b32 v2, v1 row_mirror", "v_mov_b32_dpp"),
        ("v_add_u32 v2, v1, v1 src0_sel:BYTE_0 src1_sel:BYTE_1", "v_add_u32_sdwa"),
        ("v_cmp_eq_u32 vcc, v1, v2 src0_sel:WORD_1", "v_cmp_eq_u32_sdwa"),
        ("v_mov_b32_dpp v2, v1 row_shr:1", "v_mov_b32_dpp"),
        ("v_add_u32_e64 v2, v1, v1 clamp", "v_add_u32_e64"),
    ],
)
def test_the_encoding_follows_from_the_modifiers(written, meant):
    found, errors = parse_assembly(Source("k.s", kernel(written)))
    assert found is not None, errors
    assert found.instructions[0].opcode == meant


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        ("", Verdict.REFUTED),  # lane 63 is at 4095
        (" row_shr:1 bound_ctrl:0", Verdict.VERIFIED),  # nobody gets what it has
        (" row_ror:1", Verdict.REFUTED),
        (" quad_perm:[0,1,2,2]", Verdict.VERIFIED),
        (" row_shl:15 row_mask:0x3", Verdict.REFUTED),  # lane 63 keeps its own
    ],
)
def test_lanes_that_are_moved_are_not_where_they_were(move, expected):
    """The place of lane 63 is beyond LDS, of all others within it."""
    start = "v_mul_u32_u24_e32 v1, 65, v0\nv_mov_b32_e32 v2, v1\nv_mov_b32_e32 v3, 0\nv_nop\n"
    write = f"v_mov_b32 v2, v1{move}\nds_write_b8 v2, v3\nds_write_b32 v2, v3{WAIT}"
    assert verdict(start + write).verdict is expected


def test_exchanged_rows_are_not_where_they_were():
    """The upper half of the lanes is beyond LDS until its places are exchanged."""
    start = "v_lshlrev_b32_e32 v1, 2, v0\nv_cmp_gt_u32_e32 vcc, 32, v0\nv_mov_b32_e32 v4, 0x1000\n"
    start += "v_mov_b32_e32 v3, 0\nv_cndmask_b32_e32 v2, v4, v1, vcc\nv_mov_b32_e32 v5, v1\nv_nop\n"
    start = start.replace("\n", "\ns_nop 4\n")  # for wait states
    write = f"ds_write_b32 v2, v3{WAIT}"
    assert verdict(start + write).verdict is Verdict.REFUTED
    exchange = "v_permlane32_swap_b32_e32 v2, v5\nv_nop\n"
    assert verdict(start + exchange + write).verdict is Verdict.VERIFIED


def test_comparisons_of_parts_of_words_are_followed():
    begin = "v_lshl_or_b32 v1, v0, 8, 7\n"
    compare = "v_cmp_gt_u32_sdwa vcc, v1, v9 src0_sel:{} src1_sel:DWORD\n"
    begin = f"v_mov_b32_e32 v9, 8\n{begin}"
    branch = "s_nop 4\ns_cbranch_vccz .Lx\nds_write_b32 v1, v0 offset:65000\n.Lx:\ns_nop 0" + WAIT
    for part, expected in (("BYTE_0", Verdict.VERIFIED), ("BYTE_1", Verdict.REFUTED)):
        finding = judged(kernel(begin + compare.format(part) + branch).replace("\t.Lx", ".Lx"), ONE)
        assert finding.verdict is expected, finding.notes


def test_parts_of_words_are_selected():
    """Byte 0 of lane 63 is 63, and not 63 * 256 + 63, which is beyond LDS."""
    both = "v_lshl_or_b32 v1, v0, 8, v0\n"
    half = "v_add_u32 v2, v1, v1 src0_sel:BYTE_0 src1_sel:BYTE_0\nds_write_b8 v2, v0" + WAIT
    plain = "v_add_u32_e32 v2, v1, v1\nds_write_b8 v2, v0" + WAIT
    assert verdict(both + half).verdict is Verdict.VERIFIED
    assert verdict(both + plain).verdict is Verdict.REFUTED


def test_signs_of_sources_change_what_is_chosen():
    """`-v1` sets the highest bit, so that the place is beyond LDS."""
    start = "v_lshlrev_b32_e32 v1, 2, v0\ns_mov_b64 s[4:5], 0\n"
    for source, expected in (("v1", Verdict.VERIFIED), ("-v1", Verdict.REFUTED)):
        lines = f"v_cndmask_b32_e64 v2, {source}, v1, s[4:5]\nds_write_b32 v2, v0{WAIT}"
        assert verdict(start + lines).verdict is expected
    whole = "v_or_b32_e32 v2, 0x80000000, v1\nv_cndmask_b32_e64 v2, |v2|, v1, s[4:5]\n"
    assert verdict(start + whole + "ds_write_b32 v2, v0" + WAIT).verdict is Verdict.VERIFIED


def test_registers_by_number_and_formats_are_not_followed():
    load = "s_load_dwordx2 s[8:9], s[0:1], 0x0\ns_mov_b32 m0, 8\ns_nop 0\n"
    finding = verdict(load + "s_movrels_b32 s4, s0" + WAIT)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("the register that M0 names" in note for note in finding.notes)
    finding = verdict("v_lshlrev_b32_e32 v1, 2, v0\nds_write_b32 v1, v0 gds" + WAIT)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("memory that all work-groups share" in note for note in finding.notes)
    typed = "buffer_load_format_x v1, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)"
    finding = verdict(typed)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("as many bytes as its resource says" in note for note in finding.notes)


def test_lanes_beyond_the_work_group_hold_nothing():
    lines = "s_mov_b64 exec, -1\nv_lshlrev_b32_e32 v1, 2, v0\nds_write_b32 v1, v0" + WAIT
    finding = verdict(lines, block=32)
    assert any("unknown address" in note for note in finding.notes)
    assert not any("unknown address" in note for note in verdict(lines).notes)
