"""Registers whose load is in flight: every way to use one too early is found, and no other.

Each entry is the body of one wave. Scalar loads come back in any order; two queues do not keep
theirs; a load of a queue may overwrite the result of an earlier one of it.
"""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import ONE_WAVE, judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict

START = """\
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v3, 2, v0
s_waitcnt lgkmcnt(0)
"""
EARLY = {
    "a scalar load and LDS": (
        "s_load_dword s6, s[0:1], 0x8; "
        "ds_read_b32 v8, v3; "
        "s_waitcnt lgkmcnt(1); "
        "s_add_u32 s7, s6, 1"
    ),
    "LDS and a scalar load": (
        "ds_read_b32 v8, v3; "
        "s_load_dword s6, s[0:1], 0x8; "
        "s_waitcnt lgkmcnt(1); "
        "v_add_u32_e32 v9, v8, v8"
    ),
    "two ds": (
        "ds_read_b32 v8, v3; ds_read_b32 v9, v3; s_waitcnt lgkmcnt(1); v_add_u32_e32 v9, v8, v8"
    ),
    "written by two queues": (
        "global_load_dword v8, v3, s[4:5]; ds_read_b32 v8, v3; s_waitcnt lgkmcnt(0) vmcnt(0)"
    ),
    "written by the vector unit": (
        "global_load_dword v8, v3, s[4:5]; v_mov_b32_e32 v8, 0; s_waitcnt vmcnt(0)"
    ),
    "written by the scalar unit": (
        "s_load_dword s6, s[0:1], 0x8; s_mov_b32 s6, 0; s_waitcnt lgkmcnt(0)"
    ),
    "two scalar loads": (
        "s_load_dword s6, s[0:1], 0x8; "
        "s_load_dword s6, s[0:1], 0x0; "
        "s_waitcnt lgkmcnt(0); "
        "s_mov_b32 s7, s6"
    ),
    "store data pending": (
        "global_load_dword v8, v3, s[4:5]; global_store_dword v3, v8, s[4:5] offset:1024"
    ),
    "ds write of pending": "global_load_dword v8, v3, s[4:5]; ds_write_b32 v3, v8",
    "address pending": "ds_read_b32 v8, v3; global_load_dword v9, v8, s[4:5]",
    "agpr": "global_load_dword a8, v3, s[4:5]; v_accvgpr_read_b32 v9, a8",
    "mfma pending": ("ds_read_b64 v[8:9], v3; v_mfma_f32_16x16x16_f16 a[0:3], v[8:9], v[8:9], 0"),
    "mfma acc pending": (
        "global_load_dwordx4 a[0:3], v3, s[4:5]; "
        "v_mfma_f32_16x16x16_f16 a[0:3], v[10:11], v[10:11], a[0:3]"
    ),
    "an atomic that returns": (
        "v_mov_b32_e32 v8, 1; global_atomic_add v9, v3, v8, s[4:5] sc0; v_mov_b32_e32 v10, v9"
    ),
    "a part extended by its sign": (
        "global_load_dword v8, v3, s[4:5]; v_add_u32_sdwa v9, sext(v8), v3 dst_sel:DWORD "
        "dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:DWORD"
    ),
    "a compared part extended by its sign": (
        "ds_read_b32 v8, v3; v_cmp_gt_i32_sdwa vcc, v3, sext(v8) src0_sel:DWORD src1_sel:BYTE_1"
    ),
    "the half beside one that is written": (
        "global_load_dword v8, v3, s[4:5]; v_fma_mixhi_f16 v8, v3, v3, v3"
    ),
    "bpermute": "ds_bpermute_b32 v8, v3, v3; v_mov_b32_e32 v9, v8",
    "swizzle": "ds_swizzle_b32 v8, v3 offset:0x1f; v_mov_b32_e32 v9, v8",
    "vcc": "s_load_dwordx2 vcc, s[0:1], 0x0; v_cndmask_b32_e32 v8, v3, v3, vcc",
    "vcc that is not named": "s_load_dwordx2 vcc, s[0:1], 0x0; v_div_fmas_f32 v8, v3, v3, v3",
    "vcc that is not named, wide": (
        "s_load_dwordx2 vcc, s[0:1], 0x0; v_div_fmas_f64 v[8:9], v[4:5], v[4:5], v[4:5]"
    ),
    "vcc of a branch": "s_load_dwordx2 vcc, s[0:1], 0x0; s_cbranch_vccnz .Lx; .Lx:",
    "vcc of the other branch": "s_load_dwordx2 vcc, s[0:1], 0x0; s_cbranch_vccz .Lx; .Lx:",
    "an encoded wait that leaves one": "ds_read_b32 v8, v3; s_waitcnt 0xc17f; v_mov_b32_e32 v9, v8",
    "an encoded wait that leaves 16": (
        "global_load_dword v8, v3, s[4:5]; s_waitcnt 0x4f70; v_mov_b32_e32 v9, v8"
    ),
    "memtime": "s_memtime s[6:7]; s_add_u32 s8, s6, 1",
    "d16 other half": (
        "global_load_short_d16 v8, v3, s[4:5]; "
        "global_load_short_d16_hi v8, v3, s[4:5]; "
        "s_waitcnt vmcnt(1); "
        "v_mov_b32_e32 v9, v8"
    ),
    "branch pending": "s_load_dword s6, s[0:1], 0x8; s_cmp_eq_u32 s6, 5",
    "readlane": "ds_read_b32 v8, v3; v_readlane_b32 s6, v8, 0",
    "other lanes": (
        "ds_read_b32 v8, v3; v_mov_b32_dpp v9, v8 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf"
    ),
    "buffer rsrc pending": (
        "s_load_dwordx4 s[8:11], s[0:1], 0x0; buffer_load_dword v8, v3, s[8:11], 0 offen"
    ),
    "buffer soffset pending": (
        "s_mov_b32 s8, s4; "
        "s_mov_b32 s9, s5; "
        "s_mov_b32 s10, 512; "
        "s_mov_b32 s11, 0x27000; "
        "s_load_dword s6, s[0:1], 0x8; "
        "buffer_load_dword v8, v3, s[8:11], s6 offen"
    ),
}
IN_TIME = {
    "two ds ok": (
        "ds_read_b32 v8, v3; ds_read_b32 v9, v3; s_waitcnt lgkmcnt(1); v_add_u32_e32 v10, v8, v8"
    ),
    "written twice by a queue": (
        "global_load_dword v8, v3, s[4:5]; "
        "global_load_dword v8, v3, s[4:5]; "
        "s_waitcnt vmcnt(0); "
        "v_mov_b32_e32 v9, v8"
    ),
    "an atomic that does not": (
        "v_mov_b32_e32 v8, 1; global_atomic_add v3, v8, s[4:5]; v_mov_b32_e32 v10, v8"
    ),
    "an encoded wait": "ds_read_b32 v8, v3; s_waitcnt 0xc07f; v_mov_b32_e32 v9, v8",
    "an encoded wait for memory": (
        "global_load_dword v8, v3, s[4:5]; s_waitcnt 0x0f70; v_mov_b32_e32 v9, v8"
    ),
    "vcc of a branch": (
        "s_load_dwordx2 vcc, s[0:1], 0x0; s_waitcnt lgkmcnt(0); s_cbranch_vccnz .Lx; .Lx:"
    ),
    "endpgm pending": "ds_read_b32 v8, v3",
}


def _judged(lines):
    return judged(kernel(START + lines.replace("; ", "\n"), "gfx942"), ONE_WAVE)


@pytest.mark.parametrize("name", EARLY)
def test_a_register_is_used_too_early(name):
    finding = _judged(EARLY[name])
    assert finding.verdict is Verdict.REFUTED
    assert finding.diagnostics[0].code == "TTN217"


@pytest.mark.parametrize("name", IN_TIME)
def test_a_register_is_used_in_time(name):
    assert _judged(IN_TIME[name]).verdict is Verdict.VERIFIED
