"""Rows of numbers that go through shared memory: which ring brings them, what is read of them, and
the fence and the registers that they save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.emit.test_cuda_emulated import agrees
from tests.codegen.pipeline.test_hopper import verdict
from tests.codegen.pipeline.written import hopper as construct
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.candidates import shapes
from titan.codegen.pipeline.loop_body import BodyItem, ItemKind, fenced_since
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import rings_of
from titan.codegen.tile.load import load_tile, parse_tile
from titan.codegen.tile.model import TileProgram, ValuePlace
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict

TILES = root("protocols") / "tiles"
PLAIN = Shape("", 2, overlapped=False)
FENCE = "        - fence: async\n"

ROWS = """titan: 1
tile: rows
target: sm_90a
sizes: {M: any, N: any, rows: 128, columns: COLUMNS}
tensors:
  X: {shape: [M, N], dtype: bf16}
  S: {shape: [M, N], dtype: TYPE}
  Y: {shape: [M, N], dtype: bf16, output: true}
work: {m: (M + rows - 1) // rows}
groups: 2
loop: {t: (N + columns - 1) // columns}
body:
  - x: {load: "X[m * rows, t * columns]", tile: [rows, columns]}
  - one: {load: "S[m, t * columns]", tile: [1, columns]}
  - wide: {read: x}
  - factor: {read: one}
  - product: {multiply: [wide, factor]}
  - narrow: {convert: product, to: bf16}
  - y: {store: narrow, to: "Y[m * rows, t * columns]"}
"""


def rows(columns: int = 64, dtype: str = "f32") -> TileProgram:
    return parse_tile(ROWS.replace("COLUMNS", str(columns)).replace("TYPE", dtype))


def backward() -> TileProgram:
    return load_tile(TILES / "attention_backward.yaml", "sm_90a")


def test_one_row_is_a_number_for_each_column() -> None:
    value = rows().operation("factor").value
    assert (value.rows, value.columns, value.place) == (1, 64, ValuePlace.COLUMN)
    assert rows().operation("wide").value.place is ValuePlace.FRAGMENT


def test_a_row_goes_with_the_tile_above_it() -> None:
    brought = [tuple(load.name for load in ring.loads) for ring in rings_of(backward())]
    assert brought == [("k",), ("v",), ("q", "l"), ("g", "d")]
    q = rings_of(backward())[2]
    assert q.readers == ("s", "dk_next", "statistic")
    first = ROWS.replace("COLUMNS", "64").replace("TYPE", "f32").splitlines(keepends=True)
    at = next(i for i, line in enumerate(first) if "- x:" in line)
    first[at], first[at + 1] = first[at + 1], first[at]
    alone = rings_of(parse_tile("".join(first)))
    assert [tuple(load.name for load in ring.loads) for ring in alone] == [("one",), ("x",)]


@pytest.mark.parametrize(
    ("columns", "dtype"), [(64, "f32"), (48, "f32"), (64, "bf16"), (16, "f16"), (32, "e4m3")]
)
def test_each_thread_has_the_numbers_of_its_columns(columns: int, dtype: str) -> None:
    """In panels of every width, of whole and of ragged tiles."""
    tile = rows(columns, dtype)
    made = emit(tile, *decoded(construct(tile, PLAIN, {}, 1)))
    for sizes in ({"M": 130, "N": 160}, {"M": 3, "N": 48}):
        agrees(tile, made, sizes)


def test_waves_read_no_row_of_numbers() -> None:
    from titan.codegen.pipeline.build import BuildHooks, BuildLimits, BuildRefused, build

    text = ROWS.replace("COLUMNS", "64").replace("TYPE", "f32").replace("sm_90a", "gfx942")
    text = text.replace("groups: 2", "groups: 4")

    def accept(built: object) -> str | None:
        try:
            emit(built.tile, built.kernel, built.program)  # type: ignore[attr-defined]
        except EmissionRefused as refused:
            return str(refused)
        return None

    with pytest.raises(BuildRefused) as caught:
        build(parse_tile(text), text, BuildLimits(schedule_seconds=1), BuildHooks(accept))
    assert any("reads a row of numbers" in step.reason for step in caught.value.steps)


# ------------------------------------------------------------------------------------------ fences


def test_every_fence_that_is_left_is_needed() -> None:
    """The one of a shared fragment is behind the reads of the stage, so the release has none."""
    tile = backward()
    made = construct(tile, replace(PLAIN, overlaid=True, lean=True), {}, 1)
    assert verdict(made).verdict is Verdict.VERIFIED
    assert made.count(FENCE) == 2
    assert "        - fence: async\n        - release" not in made
    shared = made.index("all_ds[t % 2, self] = t\n" + FENCE)
    without = made[:shared] + made[shared:].replace(FENCE, "", 1)
    assert verdict(without).verdict is Verdict.REFUTED


def test_where_nothing_is_shared_the_release_has_a_fence() -> None:
    made = construct(rows(), PLAIN, {}, 1)
    assert FENCE + "        - release: ring_x[t]\n" in made
    assert verdict(made).verdict is Verdict.VERIFIED
    without = made.replace(FENCE + "        - release", "        - release")
    assert verdict(without).verdict is Verdict.REFUTED


SHARE, READ = BodyItem(ItemKind.SHARE, "all", 0), BodyItem(ItemKind.READ, "x", 0)
RELEASE = BodyItem(ItemKind.RELEASE, "ring", 0)


@pytest.mark.parametrize(
    ("items", "fenced"),
    [
        ((READ, SHARE, RELEASE), True),
        ((SHARE, READ, RELEASE), False),
        ((READ, RELEASE, SHARE), False),
        ((RELEASE, READ, SHARE), False),
        ((replace(RELEASE, lag=1), READ, SHARE), True),
        ((SHARE, replace(RELEASE, lag=1), READ), False),  # the last iteration has no share behind
        ((READ, replace(SHARE, lag=1), replace(RELEASE, lag=1)), False),
        ((READ, SHARE), False),
    ],
)
def test_a_fence_counts_in_the_iteration_of_the_read(
    items: tuple[BodyItem, ...], fenced: bool
) -> None:
    assert fenced_since(items, "x", "ring") is fenced


# --------------------------------------------------------------------------------------- registers


def test_a_lean_loading_warp_is_the_last_of_each_depth() -> None:
    listed = list(shapes(backward(), 2, 3))
    lean = [place for place, shape in enumerate(listed) if shape.lean]
    assert [listed[place].depth for place in lean] == [3, 2]
    for place in lean:
        assert replace(listed[place], lean=False, name="") == replace(listed[place - 1], name="")
    made = construct(backward(), listed[lean[-1]], {}, 1)
    assert "producer: {warps: 1, registers: 24}" in made
    assert "consumer: {warpgroups: 2, registers: 240}" in made
    assert 128 * 24 + 2 * 128 * 240 <= 64 * 1024


def test_threads_that_copy_are_not_lean() -> None:
    tile = load_tile(TILES / "gemm.yaml", "sm_90a")
    with pytest.raises(FormRefused, match="few registers"):
        construct(tile, replace(PLAIN, tail=True, lean=True), {}, 1)
    one = replace(tile, groups=1)
    assert not any(shape.lean for shape in shapes(one, 2, 3))
