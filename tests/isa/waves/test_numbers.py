"""What computes in floating point: divisions, matrix products, comparisons, against NumPy."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.numbers.formats import (
    BF16,
    E4M3,
    E4M3_FNUZ,
    E5M2,
    E5M2_FNUZ,
    F16,
    decode,
    encode,
)
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.byte_steps import narrowed
from titan.isa.waves.contents import Contents
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.matrix_steps import accumulate

SOURCE, RESULT = 0x10_0000, 0x20_0000
LOAD = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 4, v0
v_lshlrev_b32_e32 v2, 2, v0
s_mov_b32 s8, 0x200000
s_mov_b32 s9, 0
s_waitcnt lgkmcnt(0)
global_load_dwordx4 v[4:7], v1, s[4:5]
s_waitcnt vmcnt(0)
"""
STORE = "\nglobal_store_dword v2, v8, s[8:9]"


def computed(lines, words, target="gfx942"):
    """The word v8 of every lane, with four words of each lane in v4 to v7."""
    code, errors = parse_assembly(Source("k.s", kernel(LOAD + lines + STORE, target=target)))
    assert not errors, errors
    source = np.ascontiguousarray(words).view(np.uint8).ravel().copy()
    result = np.zeros(256, np.uint8)
    contents = Contents([(SOURCE, source), (RESULT, result)])
    given = (LaunchParameter(SOURCE.to_bytes(8, "little")), LaunchParameter(bytes(4)))
    launch = Launch(None, (1, 1, 1), (64, 1, 1), parameters=given)
    run = WaveMachine(code, code.kernels[0], launch, 0, 1000, contents=contents).run()
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    return result.view(np.uint32)


DIVISION = """v_div_scale_f32 v9, s[10:11], v5, v5, v4
v_div_scale_f32 v10, vcc, v4, v5, v4
v_rcp_f32_e32 v11, v9
v_fma_f32 v12, -v9, v11, 1.0
v_fmac_f32_e32 v11, v12, v11
v_mul_f32_e32 v12, v10, v11
v_fma_f32 v13, -v9, v12, v10
v_fmac_f32_e32 v12, v13, v11
v_fma_f32 v9, -v9, v12, v10
s_nop 3
v_div_fmas_f32 v9, v9, v11, v12
v_div_fixup_f32 v8, v9, v5, v4"""


@pytest.mark.parametrize("scale", [1.0, 1e30, 1e-30])
def test_a_division_is_that_of_numpy(scale):
    random = np.random.default_rng(3)
    rows = (random.standard_normal((64, 4)) * np.array([scale, 1, 1, 1])).astype(np.float32)
    rows[:6, :2] = [[1, 0], [0, 1], [-1, 0], [0, 0], [np.inf, 2], [1, -np.inf]]
    if scale > 1:
        rows[6:9, 1] = [1e-30, -1e-37, 1e-40]  # beyond all bounds
    found = computed(DIVISION, rows).view(np.float32)
    with np.errstate(all="ignore"):
        expected = rows[:, 0] / rows[:, 1]
    finite = np.isfinite(expected[6:])
    np.testing.assert_array_max_ulp(found[6:][finite], expected[6:][finite], 1)
    np.testing.assert_array_equal(found[6:][~finite], expected[6:][~finite])
    np.testing.assert_array_equal(found[:6], expected[:6])


