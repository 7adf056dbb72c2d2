"""The PTX of a GEMM by a pair of CTAs, for any number of steps along K, and of work items."""

from __future__ import annotations

import pytest

from tests.validate.compare.kernels import SOURCE, emission
from titan.frontends.lift.any_number import AnyNumber, any_number
from titan.frontends.lift.launched import LaunchedPtx
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.sweep import drivers_of
from titan.frontends.verify_code import ANY_NUMBER
from titan.validate.compare.compile import nvcc, ptx_of
from titan.validate.compare.threads import launch_of, parse_kernel

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
NAME = "gemm_large_sm_100a"
SIZES = {"M": 1024, "N": 256, "K": 640}
ALONG_M, ALONG_K = 3, 5  # the parameters


def lifted(monkeypatch: pytest.MonkeyPatch, along: int, old: str = "", new: str = "") -> AnyNumber:
    """What one pair of CTAs does for any number, of the kernel or of one with a fault."""
    made = emission(NAME, "sm_100a")
    assert not old or made.files[SOURCE].count(old) == 1
    files = {**made.files, SOURCE: made.files[SOURCE].replace(old, new)} if old else made.files
    kernel = parse_kernel(ptx_of(files, "sm_100a"), made.manifest["entry"])

    def chosen(*given):
        drivers, notes, unknown = drivers_of(*given)
        return [one for one in drivers if one.place.number == along], notes, unknown

    monkeypatch.setattr("titan.frontends.lift.any_number.drivers_of", chosen)
    code = CodeKernel(kernel.module, kernel.source, kernel.function)
    places = CodePlaces(kernel.module, kernel.source)
    launch = launch_of(kernel, made.manifest, SIZES, 8)
    launched = LaunchedPtx(code, launch, places, CodePolicies(), 20_000_000)
    return any_number(launched, (0,), ANY_NUMBER)


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("along", [ALONG_K, ALONG_M])
def test_a_pair_is_verified_for_any_number(monkeypatch, along):
    """Of steps; and of work items, each of ten steps, which no ring of four stages divides."""
    found = lifted(monkeypatch, along)
    assert not found.missing and not found.refuted, found.missing
    assert [least for _, least in found.parameters] == [0]


FAULTS = {
    "no wait for the sum, of one item": (
        "        titan::barrier_wait_relaxed(b_ring_acc_empty",
        "        if (x_w != 40) titan::barrier_wait_relaxed(b_ring_acc_empty",
    ),
    "no wait for the stage, of one step": (
        "          titan::barrier_wait(b_ring_a_full",
        "          if (x_n != 403) titan::barrier_wait(b_ring_a_full",
    ),
    "the sum is handed back too early": (
        "        titan::barrier_wait(b_ring_acc_full",
        "        if (x_w < 30) titan::barrier_wait(b_ring_acc_full",
    ),
}


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_later_item_is_found(monkeypatch, name):
    """It comes after more items than any launch has that a file is folded from."""
    found = lifted(monkeypatch, ALONG_M, *FAULTS[name])
    assert not found.parameters
    assert found.refuted or "trips and more" in found.missing[0][1], found.missing
