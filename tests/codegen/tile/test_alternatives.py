"""Sizes that are lists: their combinations, which one is built, and what is refused."""

from __future__ import annotations

import json

import pytest

from titan.codegen.pipeline.build import BuildLimits, BuildRefused
from titan.codegen.pipeline.size_choice import by_model
from titan.codegen.tile.alternatives import alternatives
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.package.produce import produce
from titan.target.load import TargetRefused

TEXT = (root("protocols") / "tiles" / "gemm_gfx942.yaml").read_text(encoding="utf-8")
FIXED = "rows: 128, columns: 128, k_tile: 64"
assert FIXED in TEXT


def text_of(sizes: str) -> str:
    return TEXT.replace(FIXED, sizes)


def found(sizes: str, target: str = "gfx942"):
    text = text_of(sizes)
    return alternatives(parse_tile(text, target=target), text)


def test_a_program_without_lists_is_its_one_alternative():
    (one,) = found(FIXED)
    assert one.text == TEXT and one.sizes == ()
    assert one.tile == parse_tile(TEXT, target="gfx942")


def test_every_combination_is_a_program_of_its_own():
    listed = found("rows: [256, 128], columns: 128, k_tile: [32, 64]")
    assert [one.words for one in listed] == [
        "rows 256, k_tile 32", "rows 256, k_tile 64", "rows 128, k_tile 32", "rows 128, k_tile 64",
    ]  # fmt: skip
    for one in listed:
        plain = text_of(
            ", ".join(f"{n}: {v}" for n, v in {"columns": 128, **dict(one.sizes)}.items())
        )
        assert one.tile.sizes == parse_tile(one.text, target="gfx942").sizes
        assert dict(one.tile.sizes) == dict(parse_tile(plain, target="gfx942").sizes)
        assert "[" not in one.text.split("sizes:")[1].split("\n")[0]


def test_lists_of_several_lines_are_replaced_too():
    text = TEXT.replace(
        "sizes: {M: any, N: any, K: any, rows: 128, columns: 128, k_tile: 64}",
        "sizes:\n  M: any\n  N: any\n  K: any\n  rows:\n    - 128\n    - 64\n  columns: 128\n"
        "  k_tile: [32,\n    64]",
    )
    listed = alternatives(parse_tile(text, target="gfx942"), text)
    assert [one.words for one in listed] == [
        "rows 128, k_tile 32", "rows 128, k_tile 64", "rows 64, k_tile 32", "rows 64, k_tile 64",
    ]  # fmt: skip


def test_the_first_of_a_list_is_what_others_read():
    assert (
        dict(parse_tile(text_of("rows: [64, 128], columns: 128, k_tile: 64")).sizes)["rows"] == 64
    )


def test_combinations_that_the_target_refuses_are_left_out():
    """Rows of 8 are no whole fragments of four waves."""
    listed = found("rows: [128, 8], columns: 128, k_tile: 64")
    assert [one.words for one in listed] == ["rows 128"]


@pytest.mark.parametrize("sizes", [
    "rows: [], columns: 128, k_tile: 64",
    "rows: [128, any], columns: 128, k_tile: 64",
    "rows: [128, 128], columns: 128, k_tile: 64",
    "rows: [128, 0], columns: 128, k_tile: 64",
    "rows: [16, 32, 64, 128], columns: [16, 32, 64, 128], k_tile: [16, 32, 64]",
])  # fmt: skip
def test_lists_that_are_refused(sizes):
    with pytest.raises(TargetRefused):
        parse_tile(text_of(sizes), target="gfx942")


@pytest.mark.parametrize(("target", "sizes", "best"), [
    # Two work-groups of 64 x 64 read LDS twice as often for a product as the matrix unit has time.
    ("gfx950", "rows: [64, 256], columns: [64, 256], k_tile: 64", "rows 256, columns 256"),
    ("gfx942", "rows: [64, 128], columns: [64, 128], k_tile: 64", "rows 128, columns 128"),
    # Within the model's error the first one of the file.
    ("gfx942", "rows: 256, columns: 256, k_tile: [32, 64]", "k_tile 32"),
    ("gfx942", "rows: 256, columns: 256, k_tile: [64, 32]", "k_tile 64"),
])  # fmt: skip
def test_the_model_decides(target, sizes, best):
    ranked = by_model(found(sizes, target), BuildLimits())
    assert ranked[0].alternative.words == best
    rates = [one.rate or 0.0 for one in ranked]
    assert 1.05 * rates[0] >= max(rates)


def test_a_package_has_the_numbers_that_were_taken(tmp_path):
    text = text_of("rows: [64, 128], columns: [64, 128], k_tile: 64")
    made = produce(
        parse_tile(text, target="gfx942"), text, tmp_path, BuildLimits(), with_toolchain=False
    )
    written = (made.folder / "tile.yaml").read_text(encoding="utf-8")
    assert "rows: 128, columns: 128" in written
    assert made.sizes[0].startswith("rows 128, columns 128: ") and len(made.sizes) == 4
    manifest = json.loads((made.folder / "manifest.json").read_text(encoding="utf-8"))
    plain = produce(
        parse_tile(TEXT, target="gfx942"), TEXT, tmp_path / "plain", BuildLimits(),
        with_toolchain=False,
    )  # fmt: skip
    same = json.loads((plain.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["launch"] == same["launch"]


def test_what_cannot_be_built_gives_way_to_the_next(tmp_path):
    """256 x 512 has more sums than a lane has registers."""
    text = text_of("rows: 256, columns: [512, 128], k_tile: 32")
    tile = parse_tile(text, target="gfx942")
    made = produce(tile, text, tmp_path, BuildLimits(), with_toolchain=True)
    if made.figures is not None:
        assert dict(made.built.tile.sizes)["columns"] == 128
    with pytest.raises(BuildRefused):
        text = text_of("rows: 1024, columns: [1024, 2048], k_tile: 64")
        produce(parse_tile(text, target="gfx942"), text, tmp_path, BuildLimits())
