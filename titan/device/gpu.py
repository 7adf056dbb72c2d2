"""Launches on an NVIDIA GPU; everything that needs a device stands here and in `driver.py`.

CuPy brings NVRTC and owns the context and the memory. Sources are compiled by NVRTC directly, not
by CuPy's own compile functions: those append an architecture of their own to the options, which
NVRTC refuses beside ours, and theirs (sm_90) has no wgmma. Modules, tensor maps and launches go to
the driver library. Source: CUDA driver API, NVRTC; cupy/cuda/compiler.py.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from titan.device.driver import (
    CLUSTER_DIMENSION,
    DATA_TYPES,
    DEPENDENT_LAUNCH,
    HOST_REGISTER_DEVICEMAP,
    LOCAL_BYTES,
    MAP_ALIGNMENT,
    MAP_BYTES,
    MAX_DYNAMIC_SHARED,
    PROMOTE_256B,
    REGISTERS,
    STATIC_SHARED,
    SWIZZLES,
    DeviceError,
    LaunchAttribute,
    LaunchConfiguration,
    NoDevice,
    call,
)
from titan.device.plan import LaunchPlan, Number, Pointer, ScalarNumber, TensorMapArguments
from titan.device.records import DeviceFacts, KernelResources
from titan.foundation.atomic import write_bytes

WARP = 32
CType = (
    ctypes.c_uint64
    | ctypes.c_uint32
    | ctypes.c_int32
    | ctypes.c_float
    | ctypes.Array[ctypes.c_char]
)
Foreign = Callable[..., object]  # a function of a library in C
CAPABILITIES = {"sm_90a": "9.0", "sm_100a": "10.0"}


class OtherDevice(DeviceError):
    """The code is for another device than this one."""


def library() -> ModuleType:
    """CuPy with at least one device and its context. Raises NoDevice."""
    try:
        import cupy
    except ImportError as error:
        raise NoDevice(
            "CuPy cannot be imported; `pip install cupy-cuda12x` or `cupy-cuda13x`"
            f" ({str(error).splitlines()[0] if str(error) else 'no reason given'})"
        ) from None
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
        if count:
            runtime.free(0)  # makes the context that the calls of the driver library need
    except runtime.CUDARuntimeError as error:
        raise NoDevice(f"no usable GPU: {error}") from None
    if not count:
        raise NoDevice("no GPU")
    module: ModuleType = cupy
    return module


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


def compiler() -> ModuleType:
    """NVRTC as CuPy brings it; needs no device. Raises NoDevice."""
    try:
        import cupy
    except ImportError as error:
        raise NoDevice(f"CuPy cannot be imported: {error}") from None
    nvrtc: ModuleType = cupy.cuda.nvrtc
    return nvrtc


def compile_source(text: str, name: str, options: Sequence[str]) -> bytes:
    """The machine code of a source. Raises DeviceError with what NVRTC says."""
    nvrtc = compiler()
    try:
        program = nvrtc.createProgram(text, name, (), ())
    except (RuntimeError, OSError, ImportError) as error:
        raise NoDevice(
            f"NVRTC cannot be used ({error}); `pip install cupy-cuda12x[ctk]`, or the CUDA toolkit"
        ) from None
    try:
        try:
            nvrtc.compileProgram(program, tuple(options))
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program).strip()
            raise DeviceError(f"{name} does not compile: {error}: {log[:2000]}") from None
        return bytes(nvrtc.getCUBIN(program))
    finally:
        nvrtc.destroyProgram(program)


def machine_code(
    source: Path, target: str, defines: Sequence[str] = (), cache: Path | None = None
) -> bytes:
    """Compiled, or as it lies in the folder `cache` under a digest of all that it depends on."""
    options = compiler_options(target, (source.parent,), defines)
    known = (target, sorted(defines), compiler().getVersion())
    return cached_code(
        source, known, cache, lambda text: compile_source(text, source.name, options)
    )


def cached_code(
    source: Path, known: object, cache: Path | None, make: Callable[[str], bytes]
) -> bytes:
    """What `make` compiles of the source's text, kept in `cache` under a digest.

    The digest is of the text, its headers and what else is `known`.
    """
    text = source.read_text(encoding="utf-8")
    if cache is None:
        return make(text)
    headers = [path.read_bytes() for path in sorted(source.parent.glob("*.*h"))]
    digest = hashlib.sha256(repr((text, headers, known)).encode()).hexdigest()
    made = cache / f"{digest[:32]}.cubin"
    if not made.is_file():
        code = make(text)
        cache.mkdir(parents=True, exist_ok=True)
        write_bytes(made, code)
    return made.read_bytes()


def check_target(target: str) -> None:
    """Raises OtherDevice where the device cannot run code for the target."""
    runtime = library().cuda.runtime
    properties = runtime.getDeviceProperties(runtime.getDevice())
    here = f"{properties['major']}.{properties['minor']}"
    if CAPABILITIES.get(target) != here:
        raise OtherDevice(f"built for {target}; this device has compute capability {here}")


class GpuFunction:
    """A kernel of a module, with its limit of dynamic shared memory set."""

    call: ClassVar[Foreign] = staticmethod(call)
    warp_threads: ClassVar[int] = WARP

    def __init__(self, handle: ctypes.c_void_p, module: GpuModule, shared_bytes: int) -> None:
        self.handle, self.module, self.shared_bytes = handle, module, shared_bytes
        if shared_bytes:
            self.allow_shared()

    def allow_shared(self) -> None:
        """Raise the limit of dynamic shared memory to what the kernel takes."""
        self.call("cuFuncSetAttribute", self.handle, MAX_DYNAMIC_SHARED, self.shared_bytes)

    def attribute(self, number: int) -> int:
        """An attribute of the function by its number in `CUfunction_attribute`."""
        value = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), number, self.handle)
        return int(value.value)

    def resources(self, threads: int) -> KernelResources:
        """What a CTA takes, and how many CTAs a multiprocessor holds at once."""
        blocks = ctypes.c_int()
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), self.handle,
            threads, self.shared_bytes,
        )  # fmt: skip
        return {
            "registers": self.attribute(REGISTERS),
            "spilled_bytes": self.attribute(LOCAL_BYTES),
            "shared_bytes": self.attribute(STATIC_SHARED) + self.shared_bytes,
            "ctas_per_multiprocessor": int(blocks.value),
            "warps_per_cta": -(-threads // self.warp_threads),
        }

    def launch(
        self, grid: int, threads: int, arguments: Sequence[CType], cluster: int = 1,
        stream: int = 0, dependent: bool = False,
    ) -> None:  # fmt: skip
        """Put a launch on a stream; `arguments` are ctypes values in the order of the kernel.
        `dependent`: it may begin before the launch in front of it has ended."""
        addresses = [ctypes.cast(ctypes.byref(item), ctypes.c_void_p) for item in arguments]
        parameters = (ctypes.c_void_p * len(addresses))(*addresses)
        attributes = []
        if cluster > 1:
            attributes.append(LaunchAttribute(id=CLUSTER_DIMENSION))
            attributes[-1].value.cluster = (ctypes.c_uint * 3)(cluster, 1, 1)
        if dependent:
            attributes.append(LaunchAttribute(id=DEPENDENT_LAUNCH))
            attributes[-1].value.dependent = 1
        configuration = LaunchConfiguration(
            grid=(ctypes.c_uint * 3)(grid, 1, 1),
            block=(ctypes.c_uint * 3)(threads, 1, 1),
            shared_bytes=self.shared_bytes,
            stream=stream or None,
            attributes=(LaunchAttribute * len(attributes))(*attributes),
            attribute_count=len(attributes),
        )
        # The driver copies the arguments before it returns.
        self.call(
            "cuLaunchKernelEx", ctypes.byref(configuration), self.handle, parameters, None,
            what="launch",
        )  # fmt: skip


class GpuModule:
    """A compiled source; `cubin` is its machine code, `function` finds an entry.

    A ready `cubin` is loaded as it is. Raises OtherDevice before anything is compiled. Another
    driver (`rocm`) has other functions behind the same names.
    """

    call: ClassVar[Foreign] = staticmethod(call)
    check: ClassVar[Foreign] = staticmethod(check_target)
    compile: ClassVar[Callable[..., bytes]] = staticmethod(machine_code)
    function_type: ClassVar[type[GpuFunction]] = GpuFunction

    def __init__(
        self, source: Path, target: str, defines: Sequence[str] = (), cubin: bytes | None = None,
        cache: Path | None = None,
    ) -> None:  # fmt: skip
        self.check(target)
        self.cubin = self.compile(source, target, defines, cache) if cubin is None else cubin
        self.handle = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(self.handle), self.cubin, what=source.name)

    def function(self, entry: str, shared_bytes: int) -> GpuFunction:
        """A kernel by its name, with its bytes of dynamic shared memory. Raises DeviceError."""
        handle = ctypes.c_void_p()
        name = entry.encode()
        self.call("cuModuleGetFunction", ctypes.byref(handle), self.handle, name, what=entry)
        return self.function_type(handle, self, shared_bytes)

    def address(self, symbol: str) -> int:
        """Where a `__device__` or `__constant__` variable lies."""
        place, size = ctypes.c_uint64(), ctypes.c_size_t()
        name = symbol.encode()
        self.call(
            "cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), self.handle, name,
            what=symbol,
        )  # fmt: skip
        return int(place.value)

    def write(self, symbol: str, data: bytes) -> None:
        """Fill a `__device__` variable."""
        self.call("cuMemcpyHtoD_v2", self.address(symbol), data, len(data), what=symbol)

    def read(self, symbol: str, size: int) -> bytes:
        """The bytes of a `__device__` variable."""
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, self.address(symbol), size, what=symbol)
        return data.raw


class SharedFile:
    """A file mapped into this process and into the device: what a kernel writes there stays when
    the process is killed. Raises DeviceError where the driver cannot register it."""

    call: ClassVar[Foreign] = staticmethod(call)

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.view = (ctypes.c_char * len(self.memory)).from_buffer(self.memory)
        host = ctypes.c_void_p(ctypes.addressof(self.view))
        self.call(
            "cuMemHostRegister_v2", host, len(self.memory), HOST_REGISTER_DEVICEMAP,
            what="registering the file of progress",
        )  # fmt: skip
        address = ctypes.c_uint64()
        self.call(
            "cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0,
            what="address of the file of progress",
        )  # fmt: skip
        self.address = int(address.value)

    def clear(self) -> None:
        """Fill the file with zeros."""
        self.memory[:] = bytes(len(self.memory))


def encode(item: TensorMapArguments, pointer: int) -> ctypes.Array[ctypes.c_char]:
    """The 128 bytes of a tensor map, at an address that is a multiple of 64."""
    storage = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    offset = -ctypes.addressof(storage) % MAP_ALIGNMENT
    aligned = (ctypes.c_char * MAP_BYTES).from_buffer(storage, offset)
    rank = len(item.extents)
    u64s, u32s = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    strides = (ctypes.c_uint64 * max(1, rank - 1))(*item.strides_bytes)
    call(
        "cuTensorMapEncodeTiled", ctypes.byref(aligned), DATA_TYPES[item.dtype], rank, pointer,
        u64s(*item.extents), strides, u32s(*item.box), u32s(*(1,) * rank), 0,
        SWIZZLES[item.swizzle], PROMOTE_256B, 0, what=f"tensor map of {item.tensor}",
    )  # fmt: skip
    return aligned


class Prepared:
    """A launch whose arguments are laid out; `run` puts it on a stream."""

    def __init__(
        self, function: GpuFunction, launch: LaunchPlan, pointers: Mapping[str, int]
    ) -> None:
        self.function, self.planned = function, launch
        self.arguments: list[CType] = []
        for argument in launch.arguments:
            match argument:
                case TensorMapArguments(tensor=name):
                    self.arguments.append(encode(argument, pointers[name]))
                case Pointer(tensor=name):
                    self.arguments.append(ctypes.c_uint64(pointers[name]))
                case Number(value=value):
                    self.arguments.append(ctypes.c_int32(value))
                case ScalarNumber(value=scalar):
                    self.arguments.append(ctypes.c_float(scalar))

    def run(self, stream: int = 0) -> None:
        """Put the launch on a stream. Raises DeviceError."""
        planned = self.planned
        more = {"dependent": True} if planned.dependent else {}
        self.function.launch(
            planned.grid, planned.block, self.arguments, planned.cluster, stream, **more
        )


def facts() -> DeviceFacts:
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
        "shared_bytes_per_multiprocessor": properties["sharedMemPerMultiprocessor"],
        "warps_per_multiprocessor": properties["maxThreadsPerMultiProcessor"] // WARP,
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        "nvrtc": _nvrtc_version(cupy),
        "cupy": cupy.__version__,
    }


def _nvrtc_version(cupy: ModuleType) -> str:
    """CuPy looks for NVRTC when it is first asked; a machine may have a driver and no toolkit."""
    try:
        return ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
    except (RuntimeError, OSError, ImportError) as error:
        return f"none: {error}"
