"""The PTX of a GEMM by a pair of CTAs, for any number of steps along K."""

from __future__ import annotations

import pytest

from tests.validate.compare.kernels import emission
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
ALONG_K = 5  # the parameter


def lifted(monkeypatch: pytest.MonkeyPatch) -> AnyNumber:
    """What one pair of CTAs does for any K."""
    made = emission(NAME, "sm_100a")
    kernel = parse_kernel(ptx_of(made.files, "sm_100a"), made.manifest["entry"])

    def along_k(*given):
        drivers, notes, unknown = drivers_of(*given)
        return [one for one in drivers if one.place.number == ALONG_K], notes, unknown

    monkeypatch.setattr("titan.frontends.lift.any_number.drivers_of", along_k)
    code = CodeKernel(kernel.module, kernel.source, kernel.function)
    places = CodePlaces(kernel.module, kernel.source)
    launch = launch_of(kernel, made.manifest, SIZES, 8)
    launched = LaunchedPtx(code, launch, places, CodePolicies(), 20_000_000)
    return any_number(launched, (0,), ANY_NUMBER)


@pytest.mark.long
@pytest.mark.heavy
def test_steps_along_k_of_a_pair_are_verified_for_any_number(monkeypatch):
    found = lifted(monkeypatch)
    assert not found.missing and not found.refuted, found.missing
    assert [least for _, least in found.parameters] == [0]
