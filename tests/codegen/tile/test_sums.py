"""Stores that add to what a tensor holds, and fragments that groups share: what they mean, and what
of them is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline.examples import SHARED, shared
from titan.codegen.tile.dtypes import rounded
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.semantics import StoreConflict, reference64, run
from titan.codegen.tile.stored import as_data, from_data
from titan.target.load import TargetRefused

PARTS = """
titan: 1
tile: parts
target: sm_90a
sizes: {M: any, N: any, K: any, rows: 64, columns: 64, share: 128}
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: f32, output: true}
work: {m: (M + rows - 1) // rows, n: (N + columns - 1) // columns, s: (K + share - 1) // share}
loop: {k: share // 64}
carried:
  acc: {shape: [rows, columns], initial: 0, next: acc_next}
body:
  - a: {load: "A[m * rows, s * share + k * 64]", tile: [rows, 64]}
  - b: {load: "B[n * columns, s * share + k * 64]", tile: [columns, 64]}
  - acc_next: {mma: [a, b.T], add: acc}
after:
  - c: {store: acc, to: "C[m * rows, n * columns]", reduce: add}
"""


def given(tile: TileProgram, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    shapes = {"parts": ("MK", "NK"), "shared": ("Md", "Nd")}[tile.name]
    known = {**sizes, "d": 128}
    return {
        name: rounded(random.standard_normal([known[one] for one in shape]), "bf16")
        for name, shape in zip("AB", shapes, strict=True)
    }


def test_shares_of_a_product_add_up_in_the_tensor() -> None:
    tile, sizes = parse_tile(PARTS), {"M": 70, "N": 90, "K": 300}
    inputs = given(tile, sizes)
    right = inputs["A"].astype(float) @ inputs["B"].astype(float).T
    np.testing.assert_allclose(reference64(tile, inputs, sizes)["C"], right, rtol=1e-12)
    np.testing.assert_allclose(run(tile, inputs, sizes)["C"], right, rtol=1e-4, atol=1e-4)
    assert tile.sums == {"C"}


def test_the_same_store_that_replaces_is_refused_and_overlaps() -> None:
    with pytest.raises(TargetRefused) as caught:
        parse_tile(PARTS.replace(", reduce: add", ""))
    assert [item.code for item in caught.value.diagnostics] == ["TTN612"]
    tile, sizes = parse_tile(PARTS), {"M": 70, "N": 90, "K": 300}
    replaces = replace(tile, after=(replace(tile.after[0], reduction=""),))
    with pytest.raises(StoreConflict):
        run(replaces, given(tile, sizes), sizes)


def test_what_groups_share_is_read_whole_by_products() -> None:
    tile, sizes = shared(), {"M": 200, "N": 50}
    inputs = given(tile, sizes)
    a, b = (inputs[name].astype(float) for name in "AB")
    np.testing.assert_allclose(reference64(tile, inputs, sizes)["C"], a.T @ (a @ b.T), rtol=1e-9)


@pytest.mark.parametrize("text", [PARTS, SHARED])
def test_programs_go_through_data(text: str) -> None:
    tile = parse_tile(text)
    assert from_data(as_data(tile)) == tile
    assert as_data(tile)["after" if text is PARTS else "body"][-1]["reduction"] == "add"


@pytest.mark.parametrize(
    ("text", "old", "new", "code", "told"),
    [
        (PARTS, "reduce: add", "reduce: max", "TTN010", "`reduce`"),
        (PARTS, "reduce: add", "reduce: add, below: M", "TTN009", "adds whole tiles"),
        (PARTS, "{store: acc,", "{store: narrow,", "TTN604", "sums are in f32"),
        (PARTS, "target: sm_90a", "target: gfx942", "TTN611", "no copy engine of gfx942"),
        (SHARED, "{share: s16}", "{share: s}", "TTN604", "not of two bytes"),
        (SHARED, "{share: s16}", "{share: b}", "TTN602", "takes a fragment"),
        (SHARED, "mma: [a.T, whole]", "read: whole", "TTN602", "which only products take"),
        (SHARED, "target: sm_90a", "target: sm_100a", "TTN611", "share no fragments"),
        (SHARED, "reduce: add", "", "TTN612", "`m`"),
    ],
)
def test_what_is_refused(text: str, old: str, new: str, code: str, told: str) -> None:
    if "narrow" in new:
        text = text.replace("C: {shape: [M, N], dtype: f32", "C: {shape: [M, N], dtype: bf16")
        text = text.replace("after:\n", "after:\n  - narrow: {convert: acc, to: bf16}\n")
    assert old in text
    with pytest.raises(TargetRefused) as caught:
        parse_tile(text.replace(old, new))
    found = [(item.code, item.headline) for item in caught.value.diagnostics]
    assert any(one == code and told in headline for one, headline in found), found


def test_a_fragment_is_shared_in_the_loop_alone() -> None:
    text = SHARED.replace(
        "body:\n", "body:\n  - c: {load: 'B[n * columns, 0]', tile: [columns, depth_k]}\n"
    )
    text = text.replace(
        "loop:", "carried:\n  acc: {shape: [rows, columns], initial: 0, next: s}\nloop:"
    )
    text += "after:\n  - acc16: {convert: acc, to: bf16}\n  - late: {share: acc16}\n"
    with pytest.raises(TargetRefused) as caught:
        parse_tile(text)
    assert any("shared outside of the loop" in item.headline for item in caught.value.diagnostics)
