"""Registers and private memory that nothing has written: used, masked, kept, left out."""

from __future__ import annotations

import re

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

RIGHT, WRONG, OPEN = Verdict.VERIFIED, Verdict.REFUTED, Verdict.UNDECIDED
LAUNCH = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
START = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_cmp_gt_u32_e32 vcc, 9, v0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0)
"""
KEEP = "global_store_dword v1, v9, s[4:5]"
WITHIN, WHOLE = "s_and_saveexec_b64 s[10:11], vcc", "s_mov_b64 exec, s[10:11]"
DONE = "s_waitcnt vmcnt(0) lgkmcnt(0)"
PRIVATE = "private_segment_fixed_size 256"


def finding(lines, target="gfx942", policies=None):
    text = "\n".join([START, *lines, "s_endpgm"])
    text = re.sub(r"^\t(\.L\w+:)", r"\1", kernel(text, target), flags=re.M)
    head = "\t.amdhsa_kernel k\n"
    text = text.replace(head, f"{head}\t\t.amdhsa_{PRIVATE}\n")
    return judged(text, LAUNCH, policies=policies or CodePolicies())


FIRST_ARM = ["v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "s_xor_b64 s[6:7], exec, s[10:11]",
             "s_mov_b64 s[12:13], s[6:7]", "v_mov_b32_e32 v9, v0",
             "s_or_saveexec_b64 s[10:11], s[6:7]"]  # fmt: skip
OTHER_ARM = [
    "s_xor_b64 exec, exec, s[10:11]",
    "v_mov_b32_e32 v9, v2",
    "s_or_b64 exec, exec, s[10:11]",
]

CASES = [
    # Stored, moved, added to, by one lane, in a part.
    ([KEEP], WRONG),
    (["v_mov_b32_e32 v9, v0", KEEP], RIGHT),
    (["v_add_u32_e32 v9, v9, v2", KEEP], WRONG),
    (["v_mov_b32_e32 v8, v9", "v_xor_b32_e32 v9, v8, v2", KEEP], WRONG),
    (["v_max_u32_e32 v9, v9, v2", KEEP], OPEN),
    (["v_fma_f32 v9, v9, v2, v2", KEEP], OPEN),
    ([WITHIN, "v_mov_b32_e32 v9, v0", WHOLE, KEEP], WRONG),
    ([WITHIN, "v_mov_b32_e32 v9, v0", KEEP], RIGHT),
    (["v_mov_b32_e32 v9, 0", WITHIN, "v_mov_b32_e32 v9, v0", WHOLE, KEEP], RIGHT),
    ([WITHIN, "v_mov_b32_e32 v9, v0", WHOLE, "s_nop 4", "v_cndmask_b32_e32 v9, 0, v9, vcc", KEEP],
     RIGHT),
    ([WITHIN, "v_mov_b32_e32 v9, v0", WHOLE, "s_nop 4", "v_cndmask_b32_e32 v9, v9, v2, vcc", KEEP],
     WRONG),
    # The other half is written, too: zeros.
    (["global_load_short_d16 v9, v1, s[4:5] offset:1024", DONE, KEEP], RIGHT),
    (["global_load_short_d16 v9, v1, s[4:5] offset:1024", DONE,
      "global_store_short v1, v9, s[4:5]"], RIGHT),
    (["global_load_short_d16 v9, v1, s[4:5] offset:1024", DONE,
      "global_store_short_d16_hi v1, v9, s[4:5]"], RIGHT),
    (["global_load_short_d16 v9, v1, s[4:5] offset:1024", DONE,
      "global_load_short_d16_hi v9, v1, s[4:5] offset:1026", DONE, KEEP], RIGHT),
    (["v_and_b32_e32 v9, 0xff, v0", "v_perm_b32 v9, v9, v8, s6", KEEP], OPEN),
    (["s_mov_b32 s6, 0x0c0c0504", "v_perm_b32 v9, v0, v8, s6", KEEP], RIGHT),
    (["s_mov_b32 s6, 0x0c0c0500", "v_perm_b32 v9, v0, v8, s6", KEEP], OPEN),
    (["v_cvt_pkrtz_f16_f32 v9, v2, v2", KEEP], RIGHT),
    (["v_cvt_pkrtz_f16_f32 v9, v2, v8", "global_store_short v1, v9, s[4:5]"], RIGHT),
    (["v_cvt_pkrtz_f16_f32 v9, v2, v8", "global_store_short_d16_hi v1, v9, s[4:5]"], WRONG),
    (["v_pk_mul_f32 v[10:11], v[2:3], v[2:3] op_sel_hi:[0,0]", "v_mov_b32_e32 v9, v11", KEEP],
     RIGHT),
    (["v_pk_mul_f32 v[10:11], v[2:3], v[2:3]", "v_mov_b32_e32 v9, v10", KEEP], RIGHT),
    (["v_pk_mul_f32 v[10:11], v[2:3], v[2:3]", "v_mov_b32_e32 v9, v11", KEEP], OPEN),
    (["v_mad_u64_u32 v[10:11], s[6:7], v2, v2, v[0:1]", "v_mov_b32_e32 v9, v11", KEEP], RIGHT),
    (["v_mov_b32_e32 v4, v0", "v_mad_u64_u32 v[10:11], s[6:7], v2, v2, v[4:5]",
      "v_mov_b32_e32 v9, v10", KEEP], RIGHT),
    (["v_mov_b32_e32 v4, v0", "v_mad_u64_u32 v[10:11], s[6:7], v2, v2, v[4:5]",
      "v_mov_b32_e32 v9, v11", KEEP], OPEN),
    # A mask by data chooses.
    (["v_cmp_gt_u32_e64 s[6:7], 3, v2", "s_nop 4", "v_cndmask_b32_e64 v9, v9, v0, s[6:7]", KEEP],
     OPEN),
    # Vector stores: some words may fill them up.
    (["v_mov_b32_e32 v8, v0", "v_lshlrev_b32_e32 v1, 3, v0",
      "global_store_dwordx2 v1, v[8:9], s[4:5]"], OPEN),
    (["v_lshlrev_b32_e32 v1, 3, v0", "global_store_dwordx2 v1, v[8:9], s[4:5]"], WRONG),
    # As addresses.
    (["global_load_dword v9, v8, s[4:5]", DONE], WRONG),
    (["global_load_dword v9, v1, s[40:41]", DONE], WRONG),
    (["global_load_dword v9, v[8:9], off", DONE], WRONG),
    (["ds_write_b32 v9, v0", DONE], WRONG),
    (["ds_read_b32 v8, v9", DONE], WRONG),
    (["s_mov_b64 exec, 0", "global_load_dword v9, v8, s[4:5]", DONE], RIGHT),
    (["s_load_dword s6, s[40:41], 0x0", DONE], WRONG),
    (["v_mov_b32_e32 v8, 0", "global_load_dword v9, v8, s[4:5]", DONE], RIGHT),
    (["scratch_store_dword v9, v0, off", DONE], WRONG),
    # Atomics.
    (["global_atomic_add v1, v9, s[4:5]"], WRONG),
    (["global_atomic_add v1, v0, s[4:5]"], RIGHT),
    (["ds_add_u32 v1, v9", DONE], OPEN),
    # Control.
    (["v_cmp_gt_u32_e32 vcc, 3, v9", WITHIN, "v_mov_b32_e32 v8, v0",
      "s_or_b64 exec, exec, s[10:11]"], OPEN),
    (["v_cmp_gt_u32_e32 vcc, 3, v9", "s_cbranch_vccz .Lend", "v_mov_b32_e32 v8, v0", ".Lend:"],
     OPEN),
    (["s_cmp_eq_u32 s40, 0", "s_cbranch_scc1 .Lend", "v_mov_b32_e32 v8, v0", ".Lend:"], OPEN),
    # Arms that data choose.
    (["v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "v_mov_b32_e32 v9, v0",
      "s_xor_b64 exec, exec, s[10:11]", "v_mov_b32_e32 v9, v2", WHOLE, KEEP], RIGHT),
    (["v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "v_mov_b32_e32 v9, v0",
      "s_or_b64 exec, exec, s[10:11]", KEEP], OPEN),
    (["v_mov_b32_e32 v9, 0", "v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "v_mov_b32_e32 v9, v0",
      "s_or_b64 exec, exec, s[10:11]", KEEP], RIGHT),
    (["v_mov_b32_e32 v9, 0", "v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "v_add_u32_e32 v9, v8, v0",
      "s_or_b64 exec, exec, s[10:11]", KEEP], OPEN),
    (["v_mov_b32_e32 v9, 0", "v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "v_mov_b32_e32 v8, v0",
      "v_add_u32_e32 v9, v8, v0", "s_or_b64 exec, exec, s[10:11]", KEEP], RIGHT),
    # Arms on both sides of an instruction of all lanes, as compilers write `if` and `else`.
    ([*FIRST_ARM, "v_add_u32_e32 v7, v1, v2", *OTHER_ARM, KEEP], RIGHT),
    ([*FIRST_ARM, "v_add_u32_e32 v7, v1, v2", "s_mov_b64 s[10:11], s[12:13]", *OTHER_ARM, KEEP],
     OPEN),
    ([*FIRST_ARM, "v_add_u32_e32 v7, v1, v2", "v_mov_b32_e32 v9, v8", *OTHER_ARM, KEEP], OPEN),
    ([*FIRST_ARM, f"ds_read_b32 v9, v1\n{DONE}", *OTHER_ARM, KEEP], OPEN),
    ([*(line.replace("v9, v0", "v9, v8") for line in FIRST_ARM), "v_add_u32_e32 v7, v1, v2",
      *OTHER_ARM, KEEP], OPEN),
    # A scalar register that an arm writes and reads, where no lane may be in it.
    (["v_mov_b32_e32 v9, 0", "v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "s_cbranch_execz .Lover",
      "v_cmp_eq_u32_e64 s[6:7], 5, v2", "s_nop 4", "v_cndmask_b32_e64 v9, 0, v2, s[6:7]",
      ".Lover:", "s_or_b64 exec, exec, s[10:11]", KEEP], RIGHT),
    (["v_mov_b32_e32 v9, 0", "v_cmp_gt_u32_e32 vcc, 3, v2", WITHIN, "s_cbranch_execz .Lover",
      "v_cndmask_b32_e64 v9, 0, v2, s[6:7]", ".Lover:", "s_or_b64 exec, exec, s[10:11]", KEEP],
     OPEN),
    # Lanes of scalar registers, and of other lanes.
    (["v_writelane_b32 v8, s4, 3", "s_nop 4", "v_readlane_b32 s6, v8, 3", "s_nop 4",
      "v_mov_b32_e32 v9, s6", KEEP], RIGHT),
    (["v_writelane_b32 v8, s4, 3", "s_nop 4", "v_readlane_b32 s6, v8, 4", "s_nop 4",
      "v_mov_b32_e32 v9, s6", KEEP], WRONG),
    (["v_mov_b32_e32 v9, s40", KEEP], WRONG),
    (["v_mov_b32_e32 v9, s4", KEEP], RIGHT),
    (["s_mov_b32 s6, s40", "s_mov_b32 s7, s6"], RIGHT),
    (["s_cselect_b32 s6, 1, 2", "v_mov_b32_e32 v9, s6", KEEP], OPEN),
    (["s_cselect_b32 s6, 1, 2", "v_mov_b32_e32 v9, s4", KEEP], RIGHT),
    (["s_add_u32 s6, s4, s5", "s_addc_u32 s6, s4, 0", "v_mov_b32_e32 v9, s6", KEEP], RIGHT),
    (["v_mov_b32_dpp v9, v0 row_shr:1 row_mask:0xf bank_mask:0xf", KEEP], WRONG),
    (["v_mov_b32_dpp v9, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0", KEEP], RIGHT),
    (["v_mov_b32_dpp v9, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", KEEP], RIGHT),
    # Private memory: spilled with all lanes, some of which nobody has written.
    ([WITHIN, "v_mov_b32_e32 v8, v0", WHOLE, "scratch_store_dword off, v8, off offset:16", DONE,
      "scratch_load_dword v9, off, off offset:16", DONE, KEEP], OPEN),
    ([WITHIN, "v_mov_b32_e32 v8, v0", WHOLE, "scratch_store_dword off, v8, off offset:16", DONE,
      "scratch_load_dword v9, off, off offset:16", DONE, WITHIN, KEEP], RIGHT),
    (["scratch_load_dword v9, off, off offset:16", DONE, KEEP], OPEN),
    (["scratch_load_dword v9, off, off offset:16", DONE], RIGHT),
    (["scratch_store_dwordx2 off, v[0:1], off offset:16", DONE,
      "scratch_load_dword v9, off, off offset:20", DONE, KEEP], RIGHT),
    (["scratch_store_dwordx2 off, v[0:1], off offset:16", DONE,
      "scratch_load_dword v9, off, off offset:24", DONE, KEEP], OPEN),
    (["scratch_store_short off, v0, off offset:16", DONE,
      "scratch_load_dword v9, off, off offset:16", DONE, KEEP], OPEN),
    (["scratch_store_short off, v0, off offset:16", DONE,
      "scratch_load_ushort v9, off, off offset:16", DONE, KEEP], RIGHT),
    (["scratch_store_dword v1, v0, off", DONE, "scratch_load_dword v9, v1, off", DONE,
      KEEP], RIGHT),
    (["scratch_store_dword v1, v0, off", DONE, "v_lshlrev_b32_e32 v3, 1, v0",
      "scratch_load_ushort v9, v3, off", DONE, KEEP], OPEN),
    # Products take all lanes, whatever the mask.
    (["v_mfma_f32_4x4x1_16b_f32 v[12:15], v2, v2, 0", "s_nop 15", "v_mov_b32_e32 v9, v12", KEEP],
     RIGHT),
    (["v_mfma_f32_4x4x1_16b_f32 v[12:15], v2, v8, 0", "s_nop 15", "v_mov_b32_e32 v9, v12", KEEP],
     OPEN),
    (["v_mfma_f32_4x4x1_16b_f32 v[12:15], v2, v2, v[20:23]", "s_nop 15", "v_mov_b32_e32 v9, v12",
      KEEP], OPEN),
    (["v_accvgpr_write_b32 a0, v0", "s_nop 4", "v_accvgpr_read_b32 v9, a0", KEEP], RIGHT),
    (["v_accvgpr_read_b32 v9, a0", KEEP], WRONG),
    # Through LDS.
    (["ds_write_b32 v1, v8", DONE, "ds_read_b32 v9, v1", DONE, KEEP], OPEN),
    (["ds_write_b32 v1, v8", "ds_write_b32 v1, v0", DONE, "ds_read_b32 v9, v1", DONE, KEEP], RIGHT),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_registers_that_nothing_has_written(number):
    lines, verdict = CASES[number]
    found = finding(lines)
    assert found.verdict is verdict, (lines, found.diagnostics, found.notes)
    codes = [item.code for item in found.diagnostics]
    assert codes == (["TTN223"] if verdict is WRONG else [])
    allowed = finding(lines, policies=CodePolicies(unwritten_reads="allow"))
    assert "TTN223" not in [item.code for item in allowed.diagnostics]
    assert verdict is not RIGHT or allowed.verdict is RIGHT


LATER = """s_load_b64 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_wait_kmcnt 0x0
global_load_b32 v2, v1, s[4:5] offset:1024
s_wait_loadcnt 0x0
"""


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["global_store_b32 v1, v9, s[4:5]"], WRONG),
        (["global_store_b32 v1, v2, s[4:5]"], RIGHT),
        (["v_add_nc_u32_e32 v9, v9, v2", "global_store_b32 v1, v9, s[4:5]"], WRONG),
        (["global_load_b32 v3, v9, s[4:5]", "s_wait_loadcnt 0x0"], WRONG),
        # The upper word of vcc is none of the mask of 32 lanes.
        (["v_cmp_gt_u32_e32 vcc_lo, 40, v0", "s_and_b32 vcc_lo, exec_lo, vcc_lo",
          "s_cbranch_vccnz .Lend", "v_mov_b32_e32 v3, v9", ".Lend:"], RIGHT),
        # Lanes by forms that older targets do not have, and halves of registers.
        (["v_mov_b32_dpp v9, v0 row_share:3 row_mask:0xf bank_mask:0xf",
          "global_store_b32 v1, v9, s[4:5]"], RIGHT),
        (["v_mov_b32_dpp v9, v8 row_xmask:3 row_mask:0xf bank_mask:0xf",
          "global_store_b32 v1, v9, s[4:5]"], WRONG),
        (["v_mov_b32_dpp v9, v0 dpp8:[1,0,3,2,5,4,7,6]", "global_store_b32 v1, v9, s[4:5]"], RIGHT),
        (["v_mov_b16_e32 v9.l, v0.l", "global_store_b16 v1, v9, s[4:5]"], RIGHT),
        (["v_mov_b16_e32 v9.h, v0.l", "global_store_b16 v1, v9, s[4:5]"], WRONG),
        (["v_mov_b16_e32 v9.h, v0.l", "v_mov_b16_e32 v9.l, v0.l",
          "global_store_b32 v1, v9, s[4:5]"], RIGHT),
        (["v_mov_b16_e32 v9.h, v0.l", "v_add_f16_e32 v8.l, v9.l, v9.h",
          "global_store_b16 v1, v8, s[4:5]"], OPEN),
        (["v_mov_b16_e32 v9.h, v0.l", "v_add_f16_e32 v8.l, v9.h, v9.h",
          "global_store_b16 v1, v8, s[4:5]"], RIGHT),
        (["v_cndmask_b32_e64 v9, v2, v0, s9", "global_store_b32 v1, v9, s[4:5]"], OPEN),
    ],
)  # fmt: skip
def test_of_waves_of_32_lanes(lines, verdict):
    text = kernel("\n".join([LATER, *lines, "s_endpgm"]), "gfx1250", 32)
    text = re.sub(r"^\t(\.L\w+:)", r"\1", text, flags=re.M)
    found = judged(text, LAUNCH.replace("64", "32"))
    assert found.verdict is verdict, (found.diagnostics, found.notes)
