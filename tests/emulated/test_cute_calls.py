"""What the host code of CuTe DSL calls, called as it does: through the library, by its words."""

from __future__ import annotations

import ctypes
import shutil
import struct

import pytest

from titan.emulated.compiled import compiled_library
from titan.emulated.cute.calls import ATTRIBUTE_BYTES, CONFIGURATION, CuteCalls
from titan.emulated.cute.install import NAME, NATIVE, CuteDevice
from titan.emulated.faults import LaunchFault
from titan.emulated.machine import LaunchQueue
from titan.emulated.settings import CheckMode, EmulationSettings
from titan.foundation.verdict import Verdict
from titan.isa.numbers.device import LaunchError

np = pytest.importorskip("numpy", reason="NumPy is not installed (extra `run`)")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

PTX = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry doubled(.param .u64 from, .param .u64 to)
{
  .reg .b32 %r<4>; .reg .b64 %d<6>; .reg .f32 %f<3>;
  ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to];
  mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;
  add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
  ld.global.f32 %f1, [%d4]; add.f32 %f2, %f1, %f1; st.global.f32 [%d5], %f2;
  ret;
}
.visible .entry ranks(.param .u64 to)
{
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [to]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %cluster_ctarank;
  mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %r2;
  ret;
}
"""
MACHINE_CODE = b"\x7fELF of doubled and ranks"


class Host:
    """The library, and memory that calls write to."""

    def __init__(self, folder):
        self.queue = LaunchQueue.of(EmulationSettings(CheckMode.ALL))
        self.calls = CuteCalls(self.queue)
        self.calls.texts.add(MACHINE_CODE, PTX, "sample.ptx")
        self.device = CuteDevice(self.calls, str(folder))
        self.library = ctypes.CDLL(str(compiled_library(NATIVE, "cute", NAME) / NAME))

    def call(self, name, *words):
        function = getattr(self.library, f"_{name}")
        function.restype = ctypes.c_int
        return function(*(ctypes.c_uint64(word) for word in words))

    def got(self, name, *words, kind=ctypes.c_uint64):
        """What a call gives behind its first pointer."""
        found = kind()
        assert self.call(name, ctypes.addressof(found), *words) == 0
        return found.value

    def kernel(self, name):
        image = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(MACHINE_CODE)) + MACHINE_CODE
        held = ctypes.create_string_buffer(image)
        number = self.got("cudaLibraryLoadData", ctypes.addressof(held))
        text = ctypes.create_string_buffer(name.encode())
        return self.got("cudaLibraryGetKernel", number, ctypes.addressof(text))

    def launch(self, kernel, grid, block, *pointers, cluster=None):
        attributes = ctypes.create_string_buffer(2 * ATTRIBUTE_BYTES)
        struct.pack_into("<I", attributes, 0, 6)  # another one, which says nothing here
        if cluster is not None:
            struct.pack_into("<I4x3I", attributes, ATTRIBUTE_BYTES, 4, *cluster)
        count = 1 if cluster is None else 2
        at = ctypes.addressof(attributes)
        made = CONFIGURATION.pack(*grid, *block, 0, 0, at, count)
        given = ctypes.create_string_buffer(made + bytes(8))
        values = [ctypes.c_uint64(pointer) for pointer in pointers]
        arguments = (ctypes.c_uint64 * len(values))(*map(ctypes.addressof, values))
        return self.call(
            "cudaLaunchKernelEx", ctypes.addressof(given), kernel, ctypes.addressof(arguments)
        )


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_a_kernel_is_checked_and_computed(host):
    memory = [host.got("cudaMalloc", 128) for _ in range(2)]
    numbers = np.arange(32, dtype=np.float32)
    assert host.call("cudaMemcpy", memory[0], numbers.ctypes.data, 128, 1) == 0
    assert host.launch(host.kernel("doubled"), (1, 1, 1), (32, 1, 1), *memory) == 0
    found = np.empty_like(numbers)
    assert host.call("cudaMemcpy", found.ctypes.data, memory[1], 128, 2) == 0
    assert np.array_equal(found, 2 * numbers)
    assert host.queue.checker.verdicts == {Verdict.VERIFIED: 1}
    assert host.call("cudaFree", memory[0]) == 0 and host.call("cudaFree", memory[0]) != 0


def test_clusters_are_those_of_the_launch(host):
    memory = host.got("cudaMalloc", 16)
    kernel = host.kernel("ranks")
    assert host.launch(kernel, (4, 1, 1), (1, 1, 1), memory, cluster=(2, 1, 1)) == 0
    assert np.frombuffer(ctypes.string_at(memory, 16), np.uint32).tolist() == [0, 1, 0, 1]


def test_a_wrong_launch_is_an_error_of_cuda_and_kept(host):
    memory = [host.got("cudaMalloc", 64) for _ in range(2)]
    assert host.launch(host.kernel("doubled"), (1, 1, 1), (32, 1, 1), *memory) == 719
    assert isinstance(host.calls.fault, LaunchFault)
    assert "lies in no allocation" in str(host.calls.fault)


def test_memory_that_no_parameter_leads_to_is_not_there(host):
    first, second = (host.got("cudaMalloc", 128) for _ in range(2))
    data = [struct.pack("<Q", first + 64)]
    assert [a.start for a in host.calls.memory.of_launch(data, []).allocations()] == [first]
    ctypes.memmove(first, struct.pack("<Q", second), 8)  # a list of addresses
    found = host.calls.memory.of_launch(data, []).allocations()
    assert {a.start for a in found} == {first, second}


def test_what_the_device_has_not_is_remarked(host):
    assert host.call("cudaGraphLaunch", 0, 0) == 801
    assert host.calls.remarks == ["cudaGraphLaunch is not a function of this device"]
    assert host.got("cudaGetDeviceCount", kind=ctypes.c_int32) == 1
    assert host.got("cudaDeviceGetAttribute", 97, 0, kind=ctypes.c_int32) == 232_448


def test_a_module_whose_ptx_is_not_known_is_not_loaded(host):
    held = ctypes.create_string_buffer(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 8) + bytes(8))
    found = ctypes.c_uint64()
    assert host.call("cudaLibraryLoadData", ctypes.addressof(found), ctypes.addressof(held)) == 719
    assert isinstance(host.calls.fault, LaunchError)


def test_a_tensor_map_is_named_by_its_bytes(host):
    lists = [
        np.array([64, 32], np.uint64), np.array([256], np.uint64), np.array([64, 8], np.uint32),
        np.array([1, 1], np.uint32),
    ]  # fmt: skip
    target = ctypes.create_string_buffer(128)
    words = [ctypes.addressof(target), 7, 2, 0x1000, *(item.ctypes.data for item in lists)]
    assert host.call("cuTensorMapEncodeTiled", *words, 0, 3, 0, 0) == 0
    (map_,) = host.calls.maps.values()
    assert (map_.dimensions, map_.stride_bytes, map_.box) == ((64, 32), (256,), (64, 8))
    assert (map_.data_type, map_.swizzle) == (7, 3) and target.raw in host.calls.maps


def test_the_environment_puts_our_library_first(host):
    found = host.device.environment({"CUTE_DSL_LIBS": "/theirs.so"})
    ours, theirs = found["CUTE_DSL_LIBS"].split(":")
    assert ours.endswith(NAME) and theirs == "/theirs.so"
    assert found["CUTE_DSL_ARCH"] == "sm_90a" and found["CUTE_DSL_KEEP"] == "ptx,cubin"
    own = {"CUTE_DSL_KEEP": "ir,ptx", "CUTE_DSL_DUMP_DIR": "/mine"}
    found = host.device.environment(own)
    assert (found["CUTE_DSL_KEEP"], found["CUTE_DSL_DUMP_DIR"]) == ("ir,ptx,cubin", "/mine")
