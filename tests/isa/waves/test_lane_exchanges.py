"""Exchanges of lanes through the unit of LDS, and IEEE's maximum: computed against Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.frontends.gcn.test_verify_assembly import ONE_WAVE, judged
from tests.frontends.gcn.texts import kernel
from tests.isa.waves.test_numbers import computed
from titan.foundation.verdict import Verdict

RANDOM = np.random.default_rng(3)
WORDS = RANDOM.integers(0, 1 << 32, (64, 4), dtype=np.uint64).astype(np.uint32)
PLACES = RANDOM.integers(0, 1 << 20, 64)
WORDS[:, 1] = PLACES
WAIT = "\ns_waitcnt lgkmcnt(0)"


@pytest.mark.parametrize("offset", [0, 20])
def test_lanes_send(offset):
    """A lane to which several send has the last one's word; one that none sends to has 0."""
    sent = dict.fromkeys(range(64), 0)
    sent |= {(int(at) + offset) // 4 % 64: int(WORDS[lane, 0]) for lane, at in enumerate(PLACES)}
    assert len({*sent.values()}) < 64  # some send to one lane
    found = computed(f"ds_permute_b32 v8, v5, v4 offset:{offset}{WAIT}", WORDS)
    assert found.tolist() == [sent[lane] for lane in range(64)]


def test_only_active_lanes_send_and_get():
    lines = "v_mov_b32_e32 v8, 7\ns_mov_b64 exec, 0xff00\nds_permute_b32 v8, v5, v4\n"
    found = computed(f"{lines}s_mov_b64 exec, -1{WAIT}", WORDS)
    sent = {int(PLACES[lane]) // 4 % 64: int(WORDS[lane, 0]) for lane in range(8, 16)}
    wanted = [sent.get(lane, 0) if 8 <= lane < 16 else 7 for lane in range(64)]
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("form", "lane_of"),
    [
        ("SWAP,16", lambda lane: lane ^ 16),
        ("REVERSE,8", lambda lane: lane ^ 7),
        ("QUAD_PERM,3,1,0,2", lambda lane: lane & ~3 | (3, 1, 0, 2)[lane & 3]),
    ],
)
def test_lanes_swizzle(form, lane_of):
    found = computed(f"ds_swizzle_b32 v8, v4 offset:swizzle({form}){WAIT}", WORDS)
    assert found.tolist() == [int(WORDS[lane_of(lane), 0]) for lane in range(64)]


NUMBERS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, -2.5, 1e-3]


def ieee(numbers, sign):
    if any(map(math.isnan, numbers)):
        return math.nan
    return sign * max((sign * one for one in numbers), key=lambda one: (one, math.copysign(1, one)))


def bits(number, kind):
    return np.array(number, kind).view(np.uint32 if kind is np.float32 else np.uint16)


@pytest.mark.parametrize(("name", "sign"), [("maximum3", 1), ("minimum3", -1)])
def test_a_maximum_of_ieee(name, sign):
    rows = RANDOM.choice(NUMBERS, (64, 4)).astype(np.float32)
    rows[:4, :3] = [[0.0, -0.0, -0.0], [-0.0, 0.0, -0.0], [-0.0] * 3, [0.0] * 3]
    rows[4:7, :3] = [[math.nan, 1.0, 2.0], [1.0, math.nan, 2.0], [1.0, 2.0, math.nan]]
    found = computed(f"v_{name}_f32 v8, v4, v5, v6", rows, "gfx950").view(np.float32)
    for row, number in zip(rows, found, strict=True):
        wanted = ieee([float(one) for one in row[:3]], sign)
        same = bits(wanted, np.float32) == bits(number, np.float32)
        assert same or (math.isnan(wanted) and math.isnan(number)), (row, number)


@pytest.mark.parametrize(("name", "sign"), [("maximum3", 1), ("minimum3", -1)])
def test_a_maximum_of_ieee_in_pairs(name, sign):
    rows = RANDOM.choice(NUMBERS, (64, 8)).astype(np.float16)
    words = rows.view(np.uint32)
    found = computed(f"v_pk_{name}_f16 v8, v4, v5, v6", words, "gfx950").view(np.float16)
    for lane in range(64):
        for half in (0, 1):
            wanted = ieee([float(one) for one in rows[lane, half:6:2]], sign)
            number = found[2 * lane + half]
            same = bits(wanted, np.float16) == bits(number, np.float16)
            assert same or (math.isnan(wanted) and math.isnan(number)), rows[lane]


ALIKE = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_and_b32_e32 v2, 0x7c, v0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v10, v1, s[4:5] offset:1024
v_xor_b32_e32 v3, 0x80, v1
s_waitcnt vmcnt(0)
{send}
s_waitcnt lgkmcnt(0)
v_add_f32_e32 v12, v10, v11
v_lshlrev_b32_e32 v2, 2, v0
v_and_b32_e32 v2, 0x7c, v2
global_store_dword v2, v12, s[4:5]"""


@pytest.mark.parametrize(
    ("send", "verdict"),
    [
        ("ds_permute_b32 v11, v3, v10", Verdict.VERIFIED),
        ("ds_bpermute_b32 v11, v3, v10", Verdict.VERIFIED),
        ("ds_permute_b32 v11, v3, v10 offset:4", Verdict.UNDECIDED),
        ("ds_permute_b32 v11, v2, v10", Verdict.UNDECIDED),  # none sends to most of them
    ],
)
def test_what_lanes_send_each_other(send, verdict):
    """Lanes l and l + 32 store the sum of what both have loaded."""
    assert judged(kernel(ALIKE.format(send=send)), ONE_WAVE).verdict is verdict
