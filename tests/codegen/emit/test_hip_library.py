"""Every tile program of the library on AMD: compiled, compared with its sync program, and run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.emit.hip_kernels import Made, make, needs_clang
from tests.sampling import sampled
from titan.codegen.pipeline.cdna import shapes
from titan.codegen.pipeline.model import FormRefused
from titan.codegen.tile.dtypes import FORMATS, rounded
from titan.codegen.tile.load import load_tile, targets_of
from titan.codegen.tile.semantics import run
from titan.foundation.resources import root
from titan.sync.expression import evaluate
from titan.validate.hip.run import emulate_hip

FOLDER = root("protocols") / "tiles"
CASES = [
    (path, target)
    for path in sorted(FOLDER.glob("*.yaml"))
    for target in targets_of(path)
    if target.startswith("gfx")
]
IDS = [f"{path.stem}-{target}" for path, target in CASES]
SIZES = {"M": 200, "N": 144, "K": 208, "heads": 2, "queries": 150, "keys": 90, "batch": 2,
         "kv_heads": 2, "ratio": 3}  # fmt: skip


def first_form(path: Path, target: str) -> Made:
    tile = load_tile(path, target=target)
    for shape in shapes(tile):
        try:
            return make(tile, shape)
        except FormRefused:
            continue
    raise AssertionError(f"no shape of the list has a form for {path.stem}")


@needs_clang
@pytest.mark.parametrize("path, target", sampled(CASES, every=8), ids=IDS)
def test_it_compiles_and_synchronises_as_verified(path: Path, target: str):
    made = first_form(path, target)
    assert made.faults() == []


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("path, target", sampled(CASES, every=8), ids=IDS)
def test_it_computes_what_it_means(path: Path, target: str):
    made = first_form(path, target)
    parameters = {item.name: SIZES[item.name] for item in made.tile.parameters}
    random = np.random.default_rng(3)
    inputs = {}
    for tensor in made.tile.tensors:
        shape = [evaluate(extent, parameters) for extent in tensor.shape]
        if not tensor.output:
            inputs[tensor.name] = rounded(random.standard_normal(shape), tensor.dtype)
    meant = run(made.tile, inputs, parameters)
    for mode in ("lazy", "mixed"):
        found = emulate_hip(made.emitted.files, made.emitted.manifest, inputs, parameters, 5, mode)
        for tensor in made.tile.tensors:
            if tensor.output:
                unit = 2.0 ** -min(FORMATS[tensor.dtype].mantissa, 16)
                scale = float(np.abs(meant[tensor.name]).max())
                far = float(np.abs(found[tensor.name] - meant[tensor.name]).max())
                assert far <= 2 * unit * scale


def test_the_library_has_programs_for_amd():
    assert {target for _, target in CASES} >= {"gfx942"}
    assert len(CASES) >= 10
