"""Stages that do not fill the swizzle's repeat are padded, verified so, and right in numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.device.compared import compare
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.build import BuildHooks, BuildLimits, build
from titan.codegen.pipeline.tile_layout import padded_bytes, tile_bytes
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root

TILES = root("protocols") / "tiles"
LIMITS = BuildLimits(2.0, solver="rau")


def program(name, target, tmp_path, *changes):
    text = (TILES / f"{name}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return load_tile(path, target=target)


CASES = [
    ("copy", "sm_90a", (("rows: 128, columns: 64", "rows: 20, columns: 64"),), 3072),
    ("copy", "sm_90a", (("rows: 128, columns: 64", "rows: 20, columns: 128"),), 6144),
    ("copy", "sm_100a", (("rows: 128, columns: 64", "rows: 12, columns: 32"),), 1024),
]


@pytest.mark.parametrize(("name", "target", "changes", "apart"), CASES)
def test_padded_stages_are_emitted_and_run(name, target, changes, apart, tmp_path):
    built = build(program(name, target, tmp_path, *changes), "", LIMITS)
    (layout,) = [one for one in built.kernel.placement.layouts if one.name == "x"]
    assert layout.stride == apart
    emitted = emit(built.tile, built.kernel, built.program)
    source = emitted.files[emitted.manifest["source"]]
    assert re.search(rf"s_x \+ [^;]* \* {apart}\b", source)
    rows = dict(built.tile.sizes).get("rows")
    for seed, sizes in enumerate(({"M": 8, "N": 8}, {"M": 3 * rows - 4, "N": 7 * 64 + 8})):
        assert compare(built.tile, emitted.files, emitted.manifest, sizes, seed=seed).same


def test_operands_of_products_may_be_padded(tmp_path):
    """48 rows of 32 bytes: 1,536 bytes a panel, 2,048 apart."""
    sizes = ("columns: 64, k_tile: 64", "columns: 48, k_tile: 16")
    built = build(program("gemm_small_tiles", "sm_90a", tmp_path, sizes), "", LIMITS)
    assert {one.name: one.stride for one in built.kernel.placement.layouts}["b"] == 2048
    emitted = emit(built.tile, built.kernel, built.program)
    for seed, inner in enumerate((16, 136)):
        launch = {"M": 72, "N": 56, "K": inner}
        assert compare(built.tile, emitted.files, emitted.manifest, launch, seed=seed).same


def strided(stride):
    def edit(document):
        buffers = tuple(replace(one, stride=stride) for one in document.buffers)
        return replace(document, buffers=buffers)

    return BuildHooks(edit=edit)


def test_stages_that_lie_close_are_refused(tmp_path):
    """The rule of the hardware leaves one stage of them; emission asks for its own distance."""
    tile = program("copy", "sm_90a", tmp_path, CASES[0][2][0])
    built = build(tile, "", LIMITS, strided(2560))
    refused = [step.reason for step in built.steps if not step.taken]
    assert refused and all(reason.startswith("TTN408: the stages of `x`") for reason in refused)
    assert built.shape.depth == 1 and build(tile, "", LIMITS).shape.depth > 1
    built = build(tile, "", LIMITS, strided(4096))
    with pytest.raises(EmissionRefused, match="4096 bytes apart, the panels of one take 3072"):
        emit(built.tile, built.kernel, built.program)


def test_tiles_that_fill_the_repeat_are_not_padded():
    for name in ("gemm", "copy", "attention_forward_64"):
        tile = load_tile(TILES / f"{name}.yaml", target="sm_90a")
        for operation in tile.operations:
            if operation.kind == "load":
                assert padded_bytes(operation.result) == tile_bytes(operation.result)
    assert "stride" in doc.BUFFER_KEYS
