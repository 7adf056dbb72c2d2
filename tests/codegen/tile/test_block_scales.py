"""Products with block scales: types, where scales lie, and what the language refuses of them."""

from __future__ import annotations

import numpy as np
import pytest

from titan.codegen.tile.block_scales import by_rows
from titan.codegen.tile.dtypes import decode, encode, rounded, unpacked
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.semantics import reference64
from titan.foundation.errors import TitanError
from titan.foundation.resources import root


def text_of(kind: str) -> str:
    return (root("protocols") / "tiles" / f"gemm_{kind}_sm_100a.yaml").read_text(encoding="utf-8")


TEXT, PAIRS = text_of("mxf8"), text_of("nvf4")
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_every_pattern_of_a_scale_is_a_power_of_two_but_one():
    patterns = np.arange(256)
    powers = decode(patterns, "ue8m0")
    assert np.array_equal(powers[:255].astype(float), 2.0 ** (np.arange(255) - 127.0))
    assert np.isnan(powers[255])
    assert np.array_equal(encode(powers, "ue8m0"), patterns)


@pytest.mark.parametrize(
    ("number", "power"),
    [(1.0, 1.0), (1.4, 1.0), (1.5, 2.0), (0.7, 0.5), (0.0, 2.0**-127), (-3.0, 2.0**-127),
     (1e300, 2.0**127), (np.inf, 2.0**127), (2.0**-127, 2.0**-127), (2.0**127, 2.0**127)],
)  # fmt: skip
def test_numbers_are_rounded_to_the_nearest_power(number, power):
    assert float(rounded(number, "ue8m0")) == power
    assert np.isnan(rounded(np.nan, "ue8m0"))


