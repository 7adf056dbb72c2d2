"""Calls with arrays of a GPU, up to the launch: a fake driver that computes nothing."""

from __future__ import annotations

import ctypes
import shutil
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import titan
from tests.device import fake_gpu
from tests.runtime.packages import package, random_bits
from titan.device import driver
from titan.runtime import arrays, launchers
from titan.runtime.arrays import CallError

pytestmark = pytest.mark.skipif(
    fake_gpu.include() is None or shutil.which("gcc") is None, reason="no cuda.h, or no gcc"
)
CUDA, ROCM = 2, 10


class OnDevice:
    """A NumPy array that says through DLPack that it is on a device."""

    __module__ = "cupy"

    def __init__(self, values: np.ndarray, kind: int = CUDA, number: int = 0) -> None:
        self.values, self.kind, self.number = values, kind, number

    def __dlpack__(self):
        capsule = self.values.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = arrays._Tensor.from_address(pointer(capsule, b"dltensor"))
        tensor.device.kind, tensor.device.number = self.kind, self.number
        return capsule


@pytest.fixture
def device(tmp_path, monkeypatch):
    library = driver.typed(fake_gpu.build(tmp_path), driver.FUNCTIONS, "the fake driver")
    monkeypatch.setattr(driver, "driver", lambda: library)
    cupy = fake_gpu.cupy()
    cupy.cuda.get_current_stream = type("Stream", (), {"ptr": 0x1234})
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library.fake_clear()
    library.fake_fail(0)
    library.fake_kinds(b"mmmnnn")
    return library


def log(library):
    return library.fake_log().decode().splitlines()


def call(kernel, **more):
    a, b = random_bits(16, 64), random_bits(24, 64)
    out = np.zeros((16, 24), np.uint16)
    return kernel(OnDevice(a), OnDevice(b, **more), out=OnDevice(out)), (a, b, out)


def test_a_call_launches_on_the_stream_of_the_framework(device):
    kernel = titan.load(package("gemm_small_tiles"))
    _, (a, b, out) = call(kernel)
    lines = log(device)
    assert lines[0].startswith("load ")
    assert sum(line.startswith("map ") for line in lines) == 3
    assert "stream 1234," in lines[-1]
    for array in (a, b, out):
        assert f"map of {array.ctypes.data:x}" in lines[-1]
    assert "number 16, number 24, number 64" in lines[-1]


def test_a_second_call_compiles_nothing(device):
    kernel = titan.load(package("gemm_small_tiles"))
    call(kernel)
    device.fake_clear()
    call(kernel)
    assert not any(line.startswith("load ") for line in log(device))
    device.fake_clear()
    call(titan.load(package("gemm_small_tiles")))  # the machine code is in the folder
    assert any(line.startswith("load ") for line in log(device))


def test_devices_are_not_mixed(device):
    kernel = titan.load(package("gemm_small_tiles"))
    with pytest.raises(CallError, match="several devices: A on a CUDA device 0, B on a CUDA dev"):
        call(kernel, number=1)
    with pytest.raises(CallError, match="several devices"):
        call(kernel, kind=ROCM)


def test_another_kind_of_device_is_refused(device):
    kernel = titan.load(package("gemm_small_tiles"))
    with pytest.raises(launchers.CannotLaunch, match="for sm_90a on a ROCm device"):
        kernel(OnDevice(random_bits(16, 64), ROCM), OnDevice(random_bits(24, 64), ROCM))


class JaxArray(OnDevice):
    """As an array of JAX: computed some time, and no stream."""

    __module__ = "jaxlib.xla_extension"

    def block_until_ready(self):
        driver.driver().cuCtxSynchronize()  # noted by the fake driver
        return self


def test_arrays_of_jax_are_waited_for_before_and_after(device):
    a, b, out = random_bits(16, 64), random_bits(24, 64), np.zeros((16, 24), np.uint16)
    titan.load(package("gemm_small_tiles"))(JaxArray(a), JaxArray(b), out=OnDevice(out))
    waits = [line.partition(" ")[0] for line in log(device) if line.startswith(("sync", "launch "))]
    assert waits == ["synchronize", "synchronize", "launch", "synchronize"]


def test_an_array_of_jax_is_not_written(device):
    """Others may be the same memory, constants of compiled functions among them."""
    a, b, out = random_bits(16, 64), random_bits(24, 64), np.zeros((16, 24), np.uint16)
    with pytest.raises(CallError, match="C is an array of JAX, which cannot be written"):
        titan.load(package("gemm_small_tiles"))(JaxArray(a), JaxArray(b), out=JaxArray(out))
    assert not log(device)


def test_an_output_of_jax_is_made_on_the_device_of_the_input(device, monkeypatch):
    """A fake of the two functions of JAX that are called; it checks what is asked for."""
    made = []

    class Named:
        def __init__(self, device):
            self.device = device

        def __enter__(self):
            made.append(self.device)

        def __exit__(self, *_):
            made.append("left")

    def zeros(shape, dtype):
        made.append((shape, dtype))
        return JaxArray(np.zeros(shape, np.uint16))

    jax = ModuleType("jax")
    jax.default_device, jax.numpy = Named, SimpleNamespace(zeros=zeros)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setattr(JaxArray, "devices", lambda self: {"gpu 0"}, raising=False)
    a, b = random_bits(16, 64), random_bits(24, 64)
    found = titan.load(package("gemm_small_tiles"))(JaxArray(a), JaxArray(b))
    assert isinstance(found, JaxArray)
    assert made == ["gpu 0", ((16, 24), "bfloat16"), "left"]
    assert f"map of {found.values.ctypes.data:x}" in "\n".join(log(device))


def test_machine_code_in_the_working_folder_is_not_taken(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call(titan.load(package("gemm_small_tiles")))
    (made,) = (tmp_path / "cache").rglob("*.cubin")
    begun = [line for line in log(device) if line.startswith("load ")]
    planted = tmp_path / ".titan" / "cubins" / made.name
    planted.parent.mkdir(parents=True)
    planted.write_bytes(b"planted")
    made.unlink()
    device.fake_clear()
    call(titan.load(package("gemm_small_tiles")))
    assert [line for line in log(device) if line.startswith("load ")] == begun
    assert made.is_file() and planted.read_bytes() == b"planted"