@pytest.mark.parametrize(("lines", "meaning"), [
    ("v_max3_f32 v8, v4, v5, -v6", lambda a, b, c, d: np.fmax(np.fmax(a, b), -c)),
    ("v_exp_f32_e32 v8, v4", lambda a, b, c, d: np.exp2(a)),
    ("v_sub_f32_e64 v8, |v4|, v5", lambda a, b, c, d: np.abs(a) - b),
    ("v_pk_mul_f32 v[8:9], v[4:5], v[6:7]", lambda a, b, c, d: a * c),
    ("v_fma_mix_f32 v8, v4, -v5, |v6|",
     lambda a, b, c, d: (a.astype(np.float64) * -b + np.abs(c)).astype(np.float32)),
    ("v_fma_mixlo_f16 v9, v4, v5, 0\nv_fma_mixhi_f16 v9, v6, v7, v4\n"
     "v_fma_mix_f32 v8, v9, 1.0, v9 op_sel:[0,0,1] op_sel_hi:[1,0,1]",
     lambda a, b, c, d: (a * b).astype(np.float16).astype(np.float32)
     + (c.astype(np.float64) * d + a).astype(np.float32).astype(np.float16).astype(np.float32)),
    ("v_pk_add_f32 v[8:9], v[4:5], v[6:7] op_sel:[1,0] neg_lo:[0,1]", lambda a, b, c, d: b - c),
    ("v_cmp_nlt_f32_e32 vcc, v4, v5\nv_cndmask_b32_e32 v8, v6, v7, vcc",
     lambda a, b, c, d: np.where(~(a < b), d, c)),
    ("v_cvt_f16_f32_e32 v9, v4\nv_cvt_f32_f16_e32 v8, v9",
     lambda a, b, c, d: a.astype(np.float16)),
])  # fmt: skip
def test_the_vector_unit_computes_what_numpy_does(lines, meaning):
    rows = np.random.default_rng(4).standard_normal((64, 4)).astype(np.float32)
    rows[3, 0] = np.nan
    expected = np.asarray(meaning(*rows.T), np.float32)
    np.testing.assert_array_equal(computed(lines, rows).view(np.float32), expected)


def test_bfloat16_is_rounded_to_even():
    rows = np.zeros((64, 4), np.uint32)
    rows[:, 0] = 0x3F800000 + np.arange(64, dtype=np.uint32) * 0x2000
    found = computed("v_cvt_pk_bf16_f32 v8, v4, v5", rows, "gfx950")
    exact = rows[:, 0].view(np.float32)
    upper = (rows[:, 0] >> 16) << 16
    candidates = np.stack([upper, upper + 0x10000]).astype(np.uint32).view(np.float32)
    for at in range(64):
        far = np.abs(candidates[:, at].astype(np.float64) - exact[at])
        even = (candidates[:, at].view(np.uint32) >> 16) & 1 == 0
        best = int(np.flatnonzero((far == far.min()) & (even | (far[0] != far[1])))[0])
        assert found[at] == candidates[best, at].view(np.uint32) >> 16


@pytest.mark.parametrize("form", [F16, BF16])
def test_products_are_summed_by_eights(form):
    """A scalar computation with fractions: align to the largest, cut downwards, add, round."""
    random = np.random.default_rng(7)
    values = [
        random.standard_normal((4, 16)) * 2.0 ** random.integers(-9, 9, (4, 16)) for _ in "ab"
    ]
    if form is F16:
        bits = [one.astype(np.float16).view(np.uint16).astype(np.int64) for one in values]
        exact = [one.astype(np.float16).astype(np.float64) for one in values]
    else:
        words = [one.astype(np.float32).view(np.uint32) >> 16 for one in values]
        bits = [one.astype(np.int64) for one in words]
        exact = [(one << np.uint32(16)).astype(np.uint32).view(np.float32) for one in words]
    start = random.standard_normal((4, 4)).astype(np.float32)
    found = accumulate(bits[0], bits[1], start, form)
    np.testing.assert_array_equal(found, summed(exact, start, 8))


