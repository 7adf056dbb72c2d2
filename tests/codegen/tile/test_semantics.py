"""The meaning of tile programs against direct NumPy formulas; ragged shapes; conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from titan.codegen.tile.dtypes import rounded
from titan.codegen.tile.load import load_tile, parse_tile
from titan.codegen.tile.model import TileOperation, Value, ValuePlace
from titan.codegen.tile.operations import KINDS
from titan.codegen.tile.semantics import (
    StoreConflict,
    apply,
    fetch,
    put,
    reference64,
    run,
    work_items,
)
from titan.foundation.resources import root

FOLDER = root("protocols") / "tiles"


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (128, 128, 64), (130, 257, 65), (77, 300, 200)])
def test_gemm_with_epilogue(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    tile = load_tile(FOLDER / "gemm_bias_gelu.yaml")
    a, b, bias = random(1, m, k), random(2, n, k), random(3, n)
    inputs, parameters = {"A": a, "B": b, "bias": bias}, {"M": m, "N": n, "K": k}
    a16, b16 = rounded(a, "bf16").astype(float), rounded(b, "bf16").astype(float)
    direct = gelu(a16 @ b16.T + bias.astype(np.float32))
    exact = reference64(tile, inputs, parameters)["C"]
    assert exact.dtype == np.float64
    np.testing.assert_allclose(exact, direct, rtol=1e-9, atol=1e-9)
    found = run(tile, inputs, parameters)["C"]
    assert found.dtype == np.float32
    assert np.array_equal(found, rounded(found, "bf16"))
    np.testing.assert_allclose(found, direct, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 128, 128), (1, 130, 300), (2, 5, 129)])
def test_attention(sizes: tuple[int, int, int]) -> None:
    heads, queries, keys = sizes
    tile = load_tile(FOLDER / "attention_forward.yaml")
    q, k, v = (
        random(1, heads, queries, 128),
        random(2, heads, keys, 128),
        random(3, heads, keys, 128),
    )
    inputs = {"Q": q, "K": k, "V": v}
    parameters = {"heads": heads, "queries": queries, "keys": keys}
    q, k, v = (rounded(x, "bf16").astype(float) for x in (q, k, v))
    direct = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(128)) @ v
    exact = reference64(tile, inputs, parameters)["O"]
    np.testing.assert_allclose(exact, direct, rtol=1e-6, atol=1e-6)
    found = run(tile, inputs, parameters)["O"]
    np.testing.assert_allclose(found, direct, rtol=2e-2, atol=1e-2)


def fragment(name: str, rows: int, columns: int, dtype: str = "f32") -> Value:
    place = (
        ValuePlace.ROW if columns == 1 else ValuePlace.COLUMN if rows == 1 else ValuePlace.FRAGMENT
    )
    return Value(name, rows, columns, dtype, place)


X = random(11, 8, 16)
Y = random(12, 8, 16) ** 2 + 0.1
ROW, COLUMN = random(13, 8, 1), random(14, 1, 16)
FORMULAS: list[tuple[str, list[np.ndarray], Callable[..., np.ndarray], dict]] = [
    ("add", [X, ROW], lambda x, y: x + y, {}),
    ("subtract", [COLUMN, X], lambda x, y: x - y, {}),
    ("multiply", [X, Y], lambda x, y: x * y, {}),
    ("divide", [ROW, ROW + 3], lambda x, y: x / y, {}),
    ("maximum", [X, COLUMN], np.maximum, {}),
    ("minimum", [X, ROW], np.minimum, {}),
    ("raise", [X, ROW], lambda x, y: np.where(y > x + 0.5, y, x), {"number": 0.5}),
    ("scale", [X], lambda x: x * np.float64(np.float32(0.1)), {"number": 0.1}),
    ("offset", [X], lambda x: x - 2.5, {"number": -2.5}),
    ("exp2", [X], lambda x: 2.0**x, {}),
    ("log2", [Y], lambda x: np.log(x) / np.log(2), {}),
    ("reciprocal", [Y], lambda x: 1 / x, {}),
    ("rsqrt", [Y], lambda x: x**-0.5, {}),
    ("activation", [X], lambda x: np.where(x > 0, x, 0), {"function": "relu"}),
    ("activation", [X], gelu, {"function": "gelu"}),
    ("activation", [X], lambda x: x / (1 + np.exp(-x)), {"function": "silu"}),
    ("activation", [X], np.tanh, {"function": "tanh"}),
    ("convert", [X], lambda x: x, {}),
    ("read", [X], lambda x: x, {}),
    ("row_max", [X], lambda x: np.sort(x, axis=1)[:, -1:], {}),
    ("row_sum", [X], lambda x: x @ np.ones((16, 1)), {}),
    ("mma", [X, Y], lambda x, y: np.einsum("ik,jk->ij", x, y), {"transpose": (False, True)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "operands", "formula", "fields"),
    FORMULAS,
    ids=[f"{row[0]}-{row[3].get('function', '')}" for row in FORMULAS],
)
def test_every_operation_is_its_formula_rounded_once(
    kind: str, operands: list[np.ndarray], formula: Callable[..., np.ndarray], fields: dict
) -> None:
    operands = [rounded(x, "f32").astype(float) for x in operands]
    direct = formula(*operands)
    result = fragment("r", *direct.shape)
    operation = TileOperation("r", kind, tuple("xyz"[: len(operands)]), result, **fields)
    np.testing.assert_allclose(apply(operation, operands, double=True), direct, rtol=1e-12)
    found = apply(operation, operands)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, direct, rtol=2.0**-23)
    narrow = apply(replace(operation, result=replace(result, dtype="f16")), operands)
    assert np.array_equal(narrow, rounded(narrow, "f16"))


def test_every_kind_that_computes_has_a_meaning() -> None:
    tried = {row[0] for row in FORMULAS} | {"mask", "share"}  # which hands on what it is given
    assert tried == {name for name, kind in KINDS.items() if kind.places and name != "store"}


def test_products_with_sums_and_transposed_operands() -> None:
    a, b, c = random(1, 16, 8), random(2, 16, 24), random(3, 8, 24)
    result = fragment("r", 8, 24)
    operation = TileOperation("r", "mma", ("a", "b", "c"), result, transpose=(True, False, False))
    np.testing.assert_allclose(apply(operation, [a, b, c], double=True), a.T @ b + c)


def test_a_mask_counts_rows_of_the_whole_tile() -> None:
    tile = parse_tile(
        (FOLDER / "attention_forward.yaml")
        .read_text(encoding="utf-8")
        .replace("j * columns + column < keys", "j * columns + column <= i * rows + row")
    )
    masked = tile.operation("masked")
    scores = np.zeros((64, 128), np.float32)
    environment = {"heads": 1, "queries": 200, "keys": 200, "h": 0, "i": 1, "j": 1}
    found = apply(masked, [scores], environment, first_row=64)
    wanted = np.where(np.arange(128)[None] <= 64 + np.arange(64)[:, None], 0, -np.inf)
    assert np.array_equal(found, wanted)


def test_nothing_is_a_number_in_a_maximum() -> None:
    result = fragment("r", 1, 4)
    operation = TileOperation("r", "maximum", ("x", "y"), result)
    left, right = np.array([[np.nan, 1, np.nan, -np.inf]]), np.array([[2, np.nan, np.nan, -np.inf]])
    found = apply(operation, [left, right])
    assert np.array_equal(found, np.array([[2, 1, np.nan, -np.inf]]), equal_nan=True)


def test_views_read_zero_outside_and_write_only_inside() -> None:
    tile = load_tile(FOLDER / "gemm_bias_gelu.yaml")
    a = np.arange(1, 131 * 70 + 1, dtype=np.float32).reshape(131, 70)
    got = fetch(tile.operation("a"), a, {"m": 1, "k": 1})
    assert got.shape == (128, 64)
    assert np.array_equal(got[:3, :6], a[128:, 64:])
    assert not got[3:].any() and not got[:, 6:].any()
    outside = fetch(tile.operation("a"), a, {"m": 2, "k": 0})
    assert not outside.any()
    bias = fetch(tile.operation("bias_tile"), np.ones(130, np.float32), {"n": 1})
    assert bias.shape == (1, 128) and bias.sum() == 2
    c = np.zeros((131, 130), np.float32)
    put(tile.operation("c"), np.ones((64, 128), np.float32), c, {"m": 1, "n": 1}, first_row=0)
    assert c.sum() == 3 * 2 and c[128:, 128:].all()
    put(tile.operation("c"), np.ones((64, 128), np.float32), c, {"m": 1, "n": 0}, first_row=64)
    assert c.sum() == 3 * 2
    put(tile.operation("c"), np.ones((64, 128), np.float32), c, {"m": 0, "n": 0}, first_row=64)
    assert c[64:128, :128].all() and not c[:64].any()


def test_two_stores_to_one_element_conflict() -> None:
    tile = load_tile(FOLDER / "gemm.yaml")
    store = tile.operation("c")
    assert store.view is not None
    same = replace(store, view=replace(store.view, offsets=(store.view.offsets[1],) * 2))
    broken = replace(tile, after=(*tile.after[:-1], same))
    inputs = {"A": random(1, 200, 8), "B": random(2, 10, 8)}
    with pytest.raises(StoreConflict):
        run(broken, inputs, {"M": 200, "N": 10, "K": 8})


def test_what_no_work_item_stores_is_no_number() -> None:
    tile = load_tile(FOLDER / "gemm.yaml")
    fewer = replace(tile, work=(replace(tile.work[0], count=tile.work[1].count), tile.work[1]))
    inputs = {"A": random(1, 200, 8), "B": random(2, 10, 8)}
    found = run(fewer, inputs, {"M": 200, "N": 10, "K": 8})["C"]
    assert np.isfinite(found[:128]).all() and np.isnan(found[128:]).all()


def test_launches_that_do_not_fit_are_refused() -> None:
    tile = load_tile(FOLDER / "gemm.yaml")
    inputs = {"A": random(1, 20, 8), "B": random(2, 10, 8)}
    for parameters in ({"M": 20, "N": 10}, {"M": 20, "N": 10, "K": 0}, {"M": 21, "N": 10, "K": 8}):
        with pytest.raises(ValueError, match=r"M|K|A"):
            run(tile, inputs, parameters)
    with pytest.raises(ValueError, match="missing"):
        run(tile, {"A": inputs["A"]}, {"M": 20, "N": 10, "K": 8})
    items = list(work_items(tile, {"M": 129, "N": 257, "K": 8}))
    assert [(item["m"], item["n"]) for item in items] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip
