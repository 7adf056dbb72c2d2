"""Small HIP kernels, right and wrong, as clang compiles them: each has the verdict that it earns.

All that can go wrong between waves is in them: missing waits and barriers, copies to LDS, atomics,
waves that end early, halves that are a barrier apart. The last is a main loop in ping-pong.
"""

from __future__ import annotations

import shutil

import pytest

from tests.frontends.gcn.hip_sources import (
    BY_DATA,
    PING_PONG,
    PING_PONG_FAULTS,
    PING_PONG_SPARE,
    PING_PONG_UNWRITTEN,
    RIGHT,
    UNWRITTEN,
    WRONG,
    kernel_of,
)
from tests.frontends.gcn.test_verify_assembly import judged
from titan.foundation.verdict import Verdict
from titan.validate.compare.gcn_compile import CLANG, hip_assembly

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

TARGETS = ("gfx90a", "gfx942", "gfx950")


def verdict(source, target, folder, threads, trips=5):
    place = folder / "k.hip"
    place.write_text(source)
    launch = f"{{grid: 1, block: {threads}, dynamic_shared: 0, parameters: [pointer, {trips}]}}"
    return judged(hip_assembly(place, target), launch).verdict


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_verified(name, target, tmp_path):
    assert verdict(kernel_of(RIGHT[name]), target, tmp_path, 128) is Verdict.VERIFIED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", UNWRITTEN)
def test_kernels_that_read_what_nothing_has_written_are_undecided(name, target, tmp_path):
    assert verdict(kernel_of(UNWRITTEN[name]), target, tmp_path, 128) is Verdict.UNDECIDED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_are_refuted(name, target, tmp_path):
    assert verdict(kernel_of(WRONG[name]), target, tmp_path, 128) is Verdict.REFUTED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BY_DATA)
def test_only_ways_by_data_with_all_barriers_are_verified(name, target, tmp_path):
    right, wrong = BY_DATA[name]
    assert verdict(kernel_of(right), target, tmp_path, 128) is Verdict.VERIFIED
    assert verdict(kernel_of(wrong), target, tmp_path, 128) is not Verdict.VERIFIED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_ping_pong_is_verified(target, trips, tmp_path):
    assert verdict(PING_PONG, target, tmp_path, 512, trips) is Verdict.VERIFIED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PING_PONG_FAULTS | PING_PONG_SPARE | PING_PONG_UNWRITTEN)
def test_what_is_taken_from_ping_pong(name, target, tmp_path):
    old, new = (PING_PONG_FAULTS | PING_PONG_SPARE | PING_PONG_UNWRITTEN)[name]
    assert PING_PONG.count(old) == 1
    expected = Verdict.REFUTED if name in PING_PONG_FAULTS else Verdict.VERIFIED
    if name in PING_PONG_UNWRITTEN:
        expected = Verdict.UNDECIDED
    assert verdict(PING_PONG.replace(old, new), target, tmp_path, 512) is expected
