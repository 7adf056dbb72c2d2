"""Scalar arguments of tile programs: how they are read, what they mean, what is none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.codegen.tile.scaled import SCALED, SIZES, inputs, scaled
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import ScalarArgument
from titan.codegen.tile.scalar_values import BadScalar, scalar_fault
from titan.codegen.tile.scalars import with_scalars
from titan.codegen.tile.semantics import reference64, run
from titan.codegen.tile.stored import BadProgram, as_data, from_data
from titan.target.load import TargetRefused

TILE = parse_tile(SCALED)


def test_a_scalar_is_read_with_its_number():
    assert TILE.scalars == (ScalarArgument("factor", 0.5), ScalarArgument("eps", 1e-5))
    operation = TILE.operation("scaled")
    assert (operation.number, operation.scalar) == (-1.5, TILE.scalars[0])
    assert (TILE.operation("raised").number, TILE.operation("raised").scalar) == (
        1.0, TILE.scalars[1],
    )  # fmt: skip


@pytest.mark.parametrize("given", [{}, {"factor": 3.0}, {"factor": 0.1, "eps": 7.25}])
def test_what_a_program_with_scalars_means(given):
    arrays = inputs(np.random.default_rng(1))
    tile = with_scalars(TILE, given)
    right = scaled(arrays["X"].astype(float), arrays["Z"].astype(float), **given)
    np.testing.assert_allclose(reference64(tile, arrays, SIZES)["Y"], right, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(run(tile, arrays, SIZES)["Y"], right, rtol=2.0**-8, atol=1e-5)


def test_the_product_with_a_scalar_is_rounded_once():
    """0.1 and 0.3 have no form in f32; the kernel multiplies what f32 has of them."""
    tile = with_scalars(parse_tile(SCALED.replace("-1.5 *", "0.3 *")), {"factor": 0.1})
    tile = with_scalars(tile, {"eps": 1e-38})
    arrays = inputs(np.random.default_rng(1))
    ones = {"X": np.ones_like(arrays["X"]), "Z": np.zeros_like(arrays["Z"])}
    found = reference64(tile, ones, SIZES)["Y"]
    assert set(found.ravel()) == {float(np.float32(0.3) * np.float32(0.1))}


@pytest.mark.parametrize(
    ("old", "new", "code", "word"),
    [
        ("factor: 0.5", "factor: 0", "TTN009", "positive"),
        ("factor: 0.5", "factor: -2", "TTN009", "positive"),
        ("factor: 0.5", "factor: inf", "TTN009", "finite"),
        ("factor: 0.5", "factor: 1e-60", "TTN009", "positive"),
        ("factor: 0.5", "factor: M", "TTN008", "number"),
        ("factor: 0.5", "M: 0.5", "TTN013", "M"),
        ("-1.5 * factor", "-1.5 * facto", "TTN011", "facto"),
        ("-1.5 * factor", "-1.5", "TTN609", "factor"),
        ("-1.5 * factor", "M", "TTN011", "`M`"),
        ("-1.5 * factor", "inf * factor", "TTN009", "finite"),
        ("m * rows, t * columns]\", tile", "m * rows, factor]\", tile", "TTN011", "factor"),
        ("h // ratio", "h // m", "TTN015", "divides"),
        ("h // ratio", "h // (ratio - 1)", "TTN015", "divides"),
        ("(N + columns - 1) // columns}", "N // (ratio - 1)}", "TTN015", "divides"),
    ],
)  # fmt: skip
def test_what_is_refused(old, new, code, word):
    assert SCALED.count(old) == 1
    with pytest.raises(TargetRefused) as refused:
        parse_tile(SCALED.replace(old, new))
    assert refused.value.diagnostics[0].code == code
    assert word in refused.value.diagnostics[0].headline


def test_numbers_that_are_no_scalars():
    assert scalar_fault(1.5) == ""
    for value in (0.0, -1.0, float("nan"), float("inf"), 1e39, 1e-50):
        assert scalar_fault(value)
    with pytest.raises(BadScalar, match=r"no scalar facto.*factor"):
        with_scalars(TILE, {"facto": 1.0})
    with pytest.raises(BadScalar, match="not positive"):
        with_scalars(TILE, {"factor": -1.0})


def test_stored_programs_keep_their_scalars():
    data = json.loads(json.dumps(as_data(TILE)))
    assert from_data(data) == TILE
    del data["scalars"]
    with pytest.raises(BadProgram):
        from_data(data)
