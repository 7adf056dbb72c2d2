"""What scalar loads read: against stores of the same kernel, and where nothing is read."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import ONE_WAVE, judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict

START = """\
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v2, 2, v0
s_mov_b32 s10, 0x400
s_mov_b32 s11, 0x20000
s_waitcnt lgkmcnt(0)
s_mov_b32 s8, s4
s_mov_b32 s9, s5
"""
STORE = "global_store_dword v2, v0, s[4:5] offset:512\n"  # bytes 512 to 767
LOADS = {  # the load, and whether it reads what is stored
    "the first byte": ("s_buffer_load_dword s12, s[8:11], 0x200", True),
    "by a register": ("s_movk_i32 s13, 0x200\ns_buffer_load_dword s12, s[8:11], s13", True),
    "the last byte": ("s_buffer_load_dword s12, s[8:11], 0x2fc", True),
    "several words": ("s_buffer_load_dwordx4 s[12:15], s[8:11], 0x1f4", True),
    "in front": ("s_buffer_load_dwordx4 s[12:15], s[8:11], 0x1f0", False),
    "behind": ("s_buffer_load_dword s12, s[8:11], 0x300", False),
    "beyond the end": ("s_mov_b32 s10, 0x100\ns_buffer_load_dword s12, s[8:11], 0x200", False),
    "a pointer": ("s_load_dword s12, s[4:5], 0x200", True),
    "from behind": ("s_add_u32 s4, s4, 0x300\ns_load_dword s12, s[4:5], -0x4", True),
    "from behind, not as far": ("s_add_u32 s4, s4, 0x304\ns_load_dword s12, s[4:5], -0x4", False),
}
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
NOTE = "what is loaded at unknown addresses is written by nobody"


@pytest.mark.parametrize("name", LOADS)
def test_a_scalar_load_and_a_store(name):
    load, meets = LOADS[name]
    racing = judged(kernel(START + STORE + load + "\n" + WAIT, "gfx942"), ONE_WAVE)
    assert racing.verdict is (Verdict.REFUTED if meets else Verdict.VERIFIED)
    assert {item.code for item in racing.diagnostics} <= {"TTN203"}
    for between, verdict in (("", Verdict.UNDECIDED), ("s_dcache_inv\n", Verdict.VERIFIED)):
        done = kernel(START + STORE + WAIT + between + load + "\n" + WAIT, "gfx942")
        assert judged(done, ONE_WAVE).verdict is (verdict if meets else Verdict.VERIFIED)


@pytest.mark.parametrize(
    ("load", "noted"),
    [
        ("s_load_dword s12, s[14:15], 0x0", True),
        ("s_buffer_load_dword s12, s[12:15], 0x0", True),
        ("s_load_dword s12, s[4:5], 0x0", False),
        ("s_buffer_load_dword s12, s[8:11], 0x0", False),
    ],
)
def test_an_address_that_is_not_known_is_noted(load, noted):
    text = kernel(f"{START}s_load_dwordx4 s[12:15], s[4:5], 0x0\n{WAIT}{load}\n{WAIT}", "gfx942")
    finding = judged(text, ONE_WAVE)
    assert finding.verdict is Verdict.VERIFIED
    assert any(NOTE in note for note in finding.notes) is noted
