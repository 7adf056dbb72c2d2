"""Instructions of 16, 32 and 64 bits in runs that compute, against NumPy and Python's fractions.

Each case is a line and what the manual says of it for one lane, in Python's numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.isa.waves.test_matrix_products import VALUES
from tests.isa.waves.test_numbers import computed

RANDOM = np.random.default_rng(11)
F16_SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 6e-8, -6e-5, 1.0, -1.0, 0.5, 2.0]


def named(one):
    """A name that is the same in every process."""
    return one[:50] if isinstance(one, str) else "numbers"


def halves_of(rows):
    return np.ascontiguousarray(rows).view(np.uint32).reshape(64, 4)


HALVES = RANDOM.standard_normal((64, 8)).astype(np.float16) * np.float16(3)
HALVES[:12, 0], HALVES[:12, 2] = F16_SPECIAL, F16_SPECIAL[::-1]
WORDS = RANDOM.integers(0, 1 << 32, (64, 4), dtype=np.uint64).astype(np.uint32)
WORDS[:6, 0] = [0, 1, 0x7FFF_7FFF, 0x8000_8000, 0xFFFF_FFFF, 0x8001_7FFE]
DOUBLES = RANDOM.standard_normal((64, 2)) * 2.0 ** RANDOM.integers(-40, 40, (64, 2))
DOUBLES[:7, 0] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5]


def half(number):
    """The bits of a number of binary16, rounded once."""
    with np.errstate(all="ignore"):
        return int(np.float16(number).view(np.uint16))


def same_half(found, wanted):
    """Whether two numbers of binary16 are the same; all NaN are."""
    a, b = (np.uint16(one & 0xFFFF).view(np.float16) for one in (found, wanted))
    return (np.isnan(a) and np.isnan(b)) or int(found) & 0xFFFF == int(wanted) & 0xFFFF


def low(word):
    return float(np.uint16(int(word) & 0xFFFF).view(np.float16))


def high(word):
    return low(int(word) >> 16)


def larger(a, b):
    return b if math.isnan(a) else a if math.isnan(b) else max(a, b)


def smaller(a, b):
    return b if math.isnan(a) else a if math.isnan(b) else min(a, b)


def whole(function, a):
    return math.copysign(function(a), a) if math.isfinite(a) else a


def inside(a):
    return 0.0 if math.isnan(a) else min(max(a, 0.0), 1.0)


HALF_CASES = [
    ("v_add_f16_e32 v8, v4, v5", lambda a, b, c, d: low(a) + low(b)),
    ("v_sub_f16_e64 v8, |v4|, -v5", lambda a, b, c, d: abs(low(a)) + low(b)),
    ("v_subrev_f16_e32 v8, v4, v5", lambda a, b, c, d: low(b) - low(a)),
    ("v_mul_f16_e64 v8, v4, v5 clamp", lambda a, b, c, d: inside(low(a) * low(b))),
    ("v_add_f16_e64 v8, v5, 0.5", lambda a, b, c, d: low(b) + 0.5),
    ("v_max_f16_e32 v8, v5, v6", lambda a, b, c, d: larger(low(b), low(c))),
    ("v_min_f16_e32 v8, v5, v6", lambda a, b, c, d: smaller(low(b), low(c))),
    ("v_floor_f16_e32 v8, v5", lambda a, b, c, d: whole(math.floor, low(b))),
    ("v_rndne_f16_e32 v8, v6", lambda a, b, c, d: whole(round, low(c))),
    ("v_add_f16_sdwa v8, v4, v5 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD",
     lambda a, b, c, d: high(a) + low(b)),
    ("v_add_f16_sdwa v8, -v4, |v6| dst_sel:WORD_0 dst_unused:UNUSED_PAD src0_sel:WORD_1 "
     "src1_sel:WORD_1", lambda a, b, c, d: abs(high(c)) - high(a)),
    ("v_mov_b32_e32 v8, v7\nv_fma_f16 v8, v4, v6, -v7",
     lambda a, b, c, d: low(a) * low(c) - low(d)),
    ("v_med3_f16 v8, v6, -1.0, 1.0", lambda a, b, c, d: sorted([low(c), -1.0, 1.0])[1]),
    ("v_cvt_f16_u16_e32 v8, v5", lambda a, b, c, d: int(b) & 0xFFFF),
    ("v_cvt_f16_i16_e32 v8, v5", lambda a, b, c, d: (int(b) & 0x7FFF) - (int(b) & 0x8000)),
    ("v_cvt_f16_i16_sdwa v8, sext(v5) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1",
     lambda a, b, c, d: (int(b) >> 8 & 0x7F) - (int(b) >> 8 & 0x80)),
    ("v_ldexp_f16_e64 v8, v6, 3", lambda a, b, c, d: low(c) * 8),
    ("v_fma_mix_f32 v9, -v4, |v6|, v4 op_sel:[1,0,0] op_sel_hi:[1,1,0]\nv_mov_b32_e32 v8, v6",
     lambda a, b, c, d: low(c)),
]  # fmt: skip


@pytest.mark.parametrize(("line", "meaning"), HALF_CASES, ids=named)
def test_numbers_of_16_bits(line, meaning):
    words = halves_of(HALVES)
    found = computed(line, words, "gfx950")
    with np.errstate(all="ignore"):
        for lane in range(64):
            wanted = half(meaning(*words[lane].tolist()))
            assert same_half(int(found[lane]), wanted), (lane, [low(one) for one in words[lane]])


def test_a_short_instruction_zeroes_the_upper_half_and_a_long_one_keeps_it():
    words = halves_of(HALVES)
    zeroed = computed("v_mov_b32_e32 v8, -1\nv_add_f16_e32 v8, v5, v6", words)
    kept = computed("v_mov_b32_e32 v8, v7\nv_fma_f16 v8, v5, v6, v7", words)
    upper = computed("v_mov_b32_e32 v8, v7\nv_fma_f16 v8, v5, v6, v7 op_sel:[0,1,0,1]", words)
    assert (zeroed >> 16 == 0).all()
    assert (kept >> 16 == words[:, 3] >> 16).all()
    assert (upper & 0xFFFF == words[:, 3] & 0xFFFF).all()
    for lane in range(64):
        a, b, c = low(words[lane, 1]), high(words[lane, 2]), low(words[lane, 3])
        assert same_half(int(upper[lane]) >> 16, half(a * b + c))


PAIRS = [
    ("v_pk_add_f16 v8, v4, v5", lambda a, b, at: part(a, at) + part(b, at)),
    ("v_pk_mul_f16 v8, v4, v5 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0]",
     lambda a, b, at: part(a, 1 - at) * part(b, at) * (1 if at else -1)),
    ("v_pk_fma_f16 v8, v4, v5, v4", lambda a, b, at: part(a, at) * part(b, at) + part(a, at)),
    ("v_pk_max_f16 v8, v4, v5", lambda a, b, at: larger(part(a, at), part(b, at))),
    ("v_pk_add_f16 v8, v4, 1.0 op_sel_hi:[1,0]", lambda a, b, at: part(a, at) + 1),
]  # fmt: skip


def part(word, at):
    return high(word) if at else low(word)


@pytest.mark.parametrize(("line", "meaning"), PAIRS, ids=named)
def test_pairs_of_numbers_of_16_bits(line, meaning):
    words = halves_of(HALVES)
    found = computed(line, words)
    for lane in range(64):
        for at in range(2):
            wanted = half(meaning(*words[lane, :2].tolist(), at))
            assert same_half(int(found[lane]) >> 16 * at, wanted), (lane, at)


def signed(word, bits=16):
    word = int(word) & (1 << bits) - 1
    return word - (1 << bits) if word >> bits - 1 else word


def held(value, low_end, bits):
    return min(max(value, low_end), low_end + (1 << bits) - 1)


INTEGER_CASES = [
    ("v_sub_u32_e64 v8, v4, v5 clamp", lambda a, b, c: held(a - b, 0, 32)),
    ("v_add_u32_e64 v8, v4, v5 clamp", lambda a, b, c: held(a + b, 0, 32)),
    ("v_add_i32 v8, v4, v5 clamp",
     lambda a, b, c: held(signed(a, 32) + signed(b, 32), -(1 << 31), 32)),
    ("v_sub_u16_e64 v8, v4, v5 clamp", lambda a, b, c: held((a & 0xFFFF) - (b & 0xFFFF), 0, 16)),
    ("v_mov_b32_e32 v8, 0\nv_max3_i16 v8, v4, v5, v6",
     lambda a, b, c: max(signed(a), signed(b), signed(c)) & 0xFFFF),
    ("v_mov_b32_e32 v8, 0\nv_med3_i16 v8, v4, v5, v6",
     lambda a, b, c: sorted([signed(a), signed(b), signed(c)])[1] & 0xFFFF),
    ("v_mov_b32_e32 v8, 0\nv_min3_u16 v8, v4, v5, v6",
     lambda a, b, c: min(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF)),
    ("v_ffbh_i32_e32 v8, v4", lambda a, b, c: next(
        (at for at in range(32) if a >> 31 - at & 1 != a >> 31), 0xFFFF_FFFF)),
    ("v_pk_add_u16 v8, v4, v5", lambda a, b, c: (a + b & 0xFFFF) | (a >> 16) + (b >> 16) << 16),
    ("v_pk_sub_i16 v8, v4, v5 clamp", lambda a, b, c: sum(
        (held(signed(a >> at) - signed(b >> at), -(1 << 15), 16) & 0xFFFF) << at
        for at in (0, 16))),
    ("v_pk_mul_lo_u16 v8, v4, v5", lambda a, b, c: sum(
        ((a >> at & 0xFFFF) * (b >> at & 0xFFFF) & 0xFFFF) << at for at in (0, 16))),
    ("v_pk_mad_u16 v8, v4, v5, v6 op_sel_hi:[0,1,1]", lambda a, b, c: sum(
        ((a & 0xFFFF) * (b >> at & 0xFFFF) + (c >> at & 0xFFFF) & 0xFFFF) << at
        for at in (0, 16))),
    ("v_pk_ashrrev_i16 v8, 3, v4 op_sel_hi:[0,1]", lambda a, b, c: sum(
        (signed(a >> at) >> 3 & 0xFFFF) << at for at in (0, 16))),
    ("v_pk_lshlrev_b16 v8, v5, v4", lambda a, b, c: sum(
        ((a >> at & 0xFFFF) << (b >> at & 15) & 0xFFFF) << at for at in (0, 16))),
    ("v_pk_max_i16 v8, v4, v5", lambda a, b, c: sum(
        (max(signed(a >> at), signed(b >> at)) & 0xFFFF) << at for at in (0, 16))),
    ("v_mov_b32_e32 v8, 0\nv_bitop3_b16 v8, v4, v5, v6 bitop3:0xca",
     lambda a, b, c: (a & b | ~a & c) & 0xFFFF),
    ("v_bitop3_b32 v8, v4, v5, v6 bitop3:0x96", lambda a, b, c: a ^ b ^ c),
    ("v_dot4_i32_i8 v8, v4, v5, v6", lambda a, b, c: c + sum(
        signed(a >> at, 8) * signed(b >> at, 8) for at in (0, 8, 16, 24))),
    ("v_dot2_u32_u16 v8, v4, v5, v6", lambda a, b, c: c + sum(
        (a >> at & 0xFFFF) * (b >> at & 0xFFFF) for at in (0, 16))),
    ("v_mov_b32_e32 v8, v6\nv_dot8c_i32_i4_e32 v8, v4, v5", lambda a, b, c: c + sum(
        signed(a >> at, 4) * signed(b >> at, 4) for at in range(0, 32, 4))),
    ("v_add_u16_sdwa v8, sext(v4), v5 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 "
     "src1_sel:WORD_1", lambda a, b, c: signed(a >> 24, 8) + (b >> 16) & 0xFFFF),
    ("v_mov_b32_e32 v8, v6\n"
     "v_add_u32_sdwa v8, v4, v5 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_1 "
     "src1_sel:DWORD", lambda a, b, c: c & ~0xFF0000 | ((a >> 8 & 0xFF) + b & 0xFF) << 16),
    ("v_cmp_gt_i16_sdwa vcc, v4, sext(v5) src0_sel:DWORD src1_sel:BYTE_0\n"
     "v_cndmask_b32_e64 v8, 0, 1, vcc", lambda a, b, c: int(signed(a) > signed(b, 8))),
    ("v_cmp_eq_u16_sdwa vcc, v4, v5 src0_sel:WORD_1 src1_sel:WORD_0\n"
     "v_cndmask_b32_e64 v8, 0, 1, vcc", lambda a, b, c: int(a >> 16 == b & 0xFFFF)),
    ("v_cmp_lt_u32_e32 vcc, v4, v5\nv_mov_b32_e32 v8, v6\nv_cndmask_b32_sdwa v8, v4, v5, vcc "
     "dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:DWORD",
     lambda a, b, c: c & 0xFFFF | (b if a < b else a >> 16) << 16),
]  # fmt: skip


@pytest.mark.parametrize(("line", "meaning"), INTEGER_CASES, ids=named)
def test_integers(line, meaning):
    target = "gfx950" if "bitop3" in line else "gfx942"
    found = computed(line, WORDS, target)
    for lane in range(64):
        wanted = meaning(*WORDS[lane, :3].tolist()) & 0xFFFF_FFFF
        if any(word in line for word in ("_sub_u16", "_add_u16_sdwa")):
            wanted &= 0xFFFF
        assert int(found[lane]) == wanted, lane


def exact(function):
    def meaning(a, b):
        if not (math.isfinite(a) and math.isfinite(b)):
            return None
        return float(function(Fraction(a), Fraction(b)))

    return meaning


DOUBLE_CASES = [
    ("v_add_f64 v[10:11], v[4:5], -v[6:7]", exact(lambda a, b: a - b)),
    ("v_mul_f64 v[10:11], |v[4:5]|, v[6:7]", exact(lambda a, b: abs(a) * b)),
    ("v_fma_f64 v[10:11], v[4:5], v[6:7], v[6:7]", exact(lambda a, b: a * b + b)),
    ("v_mov_b64_e32 v[10:11], v[6:7]\nv_fmac_f64_e32 v[10:11], 0xc1f00000, v[4:5]",
     exact(lambda a, b: b - a * (1 << 32))),
    ("v_max_f64 v[10:11], v[4:5], v[6:7]", larger),
    ("v_min_f64 v[10:11], v[4:5], 0.5", lambda a, b: smaller(a, 0.5)),
    ("v_floor_f64_e32 v[10:11], v[4:5]",
     lambda a, b: whole(math.floor, a)),
    ("v_ldexp_f64 v[10:11], v[4:5], -16", lambda a, b: math.ldexp(a, -16)),
    ("v_frexp_mant_f64_e32 v[10:11], v[6:7]", lambda a, b: math.frexp(b)[0]),
    ("v_cvt_f32_f64_e32 v9, v[4:5]\nv_cvt_f64_f32_e32 v[10:11], v9",
     lambda a, b: float(np.float32(a))),
    ("v_cvt_i32_f64_e32 v9, v[6:7]\nv_cvt_f64_i32_e32 v[10:11], v9",
     lambda a, b: float(min(max(math.trunc(b), -(1 << 31)), (1 << 31) - 1))),
    ("v_frexp_exp_i32_f64_e32 v9, v[6:7]\nv_cvt_f64_i32_e32 v[10:11], v9",
     lambda a, b: float(math.frexp(b)[1])),
    ("v_cmp_nlt_f64_e32 vcc, v[4:5], v[6:7]\nv_cndmask_b32_e32 v10, v4, v6, vcc\n"
     "v_cndmask_b32_e32 v11, v5, v7, vcc", lambda a, b: b if not a < b else a),
    ("v_mov_b32_e32 v12, 0x207\nv_cmp_class_f64_e32 vcc, v[4:5], v12\nv_mov_b32_e32 v10, 0\n"
     "v_cndmask_b32_e64 v11, 0, 0x3ff00000, vcc".replace("0x3ff00000", "v13"),
     lambda a, b: float(math.isnan(a) or math.isinf(a))),
]  # fmt: skip


@pytest.mark.parametrize(("line", "meaning"), DOUBLE_CASES, ids=named)
def test_numbers_of_64_bits(line, meaning):
    words = np.ascontiguousarray(DOUBLES).view(np.uint32)
    line = "v_mov_b32_e32 v13, 0x3ff00000\n" + line
    halves = [computed(f"{line}\nv_mov_b32_e32 v8, v{at}", words) for at in (10, 11)]
    found = np.ascontiguousarray(np.stack(halves, axis=1)).view(np.float64)[:, 0]
    for lane, (a, b) in enumerate(DOUBLES.tolist()):
        with np.errstate(all="ignore"):
            wanted = meaning(a, b)
        if wanted is not None:
            assert found[lane] == wanted or (math.isnan(found[lane]) and math.isnan(wanted)), lane


DIVISION = """v_div_scale_f64 v[8:9], s[10:11], v[6:7], v[6:7], v[4:5]
v_div_scale_f64 v[20:21], vcc, v[4:5], v[6:7], v[4:5]
v_rcp_f64_e32 v[10:11], v[8:9]
v_fma_f64 v[12:13], -v[8:9], v[10:11], 1.0
v_fma_f64 v[10:11], v[10:11], v[12:13], v[10:11]
v_fma_f64 v[12:13], -v[8:9], v[10:11], 1.0
v_fma_f64 v[10:11], v[10:11], v[12:13], v[10:11]
v_mul_f64 v[14:15], v[20:21], v[10:11]
v_fma_f64 v[8:9], -v[8:9], v[14:15], v[20:21]
s_nop 3
v_div_fmas_f64 v[8:9], v[8:9], v[10:11], v[14:15]
v_div_fixup_f64 v[10:11], v[8:9], v[6:7], v[4:5]
v_mov_b32_e32 v8, v"""


@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-300])
def test_a_division_of_64_bits_is_that_of_numpy(scale):
    random = np.random.default_rng(12)
    rows = random.standard_normal((64, 2)) * np.array([scale, 1 / scale if scale > 1 else 1.0])
    rows[:6] = [[1, 0], [0, 1], [-1, 0], [0, 0], [np.inf, 2], [1, -np.inf]]
    words = np.ascontiguousarray(rows).view(np.uint32)
    halves = [computed(DIVISION + str(at), words) for at in (10, 11)]
    found = np.ascontiguousarray(np.stack(halves, axis=1)).view(np.float64)[:, 0]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, rows[:, 0] / rows[:, 1])


CLASSES = [
    np.float32(np.nan), np.float32(np.nan), -np.inf, -1.5, -1e-40, -0.0, 0.0, 1e-40, 2.5, np.inf,
]  # fmt: skip


@pytest.mark.parametrize("bit", range(10))
def test_classes_of_numbers(bit):
    words = np.zeros((64, 4), np.uint32)
    words[:10, 0] = np.array(CLASSES, np.float32).view(np.uint32)
    words[0, 0] = 0x7F80_0001  # signalling
    line = f"v_mov_b32_e32 v9, {1 << bit}\nv_cmp_class_f32_e32 vcc, v4, v9\n"
    found = computed(line + "v_cndmask_b32_e64 v8, 0, 1, vcc", words)[:10]
    assert found.tolist() == [int(at == bit) for at in range(10)]


# -------------------------------------------------------------- conversions with a scale

CODES = {"fp8": ("e4m3", 8), "bf8": ("e5m2", 8), "fp4": ("e2m1", 4)}


@pytest.mark.parametrize("result", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("source", ["fp8", "bf8", "fp4"])
def test_small_numbers_are_widened_and_scaled(source, result):
    name, bits = CODES[source]
    words = WORDS.copy()
    words[:, 1] = (
        np.random.default_rng(13).integers(124, 131, 64).astype(np.uint32) << 23 | 0x8000_1234
    )
    places = 4 if bits == 4 else 2
    for place in range(places):
        chosen = f" op_sel:[{place & 1},{place >> 1},0]"
        line = f"v_cvt_scalef32_pk_{result}_{source} v{'[10:11]' if result == 'f32' else '10'}, "
        line += f"v4, v5{chosen}\nv_mov_b32_e32 v8, v"
        first = computed(line + "10", words, "gfx950")
        second = computed(line + "11", words, "gfx950") if result == "f32" else first >> 16
        for lane in range(64):
            for at, found in enumerate((int(first[lane]), int(second[lane]))):
                code = int(words[lane, 0]) >> bits * (2 * place + at) & (1 << bits) - 1
                if bits == 8 and code & 0x7F >= {"fp8": 0x7F, "bf8": 0x7C}[source]:
                    continue
                exact = VALUES[name][code] * 2.0 ** ((int(words[lane, 1]) >> 23 & 0xFF) - 127)
                word = int(np.float32(exact).view(np.uint32))
                wanted = {"f32": word, "bf16": word >> 16, "f16": half(exact)}[result]
                assert found & (0xFFFF_FFFF if result == "f32" else 0xFFFF) == wanted


@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("result", ["fp8", "bf8", "fp4"])
def test_numbers_are_scaled_and_narrowed(source, result):
    name, bits = CODES[result]
    random = np.random.default_rng(14)
    numbers = random.standard_normal((64, 2)).astype(np.float32) * np.float32(2)
    words = np.zeros((64, 4), np.uint32)
    if source == "f32":
        words[:, :2] = numbers.view(np.uint32)
    elif source == "f16":
        numbers = numbers.astype(np.float16)
        words[:, 0] = numbers.view(np.uint32)[:, 0]
    else:
        cut = numbers.view(np.uint32) >> 16
        words[:, 0] = cut[:, 0] | cut[:, 1] << 16
        numbers = (cut << 16).view(np.float32)
    words[:, 2] = random.integers(126, 129, 64).astype(np.uint32) << 23
    words[:, 3] = WORDS[:, 3]
    given = "v4, v5" if source == "f32" else "v4"
    for place in range(4 if bits == 4 else 2):
        if bits == 4:
            chosen = f" op_sel:[0,0,{place & 1},{place >> 1}]"
        else:
            chosen = f" op_sel:[{'0,0,0' if source == 'f32' else '0,0'},{place}]"
        line = f"v_mov_b32_e32 v8, v7\nv_cvt_scalef32_pk_{result}_{source} v8, {given}, v6{chosen}"
        found = computed(line, words, "gfx950")
        for lane in range(64):
            scale = 2.0 ** ((int(words[lane, 2]) >> 23) - 127)
            wanted = int(words[lane, 3])
            for at in range(2):
                code = nearest(float(numbers[lane, at]) / scale, name)
                shift = bits * (2 * place + at)
                wanted = wanted & ~((1 << bits) - 1 << shift) | code << shift
            assert int(found[lane]) == wanted, lane


def nearest(number, name):
    """The code of the nearest number, of two as near the even one."""
    count = {"e4m3": 0x7F, "e5m2": 0x7C, "e2m1": 8}[name]
    sizes = VALUES[name][:count]
    best = min(range(count), key=lambda code: (abs(sizes[code] - abs(number)), code & 1))
    sign = {"e2m1": 8}.get(name, 0x80)
    return best | (sign if math.copysign(1, number) < 0 else 0)
