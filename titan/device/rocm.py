"""Launches on an AMD GPU: what `gpu` is for NVIDIA's, over the HIP runtime alone.

Needs ROCm (libamdhip64, libhiprtc) and NumPy, no CuPy: memory, events and copies are the few
functions of HIP that the runner uses, in the shape of CuPy's (`library`). Sources are compiled by
hipRTC for the device that is there. Source: HIP runtime API; hipRTC.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from titan.device import gpu
from titan.device.driver import DeviceError, NoDevice
from titan.device.gpu import CType, GpuFunction, GpuModule, OtherDevice, cached_code
from titan.device.hip_driver import (
    ATTRIBUTES,
    FINE_GRAINED,
    PROPERTIES_BYTES,
    call,
    compiler,
    fill_properties,
)
from titan.device.records import DeviceFacts

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

WAVE = 64
# Compute units of one XCD by architecture, as AMD sells them; devices without XCDs are left out.
UNITS_OF_XCD = {"gfx942": 38, "gfx950": 32}
_ARCHITECTURE = re.compile(rb"gfx[0-9a-f]{3,5}")


class _Allocation:
    """Memory of the device; it is given back with the last array that lies in it."""

    def __init__(self, size: int, fine_grained: bool = False) -> None:
        self.ptr, address = 0, ctypes.c_uint64()
        if fine_grained:
            call("hipExtMallocWithFlags", ctypes.byref(address), max(size, 1), FINE_GRAINED)
        else:
            call("hipMalloc", ctypes.byref(address), max(size, 1))
        self.ptr = int(address.value)

    def __del__(self) -> None:
        if self.ptr:
            call("hipFree", self.ptr)


class _Place:
    """Where an array begins."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


class HipArray:
    """Bytes on the device, as far as the runner needs an array of CuPy (`records.CupyArray`)."""

    def __init__(self, memory: _Allocation, start: int, size: int, dtype: str = "uint8") -> None:
        self.memory, self.size, self.dtype = memory, size, dtype
        self.data = _Place(memory.ptr + start)
        self.start = start

    def fill(self, value: int) -> None:
        """Give every byte this value."""
        call("cuMemsetD8_v2", self.data.ptr, value, self.size)

    def view(self, dtype: str) -> HipArray:
        """The same memory as elements of another type."""
        return HipArray(self.memory, self.start, self.size, dtype)

    def get(self) -> NDArray[numpy.generic]:
        """A copy in the memory of the host."""
        import numpy

        found = numpy.empty(self.size, dtype=numpy.uint8)
        call("cuMemcpyDtoH_v2", found.ctypes.data, self.data.ptr, self.size)
        return found.view(self.dtype)

    def __getitem__(self, part: slice) -> HipArray:
        first, last, _ = part.indices(self.size)
        return HipArray(self.memory, self.start + first, last - first, self.dtype)


class _Event:
    """A point on the stream, for times."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        call("hipEventCreate", ctypes.byref(self.handle))

    def record(self) -> None:
        """Put it on the stream."""
        call("hipEventRecord", self.handle, None)

    def synchronize(self) -> None:
        """Wait for it."""
        call("hipEventSynchronize", self.handle)


class _Stream:
    """The default stream."""

    ptr = 0


class _Device:
    """The first visible device."""

    id = 0

    def synchronize(self) -> None:
        """Wait for all that was launched."""
        call("hipDeviceSynchronize")


class _Runtime:
    """The part that CuPy has below `cuda`."""

    Event = _Event
    Device = _Device

    def get_current_stream(self) -> _Stream:
        """The default stream: one child runs one thing after the other."""
        return _Stream()

    def get_elapsed_time(self, begin: _Event, end: _Event) -> float:
        """Milliseconds between two events."""
        found = ctypes.c_float()
        call("hipEventElapsedTime", ctypes.byref(found), begin.handle, end.handle)
        return float(found.value)


class HipLibrary:
    """Arrays and events in the shape of CuPy's module."""

    cuda = _Runtime()

    def zeros(self, size: int, dtype: str = "uint8", fine_grained: bool = False) -> HipArray:
        """So many bytes, all 0; fine-grained memory is coherent over devices."""
        made = HipArray(_Allocation(size, fine_grained), 0, size, dtype)
        made.fill(0)
        return made

    def empty(self, size: int, dtype: str = "uint8") -> HipArray:
        """So many bytes."""
        return HipArray(_Allocation(size), 0, size, dtype)

    def asarray(self, values: NDArray[numpy.generic]) -> HipArray:
        """A copy of an array of the host."""
        import numpy

        data = numpy.ascontiguousarray(values)
        made = HipArray(_Allocation(data.nbytes), 0, data.nbytes, str(data.dtype))
        call("cuMemcpyHtoD_v2", made.data.ptr, data.ctypes.data, data.nbytes)
        return made


def library() -> HipLibrary:
    """Arrays and events on the first AMD GPU. Raises NoDevice."""
    count = ctypes.c_int()
    try:
        call("hipGetDeviceCount", ctypes.byref(count))
    except NoDevice:
        raise
    except DeviceError as error:
        raise NoDevice(f"no usable AMD GPU: {error}") from None
    if not count.value:
        raise NoDevice("no AMD GPU")
    return HipLibrary()


def properties(number: int = 0) -> tuple[str, str]:
    """Name and architecture of a device; the architecture is the one word `gfx...` among them."""
    data = ctypes.create_string_buffer(PROPERTIES_BYTES)
    fill_properties(data, number)
    name = data.raw.partition(b"\0")[0].decode(errors="replace")
    found = _ARCHITECTURE.search(data.raw, 256)
    return name, found.group().decode() if found else ""


