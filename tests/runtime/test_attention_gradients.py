"""The backward pass of attention from packages, against float64: five products in one kernel where
that is built, two kernels elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import titan
from tests.runtime.packages import bits, linked, numbers, package
from titan.runtime.arrays import CallError
from titan.runtime.loaded import LoadedKernel
from titan.validate.compare.compile import nvcc

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")

DELTA, SUMS = "attention_backward_delta", "attention_backward_query_sums"
TWO = ("attention_backward_dkv", "attention_backward_dq")


def given(queries: int, keys: int) -> dict[str, np.ndarray]:
    """Inputs, outputs and the gradient of the output, as bits, and what the gradients should be."""
    random = np.random.default_rng(4)
    shapes = {"q": queries, "k": keys, "v": keys, "g": queries}
    made = {name: bits(random.standard_normal((1, n, 128))) for name, n in shapes.items()}
    q, k, v, g = (numbers(made[name]).astype(float) for name in "qkvg")
    scores = q @ k.swapaxes(1, 2) * np.log2(np.e) / np.sqrt(128)
    level = np.log2(np.exp2(scores).sum(axis=2))
    p = np.exp2(scores - level[:, :, None])
    made["o"] = bits(p @ v)
    ds = p * (g @ v.swapaxes(1, 2) - (g * numbers(made["o"])).sum(axis=2)[:, :, None])
    found = {"dq": ds @ k / np.sqrt(128), "dk": ds.swapaxes(1, 2) @ q / np.sqrt(128)}
    return {**made, "l": level.astype(np.float32), **found, "dv": p.swapaxes(1, 2) @ g}


def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    launch = LoadedKernel.launch

    def noted(self: LoadedKernel, *arguments: object) -> None:
        names.append(self.name)
        launch(self, *arguments)

    monkeypatch.setattr(LoadedKernel, "launch", noted)
    return names


def check(gradients, x: dict[str, np.ndarray]) -> None:
    found = gradients((x["q"], x["k"], x["v"]), (x["o"], x["l"]), (x["g"], None))
    for name, one in zip(("dq", "dk", "dv"), found, strict=True):
        scale = np.abs(x[name]).max()
        np.testing.assert_allclose(numbers(one), x[name], atol=2e-2 * scale)


@pytest.mark.heavy
@pytest.mark.long
def test_one_kernel_of_five_products_where_it_is_built(tmp_path, monkeypatch) -> None:
    packages = titan.Library(linked(tmp_path, DELTA, SUMS, "attention_backward", *TWO))
    names = launched(monkeypatch)
    check(titan.attention_gradients(packages), given(52, 150))
    assert names == [DELTA, "attention_backward", SUMS]
    names.clear()
    check(titan.attention_gradients(packages, deterministic=True), given(52, 60))
    assert names == [DELTA, *TWO]
    names.clear()
    check(titan.attention_gradients(packages), given(50, 60))  # rows of 200 bytes
    assert names == [DELTA, *TWO]


def test_what_is_not_built_is_told(tmp_path) -> None:
    packages = titan.Library(linked(tmp_path, DELTA, "attention_backward"))
    with pytest.raises(CallError, match="either attention_backward with"):
        titan.attention_gradients(packages)


def test_new_outputs_begin_with_zeros_and_given_ones_are_added_to(monkeypatch) -> None:
    kernel = titan.load(package("attention_backward"))
    x = given(48, 100)
    arrays = [x[name] for name in "qkvg"]
    arrays += [x["l"], (numbers(x["g"]) * numbers(x["o"])).sum(axis=2).astype(np.float32)]
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float, **_: np.full(shape, 7, dtype))
    dk, dv, once = kernel(*arrays)
    monkeypatch.undo()
    scale = np.abs(x["dq"]).max()
    np.testing.assert_allclose(once.swapaxes(1, 2) / np.sqrt(128), x["dq"], atol=2e-2 * scale)
    twice = once.copy()
    kernel(*arrays, out=(dk, dv, twice))
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-5, atol=1e-4)