def summed(exact, start, together):
    """The sums by fractions, `together` products at a time."""
    result = start.copy()
    for row, column in np.ndindex(*start.shape):
        total = start[row, column]
        for at in range(0, exact[0].shape[1], together):
            part = slice(at, at + together)
            pairs = [
                (Fraction(float(a)), Fraction(float(b)))
                for a, b in zip(exact[0][row, part], exact[1][column, part], strict=True)
                if a and b
            ]
            if not pairs:
                continue
            largest = max(_power(a) + _power(b) for a, b in pairs)
            unit = Fraction(2) ** (largest - 24)
            total = np.float32(
                float(sum(a * b // unit for a, b in pairs) * unit + Fraction(float(total)))
            )
        result[row, column] = total
    return result


@pytest.mark.parametrize(
    ("form", "other"),
    [
        (E4M3, E4M3),
        (E5M2, E5M2),
        (E4M3, E5M2),
        (E4M3_FNUZ, E4M3_FNUZ),
        (E4M3_FNUZ, E5M2_FNUZ),
    ],
)
def test_products_of_bytes_are_summed_by_sixteens(form, other):
    random = np.random.default_rng(8)
    bits = [random.integers(0, 256, (4, 32)) for _ in "ab"]
    for one, kind in zip(bits, (form, other), strict=True):
        one[~np.isfinite([[decode(int(at), kind) for at in row] for row in one])] = 0
    exact = [
        np.array([[decode(int(at), kind) for at in row] for row in one])
        for one, kind in zip(bits, (form, other), strict=True)
    ]
    start = random.standard_normal((4, 4)).astype(np.float32)
    found = accumulate(bits[0], bits[1], start, form, other)
    np.testing.assert_array_equal(found, summed(exact, start, 16))


def test_a_product_of_bytes_has_eight_elements_of_a_row_in_a_lane():
    """Small whole numbers, whose sums are exact; v8 has rows 0, 4, 8 and 12."""
    random = np.random.default_rng(9)
    codes = np.array([0x00, 0x38, 0x40, 0x44, 0xB8, 0xC0])  # 0, 1, 2, 3, -1, -2
    numbers = random.integers(0, len(codes), (64, 16))
    words = codes[numbers].astype(np.uint8).view(np.uint32)
    zeros = "\n".join(f"v_mov_b32_e32 v{at}, 0" for at in range(8, 12))
    lines = f"{zeros}\ns_nop 1\nv_mfma_f32_16x16x32_fp8_fp8 v[8:11], v[4:5], v[6:7], v[8:11]\n"
    found = computed(f"{lines}s_nop 15\ns_nop 3", words, "gfx950").view(np.float32)
    exact = np.array([decode(int(code), E4M3) for code in codes])[numbers]
    by_group = exact.reshape(4, 16, 2, 8).transpose(2, 1, 0, 3).reshape(2, 16, 32)
    product = by_group[0] @ by_group[1].T
    for lane in range(64):
        assert found[lane] == product[4 * (lane // 16), lane % 16]
    # On gfx942 the same bytes are half as large.
    halves = computed(f"{lines}s_nop 15\ns_nop 3", words, "gfx942").view(np.float32)
    np.testing.assert_array_equal(halves, found / 4)


def _power(value):
    """The exponent of a number that is not zero."""
    return int(np.frexp(abs(float(value)))[1]) - 1


def test_infinities_and_no_numbers_go_through_a_product():
    one = np.zeros((2, 8), np.float16)
    one[:] = 1
    one[0, 3], one[1, 2] = np.inf, np.nan
    bits = one.view(np.uint16).astype(np.int64)
    ones = np.full((2, 8), 1, np.float16).view(np.uint16).astype(np.int64)
    found = accumulate(bits, ones, np.zeros((2, 2), np.float32), F16)
    assert np.isinf(found[0]).all()
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("form", [E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ])
def test_bytes_are_the_nearest_to_a_number(form):
    """Against the encoder of fractions: all bytes, numbers halfway between two, large ones."""
    finite = [decode(code, form) for code in range(form.largest + 1)]
    halfway = [(a + b) / 2 for a, b in pairwise(finite)]
    step = finite[-1] - finite[-2]
    more = [finite[-1] + step / 2, finite[-1] + step, 1e30, np.inf, np.nan]
    random = np.random.default_rng(3)
    some = list(np.exp2(random.uniform(-20, 18, 200)))
    values = np.array([*finite, *halfway, *more, *some], np.float32)
    values = np.concatenate([values, -values])
    found = narrowed(values.view(np.uint32), form)
    for value, code in zip(values, found, strict=True):
        expected = encode(float(value), form)
        if np.isnan(value):
            assert code & 0x7F == expected & 0x7F
            assert code == 0x80 or not form.one_zero
        else:
            assert code == expected, (value, code, expected)


def test_numbers_with_one_zero_have_no_infinities():
    """Largest and smallest numbers, the one NaN, what would be infinite or a negative zero."""
    for form, largest, least, one in (
        (E4M3_FNUZ, 240.0, 2.0**-10, 0x40), (E5M2_FNUZ, 57344.0, 2.0**-17, 0x40),
    ):  # fmt: skip
        assert decode(0x7F, form) == largest
        assert decode(0x01, form) == least
        assert decode(one, form) == 1.0
        assert np.isnan(decode(0x80, form))
        values = np.array([0.0, -0.0, -least / 4, np.inf, -np.inf, 1e30, -largest], np.float32)
        made = narrowed(values.view(np.uint32), form)
        assert list(made) == [0, 0, 0, 0x80, 0x80, 0x80, 0xFF]
        assert [encode(float(value), form) for value in values] == list(made)


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("v_cvt_pk_fp8_f32 v8, v4, v5 op_sel:[0,0,1]", 0xB840_5678),
        ("v_cvt_pk_fp8_f32 v8, v4, v5 op_sel:[0,0,0]", 0x1234_B840),
        ("v_cvt_scalef32_pk_fp8_f32 v8, v4, v5, 1.0", 0x1234_B840),
        ("v_cvt_scalef32_pk_fp8_f32 v8, v4, v5, 1.0 op_sel:[0,0,0,1]", 0xB840_5678),
    ],
)
def test_a_conversion_to_bytes_writes_the_half_that_is_chosen(line, made):
    rows = np.zeros((64, 4), np.float32)
    rows[:, 0], rows[:, 1] = 2.0, -1.0
    assert set(computed(f"v_mov_b32_e32 v8, 0x12345678\n{line}", rows, "gfx950")) == {made}


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("v_cvt_pk_f32_fp8_e32 v[8:9], v10", (-1.0, 2.0)),
        ("v_cvt_pk_f32_fp8_sdwa v[8:9], v10 src0_sel:WORD_1", (0.5, -4.0)),
        ("v_cvt_pk_f32_fp8_e64 v[8:9], v10 op_sel:[1,0]", (0.5, -4.0)),
        ("v_cvt_scalef32_pk_f32_fp8 v[8:9], v10, 1.0", (-1.0, 2.0)),
        ("v_cvt_scalef32_pk_f32_fp8 v[8:9], v10, 1.0 op_sel:[1,0,0]", (0.5, -4.0)),
        ("v_mov_b32_e32 v8, v10\nv_cvt_pk_f32_fp8_e32 v[8:9], v8", (-1.0, 2.0)),
    ],
)
def test_two_bytes_are_widened(line, made):
    """0xC8, 0x30, 0x40 and 0xB8 are -4, 0.5, 2 and -1 in e4m3."""
    before = "v_mov_b32_e32 v10, 0xC83040B8\n"
    rows = np.zeros((64, 4), np.float32)
    for moved, value in (("", made[0]), ("\nv_mov_b32_e32 v8, v9", made[1])):
        found = computed(before + line + moved, rows, "gfx950")
        assert set(found.view(np.float32)) == {value}


def test_a_conversion_to_bytes_keeps_the_other_half():
    rows = np.zeros((64, 4), np.float32)
    rows[:, 0], rows[:, 1] = 2.0, -1.0
    kept = "v_mov_b32_e32 v8, 0x12345678\nv_cvt_pk_fp8_f32 v8, v4, v5"
    assert set(computed(kept, rows, "gfx950")) == {0x1234_B840}
    fresh = "v_cvt_pk_fp8_f32 v8, v4, v5"
    assert set(computed(fresh, rows, "gfx950")) == {0xDEAD_B840}  # nobody may rest on it
    back = fresh + "\nv_cvt_f32_fp8_sdwa v8, v8 src0_sel:BYTE_1\nv_nop"
    assert set(computed(back, rows, "gfx950").view(np.float32)) == {-1.0}
