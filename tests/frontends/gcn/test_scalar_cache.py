"""Scalar loads of bytes that a wave has stored: the scalar cache may hold what was there before."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict

ONE = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
TWO = "{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, 5]}"
START = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"
STORE = "global_store_dword v1, v0, s[4:5]\ns_waitcnt vmcnt(0)\n"
LOAD = "s_load_dword s6, s[4:5], 0x4\ns_waitcnt lgkmcnt(0)\n"
INVALIDATE = "s_dcache_inv\n"
MEET = "s_barrier\n"


@pytest.mark.parametrize(
    ("lines", "launch", "verdict"),
    [
        (STORE + LOAD, ONE, Verdict.UNDECIDED),
        (STORE + INVALIDATE + LOAD, ONE, Verdict.VERIFIED),
        (INVALIDATE + STORE + LOAD, ONE, Verdict.UNDECIDED),
        (LOAD + STORE, ONE, Verdict.VERIFIED),
        (STORE + LOAD.replace("0x4", "0x400"), ONE, Verdict.VERIFIED),
        (STORE + MEET + LOAD, TWO, Verdict.UNDECIDED),
        (STORE + MEET + INVALIDATE + LOAD, TWO, Verdict.VERIFIED),
        (STORE + INVALIDATE + MEET + LOAD, TWO, Verdict.UNDECIDED),  # the other wave stores later
        (STORE + LOAD, TWO, Verdict.REFUTED),  # a race, whatever the cache holds
    ],
)
def test_a_load_behind_a_store_needs_an_invalidation_in_between(lines, launch, verdict):
    finding = judged(kernel(START + lines, threads=128 if launch is TWO else 64), launch)
    assert finding.verdict is verdict, finding.notes
    if verdict is Verdict.UNDECIDED:
        assert any("no s_dcache_inv behind the store" in note for note in finding.notes)


def test_waves_that_share_no_cache_are_not_decided():
    text = kernel(START + STORE).replace(
        "\t\t.amdhsa_accum_offset", "\t\t.amdhsa_tg_split 1\n\t\t.amdhsa_accum_offset"
    )
    finding = judged(text, ONE)
    assert finding.verdict is Verdict.UNDECIDED
    assert any("share no cache" in note for note in finding.notes)
