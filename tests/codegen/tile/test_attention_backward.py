"""The four kernels of attention for training, one after the other, against float64 gradients.

A gradient is that of the sum of O * dO; it is compared with difference quotients, too, so that the
formulas themselves are not taken on trust.
"""

from __future__ import annotations

import numpy as np
import pytest

from titan.codegen.tile.load import load_tile
from titan.codegen.tile.semantics import reference64, run
from titan.foundation.resources import root

Arrays = dict[str, np.ndarray]
SIZES = {"heads": 2, "queries": 70, "keys": 90}


def once(name: str, arrays: Arrays, exact: bool) -> Arrays:
    tile = load_tile(root("protocols") / "tiles" / f"{name}.yaml")
    parameters = {item.name: SIZES[item.name] for item in tile.parameters}
    inputs = {t.name: arrays[t.name] for t in tile.tensors if not t.output}
    return (reference64 if exact else run)(tile, inputs, parameters)


def trained(arrays: Arrays, exact: bool, causal: bool) -> Arrays:
    arrays, form = dict(arrays), "causal_" if causal else ""
    for name in (f"forward_{form}training", "backward_delta", f"backward_{form}dq",
                 f"backward_{form}dkv"):  # fmt: skip
        arrays |= once(f"attention_{name}", arrays, exact)
    return arrays


def given() -> Arrays:
    generator = np.random.default_rng(3)
    shapes = {"Q": "queries", "K": "keys", "V": "keys", "dO": "queries"}
    return {
        name: generator.standard_normal((SIZES["heads"], SIZES[rows], 128))
        for name, rows in shapes.items()
    }


def loss(arrays: Arrays, causal: bool) -> float:
    scores = np.einsum("hid,hjd->hij", arrays["Q"], arrays["K"]) / np.sqrt(128)
    if causal:
        scores = np.where(np.triu(np.ones(scores.shape[1:]), 1) > 0, -np.inf, scores)
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    return float((np.einsum("hij,hjd->hid", p, arrays["V"]) * arrays["dO"]).sum())


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradients_are_difference_quotients(causal: bool) -> None:
    arrays = given()
    # What the programs store is rounded to the types of the tensors; the inputs are not, here.
    found = trained(arrays, exact=True, causal=causal)
    step = 1e-4
    for name, place in (
        ("Q", (0, 5, 7)),
        ("K", (1, 80, 100)),
        ("V", (0, 3, 64)),
        ("Q", (1, 69, 0)),
    ):
        sides = []
        for sign in (1, -1):
            moved = dict(arrays) | {name: arrays[name].copy()}
            moved[name][place] += sign * step
            sides.append(loss(moved, causal))
        quotient = (sides[0] - sides[1]) / (2 * step)
        np.testing.assert_allclose(found[f"d{name}"][place], quotient, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("causal", [False, True])
def test_rounded_as_the_kernels_round(causal: bool) -> None:
    arrays = given()
    exact = trained(arrays, exact=True, causal=causal)
    found = trained(arrays, exact=False, causal=causal)
    for name in ("O", "L", "D", "dQ", "dK", "dV"):
        scale = np.abs(exact[name]).max()
        assert np.abs(found[name] - exact[name]).max() < 2.0**-5 * scale, name
