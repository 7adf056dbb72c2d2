"""Arrays of any framework as plain facts: where they lie, their shape, strides and element type.

NumPy arrays are read through `__array_interface__`, which knows the types of ml_dtypes; all others
through DLPack (`__dlpack__`), whose capsule is read here. Nothing is copied. Source: DLPack 1.1,
dlpack.h; NumPy, the array interface.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from titan.foundation.errors import UserError

# What belongs to a framework: its arrays, dtypes and operators, whose types are not known here.
Foreign: TypeAlias = Any

# Element types by (DLDataTypeCode, bits). Frameworks without a type pass its bits as integers.
_TYPES = {
    (2, 32): "f32", (2, 16): "f16", (4, 16): "bf16", (0, 32): "i32", (1, 32): "u32",
    (10, 8): "e4m3", (12, 8): "e5m2", (14, 8): "ue8m0", (1, 16): "16 bits", (0, 16): "16 bits",
    (1, 8): "8 bits", (0, 8): "8 bits", (2, 64): "f64", (0, 64): "i64",
}  # fmt: skip
_PAIRS = (17, 4, 2)  # code, bits, lanes of two numbers of e2m1 in a byte
_NUMPY_TYPES = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "uint32": "u32",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e8m0fnu": "ue8m0",
    "uint16": "16 bits", "int16": "16 bits", "uint8": "8 bits", "int8": "8 bits",
}  # fmt: skip
_BYTES = {
    "f32": 4, "i32": 4, "u32": 4, "f64": 8, "i64": 8, "f16": 2, "bf16": 2, "16 bits": 2,
}  # fmt: skip
BITS_OF = {
    "bf16": "16 bits", "f16": "16 bits", "e4m3": "8 bits", "e5m2": "8 bits", "ue8m0": "8 bits",
    "e2m1x2": "8 bits",
}  # fmt: skip


class CallError(UserError):
    """A call that the kernel does not take; the text names the argument and what is wrong."""


class Place(Enum):
    """Where the memory of an array is."""

    CPU = "the CPU"
    CUDA = "a CUDA device"
    ROCM = "a ROCm device"
    OTHER = "another device"


_PLACES = {1: Place.CPU, 2: Place.CUDA, 3: Place.CUDA, 10: Place.ROCM, 13: Place.CUDA}


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """`address` in bytes; `strides` in elements; `owner` keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    place: Place
    number: int
    writable: bool
    owner: object

    @property
    def dense(self) -> bool:
        """Whether the elements lie row by row without gaps, as those of an empty array do."""
        if 0 in self.shape:
            return True
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True

    @property
    def row_strided(self) -> bool:
        """Whether elements of a row are neighbours; rows may have gaps, any order, or repeat."""
        inner = not self.shape or self.shape[-1] == 1 or self.strides[-1] == 1
        return inner and all(
            stride >= 0 or extent == 1
            for extent, stride in zip(self.shape[:-1], self.strides[:-1], strict=True)
        )

    @property
    def apart(self) -> bool:
        """Whether no two elements share memory, as dimensions that lie inside each other show."""
        pairs = zip(self.shape, self.strides, strict=True)
        reach = 0
        for stride, extent in sorted((stride, extent) for extent, stride in pairs if extent != 1):
            if stride <= reach:
                return False
            reach += (extent - 1) * stride
        return True

    @property
    def span(self) -> int:
        """Elements from the first one to behind the last one, gaps included."""
        if 0 in self.shape:
            return 0
        pairs = zip(self.shape, self.strides, strict=True)
        return 1 + sum((extent - 1) * stride for extent, stride in pairs)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of a type that kernels take, of which the others have one."""
        return _BYTES.get(self.dtype, 1)

    def holds(self, dtype: str) -> bool:
        """Whether the elements are of a type, or its bits as integers."""
        return self.dtype in (dtype, BITS_OF.get(dtype))


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


_CAPSULE = b"dltensor"


def facts_of(array: object, name: str = "the argument") -> ArrayFacts:
    """The facts of an array. Raises CallError where it is none, or has no memory."""
    _examine_what_is_not_memory(array, name)
    facts = _facts_of(array, name)
    if not facts.address and 0 not in facts.shape:
        raise CallError(f"{name} has no memory (it was given back, or never made)")
    return facts


def _examine_what_is_not_memory(array: object, name: str) -> None:
    """Raises CallError for arrays whose elements are not what their memory holds."""
    if _is_numpy(array) and hasattr(array, "mask"):
        raise CallError(f"{name} is a masked array, and kernels read what is masked, too")
    for word in ("neg", "conj"):  # PyTorch: what `resolve_neg` and `resolve_conj` would compute
        asked = getattr(array, f"is_{word}", None)
        if hasattr(array, f"resolve_{word}") and callable(asked) and asked():
            raise CallError(
                f"{name} is a view whose numbers are negated where they are read;"
                f" {name}.resolve_{word}() makes them"
            )
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor):
        return
    if torch.autograd.forward_ad.unpack_dual(array).tangent is not None:
        raise CallError(f"{name} has a tangent (jvp, forward-mode gradients), which would be lost")


def _is_numpy(array: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(array, numpy.ndarray)


def _facts_of(array: object, name: str) -> ArrayFacts:
    interface = getattr(array, "__array_interface__", None)
    if interface is not None and type(array).__module__ == "numpy" and _is_numpy(array):
        return _of_numpy(array, interface, name)
    export = getattr(array, "__dlpack__", None)
    if export is None:
        raise CallError(f"{name} is a {type(array).__name__}, which is no array (no __dlpack__)")
    detach = getattr(array, "detach", None)  # torch refuses to export what records gradients
    try:
        capsule = (detach().__dlpack__ if detach is not None else export)()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(array, torch.Tensor) and "data pointer" in str(error):
            raise CallError(
                f"{name} is a tensor without memory, as torch.vmap, torch.func and torch.export"
                " have them; an operator of titan.torch_operator takes those of vmap and export"
            ) from None
        if any(kind.__name__ == "Tracer" for kind in type(array).__mro__):
            raise CallError(
                f"{name} is traced by JAX (jit, vmap or grad) and has no memory;"
                " jax.pure_callback calls a package from there"
            ) from None
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CallError(f"{name} cannot be exported through DLPack: {reason}") from None
    return _of_capsule(capsule, array, name)


def _of_numpy(array: object, interface: dict[str, object], name: str) -> ArrayFacts:
    import numpy

    assert isinstance(array, numpy.ndarray)
    kind = _NUMPY_TYPES.get(array.dtype.name, array.dtype.name)
    if array.dtype.byteorder == ">":
        raise CallError(f"{name} holds numbers of the other byte order")
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides):
        raise CallError(f"{name} has strides that are not whole elements")
    strides = tuple(stride // size for stride in array.strides)
    data = interface["data"]
    assert isinstance(data, tuple)
    return ArrayFacts(
        int(data[0]), array.shape, strides, kind, Place.CPU, 0, bool(array.flags.writeable), array
    )


def _of_capsule(capsule: object, array: object, name: str) -> ArrayFacts:
    """The tensor stays owned by the capsule, whose destructor gives it back."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        address = pointer(capsule, _CAPSULE)
    except ValueError:
        raise CallError(f"{name} exports a DLPack capsule of another version") from None
    tensor = _Tensor.from_address(address)
    kind = _TYPES.get((tensor.code, tensor.bits), f"DLPack type {tensor.code}, {tensor.bits} bits")
    if (tensor.code, tensor.bits, tensor.lanes) == _PAIRS:
        kind = "e2m1x2"
    elif tensor.lanes != 1:
        raise CallError(f"{name} has vectors of {tensor.lanes} elements")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.rank))
    else:
        steps = [1]
        for extent in reversed(shape[1:]):
            steps.append(steps[-1] * extent)
        strides = tuple(reversed(steps[: tensor.rank]))
    place = _PLACES.get(tensor.device.kind, Place.OTHER)
    return ArrayFacts(
        (tensor.data or 0) + tensor.offset, shape, strides, kind, place,
        int(tensor.device.number), True, (capsule, array),
    )  # fmt: skip
