"""Atomics on LDS, and sums of bfloat16 on global memory, in runs that compute, lane after lane."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.isa.waves.test_numbers import computed

WORDS = np.random.default_rng(21).integers(0, 1 << 32, (64, 4), dtype=np.uint64).astype(np.uint32)
WORDS[:8, 0] = [0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 5, 5]
M32 = 0xFFFF_FFFF
# Eight counters, of which lane l has number l % 8; what is there at first is v7 of lanes 0 to 7.
BEGIN = """v_and_b32_e32 v9, 7, v0
v_lshlrev_b32_e32 v9, 3, v9
v_lshlrev_b32_e32 v10, 3, v0
s_mov_b64 exec, 0xff
ds_write_b64 v10, v[6:7]
s_mov_b64 exec, -1
s_waitcnt lgkmcnt(0)
"""


def signed(a, bits=32):
    return a - (1 << bits) if a >> bits - 1 else a


ONE = {
    "add_u32": lambda old, a, b: old + a,
    "sub_u32": lambda old, a, b: old - a,
    "rsub_u32": lambda old, a, b: a - old,
    "inc_u32": lambda old, a, b: 0 if old >= a else old + 1,
    "dec_u32": lambda old, a, b: a if old == 0 or old > a else old - 1,
    "min_u32": lambda old, a, b: min(old, a),
    "max_u32": lambda old, a, b: max(old, a),
    "min_i32": lambda old, a, b: min(old, a, key=signed),
    "max_i32": lambda old, a, b: max(old, a, key=signed),
    "and_b32": lambda old, a, b: old & a,
    "or_b32": lambda old, a, b: old | a,
    "xor_b32": lambda old, a, b: old ^ a,
    "mskor_b32": lambda old, a, b: old & ~a | b,
    "cmpst_b32": lambda old, a, b: b if old == a else old,
    "wrxchg_rtn_b32": lambda old, a, b: a,
    "wrap_rtn_b32": lambda old, a, b: old - a if old >= a else old + b,
}
TWO = ("mskor", "cmpst", "wrap")


def expected(function, count, words, size=4):
    """What each lane gets and what is left, the lanes in their order."""
    cells = [int(words[at, 2]) | int(words[at, 3]) << 32 for at in range(count)]
    cells = [one & (1 << 8 * size) - 1 for one in cells]
    got = []
    for lane in range(64):
        a = int(words[lane, 0]) | (int(words[lane, 1]) << 32 if size == 8 else 0)
        got.append(cells[lane % count])
        cells[lane % count] = function(got[-1], a, int(words[lane, 1])) & (1 << 8 * size) - 1
    return got, [cells[lane % count] for lane in range(64)]


@pytest.mark.parametrize("name", ONE)
def test_atomics_on_words_of_lds(name):
    words = WORDS.copy()
    words[8:16, 0] = words[:8, 2]  # some that compare as equal
    data = "v4, v5" if name.startswith(TWO) else "v4"
    got, left = expected(ONE[name], 8, words)
    with_old = name if "_rtn" in name else name.replace("_", "_rtn_", 1)
    read = "ds_read_b32 v8, v9\ns_waitcnt lgkmcnt(0)"
    found = computed(f"{BEGIN}ds_{with_old} v8, v9, {data}\ns_waitcnt lgkmcnt(0)", words)
    assert found.tolist() == got
    after = with_old.replace("ds_", "")
    line = f"ds_{name} v9, {data}" if "_rtn" not in name else f"ds_{after} v11, v9, {data}"
    assert computed(f"{BEGIN}{line}\ns_waitcnt lgkmcnt(0)\n{read}", words).tolist() == left


@pytest.mark.parametrize("name", ["add_u64", "max_i64", "xor_b64"])
@pytest.mark.parametrize("upper", [0, 1])
def test_atomics_on_two_words_of_lds(name, upper):
    function = {
        "add_u64": lambda old, a, b: old + a,
        "max_i64": lambda old, a, b: max(old, a, key=lambda one: signed(one, 64)),
        "xor_b64": lambda old, a, b: old ^ a,
    }[name]
    got, left = expected(function, 8, WORDS, 8)
    given = name.replace("_", "_rtn_", 1)
    wait = "s_waitcnt lgkmcnt(0)\n"
    move = f"v_mov_b32_e32 v8, v{12 + upper}"
    found = computed(f"{BEGIN}ds_{given} v[12:13], v9, v[4:5]\n{wait}{move}", WORDS)
    assert found.tolist() == [one >> 32 * upper & M32 for one in got]
    lines = f"{BEGIN}ds_{name} v9, v[4:5]\n{wait}ds_read_b64 v[12:13], v9\n{wait}{move}"
    assert computed(lines, WORDS).tolist() == [one >> 32 * upper & M32 for one in left]


def test_two_exchanges_at_once():
    lines = f"{BEGIN}v_lshlrev_b32_e32 v9, 3, v0\nds_write_b64 v9, v[4:5]\n"
    lines += "ds_wrxchg2_rtn_b32 v[12:13], v9, v6, v7 offset0:0 offset1:1\n"
    lines += "ds_read_b64 v[14:15], v9\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v8, v"
    for register, column in ((12, 0), (13, 1), (14, 2), (15, 3)):
        assert (computed(f"{lines}{register}", WORDS) == WORDS[:, column]).all()


@pytest.mark.parametrize("name", ["add", "min", "max"])
def test_floating_point_on_lds(name):
    numbers = np.random.default_rng(22).integers(-9, 9, (64, 4)).astype(np.float32)
    numbers[:, 3] = 0
    words = numbers.view(np.uint32)
    function = {"add": lambda a, b: a + b, "min": min, "max": max}[name]
    cells = numbers[:8, 2].copy()
    for lane in range(64):
        cells[lane % 8] = function(cells[lane % 8], numbers[lane, 0])
    lines = f"{BEGIN}ds_{name}_f32 v9, v4\nds_read_b32 v8, v9\ns_waitcnt lgkmcnt(0)"
    assert computed(lines, words).view(np.float32).tolist() == np.tile(cells, 8).tolist()


def test_lanes_are_counted_once():
    begin = "v_mov_b32_e32 v9, 0\nv_mov_b32_e32 v10, 40\nds_write_b32 v9, v10 offset:16\n"
    begin += "s_mov_b32 m0, 0\ns_mov_b64 exec, 0xff0\n"
    more = "ds_append v8 offset:16\n"
    end = "s_waitcnt lgkmcnt(0)\ns_mov_b64 exec, -1\n"
    lines = f"v_mov_b32_e32 v8, 0\n{begin}{more}{end}"
    assert computed(lines, WORDS).tolist() == [40 if 4 <= lane < 12 else 0 for lane in range(64)]
    left = f"{begin}{more}ds_consume v8 offset:16\nds_consume v8 offset:16\n{end}"
    left += "ds_read_b32 v8, v9 offset:16\ns_waitcnt lgkmcnt(0)"
    assert computed(left, WORDS).tolist() == [32] * 64


# ------------------------------------------------------------------------------ bfloat16


def number(bits):
    return Fraction(float(np.uint32(int(bits) << 16).view(np.float32)))


def rounded(exact):
    """The bits of the nearest bfloat16, of two as near the even one; a search among neighbours."""
    start = int(np.float32(float(exact)).view(np.uint32)) >> 16
    near = [bits for bits in range(max(start - 2, 0), start + 3)]
    near += [bits ^ 0x8000 for bits in (0, 1, 2)]
    return min(near, key=lambda bits: (abs(number(bits) - exact), bits & 1))


@pytest.mark.parametrize("form", ["global", "buffer", "lds"])
def test_sums_of_bfloat16_are_rounded_to_even(form):
    random = np.random.default_rng(23)
    halves = random.standard_normal((64, 2)) * 2.0 ** random.integers(-6, 6, (64, 2))
    bits = halves.astype(np.float32).view(np.uint32) >> 16
    words = WORDS.copy()
    words[:, 0] = bits[:, 0] | bits[:, 1] << 16
    sums = [0, 0]
    for lane in range(64):
        for at in range(2):
            sums[at] = rounded(number(sums[at]) + number(bits[lane, at]))
    add = {
        "global": "global_atomic_pk_add_bf16 v9, v4, s[4:5] offset:12\n",
        "buffer": "s_mov_b32 s6, -1\ns_mov_b32 s7, 0x20000\n"
        "buffer_atomic_pk_add_bf16 v4, off, s[4:7], 0 offset:12\n",
        "lds": "ds_write_b32 v9, v9\nds_pk_add_bf16 v9, v4\nds_read_b32 v8, v9\n",
    }[form]
    begin = "v_mov_b32_e32 v9, 0\nglobal_store_dword v9, v9, s[4:5] offset:12\n"
    end = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
    if form != "lds":
        end += "global_load_dword v8, v9, s[4:5] offset:12\ns_waitcnt vmcnt(0)"
    found = computed(begin + add + end, words, "gfx950")
    assert found.tolist() == [sums[0] | sums[1] << 16] * 64
