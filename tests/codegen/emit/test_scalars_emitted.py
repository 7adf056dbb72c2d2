"""Kernels with scalar arguments: what they compute, and that values stay out of their source."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.pipeline.written import construct as cdna
from tests.codegen.pipeline.written import hopper
from tests.codegen.tile.scaled import SCALED, SIZES, inputs
from tests.device.compared import compare
from titan.codegen.emit import hip
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import decoded
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.load import parse_tile
from titan.codegen.tile.model import ScalarArgument
from titan.codegen.tile.scalars import with_scalars
from titan.codegen.tile.semantics import run
from titan.validate.hip.run import MODES, emulate_hip

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("c++") is None, reason="no C++ compiler"
)
OTHER = {"factor": 0.37, "eps": 2.5}


def made_for(target, given):
    tile = with_scalars(parse_tile(SCALED, target=target), given)
    shape = Shape("test", 2, overlapped=False)
    if target == "sm_90a":
        return tile, emit(tile, *decoded(hopper(tile, shape, {}, 1)))
    return tile, hip.emit(tile, *decoded(cdna(tile, shape, {})))


@needs_compiler
def test_a_kernel_of_hopper_takes_its_scalars():
    tile, made = made_for("sm_90a", OTHER)
    assert compare(tile, made.files, made.manifest, SIZES).same
    usual, _ = made_for("sm_90a", {})
    assert not compare(usual, made.files, made.manifest, SIZES).same


@needs_compiler
def test_a_kernel_of_cdna_takes_its_scalars():
    tile, made = made_for("gfx942", OTHER)
    arrays = inputs(np.random.default_rng(3))
    found = emulate_hip(made.files, made.manifest, arrays, SIZES, 0, MODES[-1])["Y"]
    right = run(tile, arrays, SIZES)["Y"]
    assert np.abs(found - right).max() <= 2.0**-8 * np.abs(right).max()


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_values_are_in_the_manifest_alone(target):
    _, usual = made_for(target, {})
    _, other = made_for(target, OTHER)
    sources = [
        {name: text for name, text in made.files.items() if name != "launch.h"}
        for made in (usual, other)
    ]
    assert sources[0] == sources[1]
    assert usual.manifest["scalars"] == [
        {"name": "factor", "value": 0.5}, {"name": "eps", "value": 1e-5},
    ]  # fmt: skip
    assert [item["kind"] for item in usual.manifest["arguments"]][-2:] == ["scalar", "scalar"]


def test_a_scalar_that_is_not_of_the_program_is_refused():
    tile = parse_tile(SCALED, target="sm_90a")
    kernel, program = decoded(hopper(tile, Shape("test", 2, overlapped=False), {}, 1))
    broken = replace(tile, scalars=(ScalarArgument("eps", 1e-5),))
    with pytest.raises(EmissionRefused, match="uses factor, which is no scalar argument"):
        emit(broken, kernel, program)
