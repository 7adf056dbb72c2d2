"""Launches on an NVIDIA GPU through CuPy; everything that needs a device stands in this module.

CuPy compiles the source (NVRTC) and owns the memory; tensor maps and launches with clusters go to
the driver library itself. Source: CUDA driver API.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from titan.device.plan import Launch, Number, Pointer, TensorMap

MAP_BYTES = 128
MAP_ALIGNMENT = 64
# CUtensorMapDataType, CUtensorMapSwizzle
DATA_TYPES = {"e4m3": 0, "e5m2": 0, "u8": 0, "u32": 2, "i32": 3, "f16": 6, "f32": 7, "bf16": 9}
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
PROMOTE_256B = 3  # CUtensorMapL2promotion
CLUSTER_DIMENSION = 4  # CUlaunchAttributeID
HOST_REGISTER_DEVICEMAP = 2  # CU_MEMHOSTREGISTER_DEVICEMAP


class DeviceError(Exception):
    """The driver, the compiler or the device refuses; the text says what."""


class NoDevice(DeviceError):
    """There is no GPU that could be used, or no CuPy; the text says what is needed."""


def library() -> Any:
    """CuPy with at least one device. Raises NoDevice."""
    try:
        import cupy
    except ImportError:
        raise NoDevice(
            "CuPy is not installed; `pip install cupy-cuda12x` or `cupy-cuda13x`"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NoDevice(f"no usable GPU: {error}") from None
    if not count:
        raise NoDevice("no GPU")
    return cupy


def driver() -> ctypes.CDLL:
    """The CUDA driver library. Raises NoDevice."""
    for name in ("libcuda.so.1", "libcuda.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NoDevice("the CUDA driver library (libcuda.so.1) is not there")


def checked(code: int, what: str) -> None:
    if code:
        raise DeviceError(f"{what}: CUDA error {code}")


def compiler_options(
    target: str, include: Sequence[Path], defines: Sequence[str]
) -> tuple[str, ...]:
    """What NVRTC is called with."""
    return (
        "-std=c++17",
        f"--gpu-architecture={target}",
        *(f"-I{folder}" for folder in include),
        *(f"-D{define}" for define in defines),
    )


class Module:
    """A compiled source; `function` finds an entry."""

    def __init__(
        self, source: Path, target: str, include: Sequence[Path] = (), defines: Sequence[str] = ()
    ) -> None:
        cupy = library()
        options = compiler_options(target, (source.parent, *include), defines)
        code = source.read_text(encoding="utf-8")
        self.module = cupy.RawModule(code=code, options=options, backend="nvrtc")
        try:
            self.module.compile()
        except cupy.cuda.compiler.CompileException as error:
            raise DeviceError(f"{source.name} does not compile: {error}") from None

    def function(self, entry: str, shared_bytes: int) -> Any:
        found = self.module.get_function(entry)
        if shared_bytes:
            found.max_dynamic_shared_size_bytes = shared_bytes
        return found

    def write(self, symbol: str, data: bytes) -> None:
        """Fill a `__device__` variable."""
        place = ctypes.c_uint64(int(self.module.get_global(symbol).ptr))
        code = driver().cuMemcpyHtoD_v2(place, data, ctypes.c_size_t(len(data)))
        checked(code, symbol)

    def read(self, symbol: str, size: int) -> bytes:
        """The bytes of a `__device__` variable."""
        place = ctypes.c_uint64(int(self.module.get_global(symbol).ptr))
        data = ctypes.create_string_buffer(size)
        checked(driver().cuMemcpyDtoH_v2(data, place, ctypes.c_size_t(size)), symbol)
        return data.raw


class SharedFile:
    """A file mapped into this process and into the device: what a kernel writes there stays when
    the process is killed. Raises DeviceError where the driver cannot register it."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.view = (ctypes.c_char * len(self.memory)).from_buffer(self.memory)
        host = ctypes.c_void_p(ctypes.addressof(self.view))
        cuda, size = driver(), ctypes.c_size_t(len(self.memory))
        code = cuda.cuMemHostRegister_v2(host, size, ctypes.c_uint(HOST_REGISTER_DEVICEMAP))
        checked(code, "registering the file of progress")
        address = ctypes.c_uint64()
        code = cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(address), host, ctypes.c_uint(0))
        checked(code, "address of the file of progress")
        self.address = int(address.value)

    def clear(self) -> None:
        self.memory[:] = bytes(len(self.memory))


