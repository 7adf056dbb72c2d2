"""Accesses to LDS at addresses that come from memory: they may touch all of it, so a race with one
is undecided; where all is ordered, the verdict stands; a race that they have no part in is found.
"""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_random_waves import LAUNCH, PROLOGUE
from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict

START = (
    PROLOGUE + "global_load_dword v9, v1, s[4:5]\ns_waitcnt vmcnt(0)\nv_and_b32_e32 v9, 0x1fc, v9\n"
)
COPY = "s_mov_b32 m0, s20\ns_nop 0\nglobal_load_lds_dword v1, s[4:5]"
KNOWN = {"write": "ds_write_b32 v2, v0", "copy": COPY}
UNKNOWN = {
    "read": "ds_read_b32 v8, v9", "wide read": "ds_read_b128 v[12:15], v9",
    "two reads": "ds_read2_b32 v[12:13], v9 offset1:3", "bytes": "ds_read_u8 v8, v9",
    "flat read": "flat_load_dword v12, v[8:9]",
    "atomic": "ds_add_u32 v9, v0", "atomic that returns": "ds_add_rtn_u32 v8, v9, v0",
}  # fmt: skip
ORDERED = "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_barrier"
BETWEEN = {  # with everything in order, without the wait, without the barrier, with nothing
    ORDERED: Verdict.VERIFIED,
    "s_barrier": Verdict.UNDECIDED,
    "s_waitcnt vmcnt(0) lgkmcnt(0)": Verdict.UNDECIDED,
    "s_nop 0": Verdict.UNDECIDED,
}


def verdict(*lines):
    return judged(kernel(START + "\n".join(lines), threads=128), LAUNCH).verdict


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("unknown", UNKNOWN)
@pytest.mark.parametrize("known", KNOWN)
def test_a_race_at_an_unknown_address_is_undecided(known, unknown, between):
    first, second = KNOWN[known], UNKNOWN[unknown]
    # Old values depend on the order of lanes and waves that may meet.
    expected = Verdict.UNDECIDED if "returns" in unknown else BETWEEN[between]
    assert verdict(first, between, second) is expected
    assert verdict(second, between, first) is expected


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_a_race_without_it_is_refuted(unknown):
    racing = ("ds_write_b32 v2, v0", "ds_read_b32 v10, v3", ORDERED)
    assert verdict(*racing, UNKNOWN[unknown]) is Verdict.REFUTED
    assert verdict(UNKNOWN[unknown], ORDERED, *racing) is Verdict.REFUTED


def test_stores_at_unknown_addresses():
    store = "ds_write_b32 v9, v0"
    assert verdict(store) is Verdict.UNDECIDED  # the waves may meet
    assert verdict("s_cmp_lg_u32 s20, 0\ns_cbranch_scc1 .Lx", store, ".Lx:") is Verdict.VERIFIED
