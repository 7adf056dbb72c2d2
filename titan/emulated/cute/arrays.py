"""Arrays in the memory of the process as CuTe DSL takes them: in the memory of a GPU.

CuTe DSL asks an array by DLPack where it lies, and takes what is on the CPU for memory of no kind,
which copies of a kernel refuse.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from titan.emulated.foreign import Foreign

CPU, CUDA = 1, 2  # DLDeviceType
# Where the type of the device lies in a DLManagedTensor, and in one with a version.
DEVICE_OFFSETS = {b"dltensor": 8, b"dltensor_versioned": 40}

_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@dataclass(frozen=True, slots=True)
class OnDevice:
    """An array that says by DLPack that it is in the memory of a GPU."""

    array: Foreign

    def __dlpack__(self, **options: Foreign) -> object:
        capsule = self.array.__dlpack__(**options)
        _move(capsule)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0


def take_for_device(module: ModuleType) -> None:
    """Let CuTe DSL take arrays on the CPU for such on the device."""
    kind = module._Tensor
    made = kind.__init__

    def init(self: Foreign, tensor: Foreign, *args: Foreign, **options: Foreign) -> None:
        made(self, OnDevice(tensor) if is_on_cpu(tensor) else tensor, *args, **options)

    kind.__init__ = init


def hand_over_on_device(module: ModuleType) -> None:
    """The same of arrays that are handed to a function compiled with TVM's interface."""
    tvm_ffi = module.tvm_ffi
    for name in ("TVMFFIJitCompiledFunction", "TVMFFIJitCompiledFunctionWithKwargs"):
        kind = getattr(module, name)
        kind.__call__ = _handing_over(kind.__call__, tvm_ffi)


def _handing_over(called: Callable[..., Foreign], tvm_ffi: Foreign) -> Callable[..., Foreign]:
    def on_device(value: Foreign) -> Foreign:
        if isinstance(value, tuple | list):
            items = map(on_device, value)
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return tvm_ffi.from_dlpack(OnDevice(value)) if is_on_cpu(value) else value

    def call(self: Foreign, *args: Foreign, **options: Foreign) -> Foreign:
        given = {name: on_device(value) for name, value in options.items()}
        return called(self, *map(on_device, args), **given)

    return call


def is_on_cpu(value: Foreign) -> bool:
    """Whether a value is an array in the memory of the process."""
    asks = hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")
    return asks and value.__dlpack_device__()[0] == CPU


def _move(capsule: object) -> None:
    """Change what a capsule of DLPack says of its device."""
    name = _name_of(capsule)
    if name in DEVICE_OFFSETS:
        start = _pointer_of(capsule, name)
        ctypes.c_int32.from_address(start + DEVICE_OFFSETS[name]).value = CUDA
