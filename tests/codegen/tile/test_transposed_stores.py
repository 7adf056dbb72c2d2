"""Stores that write a fragment transposed: their meaning, their pipelines with numbers, and what of
them is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.pipeline.test_hopper import verdict
from tests.codegen.pipeline.written import hopper as construct
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.functional import check, interleavings
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.semantics import reference64
from titan.codegen.tile.stored import as_data, from_data
from titan.foundation.verdict import Verdict
from titan.target.load import TargetRefused

TEXT = """
titan: 1
tile: flipped
target: sm_90a
sizes: {M: any, N: any, rows: 128, columns: 64}
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [N, M], dtype: bf16, output: true}
work: {m: (M + rows - 1) // rows}
loop: {n: (N + columns - 1) // columns}
body:
  - x: {load: "X[m * rows, n * columns]", tile: [rows, columns]}
  - wide: {read: x}
  - narrow: {convert: wide, to: bf16}
  - y: {store: narrow.T, to: "Y[n * columns, m * rows]"}
"""


def test_it_means_the_transpose_and_its_pipeline_computes_it() -> None:
    tile, sizes = parse_tile(TEXT), {"M": 200, "N": 136}
    x = np.random.default_rng(1).standard_normal((200, 136))
    np.testing.assert_allclose(reference64(tile, {"X": x}, sizes)["Y"], x.T.astype(np.float32))
    text = construct(tile, Shape("", 2, overlapped=False), {}, 1)
    assert "y: {tile: [64, 128]" in text.replace("parts: 1, ", "")
    assert verdict(text).verdict is Verdict.VERIFIED
    kernel, program = decoded(text)
    assert check(tile, program, {"X": x}, sizes, interleavings(4)) == []
    assert "titan::store_matrices_transposed" in emit(tile, kernel, program).files["kernel.cu"]
    assert from_data(as_data(tile)) == tile


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("loop:", "groups: 2\nloop:", "TTN602", "one group does alone"),
        ("narrow.T", "x.T", "TTN602", "a fragment of two bytes"),
        ("exp: ", "", "TTN602", "not those of `convert`"),
        ("target: sm_90a", "target: sm_100a", "TTN611", "written transposed on sm_100a"),
        ("Y[n * columns, m * rows]", "Y[n * rows, m * columns]", "TTN612", "`m`"),
    ],
)
def test_what_is_refused(old: str, new: str, code: str, told: str) -> None:
    text = TEXT.replace("convert: wide,", "convert: wide.T,") if old == "exp: " else TEXT
    with pytest.raises(TargetRefused) as caught:
        parse_tile(text.replace(old, new))
    found = [(item.code, item.headline) for item in caught.value.diagnostics]
    assert any(one == code and told in headline for one, headline in found), found
