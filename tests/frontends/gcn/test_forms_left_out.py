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


def test_lanes_that_are_moved_are_not_where_they_were():
    """The other lane's place is beyond LDS, or may be."""
    moved = "v_mul_u32_u24_e32 v1, 64, v0\nv_nop\nv_nop\nv_mov_b32 v2, v1 row_shl:1 bound_ctrl:0\n"
    finding = verdict(moved + "ds_write_b32 v2, v0" + WAIT)
    assert any("unknown address" in note for note in finding.notes)


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
