"""Arguments of Triton kernels: arrays as pointers, and the memory that they may touch.

A tensor of PyTorch on the CPU is its storage, an array of NumPy the array that owns its memory;
anything else with `data_ptr()` the bytes from there to its last element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from titan.emulated.foreign import Foreign
from titan.emulated.memory import HostMemory
from titan.isa.numbers.device import LaunchError

# NumPy's names of types -> Triton's
_TYPES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArrayView:
    """A NumPy array with the interface of a tensor that Triton expects."""

    array: Foreign

    @property
    def dtype(self) -> str:
        """Triton's name of the type. Raises LaunchError for types that Triton lacks."""
        name = str(self.array.dtype)
        if name not in _TYPES:
            raise LaunchError(f"a NumPy array of {name}, which no kernel takes")
        return _TYPES[name]

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.array.__array_interface__["data"][0])


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy; does not import it."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def specialised(native: Callable[..., Foreign]) -> Callable[..., Foreign]:
    """Triton's specialisation of arguments, that takes arrays of NumPy too."""

    def specialise(backend: Foreign, value: Foreign, *more: Foreign) -> Foreign:
        return native(backend, ArrayView(value) if is_array(value) else value, *more)

    return specialise


def pointer(value: Foreign, memory: HostMemory) -> int:
    """The address of an argument that is a pointer; its memory becomes global memory.

    Raises LaunchError for a tensor that is not in the memory of this process.
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if is_array(value):
        owner = value
        while is_array(owner.base):
            owner = owner.base
        memory.add(ArrayView(owner).data_ptr(), int(owner.nbytes))
        return ArrayView(value).data_ptr()
    base = getattr(value, "base", None)  # a TensorWrapper, which has another type
    if not hasattr(value, "data_ptr") and base is not None:
        return pointer(base, memory)
    address = int(value.data_ptr())
    if hasattr(value, "untyped_storage"):
        if value.device.type != "cpu":
            raise LaunchError(
                f"a tensor on {value.device}, and the emulated device takes the CPU's"
            )
        storage = value.untyped_storage()
        memory.add(int(storage.data_ptr()), int(storage.nbytes()))
    elif base is not None and hasattr(base, "untyped_storage"):
        pointer(base, memory)
    else:
        memory.add(address, _extent_bytes(value))
    return address


def _extent_bytes(value: Foreign) -> int:
    """From the first to the last element of what has shape, stride() and an item size."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    size = getattr(value.dtype, "itemsize", None)
    if size is None or not hasattr(value, "shape"):
        raise LaunchError(
            f"{type(value).__name__} has no size: nbytes, or shape and dtype.itemsize"
        )
    strides = value.stride()
    last = sum((n - 1) * step for n, step in zip(value.shape, strides, strict=True) if n)
    return int((last + 1) * size)
