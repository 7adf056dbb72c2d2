"""Packages on the emulated device: what their PTX computes, what is seen of a broken one."""

from __future__ import annotations

import pytest

from tests.validate.compare.kernels import SOURCE, emission
from titan.codegen.tile.outputs import furthest, sample_inputs
from titan.codegen.tile.semantics import run as meaning
from titan.device.emulated import POLICIES, EmulatedPackage, NotEmulated, run_case
from titan.device.stress import SEEDED
from titan.emulated.faults import LaunchFault, NotComputed
from titan.isa.numbers.device import LaunchError
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
SIZES = {"M": 40, "N": 72}


def test_stress_names_the_policies_of_the_emulated_device():
    assert SEEDED == POLICIES


@needs_nvcc
def test_a_package_is_right_under_each_policy():
    made = emission("row_sum")
    package = EmulatedPackage(made.manifest, made.files)
    inputs = sample_inputs(made.tile, SIZES, 3)
    right = meaning(made.tile, inputs, SIZES)
    for policy in SEEDED:
        record, outputs = run_case(package, {"sizes": SIZES, "seed": 3, "policy": policy}, inputs)
        assert (record["state"], record["message"]) == ("correct", "")
        assert set(outputs) == set(right)
        assert furthest(made.tile, outputs, right).same


@needs_nvcc
@pytest.mark.heavy
def test_a_wait_that_is_missing_is_seen():
    made = emission("row_sum")
    source = made.files[SOURCE]
    wait = next(line for line in source.splitlines() if "_full" in line and "wait(" in line)
    package = EmulatedPackage(made.manifest, {**made.files, SOURCE: source.replace(wait, "")})
    inputs = sample_inputs(made.tile, SIZES, 3)
    record, _ = run_case(package, {"sizes": SIZES, "seed": 0, "policy": "checked"}, inputs)
    assert record["state"] in ("fault", "hung") and record["message"]


class _Ends:
    """A package whose run ends with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def outputs(self, case, inputs):
        raise self.error


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (LaunchFault("k hangs: all wait", (), hung=True), "hung"),
        (LaunchFault("k stops: nobody hangs", ()), "fault"),
        (NotComputed("bytes of C are left open"), "wrong"),
        (LaunchError("the size is unknown: n"), "not run"),
    ],
)
def test_the_kind_of_the_error_is_the_state_of_the_run(error, state):
    record, outputs = run_case(_Ends(error), {"sizes": SIZES, "seed": 0, "policy": "fair"}, {})
    assert (record["state"], record["message"], outputs) == (state, str(error), {})


def test_a_kernel_of_another_machine_is_refused():
    made = emission("row_sum")
    with pytest.raises(NotEmulated, match="gfx942"):
        EmulatedPackage({**made.manifest, "target": "gfx942"}, made.files)
