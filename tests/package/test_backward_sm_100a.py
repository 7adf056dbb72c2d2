"""Attention backward on sm_100a, and kernels there and elsewhere without a loading warp."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.device.compared import compare
from titan.cli.main import run
from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.package.produce import produce
from titan.validate.compare.compile import nvcc

pytest.importorskip("numpy")
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
FOLDER = root("protocols") / "tiles"
BACKWARD = ("attention_backward_dq_sm_100a", "attention_backward_dkv_sm_100a")
ATTENTION = ({"heads": 2, "queries": 3, "keys": 5}, {"heads": 1, "queries": 130, "keys": 200})
GEMM = ({"M": 1, "N": 8, "K": 8}, {"M": 130, "N": 264, "K": 200})
UNALIGNED = ("dtype: bf16", "dtype: bf16, aligned: false")


def made(name, folder, specialise="always", edits=(), target="sm_100a", with_toolchain=False):
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        text = text.replace(old, new)
    limits = BuildLimits(0.5, solver="rau", specialise=specialise, require_any=True)
    tile = parse_tile(text, target=target)
    return tile, produce(tile, text, folder, limits, with_toolchain=with_toolchain)


def computes(tile, produced, sizes):
    for seed, one in enumerate(sizes):
        for policy in ("shuffled", "starved"):
            found = compare(
                tile, produced.folder, produced.emitted.manifest, one, seed=seed, policy=policy
            )
            assert found.same, (one, policy, found.describe())


@pytest.mark.parametrize("name", [BACKWARD[0], pytest.param(BACKWARD[1], marks=pytest.mark.heavy)])
def test_backward_computes_what_its_tile_program_means(name, tmp_path: Path):
    tile, produced = made(name, tmp_path)
    assert [role.name for role in produced.built.program.roles] == [
        "producer", "issuer", "consumer",
    ]  # fmt: skip
    assert produced.built.shape.overlapped, "products of loaded tiles run one iteration ahead"
    computes(tile, produced, ATTENTION)


@needs_nvcc
@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("specialise", ["always", "never"])
@pytest.mark.parametrize("name", BACKWARD)
def test_backward_compiles_as_it_was_verified_and_spills_nothing(name, specialise, tmp_path: Path):
    _, produced = made(name, tmp_path, specialise, with_toolchain=True)
    assert produced.compared and produced.figures is not None
    assert produced.figures.spill_bytes == 0 and produced.figures.registers <= 255
    assert run(["gate", str(produced.folder)]) == 0


PLAIN = {
    "one product": ("gemm_sm_100a", "sm_100a", (), GEMM),
    "attention": ("attention_forward_64_sm_100a", "sm_100a", (), ATTENTION),
    "several products": (BACKWARD[0], "sm_100a", (), ATTENTION),
    "guarded tiles": ("gemm", "sm_90a", (UNALIGNED,), ({"M": 130, "N": 77, "K": 129},)),
}


@pytest.mark.parametrize(
    "what", [w if w == "one product" else pytest.param(w, marks=pytest.mark.heavy) for w in PLAIN]
)
def test_kernels_without_a_loading_warp_compute_the_same(what, tmp_path: Path):
    name, target, edits, sizes = PLAIN[what]
    tile, produced = made(name, tmp_path, "never", edits, target)
    assert not produced.built.shape.specialised
    computes(tile, produced, sizes)
