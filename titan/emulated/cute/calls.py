"""Answers what the host code of CuTe DSL asks of its runtime library (`native/runtime.c`).

The host code runs in this process, so that the memory of the device is that of the process:
tensors of PyTorch on the CPU, and what the program has allocated by these calls. Kernels are the
PTX that CuTe DSL leaves beside the machine code of each module (`ModuleTexts`). A launch that is
wrong gives the program an error of CUDA; `fault` keeps what it was.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from titan.emulated.cute.hardware_maps import read_map
from titan.emulated.cute.texts import ModuleTexts
from titan.emulated.driver_status import DriverStatus
from titan.emulated.machine import LaunchQueue
from titan.emulated.modules import LoadedModule, shape_of
from titan.emulated.parameters import Maps, name_map
from titan.emulated.process import ProcessMemory
from titan.isa.numbers.device import LaunchError
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import LaunchTensorMap

Words = Sequence[int]
LAUNCH_FAILURE = 719  # what a launch that is wrong gives the program
CONFIGURATION = struct.Struct("<6IQQQI")  # cudaLaunchConfig_t
ATTRIBUTE_BYTES, CLUSTER = 72, 4  # cudaLaunchAttribute, and the one of a cluster's extents
STATIC_SHARED = 1  # CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
# Streams and events: there is one stream, and what it is given is over when the call returns.
NOTHING_TO_DO = (
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaStreamDestroy",
    "cudaEventDestroy", "cudaFuncSetAttribute", "cudaKernelSetAttributeForDevice",
    "cudaSetDevice", "cudaLibraryUnload", "cuLibraryUnload", "cudaProfilerStart",
    "cudaProfilerStop",
)  # fmt: skip


@dataclass(slots=True)
class CuteCalls:
    """The device of one program. `remarks`: functions that it has not."""

    queue: LaunchQueue
    texts: ModuleTexts = field(default_factory=ModuleTexts)
    memory: ProcessMemory = field(default_factory=ProcessMemory)
    libraries: list[LoadedModule] = field(default_factory=list)
    kernels: list[tuple[LoadedModule, Function]] = field(default_factory=list)
    maps: Maps = field(default_factory=dict)
    fault: LaunchError | None = None
    remarks: list[str] = field(default_factory=list)

    def answer(self, name: str, words: Words) -> int:
        """The error code of a call by the name of the function, without what is in front."""
        if name in NOTHING_TO_DO:
            return DriverStatus.SUCCESS
        known: dict[str, Callable[[Words], int]] = {
            "cudaLibraryLoadData": self._load, "cuLibraryLoadData": self._load,
            "cudaLibraryGetKernel": self._kernel, "cuLibraryGetKernel": self._kernel,
            "cuKernelGetAttribute": self._kernel_attribute,
            "cudaDeviceGetAttribute": self._device_attribute,
            "cudaGetDevice": self._first, "cuDeviceGet": self._first,
            "cudaGetDeviceCount": self._one, "cudaStreamCreate": self._first_handle,
            "cudaEventCreate": self._first_handle,
            "cudaLaunchKernelEx": self._launch, "cuTensorMapEncodeTiled": self._tensor_map,
            "cudaMalloc": self._allocate, "cudaMallocAsync": self._allocate,
            "cudaMallocHost": self._allocate, "cudaMallocManaged": self._allocate,
            "cudaFree": self._free, "cudaFreeAsync": self._free, "cudaFreeHost": self._free,
            "cudaMemcpy": self._copy, "cudaMemcpyAsync": self._copy,
            "cudaMemset": self._set, "cudaMemsetAsync": self._set,
        }  # fmt: skip
        if name not in known:
            self.remarks.append(f"{name} is not a function of this device")
            return DriverStatus.NOT_SUPPORTED
        try:
            return known[name](words)
        except LaunchError as error:
            self.fault = self.fault or error
            return LAUNCH_FAILURE

    # ------------------------------------------------------------------- modules, launches

    def _load(self, words: Words) -> int:
        self.libraries.append(self.texts.of_image(words[1]))
        return _put(words[0], len(self.libraries), 8)

    def _kernel(self, words: Words) -> int:
        number, name = words[1], ctypes.string_at(words[2]).decode("utf-8", "replace")
        if not 1 <= number <= len(self.libraries):
            return DriverStatus.INVALID_VALUE
        loaded = self.libraries[number - 1]
        function = loaded.defined(name)
        if function is None:
            return DriverStatus.NOT_FOUND
        self.kernels.append((loaded, function))
        return _put(words[0], len(self.kernels), 8)

    def _kernel_attribute(self, words: Words) -> int:
        """All of the shared memory of CuTe DSL's kernels is dynamic."""
        if _low(words[1]) != STATIC_SHARED:
            return DriverStatus.NOT_SUPPORTED
        return _put(words[0], 0, 4)

    def _launch(self, words: Words) -> int:
        if not 1 <= words[1] <= len(self.kernels):
            return DriverStatus.INVALID_VALUE
        loaded, function = self.kernels[words[1] - 1]
        *extents, shared, _, attributes, count = CONFIGURATION.unpack(
            ctypes.string_at(words[0], CONFIGURATION.size)
        )
        cluster = (1, 1, 1)
        for number in range(count):
            place = attributes + number * ATTRIBUTE_BYTES
            kind, x, y, z = struct.unpack("<I4x3I", ctypes.string_at(place, 20))
            if kind == CLUSTER:
                cluster = (x, y, z)
        pointers = ctypes.cast(words[2], ctypes.POINTER(ctypes.c_uint64))
        parameters = [
            ctypes.string_at(pointers[number], parameter.size_bytes)
            for number, parameter in enumerate(function.parameters)
        ]
        used: Maps = {}
        bases = []
        for number, data in enumerate(parameters):
            map_ = self.maps.get(data) or read_map(data)
            if map_ is not None:
                parameters[number] = name_map(map_, used)
                bases.append(map_.base)
        memory = self.memory.of_launch(parameters, bases)
        shape = shape_of(function, extents[:3], extents[3:], cluster, shared)
        self.queue.submit(loaded, function, shape, parameters, used, memory)
        return DriverStatus.SUCCESS

    def _tensor_map(self, words: Words) -> int:
        target, kind, rank, base, extents, strides, box, steps = words[:8]
        kind, rank = _low(kind), _low(rank)
        interleave, swizzle, _, fill = map(_low, words[8:12])
        map_ = LaunchTensorMap(
            kind, base, _list(extents, rank, 8), _list(strides, rank - 1, 8), _list(box, rank, 4),
            _list(steps, rank, 4), interleave, swizzle, fill,
        )  # fmt: skip
        name = name_map(map_, self.maps)
        ctypes.memmove(target, name, len(name))
        return DriverStatus.SUCCESS

    # --------------------------------------------------------------------- device, memory

    def _device_attribute(self, words: Words) -> int:
        return _put(words[0], self.queue.settings.model.attribute(_low(words[1])), 4)

    @staticmethod
    def _first(words: Words) -> int:
        return _put(words[0], 0, 4)

    @staticmethod
    def _first_handle(words: Words) -> int:
        return _put(words[0], 0, 8)

    @staticmethod
    def _one(words: Words) -> int:
        return _put(words[0], 1, 4)

    def _allocate(self, words: Words) -> int:
        return _put(words[0], self.memory.allocate(words[1]), 8)

    def _free(self, words: Words) -> int:
        gone = words[0] == 0 or self.memory.free(words[0])
        return DriverStatus.SUCCESS if gone else DriverStatus.INVALID_VALUE

    @staticmethod
    def _copy(words: Words) -> int:
        ctypes.memmove(words[0], words[1], words[2])
        return DriverStatus.SUCCESS

    @staticmethod
    def _set(words: Words) -> int:
        ctypes.memset(words[0], _low(words[1]) & 0xFF, words[2])
        return DriverStatus.SUCCESS


def _low(word: int) -> int:
    """An argument of 32 bits: what is above it in its word says nothing."""
    return word & 0xFFFF_FFFF


def _put(address: int, value: int, size_bytes: int) -> int:
    ctypes.memmove(address, value.to_bytes(size_bytes, "little"), size_bytes)
    return DriverStatus.SUCCESS


def _list(address: int, count: int, size_bytes: int) -> tuple[int, ...]:
    data = ctypes.string_at(address, count * size_bytes)
    return tuple(
        int.from_bytes(data[at : at + size_bytes], "little")
        for at in range(0, len(data), size_bytes)
    )
