"""Waves that write the same bytes without order: the same known value is right, others race."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict

TWO = "{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"
LANE = "v_and_b32_e32 v1, 63, v0\nv_lshlrev_b32_e32 v2, 2, v1\nv_readfirstlane_b32 s6, v0\n"
WAIT = "s_waitcnt lgkmcnt(0)\n"
READ = f"s_barrier\nds_read_b32 v5, v2\n{WAIT}"
LOAD = (
    f"s_load_dwordx2 s[4:5], s[0:1], 0x0\n{WAIT}"
    "global_load_dword v3, {}, s[4:5]\ns_waitcnt vmcnt(0)\n"
)
ZERO = f"v_mov_b32_e32 v3, 0\nds_write_b32 v2, v3\n{WAIT}"
OWN = f"ds_write_b32 v2, v1\n{WAIT}"  # the number of the lane in its wave


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (ZERO + READ, Verdict.VERIFIED),
        (OWN + READ, Verdict.VERIFIED),
        # The waves have other numbers, or write to other places that overlap.
        (f"ds_write_b32 v2, v0\n{WAIT}{READ}", Verdict.REFUTED),
        (f"v_mov_b32_e32 v3, s6\nds_write_b32 v2, v3\n{WAIT}{READ}", Verdict.REFUTED),
        (f"s_lshr_b32 s7, s6, 4\nv_add_u32_e32 v4, s7, v2\nds_write_b32 v4, v1\n{WAIT}{READ}",
         Verdict.REFUTED),
        # Both waves write the same numbers twice, the second time further on, or in place.
        (f"{OWN}ds_write_b32 v2, v1 offset:4\n{WAIT}{READ}", Verdict.REFUTED),
        (f"{OWN}ds_write_b32 v2, v1\n{WAIT}{READ}", Verdict.VERIFIED),
        (f"{LOAD.format('v2')}ds_write_b32 v2, v3\n{WAIT}ds_write_b32 v2, v3 offset:4\n"
         f"{WAIT}{READ}", Verdict.REFUTED),
        # What memory holds is not known, but that it is the same in one place.
        (f"{LOAD.format('v2')}ds_write_b32 v2, v3\n{WAIT}{READ}", Verdict.VERIFIED),
        (f"{LOAD.format('v0')}ds_write_b32 v2, v3\n{WAIT}{READ}", Verdict.REFUTED),
        # Equal or not, they are over before they are read, and read before they are replaced.
        (ZERO + READ.replace("s_barrier\n", ""), Verdict.REFUTED),
        (ZERO.replace(WAIT, "") + READ, Verdict.REFUTED),
        (ZERO + READ + OWN, Verdict.REFUTED),
        (ZERO + READ + "s_barrier\n" + OWN, Verdict.VERIFIED),
    ],
)  # fmt: skip
def test_equal_writes_need_no_order_among_themselves(lines, verdict):
    finding = judged(kernel(LANE + lines, threads=128), TWO)
    assert finding.verdict is verdict, finding.diagnostics


def test_the_same_holds_in_global_memory():
    start = LANE + f"s_load_dwordx2 s[4:5], s[0:1], 0x0\n{WAIT}"
    for register, verdict in (("v1", Verdict.VERIFIED), ("v0", Verdict.REFUTED)):
        text = kernel(f"{start}global_store_dword v2, {register}, s[4:5]\n", threads=128)
        assert judged(text, TWO).verdict is verdict


ANYWHERE = (
    LANE + f"s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_load_dword s8, s[0:1], 0x8\n{WAIT}"
    "v_mov_b32_e32 v9, 0\nglobal_load_dword v7, v9, s[4:5]\ns_waitcnt vmcnt(0)\n"
    "v_lshlrev_b32_e32 v7, 2, v7\nv_lshl_add_u32 v7, v1, 2, v7\n{before}"
    "global_load_dword v3, v7, s[4:5]\n{between}s_waitcnt vmcnt(0)\n{behind}"
    f"ds_write_b32 v2, v3\n{WAIT}{READ}\n"
)
STORE = "global_store_dword v2, v1, s[4:5] offset:1024\n"
ONE = "s_cmp_lg_u32 s6, {wave}\ns_cbranch_scc1 .Lno\n{lines}.Lno:\n"
COUNT = "v_mov_b32_e32 v8, 1\nglobal_atomic_add v9, v8, s[4:5] offset:1024\n"
SEEN = "global_load_dword v8, v9, s[4:5] offset:2048 sc0 sc1\ns_waitcnt vmcnt(0)\n"
BARRIER = "s_barrier\n"


@pytest.mark.parametrize(
    ("before", "between", "behind", "verdict"),
    [
        ("", "", "", Verdict.VERIFIED),
        # What one wave, or all, have stored before both load, both find.
        (ONE.format(wave=0, lines=STORE), "", "", Verdict.VERIFIED),
        (STORE + BARRIER, "", "", Verdict.VERIFIED),
        ("", BARRIER + STORE, "", Verdict.VERIFIED),
        (COUNT + BARRIER, "", "", Verdict.VERIFIED),
        # Stored, or perhaps seen, behind the load of one wave, before that of the other.
        ("", ONE.format(wave=0, lines=STORE), "", Verdict.REFUTED),
        ("", ONE.format(wave=0, lines=COUNT), "", Verdict.REFUTED),
        (ONE.format(wave=64, lines=SEEN), "", "", Verdict.REFUTED),
        (STORE, "", "v_add_u32_e32 v3, s6, v3\n", Verdict.REFUTED),
    ],
)  # fmt: skip
def test_what_waves_load_from_one_unknown_place(before, between, behind, verdict):
    lines = ANYWHERE.format(before=before, between=between, behind=behind)
    finding = judged(kernel(lines, threads=128), TWO)
    assert finding.verdict is verdict, (finding.diagnostics, finding.notes)


CONVERTED = (
    f"{LOAD.format('v2')}v_mov_b32_e32 v4, s6\nv_cvt_pk_bf16_f32 v4, {{}}\n"
    f"ds_write_b16{{}} v2, v4\n{WAIT}{READ}"
)


@pytest.mark.parametrize(
    ("sources", "half", "verdict"),
    [
        ("v3, v3", "", Verdict.VERIFIED),  # whatever the register held before
        ("v3, s6", "", Verdict.VERIFIED),  # the other half is not stored
        ("v3, s6", "_d16_hi", Verdict.REFUTED),
        ("s6, v3", "_d16_hi", Verdict.VERIFIED),
        ("s6, v3", "", Verdict.REFUTED),
    ],
)
def test_halves_are_compared_by_themselves(sources, half, verdict):
    lines = CONVERTED.format(sources, half)
    finding = judged(kernel(LANE + lines, threads=128), TWO)
    assert finding.verdict is verdict, finding.diagnostics