def test_scales_lie_as_cublas_has_them():
    """Offset of row r and block j in an atom: 16 (r % 32) + 4 (r // 32) + j."""
    atoms = np.arange(3 * 512.0)
    found = by_rows(atoms.reshape(96, 16))
    for row in range(128):
        for block in range(12):
            atom, within = divmod(block, 4)
            assert found[row, block] == 512 * atom + 16 * (row % 32) + 4 * (row // 32) + within


def test_a_byte_has_two_numbers_the_first_one_low():
    found = unpacked([[0x21, 0xF8], [0x70, 0x0F]])
    assert found.tolist() == [[0.5, 1.0, -0.0, -6.0], [0.0, 6.0, -6.0, 0.0]]
    both = unpacked(np.arange(256)[None, :])[0]
    assert sorted(set(np.abs(both).tolist())) == E2M1
    patterns = np.arange(256)
    assert np.array_equal(encode(decode(patterns, "e2m1x2"), "e2m1x2"), patterns)


def scale_of(scales, row, k, block):
    """One number, by its place in memory."""
    atom, j = divmod(k // block, 4)
    return scales[row // 128].reshape(-1)[512 * atom + row % 32 * 16 + row % 128 // 32 * 4 + j]


def test_a_scaled_product_means_the_sum_of_scaled_products():
    random = np.random.default_rng(1)
    rows, columns, depth = 140, 131, 161
    a, b = (rounded(random.standard_normal((n, depth)), "e4m3") for n in (rows, columns))
    a_scale, b_scale = (np.exp2(random.integers(-5, 6, (2, 64, 16))) for _ in range(2))
    inputs = {"A": a, "B": b, "A_scale": a_scale, "B_scale": b_scale}
    sizes = {"M": rows, "N": columns, "K": depth}
    found = reference64(parse_tile(TEXT, target="sm_100a"), inputs, sizes)["C"]
    for row, column in random.integers((0, 0), (rows, columns), (60, 2)):
        terms = [
            float(a[row, k]) * scale_of(a_scale, row, k, 32)
            * float(b[column, k]) * scale_of(b_scale, column, k, 32)
            for k in range(depth)
        ]  # fmt: skip
        assert found[row, column] == pytest.approx(sum(terms), rel=1e-12)


def nibble(pairs, row, k):
    code = int(pairs[row, k // 2]) >> 4 * (k % 2) & 15
    return (-1) ** (code >> 3) * E2M1[code & 7]


@pytest.mark.parametrize(("kind", "block"), [("nvf4", 16), ("mxf4", 32)])
def test_a_scaled_product_of_pairs_means_the_sum_of_scaled_products(kind, block):
    random = np.random.default_rng(2)
    rows, columns, pairs = 140, 131, 150
    a, b = (random.integers(0, 256, (n, pairs)) for n in (rows, columns))
    atoms = -(-2 * pairs // (4 * block))
    shape = (2, 32 * atoms, 16)
    a_scale, b_scale = (np.exp2(random.integers(-5, 6, shape)) for _ in range(2))
    if kind == "nvf4":  # whose sign does not count
        a_scale, b_scale = (rounded(random.standard_normal(shape), "e4m3") for _ in range(2))
    inputs = {"A": a, "B": b, "A_scale": a_scale, "B_scale": b_scale}
    sizes = {"M": rows, "N": columns, "pairs": pairs}
    found = reference64(parse_tile(text_of(kind), target="sm_100a"), inputs, sizes)["C"]
    for row, column in random.integers((0, 0), (rows, columns), (40, 2)):
        terms = [
            nibble(a, row, k) * abs(float(scale_of(a_scale, row, k, block)))
            * nibble(b, column, k) * abs(float(scale_of(b_scale, column, k, block)))
            for k in range(2 * pairs)
        ]  # fmt: skip
        assert found[row, column] == pytest.approx(sum(terms), rel=1e-12, abs=1e-12)


OF_PAIRS = {
    "pairs that nothing scales": (", scales: [a_scale, b_scale]", "", "nothing scales it"),
    "pairs that are read": ("  - acc_next:", "  - x: {read: a}\n  - acc_next:",
                            "only an `mma` with scales"),
    "pairs and bytes": ("{shape: [M, pairs], dtype: e2m1x2}", "{shape: [M, pairs], dtype: e4m3}",
                        "`b` is e2m1x2"),
    "scales of half of K": ("tile: [128, 16]}\n  - b_s", "tile: [64, 16]}\n  - b_s", "128 x 16"),
    "scales of another type": ("dtype: e4m3}\n  C", "dtype: ue8m0}\n  C", "scales are e4m3"),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_PAIRS)
def test_what_is_no_scaled_product_of_pairs_is_refused(what):
    old, new, said = OF_PAIRS[what]
    assert old in PAIRS
    with pytest.raises(TitanError) as refused:
        parse_tile(PAIRS.replace(old, new, 1), target="sm_100a")
    assert said in str(refused.value)


REFUSED = {
    "scales without a sum": (", add: acc", "", "adds to nothing"),
    "one tile of scales": ("[a_scale, b_scale]", "[a_scale]", "scales"),
    "three tiles of scales": ("[a_scale, b_scale]", "[a_scale, b_scale, b_scale]", "not 3"),
    "an operand as its scales": ("[a_scale, b_scale]", "[a, b_scale]", "scales no e4m3 by e4m3"),
    "scales of another type": (
        "B_scale: {shape: [(N + 127) // 128, (K + 127) // 128 * 32, 16], dtype: ue8m0}",
        "B_scale: {shape: [(N + 127) // 128, (K + 127) // 128 * 32, 16], dtype: e4m3}",
        "scales are ue8m0"),
    "transposed scales": ("[a_scale, b_scale]", "[a_scale.T, b_scale]", "no tile of scales"),
    "too few scales": ("tile: [32, 16]}\n  - b_s", "tile: [16, 16]}\n  - b_s", "32 x 16"),
    "half of an atom along K": ("k_tile: 128", "k_tile: 64", "128 along K"),
    "an odd number of rows": ("columns: 128,", "columns: 64,", "those of 128 rows"),
    "operands of another type": ("{shape: [M, K], dtype: e4m3}", "{shape: [M, K], dtype: bf16}",
                                 "bf16"),
    "scales that are read": ("  - acc_next:", "  - x: {read: a_scale}\n  - acc_next:",
                             "only an `mma` with scales"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_scaled_product_is_refused(what):
    old, new, said = REFUSED[what]
    assert old in TEXT
    with pytest.raises(TitanError) as refused:
        parse_tile(TEXT.replace(old, new, 1), target="sm_100a")
    assert said in str(refused.value)


def test_other_targets_scale_nothing():
    text = TEXT.replace("target: sm_100a", "target: sm_90a")
    with pytest.raises(TitanError, match="scales no e4m3 by ue8m0"):
        parse_tile(text, target="sm_90a")
