"""What loads and caches do for the verdict: all bytes of a load count, an invalidation does not."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict

LAUNCH = "{{grid: 1, block: {}, dynamic_shared: 0, parameters: [pointer, 5]}}"
# Wave 0 writes 4 bytes a lane, of which wave 1 reads some, with no barrier between them.
SHARED = """\
v_lshrrev_b32_e32 v1, 6, v0
v_and_b32_e32 v2, 63, v0
v_lshlrev_b32_e32 v3, 4, v2
v_mov_b32_e32 v5, 1.0
v_readfirstlane_b32 s7, v1
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 4
s_nop 0
{load} v[8:{last}], v3
s_waitcnt lgkmcnt(0)
s_endpgm
ds_write_b32 v3, v5 offset:{offset}
s_waitcnt lgkmcnt(0)
s_endpgm"""


@pytest.mark.parametrize(
    ("load", "size_bytes"),
    [
        ("ds_read_b64_tr_b16", 8),
        ("ds_read_b64_tr_b8", 8),
        ("ds_read_b64_tr_b4", 8),
        ("ds_read_b96_tr_b6", 12),
        ("ds_read_b128", 16),
    ],
)
def test_every_byte_of_a_load_races(load, size_bytes):
    for offset in range(0, 16, 4):
        text = SHARED.format(load=load, last=7 + size_bytes // 4, offset=offset)
        text = text.replace("s_cbranch_scc1 4", "s_cbranch_scc1 .Lwriter")
        made = kernel(text, threads=128).replace("\tds_write_b32", ".Lwriter:\n\tds_write_b32")
        touched = offset < size_bytes
        expected = Verdict.REFUTED if touched else Verdict.VERIFIED
        assert judged(made, LAUNCH.format(128)).verdict is expected, offset


COPIED = """\
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v3, 2, v0
s_mov_b32 m0, 0
s_waitcnt lgkmcnt(0)
global_load_lds_dword v3, s[4:5]
{between}
s_waitcnt vmcnt({left})
ds_read_b32 v8, v3
s_waitcnt lgkmcnt(0)"""

COPY_OF_GFX90A = "global_load_dword v3, s[4:5] lds"


@pytest.mark.parametrize(
    ("target", "between"),
    [
        ("gfx942", "buffer_inv sc1"),
        ("gfx950", "buffer_inv sc0 sc1"),
        ("gfx90a", "buffer_wbinvl1_vol"),
        ("gfx90a", "buffer_invl2"),
    ],
)
def test_no_wait_counts_on_an_invalidation(target, between):
    for left, expected in ((0, Verdict.VERIFIED), (1, Verdict.REFUTED)):
        text = COPIED.format(between=between, left=left)
        if target == "gfx90a":
            text = text.replace("global_load_lds_dword v3, s[4:5]", COPY_OF_GFX90A)
        made = kernel(text, target)
        assert judged(made, LAUNCH.format(64)).verdict is expected


# A store of a buffer of 256 bytes by two waves, to the same place or not, by the resource.
STORED = """\
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v3, 2, v0
s_waitcnt lgkmcnt(0)
s_or_b32 s5, s5, {high}
s_mov_b32 s6, 512
s_mov_b32 s7, {form}
buffer_store_dword v0, v3, s[4:7], 0 offen"""


@pytest.mark.parametrize(
    ("high", "form", "known"),
    [("0", "0x27000", True), ("0x80000000", "0x27000", False), ("0", "0x827000", False)],
)
def test_a_buffer_that_moves_its_offsets_is_not_guessed(high, form, known):
    finding = judged(kernel(STORED.format(high=high, form=form), threads=128), LAUNCH.format(128))
    assert (finding.verdict is Verdict.VERIFIED) is known
