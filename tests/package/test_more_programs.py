"""Linear attention, a state-space scan and a convolution: built, verified, and right on the CPU."""

from __future__ import annotations

import shutil

import pytest

from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile
from titan.device.stress import StressSettings, stress
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.package.produce import produce

NAMES = ("convolution", "linear_attention_causal", "state_space_scan")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


def package(name, folder):
    path = root("protocols") / "tiles" / f"{name}.yaml"
    limits = BuildLimits(schedule_seconds=2.0)
    return produce(load_tile(path), path.read_text(), folder, limits, with_toolchain=False)


@pytest.mark.parametrize("name", ["convolution"])
def test_it_is_built_and_verified_for_any_number_of_tiles(name, tmp_path):
    made = package(name, tmp_path)
    assert made.built.finding.verdict is Verdict.VERIFIED
    assert made.built.shape.overlapped and made.built.shape.specialised


@pytest.mark.heavy
@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("name", NAMES)
def test_its_numbers_are_right_under_adversarial_timing(name, tmp_path):
    made = package(name, tmp_path)
    assert made.built.finding.verdict is Verdict.VERIFIED
    runs = list(stress([made.folder], StressSettings("emulated", unsafe=False)))
    assert runs and {run.state for run in runs} == {"correct"}
