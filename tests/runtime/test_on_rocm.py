"""Calls with arrays of an AMD GPU, up to the launch: a fake library of HIP and hipRTC."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import titan
from tests.device import fake_rocm
from tests.runtime.packages import package_for, random_bits
from tests.runtime.test_on_gpu import CUDA, ROCM, OnDevice
from titan.device import hip_driver
from titan.device.plan import plan
from titan.runtime import launchers
from titan.runtime.frameworks import _FRAMEWORKS, Framework

pytestmark = pytest.mark.skipif(not fake_rocm.AVAILABLE, reason="no g++")
STREAM = 0x1234


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """The folder with both libraries."""
    return fake_rocm.build(tmp_path_factory.mktemp("rocm"))


@pytest.fixture
def device(libraries, tmp_path, monkeypatch):
    """The runtime library, which notes what is called; arrays are those of a framework of AMD."""
    runtime, compiler = (str(libraries / name) for name in ("libamdhip64.so", "libhiprtc.so"))
    monkeypatch.setattr(hip_driver, "RUNTIME_NAMES", (runtime,))
    monkeypatch.setattr(hip_driver, "COMPILER_NAMES", (compiler,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for opened in (hip_driver.runtime, hip_driver.compiler):
        opened.cache_clear()
    library = hip_driver.runtime()
    library.fake_log.restype = ctypes.c_char_p
    library.fake_clear()
    library.fake_kinds(b"pppnnn")
    fake = Framework("PyTorch", lambda *_: None, lambda like: STREAM, lambda array: None)
    monkeypatch.setitem(_FRAMEWORKS, "cupy", fake)
    yield library
    for opened in (hip_driver.runtime, hip_driver.compiler):
        opened.cache_clear()


@pytest.fixture(scope="module")
def kernel():
    return titan.load(package_for("gemm_small_tiles_gfx942", "gfx942"))


def log(library):
    return library.fake_log().decode().splitlines()


def test_a_call_launches_on_the_stream_of_the_framework(device, kernel):
    a, b, out = random_bits(200, 136), random_bits(72, 136), np.zeros((200, 72), np.uint16)
    kernel(OnDevice(a, ROCM), OnDevice(b, ROCM), out=OnDevice(out, ROCM))
    planned = plan(kernel.manifest, {"M": 200, "N": 72, "K": 136}, kernel._gpu.processors)
    lines = log(device)
    begin = lines.index(f"launch {planned.grid} {planned.block}")
    assert lines[begin + 1 : begin + 8] == [
        f"shared {planned.shared_bytes} stream {STREAM}",
        *(f"pointer {array.ctypes.data}" for array in (a, b, out)),
        "number 200", "number 72", "number 136",
    ]  # fmt: skip
    compiler = hip_driver.compiler()
    compiler.fake_log.restype = ctypes.c_char_p
    assert "option --offload-arch=gfx942" in log(compiler)
    assert "synchronize" not in lines


def test_a_framework_without_streams_is_waited_for(device, kernel, monkeypatch):
    """As JAX: what computes the inputs is waited for before the launch, the launch after it."""
    waited = []
    fake = Framework(
        "JAX", lambda shape, dtype, like: None, lambda like: 0, lambda array: None,
        lambda array: waited.append((array.values.shape, len(log(device)))), waits=True,
    )  # fmt: skip
    monkeypatch.setitem(_FRAMEWORKS, "cupy", fake)
    a, b, out = random_bits(16, 64), random_bits(24, 64), np.zeros((16, 24), np.uint16)
    kernel(OnDevice(a, ROCM), OnDevice(b, ROCM), out=OnDevice(out, ROCM))
    lines = log(device)
    launch = next(place for place, line in enumerate(lines) if line.startswith("launch "))
    assert [shape for shape, _ in waited] == [(16, 64), (24, 64), (16, 24)]
    assert all(place <= launch for _, place in waited)
    assert lines[launch:].count("synchronize") == 1


def test_gaps_between_rows_are_refused(device, kernel):
    """Kernels for AMD reach tensors by pointers."""
    wide = random_bits(16, 96)[:, :64]
    with pytest.raises(titan.CallError, match="one behind the other"):
        kernel(OnDevice(wide, ROCM), OnDevice(random_bits(24, 64), ROCM))


def test_lanes_copy_several_elements_from_multiples_of_their_bytes(device, kernel):
    """As its manifest says; elements that are stored one at a time may begin at any."""
    together = {item["name"]: item.get("together_bytes") for item in kernel.manifest["tensors"]}
    assert together == {"A": 16, "B": 16, "C": None}
    a, b = random_bits(17 * 64), OnDevice(random_bits(24, 64), ROCM)
    c = OnDevice(np.zeros(16 * 24 + 8, np.uint16)[1:-7].reshape(16, 24), ROCM)
    with pytest.raises(titan.CallError, match=r"A begins at .*: the kernel takes multiples of 16"):
        kernel(OnDevice(a[4 : 4 + 16 * 64].reshape(16, 64), ROCM), b, out=c)
    kernel(OnDevice(a[8 : 8 + 16 * 64].reshape(16, 64), ROCM), b, out=c)


def test_a_package_for_amd_does_not_run_on_another_device(device, kernel):
    with pytest.raises(launchers.CannotLaunch, match="for gfx942 on a CUDA device"):
        kernel(OnDevice(random_bits(16, 64), CUDA), OnDevice(random_bits(24, 64), CUDA))