def check_target(target: str) -> None:
    """Raises OtherDevice where the device cannot run code for the target."""
    library()
    _, here = properties()
    if target != here:
        raise OtherDevice(f"built for {target}; this device is {here or 'of no known kind'}")


def compiler_options(
    target: str, include: Sequence[Path], defines: Sequence[str]
) -> tuple[str, ...]:
    """What hipRTC is called with."""
    return (
        "-std=c++17",
        "-O3",
        f"--offload-arch={target}",
        *(f"-I{folder}" for folder in include),
        *(f"-D{define}" for define in defines),
    )


def compile_source(text: str, name: str, options: Sequence[str]) -> bytes:
    """The code object of a source. Raises DeviceError with what hipRTC says."""
    rtc, program = compiler(), ctypes.c_void_p()
    if rtc.hiprtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None):
        raise DeviceError(f"hipRTC takes no program {name}")
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if code := rtc.hiprtcCompileProgram(program, len(options), given):
            log = _part(program, rtc.hiprtcGetProgramLogSize, rtc.hiprtcGetProgramLog)
            lines = log.decode(errors="replace").strip("\0\n ").splitlines()
            first = next((line for line in lines if "error" in line), "".join(lines[-1:]))
            raise DeviceError(f"{name} does not compile ({code}): {first.strip()[:500]}")
        return _part(program, rtc.hiprtcGetCodeSize, rtc.hiprtcGetCode)
    finally:
        rtc.hiprtcDestroyProgram(ctypes.byref(program))


def _part(program: ctypes.c_void_p, size_of: gpu.Foreign, get: gpu.Foreign) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(max(1, size.value))
    get(program, ctypes.addressof(data))
    return data.raw[: size.value]


def machine_code(
    source: Path, target: str, defines: Sequence[str] = (), cache: Path | None = None
) -> bytes:
    """Compiled, or as it lies in the folder `cache` under a digest of all that it depends on."""
    options = compiler_options(target, (source.parent,), defines)
    major, minor = ctypes.c_int(), ctypes.c_int()
    compiler().hiprtcVersion(ctypes.byref(major), ctypes.byref(minor))
    version = (major.value, minor.value)
    known = (target, sorted(defines), version)
    return cached_code(
        source, known, cache, lambda text: compile_source(text, source.name, options)
    )


class HipFunction(GpuFunction):
    """A kernel of a module; LDS needs no limit to be raised."""

    call = staticmethod(call)
    warp_threads = WAVE

    def allow_shared(self) -> None:
        """Nothing to do: a work-group may have all LDS of its unit."""

    def launch(
        self, grid: int, threads: int, arguments: Sequence[CType], cluster: int = 1,
        stream: int = 0, dependent: bool = False,
    ) -> None:  # fmt: skip
        """Put a launch on a stream. Raises DeviceError."""
        if cluster != 1 or dependent:
            raise DeviceError("AMD devices have no clusters and no dependent launches")
        addresses = [ctypes.cast(ctypes.byref(item), ctypes.c_void_p) for item in arguments]
        parameters = (ctypes.c_void_p * len(addresses))(*addresses)
        self.call(
            "hipModuleLaunchKernel", self.handle, grid, 1, 1, threads, 1, 1, self.shared_bytes,
            stream or None, parameters, None, what="launch",
        )  # fmt: skip


class HipModule(GpuModule):
    """A compiled source for the AMD GPU that is there; `cubin` is its code object."""

    call = staticmethod(call)
    check = staticmethod(check_target)
    compile = staticmethod(machine_code)
    function_type = HipFunction


class HipSharedFile(gpu.SharedFile):
    """A file mapped into this process and into an AMD device."""

    call = staticmethod(call)


def xcds_of(architecture: str, units: int) -> int:
    """XCDs of a device or of the part of one that a process sees, from its compute units."""
    each = UNITS_OF_XCD.get(architecture)
    return max(1, round(units / each)) if each else 1


def facts() -> DeviceFacts:
    """The device, its driver and clocks. Raises NoDevice."""
    library()
    count, driver, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    memory = ctypes.c_size_t()
    call("hipGetDeviceCount", ctypes.byref(count))
    call("hipDriverGetVersion", ctypes.byref(driver))
    call("hipRuntimeGetVersion", ctypes.byref(version))
    call("hipDeviceTotalMem", ctypes.byref(memory), 0)
    known = {}
    for name, attribute in ATTRIBUTES.items():
        value = ctypes.c_int()
        call("hipDeviceGetAttribute", ctypes.byref(value), attribute, 0, what=name)
        known[name] = int(value.value)
    name, architecture = properties()
    units = known["multiprocessors"]
    return {
        "name": name or architecture,
        "backend": "gpu",
        "count": count.value,
        "names": [properties(number)[0] or architecture for number in range(count.value)],
        "architecture": architecture,
        "xcds": xcds_of(architecture, units),
        "multiprocessors": units,
        "clock_khz": known["clock_khz"],
        "memory_clock_khz": known["memory_clock_khz"],
        "memory_bytes": int(memory.value),
        "l2_bytes": known["l2_bytes"],
        "shared_bytes_per_block": known["shared_bytes_per_block"],
        "shared_bytes_per_multiprocessor": known["shared_bytes_per_block"],
        "warps_per_multiprocessor": known["threads_per_multiprocessor"] // WAVE,
        "driver": driver.value,
        "runtime": version.value,
    }
