"""Sums in a tensor and fragments that groups share: what is emitted is compared with its sync
program, and planted faults are told."""

from __future__ import annotations

import re

import pytest

from tests.isa.numbers.test_emitted import TOLERANCE, furthest
from tests.validate.compare.kernels import SOURCE, Emission, emission
from titan.isa.numbers.device import LaunchError
from titan.validate.compare.compile import nvcc, ptx_of

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")


@pytest.fixture(scope="module")
def made() -> Emission:
    return emission("attention_backward")


def test_what_is_emitted_does_what_its_program_says(made: Emission) -> None:
    assert made.faults(made.files) == []
    (added,) = (item for item in made.manifest["tensors"] if item.get("adds"))
    assert added["name"] == "dQT" and added["output"]
    assert "written, added to" in made.files["launch.h"]


FAULTS = {
    "replaces": ("titan::tensor_add(&map_dq_out", "titan::tensor_store(&map_dq_out"),
    "adds": ("titan::tensor_store(&map_dk_out", "titan::tensor_add(&map_dk_out"),
    "nobody meets": ("titan::named_barrier_sync(4, 256);  // shared", ""),
    "half meet": ("titan::named_barrier_sync(4, 256);", "titan::named_barrier_sync(4, 128);"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_told(made: Emission, name: str) -> None:
    old, new = FAULTS[name]
    assert old in made.files[SOURCE]
    assert made.faults({**made.files, SOURCE: made.files[SOURCE].replace(old, new)})


PLACES = {  # what threads write to shared memory is seen by its numbers alone
    "rows of the other group": (r"(u8\* const tile = s_all_ds .*)x_group", r"\1(1 - x_group)"),
    "the other stage": (r"(\d_all_ds, )(.*)\);", r"\1 1 - (\2));"),
}


@pytest.mark.parametrize("name", PLACES)
def test_another_place_gives_wrong_numbers(made: Emission, name: str) -> None:
    source, count = re.subn(*PLACES[name], made.files[SOURCE])
    assert count
    sizes = {"heads": 1, "queries": 64, "keys": 128}
    right = furthest(made, ptx_of(made.files, "sm_90a"), sizes, 0)
    assert right["f32"] <= TOLERANCE["bf16"]
    with pytest.raises((AssertionError, LaunchError)):
        wrong = furthest(made, ptx_of({**made.files, SOURCE: source}, "sm_90a"), sizes, 0)
        assert wrong["f32"] <= TOLERANCE["bf16"]
