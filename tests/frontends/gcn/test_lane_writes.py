"""Lanes that write one place with one instruction, by tables of what each lane writes and where."""

from __future__ import annotations

from random import Random

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies, chosen

ONE_WAVE = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
FUNCTIONS = {  # of the lane, in v0, into a register
    "itself": ("v_mov_b32_e32 {0}, v0", lambda n: n),
    "half": ("v_lshrrev_b32_e32 {0}, 1, v0", lambda n: n >> 1),
    "eighth": ("v_lshrrev_b32_e32 {0}, 3, v0", lambda n: n >> 3),
    "even": ("v_and_b32_e32 {0}, 1, v0", lambda n: n & 1),
    "one": ("v_mov_b32_e32 {0}, 3", lambda n: 3),
    "high bits": ("v_lshlrev_b32_e32 {0}, 13, v0", lambda n: n << 13),
}
PLACES = ("itself", "half", "eighth", "even", "one")
RESOURCE = "s_mov_b32 s6, -1\ns_mov_b32 s7, 0x27000\n"
STORES = {  # the instruction, the distance of its places, and which bits of v2 it stores
    "word of LDS": ("ds_write_b32 v1, v2", 4, (0, 32)),
    "byte of LDS": ("ds_write_b8 v1, v2", 1, (0, 8)),
    "upper half": ("ds_write_b16_d16_hi v1, v2", 2, (16, 32)),
    "pair of LDS": ("ds_write_b64 v1, v[2:3]", 8, (0, 32)),
    "two places": ("ds_write2_b32 v1, v2, v3 offset0:0 offset1:128", 4, (0, 32)),
    "global": ("global_store_dword v1, v2, s[4:5]", 4, (0, 32)),
    "global by pairs": ("global_store_dwordx2 v1, v[2:3], s[4:5]", 8, (0, 32)),
    "buffer": (f"{RESOURCE}buffer_store_dword v2, v1, s[4:7], 0 offen", 4, (0, 32)),
}


def body(store, where, what, values="", lanes=64):
    text, distance, _ = STORES[store]
    lines = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_mov_b32_e32 v3, 7\ns_waitcnt lgkmcnt(0)\n"
    lines += FUNCTIONS[where][0].format("v5") + "\n" + FUNCTIONS[what][0].format("v2") + "\n"
    lines += f"v_mul_u32_u24_e32 v1, {distance}, v5\n{values}"
    if lanes < 64:
        lines += f"s_mov_b64 exec, {hex((1 << lanes) - 1)}\n"
    return kernel(lines + text)


@pytest.mark.parametrize("store", STORES)
def test_stores_clash_where_lanes_give_one_place_different_values(store):
    random, found = Random(store), set()
    for _ in range(24):
        where, what = random.choice(PLACES), random.choice(sorted(FUNCTIONS))
        lanes = random.choice([64, 8])
        low, high = STORES[store][2]
        written: dict[int, set[int]] = {}
        for lane in range(lanes):
            value = FUNCTIONS[what][1](lane) >> low & (1 << (high - low)) - 1
            written.setdefault(FUNCTIONS[where][1](lane), set()).add(value)
        expected = any(len(values) > 1 for values in written.values())
        finding = judged(body(store, where, what, lanes=lanes), ONE_WAVE)
        codes = {item.code for item in finding.diagnostics}
        assert codes == ({"TTN201"} if expected else set()), (where, what, lanes)
        assert not any("where lanes of one store" in note for note in finding.notes)
        found.add(expected)
    assert found == {True, False}


def test_values_that_are_not_known_are_not_shown_to_be_equal():
    """What memory holds; and places that overlap in part."""
    assumed = chosen((("equal_writes", "assumed"),))
    common = "global_load_dword v2, v5, s[4:5]\ns_waitcnt vmcnt(0)\n"
    same = judged(body("word of LDS", "half", "one", common), ONE_WAVE)
    assert same.verdict is Verdict.VERIFIED  # two lanes load from one place
    loads = common.replace("v5", "v0")
    text = body("word of LDS", "half", "one", loads)
    assert judged(text, ONE_WAVE).verdict is Verdict.UNDECIDED
    finding = judged(text, ONE_WAVE, policies=assumed)
    assert finding.verdict is Verdict.VERIFIED
    (note,) = [note for note in finding.notes if note.startswith("assumed")]
    assert "where lanes of one store write the same bytes, they write the same values" in note
    apart = body("word of LDS", "itself", "itself", loads)
    assert not any(note.startswith("assumed") for note in judged(apart, ONE_WAVE).notes)
    partly = "v_lshlrev_b32_e32 v1, 1, v0\n"  # two bytes on, four bytes each
    finding = judged(body("word of LDS", "itself", "one", partly), ONE_WAVE)
    assert any(note.startswith("assumed 1 time: where lanes") for note in finding.notes)


def test_lanes_that_are_beyond_a_buffer_write_nothing():
    short = "s_mov_b32 s8, 4\n"
    text = body("buffer", "itself", "itself", "v_lshlrev_b32_e32 v1, 2, v0\n")
    assert judged(text, ONE_WAVE).verdict is Verdict.VERIFIED
    clash = body("buffer", "eighth", "itself", short)
    assert judged(clash, ONE_WAVE).verdict is Verdict.REFUTED
    beyond = clash.replace("s_mov_b32 s6, -1", "s_mov_b32 s6, 0")
    assert judged(beyond, ONE_WAVE).verdict is Verdict.VERIFIED


def test_a_policy_takes_lanes_as_ordered():
    text = body("word of LDS", "one", "itself")
    assert judged(text, ONE_WAVE).verdict is Verdict.REFUTED
    policies = CodePolicies(lanes="ordered")
    assert judged(text, ONE_WAVE, policies=policies).verdict is Verdict.VERIFIED


def test_atomics_of_lanes_are_no_clash():
    lines = "v_mov_b32_e32 v1, 0\nds_add_u32 v1, v0\ns_waitcnt lgkmcnt(0)"
    assert judged(kernel(lines), ONE_WAVE).verdict is Verdict.VERIFIED
