"""The comparison itself: what it takes for the same, and what not."""

from __future__ import annotations

import numpy as np
import pytest

from titan.codegen.tile.dtypes import rounded
from titan.codegen.tile.load import load_tile
from titan.codegen.tile.outputs import difference, sample_inputs
from titan.codegen.tile.semantics import run
from titan.foundation.resources import root

SIZES = {"M": 24, "N": 16, "K": 40}


@pytest.fixture(scope="module")
def gemm():
    tile = load_tile(root("protocols") / "tiles" / "gemm.yaml")
    sizes = dict(tile.sizes) | SIZES
    return tile, run(tile, sample_inputs(tile, SIZES, 0), sizes)["C"]


def test_equal_numbers_and_the_neighbour_of_a_number_are_the_same(gemm):
    tile, right = gemm
    assert difference(tile, "C", right, right).error == 0
    neighbour = rounded(right * (1 + 2.0**-8), "bf16")
    assert np.any(neighbour != right)
    assert difference(tile, "C", neighbour, right).same


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * 1.02,
        lambda x: np.where(np.arange(x.size).reshape(x.shape) == 77, x + 0.5, x),
        lambda x: np.where(np.arange(x.size).reshape(x.shape) == 5, np.nan, x),
        lambda x: np.where(np.arange(x.size).reshape(x.shape) == 5, np.inf, x),
        lambda x: x[::-1],
        lambda x: np.roll(x, 1, axis=1),
    ],
)
def test_other_numbers_are_not(gemm, change):
    tile, right = gemm
    found = difference(tile, "C", change(right).astype(np.float32), right)
    assert not found.same and found.at.startswith("C[")


def test_what_is_not_written_must_stay_so(gemm):
    tile, right = gemm
    expected = right.copy()
    expected[3, 4] = np.nan
    assert difference(tile, "C", expected, expected).same
    found = difference(tile, "C", right, expected)
    assert not found.same and found.at == "C[3, 4]"


def test_inputs_depend_on_the_seed_alone(gemm):
    tile, _ = gemm
    first, again, other = (sample_inputs(tile, SIZES, seed) for seed in (1, 1, 2))
    assert np.array_equal(first["A"], again["A"]) and not np.array_equal(first["A"], other["A"])
    assert set(first) == {"A", "B"} and first["B"].shape == (16, 40)


def test_what_divides_is_positive():
    tile = load_tile(root("protocols") / "tiles" / "attention_combine_parts.yaml")
    inputs = sample_inputs(tile, {"parts": 3, "batch": 2, "kv_heads": 2, "ratio": 4}, 1)
    assert np.all(inputs["total"] > 0)
    assert all(np.any(inputs[name] < 0) for name in ("P", "top"))