class _LaunchAttributeValue(ctypes.Union):
    _fields_ = [("pad", ctypes.c_char * 64), ("cluster", ctypes.c_uint * 3)]


class _LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _LaunchAttributeValue)]


class _LaunchConfiguration(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]


def encode(item: TensorMap, pointer: int) -> ctypes.Array[ctypes.c_char]:
    """The 128 bytes of a tensor map, at an address that is a multiple of 64."""
    storage = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    offset = -ctypes.addressof(storage) % MAP_ALIGNMENT
    aligned = (ctypes.c_char * MAP_BYTES).from_buffer(storage, offset)
    rank = len(item.extents)
    u64s, u32s = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    strides = (ctypes.c_uint64 * max(1, rank - 1))(*item.strides_bytes)
    code = driver().cuTensorMapEncodeTiled(
        ctypes.byref(aligned), ctypes.c_int(DATA_TYPES[item.dtype]), ctypes.c_uint32(rank),
        ctypes.c_void_p(pointer), u64s(*item.extents), strides, u32s(*item.box),
        u32s(*(1,) * rank), ctypes.c_int(0), ctypes.c_int(SWIZZLES[item.swizzle]),
        ctypes.c_int(PROMOTE_256B), ctypes.c_int(0),
    )  # fmt: skip
    checked(code, f"tensor map of {item.tensor}")
    return aligned


class Prepared:
    """A launch whose arguments are laid out; `run` puts it on the current stream."""

    def __init__(self, function: Any, launch: Launch, pointers: Mapping[str, int]) -> None:
        self.handle = ctypes.c_void_p(function.kernel.ptr)
        self.kept: list[Any] = []
        for argument in launch.arguments:
            match argument:
                case TensorMap(tensor=name):
                    self.kept.append(encode(argument, pointers[name]))
                case Pointer(tensor=name):
                    self.kept.append(ctypes.c_uint64(pointers[name]))
                case Number(value=value):
                    self.kept.append(ctypes.c_int32(value))
        addresses = [ctypes.cast(ctypes.byref(item), ctypes.c_void_p) for item in self.kept]
        self.parameters = (ctypes.c_void_p * len(addresses))(*addresses)
        self.attribute = _LaunchAttribute(id=CLUSTER_DIMENSION)
        self.attribute.value.cluster = (ctypes.c_uint * 3)(launch.cluster, 1, 1)
        self.configuration = _LaunchConfiguration(
            grid=(ctypes.c_uint * 3)(launch.grid, 1, 1),
            block=(ctypes.c_uint * 3)(launch.block, 1, 1),
            shared_bytes=launch.shared_bytes,
            attributes=ctypes.pointer(self.attribute),
            attribute_count=1 if launch.cluster > 1 else 0,
        )

    def run(self, stream: int = 0) -> None:
        self.configuration.stream = stream
        code = driver().cuLaunchKernelEx(
            ctypes.byref(self.configuration), self.handle, self.parameters, None
        )
        checked(code, "launch")


def facts() -> dict[str, Any]:
    """The device, its driver and clocks, and the versions that results depend on."""
    cupy = library()
    runtime = cupy.cuda.runtime
    number = cupy.cuda.Device().id
    properties = runtime.getDeviceProperties(number)
    names = [
        runtime.getDeviceProperties(other)["name"].decode()
        for other in range(runtime.getDeviceCount())
    ]
    return {
        "name": properties["name"].decode(),
        "backend": "gpu",
        "count": len(names),
        "names": names,
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": properties["multiProcessorCount"],
        "clock_khz": properties["clockRate"],
        "memory_clock_khz": properties["memoryClockRate"],
        "memory_bytes": properties["totalGlobalMem"],
        "l2_bytes": properties["l2CacheSize"],
        "shared_bytes_per_block": properties["sharedMemPerBlockOptin"],
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
    }
