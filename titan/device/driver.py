"""The functions of the CUDA driver library that the runner calls, with their C types.

Every function has its argument types here, so that no pointer is cut to 32 bits; the structures
are those of cuda.h (a test compares sizes, places and numbers with that file where it is
installed). Source: CUDA driver API.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason

# CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion
DATA_TYPES = {
    "e4m3": 0, "e5m2": 0, "ue8m0": 0, "e2m1x2": 0, "u8": 0, "u32": 2, "i32": 3, "f16": 6,
    "f32": 7, "bf16": 9,
}  # fmt: skip
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
PROMOTE_256B = 3
CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
DEPENDENT_LAUNCH = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
HOST_REGISTER_DEVICEMAP = 2  # CU_MEMHOSTREGISTER_DEVICEMAP
# CUfunction_attribute
STATIC_SHARED, LOCAL_BYTES, REGISTERS, MAX_DYNAMIC_SHARED = 1, 3, 4, 8
MAP_BYTES = 128
MAP_ALIGNMENT = 64

Size, Address, Unsigned = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint
Pointer, Int = ctypes.c_void_p, ctypes.c_int


class DeviceError(Refusal):
    """The driver, the compiler or the device refuses; the text says what."""


class NoDevice(DeviceError):
    """There is no GPU that could be used, or no CuPy; the text says what is needed."""

    reason = Reason.MISSING_TOOL


class LaunchAttributeValue(ctypes.Union):
    """CUlaunchAttributeValue, as far as clusters and dependent launches need it."""

    _fields_ = [("pad", ctypes.c_char * 64), ("cluster", Unsigned * 3), ("dependent", Int)]


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", Int), ("pad", ctypes.c_char * 4), ("value", LaunchAttributeValue)]


class LaunchConfiguration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", Unsigned * 3),
        ("block", Unsigned * 3),
        ("shared_bytes", Unsigned),
        ("stream", Pointer),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", Unsigned),
    ]


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory (type 1) of device 0 (location type 1)."""

    _fields_ = [
        ("type", Int),
        ("handle_types", Int),
        ("location_type", Int),
        ("location_id", Int),
        ("metadata", Pointer),
        ("flags", ctypes.c_ubyte * 8),
    ]


class AccessDescription(ctypes.Structure):
    """CUmemAccessDesc: reading and writing (3) by device 0."""

    _fields_ = [("location_type", Int), ("location_id", Int), ("flags", Int)]


FUNCTIONS: dict[str, tuple[type, ...]] = {
    "cuGetErrorName": (Int, ctypes.POINTER(ctypes.c_char_p)),
    "cuModuleLoadData": (ctypes.POINTER(Pointer), ctypes.c_char_p),
    "cuModuleUnload": (Pointer,),
    "cuModuleGetFunction": (ctypes.POINTER(Pointer), Pointer, ctypes.c_char_p),
    "cuModuleGetGlobal_v2": (
        ctypes.POINTER(Address), ctypes.POINTER(Size), Pointer, ctypes.c_char_p,
    ),
    "cuCtxSynchronize": (),
    "cuFuncGetAttribute": (ctypes.POINTER(Int), Int, Pointer),
    "cuFuncSetAttribute": (Pointer, Int, Int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (ctypes.POINTER(Int), Pointer, Int, Size),
    "cuLaunchKernelEx": (
        ctypes.POINTER(LaunchConfiguration), Pointer, ctypes.POINTER(Pointer),
        ctypes.POINTER(Pointer),
    ),
    "cuMemcpyHtoD_v2": (Address, Pointer, Size),
    "cuMemcpyDtoH_v2": (Pointer, Address, Size),
    "cuMemHostRegister_v2": (Pointer, Size, Unsigned),
    "cuMemHostGetDevicePointer_v2": (ctypes.POINTER(Address), Pointer, Unsigned),
    "cuTensorMapEncodeTiled": (
        Pointer, Int, ctypes.c_uint32, Pointer, ctypes.POINTER(ctypes.c_uint64),
        ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32),
        ctypes.POINTER(ctypes.c_uint32), Int, Int, Int, Int,
    ),
    "cuMemGetAllocationGranularity": (
        ctypes.POINTER(Size), ctypes.POINTER(AllocationProperties), Int,
    ),
    "cuMemCreate": (
        ctypes.POINTER(ctypes.c_uint64), Size, ctypes.POINTER(AllocationProperties),
        ctypes.c_uint64,
    ),
    "cuMemAddressReserve": (ctypes.POINTER(Address), Size, Size, Address, ctypes.c_uint64),
    "cuMemMap": (Address, Size, Size, ctypes.c_uint64, ctypes.c_uint64),
    "cuMemSetAccess": (Address, Size, ctypes.POINTER(AccessDescription), Size),
    "cuMemsetD8_v2": (Address, ctypes.c_ubyte, Size),
}  # fmt: skip


@cache
def driver() -> ctypes.CDLL:
    """The CUDA driver library, its functions with their types. Raises NoDevice."""
    for name in ("libcuda.so.1", "libcuda.so"):
        try:
            return typed(ctypes.CDLL(name), FUNCTIONS, "the CUDA driver")
        except OSError:
            continue
    raise NoDevice("the CUDA driver library (libcuda.so.1) is not there")


def typed(
    library: ctypes.CDLL, functions: Mapping[str, tuple[type, ...]], what: str
) -> ctypes.CDLL:
    """The library with the types of its functions; `what` is its name in messages.

    Raises NoDevice for one that is too old."""
    for name, types in functions.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise NoDevice(f"{what} is too old: it has no {name}") from None
        function.argtypes, function.restype = list(types), Int
    return library


def call(name: str, *arguments: object, what: str = "") -> None:
    """Call a function of the driver. Raises DeviceError with the name of the driver's error."""
    code = getattr(driver(), name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        driver().cuGetErrorName(code, ctypes.byref(text))
        known = text.value.decode() if text.value else "an unknown error"
        raise DeviceError(f"{what or name}: {known} ({code})")
