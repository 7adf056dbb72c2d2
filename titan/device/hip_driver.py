"""The functions of the HIP runtime and of hipRTC that the runner calls, with their C types.

HIP has the functions of the CUDA driver under names of its own; where they agree, one table says
which is which, so that modules, symbols and copies are written once. The types are those of
hip_runtime_api.h and hiprtc.h (a test compiles a library against those files where they are
installed). Source: HIP runtime API, module management; hipRTC.
"""

from __future__ import annotations

import ctypes
from functools import cache

from titan.device.driver import Address, DeviceError, Int, NoDevice, Size, Unsigned, typed
from titan.device.driver import Pointer as PointerType

FINE_GRAINED = 1  # hipDeviceMallocFinegrained
# hipDeviceAttribute_t
ATTRIBUTES = {
    "clock_khz": 5, "l2_bytes": 19, "threads_per_multiprocessor": 57, "memory_clock_khz": 60,
    "multiprocessors": 63, "shared_bytes_per_block": 74,
}  # fmt: skip
PROPERTIES_BYTES = 1 << 14  # more than any version of hipDeviceProp_t has
PROPERTIES = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")  # the newer structure first
_Text, _Sizes, _Addresses = ctypes.c_char_p, ctypes.POINTER(Size), ctypes.POINTER(Address)
_Handle = ctypes.POINTER(PointerType)

# CUDA's name -> HIP's, where arguments agree.
SAME = {
    "cuModuleLoadData": "hipModuleLoadData",
    "cuModuleGetFunction": "hipModuleGetFunction",
    "cuModuleGetGlobal_v2": "hipModuleGetGlobal",
    "cuCtxSynchronize": "hipDeviceSynchronize",
    "cuFuncGetAttribute": "hipFuncGetAttribute",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
    ),
    "cuMemcpyHtoD_v2": "hipMemcpyHtoD",
    "cuMemcpyDtoH_v2": "hipMemcpyDtoH",
    "cuMemsetD8_v2": "hipMemsetD8",
    "cuMemHostRegister_v2": "hipHostRegister",
    "cuMemHostGetDevicePointer_v2": "hipHostGetDevicePointer",
}
FUNCTIONS: dict[str, tuple[type, ...]] = {
    "hipGetDeviceCount": (ctypes.POINTER(Int),),
    "hipDriverGetVersion": (ctypes.POINTER(Int),),
    "hipRuntimeGetVersion": (ctypes.POINTER(Int),),
    "hipDeviceGetAttribute": (ctypes.POINTER(Int), Int, Int),
    "hipDeviceTotalMem": (_Sizes, Int),
    "hipDeviceSynchronize": (),
    "hipMalloc": (_Addresses, Size),
    "hipExtMallocWithFlags": (_Addresses, Size, Unsigned),
    "hipFree": (Address,),
    "hipEventCreate": (_Handle,),
    "hipEventRecord": (PointerType, PointerType),
    "hipEventSynchronize": (PointerType,),
    "hipEventElapsedTime": (ctypes.POINTER(ctypes.c_float), PointerType, PointerType),
    "hipModuleLoadData": (_Handle, _Text),
    "hipModuleGetFunction": (_Handle, PointerType, _Text),
    "hipModuleGetGlobal": (_Addresses, _Sizes, PointerType, _Text),
    "hipFuncGetAttribute": (ctypes.POINTER(Int), Int, PointerType),
    "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": (
        ctypes.POINTER(Int), PointerType, Int, Size,
    ),
    "hipModuleLaunchKernel": (
        PointerType, *(Unsigned,) * 7, PointerType, ctypes.POINTER(PointerType),
        ctypes.POINTER(PointerType),
    ),
    "hipMemcpyHtoD": (Address, PointerType, Size),
    "hipMemcpyDtoH": (PointerType, Address, Size),
    "hipMemsetD8": (Address, ctypes.c_ubyte, Size),
    "hipHostRegister": (PointerType, Size, Unsigned),
    "hipHostGetDevicePointer": (_Addresses, PointerType, Unsigned),
}  # fmt: skip
COMPILER_FUNCTIONS: dict[str, tuple[type, ...]] = {
    "hiprtcVersion": (ctypes.POINTER(Int), ctypes.POINTER(Int)),
    "hiprtcCreateProgram": (
        _Handle, _Text, _Text, Int, ctypes.POINTER(_Text), ctypes.POINTER(_Text),
    ),
    "hiprtcCompileProgram": (PointerType, Int, ctypes.POINTER(_Text)),
    "hiprtcDestroyProgram": (_Handle,),
    "hiprtcGetProgramLogSize": (PointerType, _Sizes),
    "hiprtcGetProgramLog": (PointerType, PointerType),
    "hiprtcGetCodeSize": (PointerType, _Sizes),
    "hiprtcGetCode": (PointerType, PointerType),
}  # fmt: skip
RUNTIME_NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
COMPILER_NAMES = ("libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5")


def _opened(names: tuple[str, ...], functions: dict[str, tuple[type, ...]]) -> ctypes.CDLL:
    """The first library that is there, its functions with their types. Raises NoDevice."""
    for name in names:
        try:
            return typed(ctypes.CDLL(name), functions, name)
        except OSError:
            continue
    raise NoDevice(f"{names[0]} is not there (ROCm)")


@cache
def runtime() -> ctypes.CDLL:
    """The HIP runtime library. Raises NoDevice."""
    library = _opened(RUNTIME_NAMES, FUNCTIONS)
    library.hipGetErrorName.argtypes, library.hipGetErrorName.restype = [Int], _Text
    return library


@cache
def compiler() -> ctypes.CDLL:
    """hipRTC, which some versions keep in the runtime library. Raises NoDevice."""
    return _opened(COMPILER_NAMES + RUNTIME_NAMES, COMPILER_FUNCTIONS)


def fill_properties(data: ctypes.Array[ctypes.c_char], number: int) -> None:
    """Write hipDeviceProp_t of a device, in the version that the library has. Raises DeviceError.

    Every version begins with the name of the device, 256 characters.
    """
    for name in PROPERTIES:
        function = getattr(runtime(), name, None)
        if function is None:
            continue
        function.argtypes, function.restype = [PointerType, Int], Int
        if code := function(ctypes.addressof(data), number):
            raise DeviceError(f"{name}: error {code}")
        return
    raise NoDevice(f"the HIP runtime has no {PROPERTIES[-1]}")


def call(name: str, *arguments: object, what: str = "") -> None:
    """Call a function by HIP's name or CUDA's. Raises DeviceError with HIP's name of the error."""
    code = getattr(runtime(), SAME.get(name, name))(*arguments)
    if code:
        text = runtime().hipGetErrorName(code)
        known = text.decode() if text else "an unknown error"
        raise DeviceError(f"{what or name}: {known} ({code})")
