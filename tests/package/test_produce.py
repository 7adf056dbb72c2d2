"""From tile files to packages that compute what they should: built, run on the CPU, compared."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.device.compared import SCHEDULES, compare, launchable
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.pipeline.build import BuildLimits, BuildRefused
from titan.codegen.tile.load import load_tile, targets_of
from titan.package import produce as module
from titan.package.produce import produce

pytest.importorskip("numpy")
LIBRARY = Path(__file__).resolve().parents[2] / "protocols" / "tiles"
QUICK = ("gemm-sm_90a", "attention_forward-sm_90a", "gemm_sm_100a-sm_100a")
LIMITS = BuildLimits(schedule_seconds=5, verify_seconds=5)


def built(path, target, folder, **more):
    tile = load_tile(path, target=target)
    limits = replace(LIMITS, **more)
    return produce(tile, path.read_text(), folder, limits, with_toolchain=False)


def test_a_package_is_written_and_told(tmp_path):
    from titan.package.summary import as_data, as_text

    produced = built(LIBRARY / "gemm.yaml", "sm_90a", tmp_path)
    assert produced.folder == tmp_path / "gemm-sm_90a"
    text = as_text("gemm.yaml", produced)
    assert "any tiles from 1 upwards" in text
    assert "proved" in text
    data = as_data("gemm.yaml", produced)
    assert data["ii"] == data["lower_bound"]
    assert data["refused"] == []


def test_twice_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        built(LIBRARY / "gemm.yaml", "sm_90a", tmp_path / name)
    first, second = (sorted((tmp_path / name).rglob("*")) for name in ("one", "two"))
    assert [path.name for path in first] == [path.name for path in second]
    for one, two in zip(first, second, strict=True):
        assert one.is_dir() or one.read_bytes() == two.read_bytes()


@pytest.mark.heavy
@pytest.mark.long
def test_what_cannot_be_spelled_falls_through_the_whole_list(tmp_path, monkeypatch):
    def refuse(tile, kernel, program):
        raise EmissionRefused("no ink")

    monkeypatch.setattr(module, "emit", refuse)
    with pytest.raises(BuildRefused) as caught:
        built(LIBRARY / "attention_forward.yaml", "sm_90a", tmp_path)
    names = [step.shape.name for step in caught.value.steps]
    assert "taking turns" in names[0]
    assert names[-1] == "no pipeline"
    assert all(step.reason == "no ink" for step in caught.value.steps)
    assert list(tmp_path.iterdir()) == []


def test_the_second_shape_where_the_first_is_refused(tmp_path, monkeypatch):
    real = module.emit
    seen = []

    def picky(tile, kernel, program):
        seen.append(kernel)
        if len(seen) == 1:
            raise EmissionRefused("too clever")
        return real(tile, kernel, program)

    monkeypatch.setattr(module, "emit", picky)
    produced = built(LIBRARY / "attention_forward.yaml", "sm_90a", tmp_path)
    refused = [step for step in produced.built.steps if not step.taken]
    assert [step.reason for step in refused] == ["too clever"]
    wanted = "depth 3, order of the schedule, taking turns, stores in the place of loads"
    assert produced.built.shape.name == wanted


# ------------------------------------------------------------------ what the kernels compute

# Sizes below, at and beyond the depth of the rings, whole and ragged tiles.
SIZES = {
    ("K", "M", "N"): [
        {"M": 1, "N": 8, "K": 8},
        {"M": 130, "N": 136, "K": 128},
        {"M": 128, "N": 128, "K": 256},
        {"M": 257, "N": 72, "K": 584},
    ],
    ("heads", "queries"): [
        {"heads": 2, "queries": 3},
        {"heads": 1, "queries": 512},
        {"heads": 2, "queries": 700},
    ],
    ("heads", "keys", "queries"): [
        {"heads": 2, "queries": 3, "keys": 5},
        {"heads": 1, "queries": 128, "keys": 256},
        {"heads": 1, "queries": 200, "keys": 333},
    ],
    ("heads", "times"): [
        {"heads": 2, "times": 3},
        {"heads": 1, "times": 256},
        {"heads": 2, "times": 333},
    ],
    ("batch", "outs", "taps", "times"): [
        {"batch": 2, "times": 5, "outs": 3, "taps": 1},
        {"batch": 1, "times": 200, "outs": 130, "taps": 3},
    ],
    ("batch", "kv_heads", "pages", "pages_most", "parts", "ratio"): [
        {"batch": 2, "kv_heads": 2, "ratio": 3, "pages": 4, "pages_most": 5, "parts": 2},
    ],
    ("batch", "kv_heads", "parts", "ratio"): [
        {"batch": 2, "kv_heads": 2, "ratio": 3, "parts": 1},
        {"batch": 1, "kv_heads": 1, "ratio": 70, "parts": 6},
    ],
    ("batch", "kv_heads", "pages", "pages_most", "ratio"): [
        {"batch": 2, "kv_heads": 2, "ratio": 3, "pages": 4, "pages_most": 5},
    ],
    ("batch", "keys", "kv_heads", "queries", "ratio"): [
        {"batch": 2, "kv_heads": 2, "ratio": 3, "queries": 3, "keys": 5},
        {"batch": 1, "kv_heads": 1, "ratio": 2, "queries": 200, "keys": 333},
    ],
    ("batch", "kv_heads", "longest", "ratio", "tokens"): [
        {"batch": 2, "kv_heads": 2, "ratio": 3, "longest": 150, "tokens": 200},
    ],
    ("batch", "keys", "kv_heads", "longest", "queries", "ratio"): [
        {"batch": 2, "kv_heads": 2, "ratio": 3, "longest": 150, "queries": 200, "keys": 300},
    ],
    ("K", "M", "N", "batch"): [
        {"batch": 2, "M": 1, "N": 8, "K": 8},
        {"batch": 3, "M": 130, "N": 136, "K": 200},
    ],
    ("K", "M", "N", "experts"): [
        {"experts": 2, "M": 1, "N": 8, "K": 8},
        {"experts": 3, "M": 300, "N": 136, "K": 200},
    ],
    ("M", "N", "pairs"): [{"M": 1, "N": 8, "pairs": 16}, {"M": 130, "N": 136, "pairs": 264}],
    ("K", "M", "N", "parts"): [
        {"parts": 1, "M": 1, "N": 8, "K": 8},
        {"parts": 3, "M": 130, "N": 136, "K": 600},
    ],
    ("batch", "halves", "positions", "tokens"): [
        {"batch": 2, "halves": 64, "positions": 50, "tokens": 3},
        {"batch": 1, "halves": 128, "positions": 300, "tokens": 200},
    ],
    ("M", "N", "parts"): [{"M": 1, "N": 8, "parts": 1}, {"M": 130, "N": 72, "parts": 3}],
    ("M",): [{"M": 1}, {"M": 64}, {"M": 130}, {"M": 300}],
    ("M", "N"): [
        {"M": 1, "N": 16},
        {"M": 64, "N": 256},
        {"M": 130, "N": 1000},
    ],
}


def cases():
    for path in sorted(LIBRARY.glob("*.yaml")):
        for target in targets_of(path):
            if target.startswith("sm_"):
                name = f"{path.stem}-{target}"
                marks = () if name in QUICK else (pytest.mark.heavy,)
                yield pytest.param(path, target, id=name, marks=marks)


def sizes_of(manifest):
    """The sizes for these parameters."""
    names = tuple(sorted(item["name"] for item in manifest["parameters"]))
    return [launchable(manifest, sizes) for sizes in SIZES[names]]


@pytest.mark.parametrize(("path", "target"), list(cases()))
def test_the_emitted_kernel_computes_what_the_tile_program_means(path, target, tmp_path):
    produced = built(path, target, tmp_path)
    tile, manifest = produced.built.tile, produced.emitted.manifest
    for seed, (sizes, policy) in enumerate(product(sizes_of(manifest), SCHEDULES)):
        found = compare(tile, produced.folder, manifest, sizes, seed=seed, policy=policy)
        assert found.same, (sizes, policy, found.describe())
