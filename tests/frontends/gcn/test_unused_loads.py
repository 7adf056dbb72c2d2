"""Loads that others overwrite: nothing goes wrong where what they bring is not used.

Wave 0 stores the words that both waves load, as compilers have it that give each wave all of a row
and one of them its stores.
"""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

HEAD = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshrrev_b32_e32 v1, 6, v0
v_and_b32_e32 v2, 63, v0
v_lshlrev_b32_e32 v2, 2, v2
v_readfirstlane_b32 s6, v1
s_cmp_eq_u32 s6, 0
s_cselect_b64 s[8:9], -1, 0
v_mov_b32_e32 v9, 1
s_waitcnt lgkmcnt(0)
global_load_dword v3, v2, s[4:5]
s_waitcnt vmcnt(0)
"""
STORE = """s_mov_b64 s[10:11], exec
s_and_b64 exec, exec, s[8:9]
global_store_dword v2, v9, s[4:5]
s_mov_b64 exec, s[10:11]
s_not_b64 s[8:9], s[8:9]
s_and_b64 exec, exec, s[8:9]
{use}
s_mov_b64 exec, s[10:11]
"""
USES = {  # by the other wave
    "nothing": ("", True),
    "a sum that nobody needs": ("v_add_f32_e32 v4, v3, v9\nv_mul_f32_e32 v5, v4, v4", True),
    "a move of lanes that nobody needs": (
        "v_mov_b32_dpp v4, v3 row_shr:1 row_mask:0xf bank_mask:0xf", True),
    "a store of no lane": ("s_mov_b64 exec, 0\nglobal_store_dword v2, v3, s[4:5] offset:512", True),
    "another word behind it": ("v_mov_b32_e32 v3, 7\nglobal_store_dword v2, v3, s[4:5] offset:512",
                               True),
    "a store": ("global_store_dword v2, v3, s[4:5] offset:512", False),
    "a store of a sum": ("v_add_f32_e32 v4, v3, v9\nglobal_store_dword v2, v4, s[4:5] offset:512",
                         False),
    "a store of another lane's": (
        "v_mov_b32_dpp v4, v3 row_shr:1 row_mask:0xf bank_mask:0xf\n"
        "global_store_dword v2, v4, s[4:5] offset:512", False),
    "a quotient": (
        "v_div_scale_f32 v4, vcc, v3, v9, v3\nv_div_fmas_f32 v5, v9, v9, v9\n"
        "global_store_dword v2, v5, s[4:5] offset:512", False),
    "a choice by it": (
        "v_cmp_lt_f32_e32 vcc, v3, v9\ns_nop 1\nv_cndmask_b32_e32 v4, v2, v9, vcc\n"
        "global_store_dword v2, v4, s[4:5] offset:512", False),
    "LDS": ("ds_write_b32 v2, v3", False),
    "an atomic": ("global_atomic_add v2, v3, s[4:5] offset:512", False),
    "a scalar": ("v_readfirstlane_b32 s12, v3\ns_nop 3\ns_add_u32 s13, s12, 1", False),
    "part of a register": (
        "v_mov_b32_e32 v4, v3\ns_mov_b64 exec, 1\nv_mov_b32_e32 v4, 0\n"
        "global_store_dword v2, v4, s[4:5] offset:512", False),
    "half of a register": (
        "v_mov_b32_e32 v4, v3\nv_cvt_f16_f32_e32 v4, v9\n"
        "global_store_dword v2, v4, s[4:5] offset:512", False),
    "a place": ("global_load_dword v4, v3, s[4:5]\ns_waitcnt vmcnt(0)", False),
    "a place of a load over itself": (
        "global_load_dword v3, v3, s[4:5]\ns_waitcnt vmcnt(0)", False),
    "a place in LDS": ("ds_read_b32 v3, v3\ns_waitcnt lgkmcnt(0)", False),
    "a mode": ("v_readfirstlane_b32 s12, v3\ns_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s12", False),
    **{name: (f"{lines}\nglobal_store_dword v2, v4, s[4:5] offset:512", False) for name, lines in (
        ("places of lanes", "ds_bpermute_b32 v4, v3, v0\ns_waitcnt lgkmcnt(0)"),
        ("an accumulation register",
         "v_accvgpr_write_b32 a0, v3\ns_nop 1\nv_accvgpr_read_b32 v4, a0"),
        ("private memory", "scratch_store_dword off, v3, off\nscratch_load_dword v4, off, off\n"
         "s_waitcnt vmcnt(0)"),
        ("a carry", "v_add_co_u32_e32 v5, vcc, v3, v3\nv_mov_b32_e32 v4, 0\ns_nop 1\n"
         "v_addc_co_u32_e32 v4, vcc, v4, v4, vcc"),
        ("a lane that is chosen", "v_mov_b32_e32 v4, 0\nv_readfirstlane_b32 s12, v3\ns_nop 4\n"
         "v_writelane_b32 v4, 1, s12"),
        ("an exchange", "v_mov_b32_e32 v4, 0\nv_swap_b32 v4, v3"),
        ("lanes that get nothing", "v_mov_b32_e32 v4, v3\ns_nop 1\n"
         "v_mov_b32_dpp v4, v0 row_shr:1 row_mask:0xf bank_mask:0xf"),
        ("a half that stays", "v_mov_b32_e32 v4, v3\nv_mad_u16 v4, v0, v0, v0 op_sel:[0,0,0,1]\n"
         "s_nop 0"),
        ("bytes that stay", "v_mov_b32_e32 v4, v3\nv_cvt_pk_fp8_f32 v4, v0, v0"),
    )},
}  # fmt: skip


def finding(use: str, **policies: str):
    text = kernel(HEAD + STORE.format(use=use) + "s_endpgm", lds=1024, threads=128)
    launch = "{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"
    return judged(text, launch, policies=CodePolicies(**policies))


@pytest.mark.parametrize("name", USES)
def test_what_is_loaded_may_be_overwritten_where_it_is_not_used(name):
    use, unused = USES[name]
    found = finding(use)
    if unused:
        assert found.verdict is Verdict.VERIFIED, [str(item) for item in found.diagnostics]
        assert any("shown to be unused" in note for note in found.notes)
    else:
        assert found.verdict is not Verdict.VERIFIED, found.notes


@pytest.mark.parametrize("name", [name for name, (_, unused) in USES.items() if unused])
def test_the_policy_forbids_it(name):
    found = finding(USES[name][0], unused_reads="refuse")
    assert found.verdict is Verdict.REFUTED
    assert [item.code for item in found.diagnostics] == ["TTN201"]


def test_the_wave_that_stores_may_not_read_late():
    """Its own load is before its store; that of the other wave is used."""
    found = finding("v_mov_b32_e32 v6, v3\nglobal_store_dword v2, v6, s[4:5] offset:512")
    assert found.verdict is Verdict.REFUTED
