"""Triton on an emulated device of AMD: its own compiler to assembly, numbers, verdicts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

triton = pytest.importorskip("triton")

from tests.emulated import triton_examples as examples  # noqa: E402
from tests.emulated.triton_amd_kernels import AMD_KERNELS  # noqa: E402
from tests.emulated.triton_driver import checking_driver  # noqa: E402
from tests.frontends import triton_kernels  # noqa: E402
from titan.cli.main import run  # noqa: E402
from titan.emulated.faults import LaunchFault  # noqa: E402
from titan.foundation.verdict import Verdict  # noqa: E402


@pytest.fixture(params=["mi300x", "mi355x"])
def device(request, tmp_path_factory, monkeypatch):
    """The driver of the back end for a device of AMD, checking every launch."""
    monkeypatch.setenv("TITAN_DEVICE", request.param)
    return checking_driver(tmp_path_factory, monkeypatch, "amd")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", sorted(examples.EXAMPLES))
def test_kernels_agree_with_numpy(name, device):
    example, tolerance = examples.EXAMPLES[name]
    got, right = example(np.random.default_rng(1))
    assert np.abs(got.astype(np.float64) - right).max() <= tolerance
    assert set(device.queue.checker.verdicts) == {Verdict.VERIFIED}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", sorted(AMD_KERNELS))
def test_types_that_amd_has_instructions_for(name, device):
    kernel, tolerance = AMD_KERNELS[name]
    got, right = kernel(np.random.default_rng(2))
    assert np.abs(got.astype(np.float64) - right).max() <= tolerance
    assert set(device.queue.checker.verdicts) == {Verdict.VERIFIED}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_target_is_that_of_the_device(device):
    target = device.get_current_target()
    assert (target.backend, target.warp_size) == ("hip", 64)
    assert target.arch == {"mi300x": "gfx942", "mi355x": "gfx950"}[device.settings.device]
    properties = device.utils.get_device_properties(0)
    assert properties["warpSize"] == 64
    assert properties["max_shared_mem"] in (65_536, 163_840)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_race_of_waves_is_reported_at_the_line_of_python(device):
    """Two programs store different numbers to the same place."""
    out = np.zeros(64, dtype=np.float32)
    with pytest.raises(LaunchFault, match=r"triton_kernels\.py:\d+") as caught:
        triton_kernels.same_place[(2,)](out, BLOCK=64)
    (found, *_) = caught.value.findings
    assert found.code == "TTN201"
    assert found.span is not None and "tl.store(out" in found.span.excerpt()


SCRIPT = """
import numpy as np, triton
from tests.emulated import triton_examples as examples

x = np.arange(200, dtype=np.float32)
out = np.zeros_like(x)
examples.add_kernel[(2,)](x, x, out, 200, BLOCK=128)
assert (out == 2 * x).all()
print(triton.runtime.driver.active.get_current_target().arch)
"""


def test_a_script_runs_for_a_device_of_amd(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    command = [sys.executable, "-m", "titan", "run", "--device", "mi300x", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "gfx942" in done.stdout
    assert "1 launch computed: 1 verified" in done.stderr


def test_programs_of_cuda_are_not_for_a_device_of_amd(tmp_path, capfd):
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    assert run(["run", "--device", "mi300x", str(path)]) == 2
    assert "h100 or b200" in capfd.readouterr().err
