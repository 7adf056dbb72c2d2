"""What a lane takes of an exchange: the register that is not its own, by a comparison with it.

Two lanes that add what the other one has store the same sum. Each change of the choice makes what
they store differ, or leaves it open.
"""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import ONE_WAVE, judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict

# Lanes l and l + 32 have one place to store to, v2.
BEGIN = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_and_b32_e32 v2, 0x7c, v1
s_waitcnt lgkmcnt(0)
global_load_dword v10, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0)
v_mov_b32_e32 v11, v10
v_mov_b32_e32 v12, v10
v_permlane32_swap_b32_e32 v11, v12
"""
CHOICE = "v_cmp_eq_u32_e32 vcc, v11, v10\nv_cndmask_b32_e32 v13, v11, v12, vcc\n"
END = "v_add_f32_e32 v14, v10, v13\nglobal_store_dword v2, v14, s[4:5]"


def verdict(choice):
    text = (BEGIN + choice + END).replace("\n", "\ns_nop 4\n")  # for wait states
    return judged(kernel(text), ONE_WAVE).verdict


@pytest.mark.parametrize(
    "choice",
    [
        CHOICE,
        "v_cmp_eq_u32_e32 vcc, v10, v11\nv_cndmask_b32_e32 v13, v11, v12, vcc\n",
        "v_cmp_ne_u32_e32 vcc, v11, v10\nv_cndmask_b32_e32 v13, v12, v11, vcc\n",
        "v_cmp_eq_u32_e64 s[10:11], v12, v10\nv_cndmask_b32_e64 v13, v12, v11, s[10:11]\n",
    ],
)
def test_the_other_lanes_value_is_taken(choice):
    assert verdict(choice) is Verdict.VERIFIED


@pytest.mark.parametrize(
    "choice",
    [
        "v_cmp_eq_u32_e32 vcc, v11, v10\nv_cndmask_b32_e32 v13, v12, v11, vcc\n",  # its own
        "v_cmp_ne_u32_e32 vcc, v11, v10\nv_cndmask_b32_e32 v13, v11, v12, vcc\n",
        "v_cmp_eq_f32_e32 vcc, v11, v10\nv_cndmask_b32_e32 v13, v11, v12, vcc\n",  # not for NaN
        "v_cmp_lt_u32_e32 vcc, v11, v10\nv_cndmask_b32_e32 v13, v11, v12, vcc\n",
        "v_cmp_eq_u32_e32 vcc, v11, v1\nv_cndmask_b32_e32 v13, v11, v12, vcc\n",
        "v_mov_b32_e32 v13, v11\n",
        # The mask of another comparison, a part of one, one from before v11 has changed.
        "v_cmp_eq_u32_e32 vcc, v11, v10\nv_cmp_eq_u32_e64 s[10:11], v11, v1\n"
        "v_cndmask_b32_e64 v13, v11, v12, s[10:11]\n",
        "v_cmp_eq_u32_e32 vcc, v11, v10\ns_and_b64 vcc, vcc, 0xff\n"
        "v_cndmask_b32_e32 v13, v11, v12, vcc\n",
        "v_cmp_eq_u32_e32 vcc, v11, v10\nv_mov_b32_e32 v11, v1\n"
        "v_cndmask_b32_e32 v13, v11, v12, vcc\n",
        # Lanes that were not active have a bit of zero.
        "s_mov_b64 exec, 0xffff\nv_cmp_ne_u32_e32 vcc, v11, v10\ns_mov_b64 exec, -1\n"
        "v_cndmask_b32_e32 v13, v12, v11, vcc\n",
    ],
)
def test_another_choice_is_not_shown(choice):
    assert verdict(choice) is not Verdict.VERIFIED
