"""Kernels of dependent launches: every thread waits before it touches global memory."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from tests.validate.compare.kernels import SOURCE, emission
from titan.validate.compare.compile import nvcc

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
WAIT, RELEASE = "titan::grid_wait();", "titan::grid_release();"
EARLY = "global memory is touched before griddepcontrol.wait"
LATER = "later launches may begin before the wait"


def faults(old: str, new: str) -> list[str]:
    """What the comparison says of `sum_parts` with one text in the place of another."""
    made = emission("sum_parts")
    text = made.files[SOURCE]
    assert text.count(old) == 1
    return made.faults({**made.files, SOURCE: text.replace(old, new)})


def test_a_kernel_as_it_is_emitted_waits():
    made = emission("sum_parts")
    assert made.manifest["launch"]["dependent"] is True
    assert made.faults(made.files) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (WAIT, "", EARLY),
        (WAIT, "if (titan_thread >= 128) titan::grid_wait();", EARLY),
        (WAIT, "if (titan_lane != 31) titan::grid_wait();", LATER),
        (f"{WAIT}\n  {RELEASE}", f"{RELEASE}\n  {WAIT}", LATER),
    ],
)
def test_what_comes_before_the_wait_is_told(old, new, told):
    assert any(told in fault for fault in faults(old, new))


def test_a_kernel_whose_launches_depend_on_none_has_no_wait():
    made = emission("sum_parts")
    manifest = copy.deepcopy(made.manifest)
    del manifest["launch"]["dependent"]
    found = replace(made, manifest=manifest).faults(made.files)
    assert any("griddepcontrol in a launch that depends on none" in fault for fault in found)
